// A circuit as the kernels see it, and a store of its gates that makes equal gates once.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "chance.hpp"
#include "poll.hpp"

namespace sharpdnf {

enum GateKind : uint8_t { gFalse, gTrue, gVar, gNot, gAnd, gOr, gAtLeast };

// Gate g reads inputs[indptr[g] .. indptr[g + 1]), all of them before g.
struct CircuitView {
    const uint8_t *kind;
    const int32_t *arg;
    const int64_t *indptr;
    const int32_t *inputs;
    int64_t num_gates;
    const double *prob;
    int64_t num_vars;

    int64_t width(int64_t g) const { return indptr[g + 1] - indptr[g]; }
};

inline Bounds operator!(const Bounds &b) { return {!b.upper, !b.lower}; }
inline Bounds tighter(const Bounds &a, const Bounds &b) {
    return {a.lower < b.lower ? b.lower : a.lower, b.upper < a.upper ? b.upper : a.upper};
}

// Thrown where a store or a compiler would outgrow its memory.
struct OutOfMemory {};

// A reference is 2 * gate + 1 if it is negated. Gate 0 is true; gate p + 1 is the variable at place p of the order; all
// others are ANDs of at least two references (an OR is the negation of the AND of negations). An AND's references are
// sorted and distinct, small ANDs inside it are spread out, and where one of them is a negated AND that holds or
// contains another one of them, it is dropped or shortened: x (x + y) = x and x (x' + y) = x y.
class GateStore {
  public:
    using Ref = int32_t;
    static constexpr Ref kTrue = 0, kFalse = 1;
    static constexpr int kSpread = 16;  // ANDs up to this size are spread out, and looked into

    explicit GateStore(std::size_t memory) : memory_(memory) {}

    // To be called first. prob by place; `falling` says of which variables the negation is taken for the larger value,
    // where gates are looked at for being monotone.
    void add_variables(const std::vector<double> &prob, const std::vector<uint8_t> &falling) {
        gates_.reserve(prob.size() + 1);
        add_gate(0, 0, std::numeric_limits<int32_t>::max(), -1);
        bounds_[0] = Bounds::always();
        gates_[0].trend = kRising | kFalling;
        for (size_t p = 0; p < prob.size(); ++p) {
            add_gate(0, 0, static_cast<int32_t>(p), static_cast<int32_t>(p));
            gates_.back().trend = falling[p] ? kFalling : kRising;
            bounds_.back() = Bounds::about(Chance::of(Wide::of(prob[p]), Wide::of(1.0 - prob[p])), 1.0);
        }
        num_vars_ = static_cast<int32_t>(prob.size());
        assigned_.assign(prob.size(), -1);
        table_.assign(1024, 0);
    }

    static bool negated(Ref r) { return r & 1; }
    bool literal(Ref r) const { return r >= 2 && (r >> 1) <= num_vars_; }
    int32_t place(Ref literal) const { return (literal >> 1) - 1; }
    static Ref literal_at(int32_t place, bool value) { return 2 * (place + 1) + !value; }
    int64_t size() const { return static_cast<int64_t>(gates_.size()); }
    int32_t low(Ref r) const { return gates_[r >> 1].low; }
    int32_t high(Ref r) const { return gates_[r >> 1].high; }
    const Ref *begin(int32_t gate) const { return refs_.data() + gates_[gate].first; }
    const Ref *end(int32_t gate) const { return begin(gate) + gates_[gate].count; }
    // For a gate that is known to be monotone although its inputs do not show it.
    bool rising(Ref r) const { return trend(r) & kRising; }
    void set_rising(Ref r) { gates_[r >> 1].trend |= (r & 1) ? kFalling : kRising; }
    Bounds bounds(Ref r) const { return (r & 1) ? !bounds_[r >> 1] : bounds_[r >> 1]; }
    std::size_t bytes() const {
        return gates_.size() * (sizeof(Gate) + sizeof(Bounds) + 5 * sizeof(int32_t)) +
               (refs_.size() + table_.size()) * 4;
    }
    int64_t work = 0;  // references looked at
    // From here on work counts as done for the answer: see parts().
    void loaded() { credited_ = work; }

