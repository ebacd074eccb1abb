// Shannon expansion along a fixed order, with subformulas as zero-suppressed decision diagrams.
//
// A diagram holds a set of clauses with common beginnings and ends stored once (Minato 1993), and none that holds
// another one, so equal subformulas are equal numbers. Setting a variable is the union of two branches, itself
// remembered: thousands of clauses are never looked at one by one (Rauzy 1993 turns cut sets into decision diagrams
// this way).
#pragma once
#include <limits>
#include <unordered_map>
#include <vector>

#include "formula.hpp"
#include "nodes.hpp"
#include "poll.hpp"
#include "subformula.hpp"

namespace sharpdnf {

class ClauseSets {
  public:
    static constexpr int32_t kNone = 0, kEmptyClause = 1;  // no clause (false); the empty clause (true)
    struct Paused {};                                      // the operations are used up: go on later

    // Literals are numbered by the order: 2 level + sign.
    ClauseSets(std::size_t memory, Pace &pace) : memory_(memory), pace_(pace), table_(1 << 12, -1), known_(1 << 12) {
        sets_.push_back({kLast, 0, 0}), sets_.push_back({kLast, 0, 0});
    }
    int32_t literal(int32_t set) const { return sets_[set].literal; }
    int32_t with(int32_t set) const { return sets_[set].with; }
    int32_t without(int32_t set) const { return sets_[set].without; }
    int64_t operations() const { return operations_; }
    void allow(int64_t max_operations) { allowed_ = max_operations; }
    bool full() const { return full_; }
    std::size_t bytes() const {
        return sets_.capacity() * sizeof(Set) + table_.capacity() * 4 + known_.capacity() * sizeof(Known);
    }

    // Clauses first .. last, sorted, each by rising literal, from position `depth` on.
    int32_t build(const std::vector<std::vector<int32_t>> &clauses, std::size_t first, std::size_t last,
                  std::size_t depth) {
        if (first < last && clauses[first].size() == depth) return kEmptyClause;  // shorter ones come first
        int32_t out = kNone;
        for (std::size_t end = last;
             end > first;) {  // from the back: what begins with the last literal is the lowest branch
            const int32_t lit = clauses[end - 1][depth];
            std::size_t begin = end - 1;
            while (begin > first && clauses[begin - 1][depth] == lit) --begin;
            out = make(lit, subtract(build(clauses, begin, end, depth + 1), out), out);
            end = begin;
        }
        return out;
    }

    // All clauses of a and b but those that hold another one.
    int32_t unite(int32_t a, int32_t b) {
        if (a == b || b == kNone) return a;
        if (a == kNone) return b;
        if (a == kEmptyClause || b == kEmptyClause) return kEmptyClause;
        if (a > b) std::swap(a, b);
        const Known &slot = recall(a, b, 0);
        if (slot.a == a && slot.b == b && slot.kind == 0) return slot.out;
        did();
        const Set x = sets_[a], y = sets_[b];
        int32_t out;
        if (x.literal < y.literal) {
            const int32_t low = unite(x.without, b);
            out = make(x.literal, subtract(x.with, low), low);
        } else if (y.literal < x.literal) {
            const int32_t low = unite(a, y.without);
            out = make(y.literal, subtract(y.with, low), low);
        } else {
            const int32_t low = unite(x.without, y.without);
            out = make(x.literal, subtract(unite(x.with, y.with), low), low);
        }
        recall(a, b, 0) = {a, b, out, 0};
        return out;
    }

  private:
    static constexpr int32_t kLast = std::numeric_limits<int32_t>::max();
    struct Set {
        int32_t literal, with, without;  // the clauses that hold the literal, without it; the others
    };
    struct Known {
        int32_t a = -1, b = -1, out = 0, kind = 0;
    };

