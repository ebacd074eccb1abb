// Shannon expansion along a fixed order of the variables, with memo and independent parts.
//
// Under a fixed order a clause whose first variables are set is one of its own suffixes, so a subformula is a set of
// suffixes, that is, a few integers: no clause is ever copied. The suffixes of all clauses are numbered by their first
// variable, which makes a subformula's next variable that of its smallest number. Suffixes that hold another one are
// dropped (absorption), so that equal subformulas are found again; parts without common variables are solved apart
// (component caching). With an order that keeps few clauses open at a time (paths by their steps) the memo is small;
// with the reverse of an elimination order the parts fall asunder as a tree decomposition says.
#pragma once
#include <limits>
#include <unordered_map>
#include <vector>

#include "formula.hpp"
#include "nodes.hpp"
#include "poll.hpp"
#include "subformula.hpp"

namespace sharpdnf {

// Every suffix of every clause, once. Numbers rise with the level (place in the order) of the first variable.
class Suffixes {
  public:
    static constexpr int32_t kEmpty = -1;
    std::vector<int32_t> level, literal, tail;  // level and number of the first literal; the suffix behind it
    std::vector<int64_t> start;                 // literals[start[s] ..), as many as length[s]
    std::vector<int32_t> length, literals;
    std::vector<int32_t> whole;  // the suffix that is the whole clause
    std::vector<uint64_t> high, low, signature;

    Suffixes(const Formula &f, const std::vector<int32_t> &level_of, Pace &pace) : literals(f.size()) {
        std::unordered_map<uint64_t, int32_t> known;  // (literal, tail) -> number
        std::vector<int32_t> first(f.num_clauses);
        std::vector<int32_t> lit_of, tail_of;
        std::vector<int64_t> start_of;
        std::vector<int32_t> length_of;
        for (int64_t c = 0; c < f.num_clauses; ++c) {
            const int64_t a = f.indptr[c], b = f.indptr[c + 1];
            std::copy(f.literals + a, f.literals + b, literals.begin() + a);
            std::sort(literals.begin() + a, literals.begin() + b,
                      [&](int32_t x, int32_t y) { return level_of[x >> 1] < level_of[y >> 1]; });
            int32_t rest = kEmpty;
            for (int64_t i = b; i-- > a;) {
                const uint64_t key =
                    static_cast<uint64_t>(static_cast<uint32_t>(literals[i])) << 32 | static_cast<uint32_t>(rest);
                const auto [found, fresh] = known.try_emplace(key, static_cast<int32_t>(lit_of.size()));
                if (fresh) {
                    lit_of.push_back(literals[i]), tail_of.push_back(rest);
                    start_of.push_back(i), length_of.push_back(static_cast<int32_t>(b - i));
                }
                rest = found->second;
            }
            first[c] = rest;
            pace.check(8 * (b - a));
        }
        const auto n = static_cast<int32_t>(lit_of.size());
        std::vector<int32_t> order(n), place(n);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](int32_t x, int32_t y) { return level_of[lit_of[x] >> 1] < level_of[lit_of[y] >> 1]; });
        for (int32_t s = 0; s < n; ++s) place[order[s]] = s;
        for (const int32_t s : order) {
            literal.push_back(lit_of[s]), level.push_back(level_of[lit_of[s] >> 1]);
            tail.push_back(tail_of[s] == kEmpty ? kEmpty : place[tail_of[s]]);
            start.push_back(start_of[s]), length.push_back(length_of[s]);
        }
        for (int64_t c = 0; c < f.num_clauses; ++c) whole.push_back(place[first[c]]);
        high.resize(n), low.resize(n), signature.resize(n);
        for (int32_t s = n; s-- > 0;) {  // blind to the numbering: a sum over the literals, mixed
            high[s] = mix(static_cast<uint64_t>(s) * 0x9e3779b97f4a7c15ULL + 0x1234567);
            low[s] = mix(static_cast<uint64_t>(s) * 0xc2b2ae3d27d4eb4fULL + 0x165667b19e3779f9ULL);
            signature[s] = (tail[s] == kEmpty ? 0 : signature[tail[s]]) |
                           uint64_t{1} << (mix(static_cast<uint64_t>(literal[s]) + 77) & 63);
        }
    }
    int32_t count() const { return static_cast<int32_t>(literal.size()); }
    const int32_t *begin(int32_t s) const { return literals.data() + start[s]; }
    const int32_t *end(int32_t s) const { return begin(s) + length[s]; }
};