    // The AND of the references in `kids`, which is used up.
    Ref conjunction(std::vector<Ref> &kids) {
        for (bool changed = true; changed;) {
            if (!tidy(kids)) return kFalse;
            changed = absorb(kids);
        }
        return find(kids);
    }

    void assign(int32_t place, bool value) { assigned_[place] = value, chosen_.push_back(place); }
    void unassign() {
        for (const int32_t p : chosen_) assigned_[p] = -1;
        chosen_.clear();
    }
    // The reference with the assigned variables put in; then nothing is assigned.
    Ref restricted(Ref root) {
        if (chosen_.empty()) return root;
        const auto range = std::minmax_element(chosen_.begin(), chosen_.end());
        least_ = *range.first, most_ = *range.second;
        next(epoch_, seen_);
        std::vector<int32_t> &stack = stack_;
        stack.assign(1, root >> 1);
        std::vector<Ref> kids;
        while (!stack.empty()) {
            const int32_t gate = stack.back();
            if (settled(gate)) {
                stack.pop_back();
                continue;
            }
            const size_t before = stack.size();
            work += gates_[gate].count;
            for (const Ref *r = begin(gate); r != end(gate); ++r)
                if (!settled(*r >> 1)) stack.push_back(*r >> 1);
            if (stack.size() > before) continue;
            stack.pop_back();
            kids.clear();
            bool changed = false;
            for (const Ref *r = begin(gate); r != end(gate); ++r) {
                kids.push_back(result_[*r >> 1] ^ (*r & 1));
                changed |= kids.back() != *r;
            }
            const Ref made = changed ? conjunction(kids) : 2 * gate;
            result_[gate] = made;
            seen_[gate] = epoch_;
        }
        unassign();
        return result_[root >> 1] ^ (root & 1);
    }

    // Parts of an AND's references that share no variable: the part of each, numbered from 0; returns how many. Where
    // such walks have found nothing for long they are cut short, and the references are taken for connected.
    int32_t parts(const std::vector<Ref> &kids, std::vector<int32_t> &part) {
        const auto n = static_cast<int32_t>(kids.size());
        part.assign(n, 0);
        if (const int32_t found = parts_by_range(kids, part); found > 1) return found;
        std::vector<int32_t> root(n);
        std::iota(root.begin(), root.end(), 0);
        const auto leader = [&](int32_t i) {
            while (root[i] != i) i = root[i] = root[root[i]];
            return i;
        };
        next(epoch_, seen_);
        int32_t left = n;
        credit_ += work - credited_;
        const int64_t allowed = credit_ + 16, before = work;
        for (int32_t i = 0; i < n && left > 1 && work - before <= allowed; ++i) {
            stack_.assign(1, kids[i] >> 1);
            while (!stack_.empty() && left > 1) {
                if (work - before > allowed) break;
                const int32_t gate = stack_.back();
                stack_.pop_back();
                if (seen_[gate] == epoch_) {
                    const int32_t a = leader(i), b = leader(result_[gate]);
                    if (a != b) root[std::max(a, b)] = std::min(a, b), --left;
                    continue;
                }
                seen_[gate] = epoch_, result_[gate] = i;
                work += 1 + gates_[gate].count;
                for (const Ref *r = begin(gate); r != end(gate); ++r) stack_.push_back(*r >> 1);
            }
        }
        const int64_t spent = work - before;
        credited_ = work;
        credit_ = std::max<int64_t>(0, credit_ - spent);
        if (left == 1 || spent > allowed) return 1;
        credit_ += 2 * spent;
        std::vector<int32_t> number(n, -1);
        int32_t found = 0;
        for (int32_t i = 0; i < n; ++i) {
            int32_t &own = number[leader(i)];
            if (own < 0) own = found++;
            part[i] = own;
        }
        return found;
    }

  private:
    static constexpr uint8_t kRising = 1, kFalling = 2;
    struct Gate {
        int64_t first;
        int32_t count, low, high;  // references; the least and the greatest place of its variables
        uint8_t trend = 0;         // whether it is known to rise, or to fall, with all of its variables
    };