    // The clauses of a that hold none of b.
    int32_t subtract(int32_t a, int32_t b) {
        if (a == kNone || b == kNone) return a;
        if (b == kEmptyClause || a == b) return kNone;
        if (a == kEmptyClause) return a;
        const Known &slot = recall(a, b, 1);
        if (slot.a == a && slot.b == b && slot.kind == 1) return slot.out;
        did();
        const Set x = sets_[a], y = sets_[b];
        int32_t out;
        if (x.literal < y.literal) {
            const int32_t high = subtract(x.with, b);
            out = make(x.literal, high, subtract(x.without, b));
        } else if (y.literal < x.literal) {
            out = subtract(a, y.without);
        } else {
            const int32_t high = subtract(subtract(x.with, y.with), y.without);
            out = make(x.literal, high, subtract(x.without, y.without));
        }
        recall(a, b, 1) = {a, b, out, 1};
        return out;
    }

    // An operation is a union or a difference that was not known: many of them end without a new set.
    void did() {
        if (++operations_ > allowed_) throw Paused{};
        pace_.check(4);
    }
    Known &recall(int32_t a, int32_t b, int32_t kind) {
        const uint64_t key = (static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32 | static_cast<uint32_t>(b)) * 2 +
                             static_cast<uint64_t>(kind);
        return known_[mix(key + 0x9e3779b97f4a7c15ULL) & (known_.size() - 1)];
    }
    static uint64_t hash(const Set &s) {
        return mix(mix(static_cast<uint64_t>(static_cast<uint32_t>(s.with)) << 32 | static_cast<uint32_t>(s.without)) +
                   static_cast<uint64_t>(s.literal));
    }
    int32_t make(int32_t literal, int32_t with, int32_t without) {
        if (with == kNone) return without;
        const Set set{literal, with, without};
        std::size_t i = hash(set) & (table_.size() - 1);
        for (; table_[i] >= 0; i = (i + 1) & (table_.size() - 1)) {
            const Set &other = sets_[table_[i]];
            if (other.literal == literal && other.with == with && other.without == without) return table_[i];
        }
        if ((sets_.size() & 0xfff) == 0 && (bytes() > memory_ || sets_.size() > (std::size_t{1} << 30))) {
            full_ = true;
            throw Paused{};
        }
        const auto id = static_cast<int32_t>(sets_.size());
        table_[i] = id;
        sets_.push_back(set);
        if (sets_.size() * 2 > table_.size()) grow();
        return id;
    }
    void grow() {
        table_.assign(table_.size() * 2, -1);
        for (std::size_t id = 2; id < sets_.size(); ++id) {
            std::size_t i = hash(sets_[id]) & (table_.size() - 1);
            while (table_[i] >= 0) i = (i + 1) & (table_.size() - 1);
            table_[i] = static_cast<int32_t>(id);
        }
        constexpr std::size_t kMostKnown = std::size_t{1}
                                           << 22;  // results that are remembered; those forgotten are computed again
        if (known_.size() < kMostKnown) known_.assign(known_.size() * 2, Known{});
    }

    std::size_t memory_;
    Pace &pace_;
    int64_t operations_ = 0, allowed_ = std::numeric_limits<int64_t>::max();
    bool full_ = false;
    std::vector<Set> sets_;
    std::vector<int32_t> table_;
    std::vector<Known> known_;
};

template <class Algebra> class DiagramShannon {
  public:
    using Value = typename Algebra::Value;
    static constexpr int64_t kMostVariables = 4000;  // unions recurse as deep as the order is long

    DiagramShannon(const Formula &f, const std::vector<int32_t> &order, Algebra &algebra, std::size_t memory,
                   Poll &poll)
        : algebra_(algebra), memory_(memory), order_(order), pace_(poll), sets_(memory / 2, pace_) {
        std::vector<int32_t> level(f.num_vars, -1);
        for (std::size_t i = 0; i < order.size(); ++i) level[order[i]] = static_cast<int32_t>(i);
        clauses_.resize(f.num_clauses);
        for (int64_t c = 0; c < f.num_clauses; ++c) {
            for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i)
                clauses_[c].push_back(2 * level[f.literals[i] >> 1] + (f.literals[i] & 1));
            std::sort(clauses_[c].begin(), clauses_[c].end());
            pace_.check(4 * (f.indptr[c + 1] - f.indptr[c]));
        }
        std::sort(clauses_.begin(), clauses_.end());
        clauses_.erase(std::unique(clauses_.begin(), clauses_.end()), clauses_.end());
    }