struct ShannonOptions {
    std::size_t memory = std::size_t{1} << 30;
    bool parts = true;  // look for independent parts
};

template <class Algebra> class Shannon {
  public:
    using Value = typename Algebra::Value;

    Shannon(const Formula &f, const std::vector<int32_t> &level_of, Algebra &algebra, ShannonOptions options,
            Poll &poll)
        : algebra_(algebra),
          options_(options),
          pace_(poll),
          suffixes_(f, level_of, pace_),
          owner_(f.num_vars, 0),
          owner_epoch_(f.num_vars, 0),
          absorbed_(suffixes_.count(), 0),
          supersets_(suffixes_.count()),
          holders_(2 * f.num_vars),
          cache_(options.memory / 2) {
        int64_t total = 0;
        for (int32_t s = 0; s < suffixes_.count(); ++s) total += suffixes_.length[s];
        absorption_ = total <= 64 * f.size() + (1 << 20);  // the lists of very wide clauses would fill the memory
        for (int32_t s = 0; absorption_ && s < suffixes_.count(); ++s)
            for (const int32_t *lit = suffixes_.begin(s); lit != suffixes_.end(s); ++lit) holders_[*lit].push_back(s);
        did(2 * f.size());
    }

    // Goes on until that many suffixes and literals have been looked at, all in all: true if it finished, and then
    // `value()` is the formula's. Throws Stopped at the deadline.
    bool run(int64_t max_operations) {
        if (depth_ == 0) start();
        while (!finished_) {
            if (operations_ > max_operations || exhausted_) return false;
            step();
            exhausted_ = over_memory();
        }
        return true;
    }
    bool exhausted() const { return exhausted_; }  // whether it gave up because the memory was full
    Value value() const { return result_; }
    int64_t operations() const { return operations_; }
    int64_t nodes() const { return decisions_; }

    // The share of the search that is behind, as if the branches of a variable, and all parts, took equally long.
    double progress() const {
        double done = 0.0;
        for (int d = depth_ - 1; d >= 0; --d) {
            const Frame &frame = stack_[d];
            const double finished = d == depth_ - 1 ? frame.next : frame.next - 1 + done;
            if (!frame.part_ends.empty()) done = finished / static_cast<double>(frame.part_ends.size());
            if (frame.var >= 0) done = (frame.side + done) / 2.0;
        }
        return done;
    }

    // What is sure after a run that did not finish: a lower bound of P and one of 1 - P.
    TwoProbs sure() const {
        static_assert(std::is_same_v<Algebra, BothProbs>, "circuits have no bounds");
        TwoProbs below = BothProbs::nothing();
        below.fails = Wide();
        for (int d = depth_ - 1; d >= 0; --d) {
            const Frame &frame = stack_[d];
            TwoProbs here = d == depth_ - 1 ? TwoProbs{frame.sum.holds, Wide()} : BothProbs::meet(frame.sum, below);
            if (frame.next < static_cast<int32_t>(frame.part_ends.size())) here.fails = Wide();
            const TwoProbs unknown{Wide(), Wide()};
            if (frame.var < 0)
                below = here;
            else
                below = frame.side == 0 ? algebra_.mix(frame.var, here, unknown)
                                        : algebra_.mix(frame.var, frame.high, here);
        }
        return below;
    }

  private:
    struct Key {
        uint64_t high = 0, low = 0;
    };
    // One connected subformula: its high branch is being solved (side 0) or its low one (side 1), part after part.
    struct Frame {
        std::vector<int32_t> suffixes, part_suffixes, part_ends;
        int32_t var = -1, next = 0;
        int side = 0;
        Key key;
        Value sum{}, high{};
    };

    // Remembers values by key. A key has eight places; when memory is full, the one unused for longest is overwritten.
    class Cache {
      public:
        explicit Cache(std::size_t memory)
            : most_(std::max<std::size_t>(memory / sizeof(Entry), 1 << 8)), entries_(1 << 8) {}
        const Value *find(const Key &key) {
            const std::size_t base = place(key);
            for (std::size_t i = base; i < base + kWays; ++i)
                if (entries_[i].used && entries_[i].key.low == key.low && entries_[i].key.high == key.high) {
                    entries_[i].used = ++clock_;
                    return &entries_[i].value;
                }
            return nullptr;
        }
        void store(const Key &key, const Value &value) {
            if (2 * stored_ > entries_.size() && entries_.size() * 2 <= most_) grow();
            put({key, ++clock_, value});
        }
        std::size_t bytes() const { return entries_.size() * sizeof(Entry); }

      private:
        static constexpr std::size_t kWays = 8;
        struct Entry {
            Key key;
            uint64_t used = 0;
            Value value{};
        };
        std::size_t place(const Key &key) const { return (key.low & (entries_.size() / kWays - 1)) * kWays; }
        void put(const Entry &entry) {
            const std::size_t base = place(entry.key);
            std::size_t oldest = base;
            for (std::size_t i = base; i < base + kWays; ++i)
                if (entries_[i].used < entries_[oldest].used) oldest = i;
            stored_ += entries_[oldest].used == 0;
            entries_[oldest] = entry;
        }
        void grow() {
            std::vector<Entry> old(entries_.size() * 2);
            old.swap(entries_);
            stored_ = 0;
            for (const Entry &entry : old)
                if (entry.used) put(entry);
        }
        std::size_t most_, stored_ = 0;
        uint64_t clock_ = 0;
        std::vector<Entry> entries_;
    };

    void start() {
        stack_.resize(1);
        depth_ = 1;
        Frame &root = stack_[0];
        root.var = -1, root.side = 1;
        next_.assign(suffixes_.whole.begin(), suffixes_.whole.end());
        std::sort(next_.begin(), next_.end());
        next_.erase(std::unique(next_.begin(), next_.end()), next_.end());
        ++epoch_;
        // Absorption only saves work: without it equal subformulas may be solved twice. So it ends here after a
        // linear amount; with tens of thousands of clauses it would cost more than a whole round.
        const int64_t enough = operations_ + 16 * static_cast<int64_t>(suffixes_.literals.size());
        for (const int32_t clause : next_) {
            if (operations_ > enough) break;
            absorb(clause, next_.data(), next_.data() + next_.size());
        }
        next_.erase(std::remove_if(next_.begin(), next_.end(), [&](int32_t s) { return absorbed_[s] == epoch_; }),
                    next_.end());
        begin(root, false);
    }
    bool over_memory() {
        if ((++checks_ & 0xff) != 0) return false;
        if (algebra_.full()) return true;
        return stacked_ * sizeof(int32_t) + algebra_.bytes() + cache_.bytes() > options_.memory;
    }
    void did(int64_t work) {
        operations_ += work;
        pace_.check(work);
    }

    // One part of the topmost subformula, or its end.
    void step() {
        Frame &frame = stack_[depth_ - 1];
        if (frame.next < static_cast<int32_t>(frame.part_ends.size()) && !algebra_.is_true(frame.sum)) {
            const int32_t first = frame.next == 0 ? 0 : frame.part_ends[frame.next - 1],
                          last = frame.part_ends[frame.next];
            ++frame.next;
            const int32_t *ids = frame.part_suffixes.data();
            if (last - first == 1) {
                frame.sum =
                    algebra_.meet(frame.sum, algebra_.term(suffixes_.begin(ids[first]), suffixes_.end(ids[first])));
                did(suffixes_.length[ids[first]]);
                return;
            }
            Key key;
            for (int32_t i = first; i < last; ++i) key.high += suffixes_.high[ids[i]], key.low += suffixes_.low[ids[i]];
            key.low = mix(key.low), key.high = mix(key.high);
            did(last - first);
            if (const Value *known = cache_.find(key)) {
                frame.sum = algebra_.meet(frame.sum, *known);
                return;
            }
            push(ids + first, ids + last, key);
            return;
        }
        if (frame.var < 0) {
            result_ = frame.sum;
            finished_ = true;
            return;
        }
        if (frame.side == 0) {
            frame.high = frame.sum;
            frame.side = 1;
            descend(frame);
            return;
        }
        const Value value = algebra_.mix(frame.var, frame.high, frame.sum);
        cache_.store(frame.key, value);
        stacked_ -= frame.suffixes.size() + frame.part_suffixes.size();
        --depth_;
        stack_[depth_ - 1].sum = algebra_.meet(stack_[depth_ - 1].sum, value);
    }

    void push(const int32_t *first, const int32_t *last, const Key &key) {
        scratch_.assign(first, last);  // the stack may move
        if (static_cast<int>(stack_.size()) == depth_) stack_.emplace_back();
        Frame &frame = stack_[depth_++];
        frame.suffixes.swap(scratch_);
        frame.part_suffixes.clear(), frame.part_ends.clear();
        frame.key = key;
        frame.var = suffixes_.literal[frame.suffixes[0]] >> 1;
        frame.side = 0;
        ++decisions_;
        stacked_ += frame.suffixes.size();
        descend(frame);
    }

    // Sets the frame's variable and takes what remains apart.
    void descend(Frame &frame) {
        const std::vector<int32_t> &ids = frame.suffixes;
        const int32_t level = suffixes_.level[ids[0]], sign = frame.side;
        tails_.clear();
        std::size_t i = 0;
        bool holds = false;
        for (; i < ids.size() && suffixes_.level[ids[i]] == level; ++i) {
            if ((suffixes_.literal[ids[i]] & 1) != sign) continue;
            const int32_t tail = suffixes_.tail[ids[i]];
            if (tail == Suffixes::kEmpty)
                holds = true;
            else
                tails_.push_back(tail);
        }
        if (holds) {
            begin(frame, true);
            return;
        }
        std::sort(tails_.begin(), tails_.end());
        ++epoch_;
        for (const int32_t tail : tails_) absorb(tail, ids.data() + i, ids.data() + ids.size());
        next_.clear();
        std::size_t t = 0;
        for (; i < ids.size(); ++i) {
            if (absorbed_[ids[i]] == epoch_) continue;
            while (t < tails_.size() && tails_[t] < ids[i]) next_.push_back(tails_[t++]);
            if (t < tails_.size() && tails_[t] == ids[i]) ++t;
            next_.push_back(ids[i]);
        }
        next_.insert(next_.end(), tails_.begin() + t, tails_.end());
        did(static_cast<int64_t>(ids.size()));
        begin(frame, false);
    }

    // Marks what holds all literals of `inner` and more; the list is made once for every suffix.
    void absorb(int32_t inner, const int32_t *first, const int32_t *last) {
        if (first == last || !absorption_) return;
        auto &list = supersets_[inner];
        if (list.empty()) {
            list.push_back(-1);  // marks the list as made, also if no suffix follows
            const std::vector<int32_t> *candidates = nullptr;
            for (const int32_t *lit = suffixes_.begin(inner); lit != suffixes_.end(inner); ++lit)
                if (!candidates || holders_[*lit].size() < candidates->size()) candidates = &holders_[*lit];
            for (const int32_t outer : *candidates) {
                if (outer == inner || (suffixes_.signature[inner] & ~suffixes_.signature[outer])) continue;
                if (suffixes_.length[outer] > suffixes_.length[inner] && holds_all(outer, inner)) list.push_back(outer);
            }
            did(static_cast<int64_t>(candidates->size()));
            did(compared_), compared_ = 0;
        }
        for (const int32_t outer : list)
            if (outer >= 0) absorbed_[outer] = epoch_;
        did(static_cast<int64_t>(list.size()) / 4 + 1);
    }
    bool holds_all(int32_t outer, int32_t inner) {  // both by rising level, each variable once
        compared_ += suffixes_.length[outer];
        const int32_t *a = suffixes_.begin(outer), *a_end = suffixes_.end(outer);
        for (const int32_t *b = suffixes_.begin(inner); b != suffixes_.end(inner); ++b) {
            while (a != a_end && *a != *b) ++a;
            if (a == a_end) return false;
        }
        return true;
    }

    // The parts of next_, which share no variable, as what the frame has to solve next.
    void begin(Frame &frame, bool holds) {
        stacked_ -= frame.part_suffixes.size();
        frame.part_suffixes.clear(), frame.part_ends.clear();
        frame.next = 0;
        frame.sum = holds ? algebra_.truth() : algebra_.nothing();
        if (holds || next_.empty()) return;
        const auto count = static_cast<int32_t>(next_.size());
        if (!options_.parts || !split(count)) {
            frame.part_suffixes.assign(next_.begin(), next_.end());
            frame.part_ends.push_back(count);
        } else {
            gather(frame, count);
        }
        stacked_ += frame.part_suffixes.size();
    }
    int32_t find(int32_t a) {
        while (parent_[a] != a) a = parent_[a] = parent_[parent_[a]];
        return a;
    }
    bool split(int32_t count) {
        if (count < 2) return false;
        if (static_cast<int32_t>(parent_.size()) < count) parent_.resize(count), label_.resize(count);
        for (int32_t i = 0; i < count; ++i) parent_[i] = i;
        ++owner_stamp_;
        int32_t parts = count;
        int64_t work = 0;
        for (int32_t i = 0; i < count && parts > 1; ++i) {
            for (const int32_t *lit = suffixes_.begin(next_[i]); lit != suffixes_.end(next_[i]); ++lit) {
                const int32_t v = *lit >> 1;
                if (owner_epoch_[v] != owner_stamp_) {
                    owner_epoch_[v] = owner_stamp_, owner_[v] = i;
                    continue;
                }
                const int32_t a = find(owner_[v]), b = find(i);
                if (a != b) parent_[std::max(a, b)] = std::min(a, b), --parts;
            }
            work += suffixes_.length[next_[i]];
        }
        did(work);
        return parts > 1;
    }
    void gather(Frame &frame, int32_t count) {
        sizes_.clear();
        for (int32_t i = 0; i < count; ++i) {
            const int32_t root = find(i);
            if (root == i)
                label_[i] = static_cast<int32_t>(sizes_.size()), sizes_.push_back(0);
            else
                label_[i] = label_[root];  // roots are the smallest of their part
            ++sizes_[label_[i]];
        }
        frame.part_suffixes.resize(count);
        int32_t at = 0;
        for (int32_t &size : sizes_) {
            const int32_t first = at;
            at += size;
            frame.part_ends.push_back(at);
            size = first;
        }
        for (int32_t i = 0; i < count; ++i) frame.part_suffixes[sizes_[label_[i]]++] = next_[i];
    }

    Algebra &algebra_;
    ShannonOptions options_;
    Pace pace_;
    int64_t operations_ = 0, decisions_ = 0, checks_ = 0, compared_ = 0;
    Suffixes suffixes_;
    std::vector<int32_t> owner_;
    std::vector<int64_t> owner_epoch_, absorbed_;
    std::vector<std::vector<int32_t>> supersets_, holders_;
    Cache cache_;
    bool absorption_ = false, finished_ = false, exhausted_ = false;
    int64_t epoch_ = 0, owner_stamp_ = 0;
    std::vector<Frame> stack_;
    int depth_ = 0;
    std::size_t stacked_ = 0;
    std::vector<int32_t> tails_, next_, scratch_, parent_, label_, sizes_;
    Value result_{};
};

}  // namespace sharpdnf