    uint8_t trend(Ref r) const {
        const uint8_t t = gates_[r >> 1].trend;
        return (r & 1) ? static_cast<uint8_t>((t >> 1) | ((t & 1) << 1)) : t;
    }

    // Begins a new pass: marks that earlier passes have written carry another stamp and no longer count, so nothing has
    // to be cleared until the stamps are used up.
    static void next(int32_t &stamp, std::vector<int32_t> &stamps) {
        if (stamp == std::numeric_limits<int32_t>::max()) std::fill(stamps.begin(), stamps.end(), 0), stamp = 0;
        ++stamp;
    }

    bool settled(int32_t gate) {
        if (seen_[gate] == epoch_) return true;
        const Gate &g = gates_[gate];
        if (g.low > most_ || g.high < least_)
            result_[gate] = 2 * gate;
        else if (g.count == 0)
            result_[gate] = assigned_[gate - 1] < 0 ? 2 * gate : (assigned_[gate - 1] ? kTrue : kFalse);
        else
            return false;
        seen_[gate] = epoch_;
        return true;
    }

    // Spreads out small ANDs, sorts, drops repeats and truths; false if two references contradict each other.
    bool tidy(std::vector<Ref> &kids) {
        const size_t given = kids.size();
        for (size_t i = 0; i < given; ++i) {
            const Gate &g = gates_[kids[i] >> 1];
            if (negated(kids[i]) || g.count == 0 || g.count > kSpread) continue;
            const int32_t gate = kids[i] >> 1;
            kids[i] = kTrue;
            kids.insert(kids.end(), begin(gate), end(gate));
        }
        work += static_cast<int64_t>(kids.size());
        std::sort(kids.begin(), kids.end());
        kids.erase(std::unique(kids.begin(), kids.end()), kids.end());
        if (!kids.empty() && kids.front() == kTrue) kids.erase(kids.begin());
        if (!kids.empty() && kids.front() == kFalse) return false;
        for (size_t i = 1; i < kids.size(); ++i)
            if ((kids[i] ^ 1) == kids[i - 1]) return false;
        return true;
    }

    // x (x + y) = x and x (x' + y) = x y; true if something changed that has to be tidied again.
    bool absorb(std::vector<Ref> &kids) {
        next(mark_, marks_);
        for (const Ref r : kids) marks_[r] = mark_;
        bool changed = false;
        std::vector<Ref> rest;
        for (Ref &kid : kids) {
            const Gate g = gates_[kid >> 1];
            if (!negated(kid) || g.count == 0 || g.count > kSpread) continue;
            work += g.count;
            rest.clear();
            bool holds = false;
            for (int32_t i = 0; i < g.count; ++i) {
                const Ref inner = refs_[g.first + i];
                holds |= marks_[inner ^ 1] == mark_;
                if (marks_[inner] != mark_) rest.push_back(inner);
            }
            if (!holds && static_cast<int32_t>(rest.size()) == g.count) continue;
            changed = true;
            kid = holds ? kTrue : find(rest) ^ 1;
        }
        return changed;
    }

    // The gate of references that are tidy.
    Ref find(const std::vector<Ref> &kids) {
        if (kids.empty()) return kTrue;
        if (kids.size() == 1) return kids[0];
        uint64_t hash = 0x9e3779b97f4a7c15ULL * kids.size();
        for (const Ref r : kids) hash = (hash ^ static_cast<uint64_t>(r)) * 0xff51afd7ed558ccdULL, hash ^= hash >> 29;
        hash ^= hash >> 32;
        uint64_t at = hash & (table_.size() - 1);
        for (; table_[at]; at = (at + 1) & (table_.size() - 1)) {
            const Gate &g = gates_[table_[at]];
            if (g.count == static_cast<int32_t>(kids.size()) &&
                std::equal(kids.begin(), kids.end(), refs_.begin() + g.first))
                return 2 * table_[at];
        }
        int32_t low = std::numeric_limits<int32_t>::max(), high = -1;
        for (const Ref r : kids) low = std::min(low, gates_[r >> 1].low), high = std::max(high, gates_[r >> 1].high);
        const auto first = static_cast<int64_t>(refs_.size());
        refs_.insert(refs_.end(), kids.begin(), kids.end());
        const auto gate = static_cast<int32_t>(gates_.size());
        add_gate(first, static_cast<int32_t>(kids.size()), low, high);
        bound(gate);
        table_[at] = gate;
        hashes_.push_back(hash);
        if (hashes_.size() * 2 > table_.size()) grow();
        return 2 * gate;
    }