    // As `Shannon::run`.
    bool run(int64_t max_operations) {
        sets_.allow(max_operations);
        try {
            if (root_ < 0) {
                root_ = sets_.build(clauses_, 0, clauses_.size(), 0);
                std::vector<std::vector<int32_t>>().swap(clauses_);
                open(root_);
            }
            while (!stack_.empty() && !exhausted_) {
                step();
                exhausted_ = (++steps_ & 0xff) == 0 && (algebra_.full() || bytes() > memory_);
            }
        } catch (const ClauseSets::Paused &) {
            exhausted_ |= sets_.full();
        }
        return root_ >= 0 && stack_.empty();
    }
    bool exhausted() const { return exhausted_; }
    Value value() const { return last_; }
    int64_t operations() const { return sets_.operations(); }
    int64_t nodes() const { return static_cast<int64_t>(values_.size()); }

    // As `Shannon::progress`.
    double progress() const {
        double done = 0.0;
        for (std::size_t d = stack_.size(); d-- > 0;)
            if (stack_[d].stage > 0) done = (stack_[d].stage - 1 + done) / 2.0;
        return done;
    }

    TwoProbs sure() const {
        static_assert(std::is_same_v<Algebra, BothProbs>, "circuits have no bounds");
        const TwoProbs unknown{Wide(), Wide()};
        TwoProbs below = unknown;
        for (std::size_t d = stack_.size(); d-- > 0;) {
            const Frame &frame = stack_[d];
            if (frame.stage == 1) below = algebra_.mix(frame.var, below, unknown);
            if (frame.stage == 2) below = algebra_.mix(frame.var, frame.high_value, below);
        }
        return below;
    }

  private:
    struct Frame {
        int32_t set, var = -1, high = 0, low = 0;
        int stage = 0;  // nothing done, high branch under way, low branch under way
        Value high_value{};
    };
    std::size_t bytes() const { return sets_.bytes() + algebra_.bytes() + values_.size() * (sizeof(Value) + 48); }

    // Leaves the value in last_, or a frame on the stack that will.
    void open(int32_t set) {
        if (set == ClauseSets::kNone)
            last_ = algebra_.nothing();
        else if (set == ClauseSets::kEmptyClause)
            last_ = algebra_.truth();
        else if (const auto found = values_.find(set); found != values_.end())
            last_ = found->second;
        else
            stack_.push_back({set});
    }
    void step() {
        Frame &frame = stack_.back();
        if (frame.stage == 0) {  // Paused may be thrown here, since nothing is half done yet
            const int32_t level = sets_.literal(frame.set) / 2;
            int32_t yes = ClauseSets::kNone, no = ClauseSets::kNone, rest = frame.set;
            if (sets_.literal(rest) == 2 * level) yes = sets_.with(rest), rest = sets_.without(rest);
            if (sets_.literal(rest) == 2 * level + 1) no = sets_.with(rest), rest = sets_.without(rest);
            frame.high = sets_.unite(yes, rest);
            frame.low = sets_.unite(no, rest);
            frame.var = order_[level];
            frame.stage = 1;
            open(frame.high);  // `frame` may have moved
        } else if (frame.stage == 1) {
            frame.high_value = last_;
            frame.stage = 2;
            open(frame.low);
        } else {
            last_ = algebra_.mix(frame.var, frame.high_value, last_);
            values_.emplace(frame.set, last_);
            stack_.pop_back();
        }
    }

    Algebra &algebra_;
    std::size_t memory_;
    std::vector<int32_t> order_;
    Pace pace_;
    ClauseSets sets_;
    std::vector<std::vector<int32_t>> clauses_;
    int32_t root_ = -1;
    std::vector<Frame> stack_;
    std::unordered_map<int32_t, Value> values_;
    Value last_{};
    int64_t steps_ = 0;
    bool exhausted_ = false;
};

}  // namespace sharpdnf