    void add_gate(int64_t first, int32_t count, int32_t low, int32_t high) {
        if (bytes() > memory_ || gates_.size() > (std::size_t{1} << 29)) throw OutOfMemory{};
        gates_.push_back({first, count, low, high, 0});
        bounds_.push_back(Bounds::unknown());
        seen_.push_back(0);
        result_.push_back(0);
        marks_.push_back(0), marks_.push_back(0);
    }

    void grow() {
        std::vector<int32_t> wider(table_.size() * 2, 0);
        const auto first = static_cast<int32_t>(gates_.size() - hashes_.size());
        for (size_t i = 0; i < hashes_.size(); ++i) {
            uint64_t at = hashes_[i] & (wider.size() - 1);
            while (wider[at]) at = (at + 1) & (wider.size() - 1);
            wider[at] = first + static_cast<int32_t>(i);
        }
        table_.swap(wider);
    }

    // Frechet's bounds; products where the references are independent, and Harris' (1960) where all are monotone in
    // the same direction: then P(AND) is at least the product.
    void bound(int32_t gate) {
        Bounds product = Bounds::always(), out = Bounds::always();
        Wide missing;  // the sum of what the references miss to 1
        uint8_t common = kRising | kFalling;
        for (const Ref *r = begin(gate); r != end(gate); ++r) {
            const Bounds b = bounds(*r);
            common &= trend(*r);
            product = both(product, b);
            if (b.upper < out.upper) out.upper = b.upper;
            missing = missing + b.lower.q();
        }
        gates_[gate].trend = common;
        if (ranges_are_apart(gate)) {
            bounds_[gate] = product;
            return;
        }
        missing = missing * Wide::of(1.0 + (16.0 + 4.0 * gates_[gate].count) * kUnit);
        out.lower = missing < Wide{1.0, 0} ? Chance::of(Wide::of(missing.complement()), missing).moved<false>(8.0)
                                           : Chance::never();
        if (common) out.lower = product.lower;
        bounds_[gate] = out;
    }

    bool ranges_are_apart(int32_t gate) const {
        if (gates_[gate].count > 64) return false;
        std::pair<int32_t, int32_t> range[64];
        int n = 0;
        for (const Ref *r = begin(gate); r != end(gate); ++r) range[n++] = {low(*r), high(*r)};
        std::sort(range, range + n);
        for (int i = 1; i < n; ++i)
            if (range[i].first <= range[i - 1].second) return false;
        return true;
    }

    int32_t parts_by_range(const std::vector<Ref> &kids, std::vector<int32_t> &part) {
        std::vector<int32_t> order(kids.size());
        std::iota(order.begin(), order.end(), 0);
        std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return low(kids[a]) < low(kids[b]); });
        int32_t found = 0, reach = high(kids[order[0]]);
        for (const int32_t i : order) {
            if (low(kids[i]) > reach) ++found;
            reach = std::max(reach, high(kids[i]));
            part[i] = found;
        }
        return found + 1;
    }

    std::size_t memory_;
    int32_t num_vars_ = 0, least_ = 0, most_ = 0;
    std::vector<Gate> gates_;
    std::vector<Bounds> bounds_;
    std::vector<Ref> refs_;
    std::vector<int32_t> table_;
    std::vector<uint64_t> hashes_;
    std::vector<int8_t> assigned_;
    std::vector<int32_t> chosen_, stack_;
    std::vector<int32_t> seen_, result_, marks_;  // by gate, by gate, by reference: what the running pass knows
    int32_t epoch_ = 0, mark_ = 0;
    int64_t credit_ = 4096,
            credited_ = 0;  // walks that find no independent parts may cost as much as all other work, plus this
};

}  // namespace sharpdnf
