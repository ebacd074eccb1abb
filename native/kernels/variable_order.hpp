// Orders of the variables for `Shannon`, none of which depends on how variables are named or clauses listed.
#pragma once
#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "elimination_order.hpp"
#include "formula.hpp"

namespace sharpdnf {

// The clauses of every variable.
struct Occurrences {
    std::vector<int64_t> start;
    std::vector<int32_t> clause, literal;

    Occurrences(const Formula &f, Pace &pace) : start(f.num_vars + 1, 0), clause(f.size()), literal(f.size()) {
        for (int64_t i = 0; i < f.size(); ++i) ++start[(f.literals[i] >> 1) + 1];
        std::partial_sum(start.begin(), start.end(), start.begin());
        std::vector<int64_t> next(start.begin(), start.end() - 1);
        for (int64_t c = 0; c < f.num_clauses; ++c) {
            for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) {
                const int64_t at = next[f.literals[i] >> 1]++;
                clause[at] = static_cast<int32_t>(c), literal[at] = f.literals[i];
            }
            pace.check(f.indptr[c + 1] - f.indptr[c]);
        }
    }
    int64_t count(int32_t v) const { return start[v + 1] - start[v]; }
    std::vector<int32_t> variables() const {  // those that occur, by rising number
        std::vector<int32_t> out;
        for (int32_t v = 0; v + 1 < static_cast<int32_t>(start.size()); ++v)
            if (count(v) > 0) out.push_back(v);
        return out;
    }
};

inline std::vector<int32_t> levels(const std::vector<int32_t> &order, int64_t num_vars) {
    std::vector<int32_t> level(num_vars, -1);
    for (std::size_t i = 0; i < order.size(); ++i) level[order[i]] = static_cast<int32_t>(i);
    return level;
}

// The last to be eliminated comes first: setting it takes the formula apart as the tree decomposition does. Variables
// with too many neighbours for that come before them, by falling frequency. Empty if it would take more than `max_work`
// steps.
inline std::vector<int32_t> order_by_elimination(const Formula &f, const Occurrences &at, int64_t max_work,
                                                 Pace &pace) {
    constexpr int64_t kWide = 24;  // wider clauses are joined piece by piece
    EliminationGraph graph(f.num_vars, pace);
    const auto variable = [](int32_t lit) { return lit >> 1; };
    for (int64_t c = 0; c < f.num_clauses; ++c)
        for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; i += kWide)
            graph.join(f.literals + std::max(f.indptr[c], i - 1), f.literals + std::min(f.indptr[c + 1], i + kWide),
                       variable);
    graph.finish();
    const EliminationPlan plan = graph.eliminate(true, 0, std::numeric_limits<double>::infinity(), max_work, 1000);
    std::vector<int32_t> order;
    if (graph.work() > max_work) return order;
    for (int32_t v = 0; v < f.num_vars; ++v)
        if (at.count(v) > 0 && plan.rank[v] < 0) order.push_back(v);
    std::stable_sort(order.begin(), order.end(), [&](int32_t x, int32_t y) { return at.count(x) > at.count(y); });
    order.insert(order.end(), plan.order.rbegin(), plan.order.rend());
    return order;
}

// FORCE (Aloul, Markov, Sakallah 2003): clauses pull their variables towards their centre of gravity.
inline std::vector<int32_t> order_by_force(const Formula &f, const std::vector<int32_t> &from, int rounds, Pace &pace) {
    std::vector<double> position(f.num_vars, 0.0), pull(f.num_vars);
    std::vector<int32_t> weight(f.num_vars), order = from, best = from;
    double least = std::numeric_limits<double>::infinity();
    for (int round = 0; round <= rounds; ++round) {
        for (std::size_t i = 0; i < order.size(); ++i) position[order[i]] = static_cast<double>(i);
        std::fill(pull.begin(), pull.end(), 0.0), std::fill(weight.begin(), weight.end(), 0);
        double span = 0.0;
        for (int64_t c = 0; c < f.num_clauses; ++c) {
            double sum = 0.0, low = position[f.literals[f.indptr[c]] >> 1], high = low;
            for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) {
                const double x = position[f.literals[i] >> 1];
                sum += x, low = std::min(low, x), high = std::max(high, x);
            }
            span += high - low;
            const double centre = sum / static_cast<double>(f.indptr[c + 1] - f.indptr[c]);
            for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i)
                pull[f.literals[i] >> 1] += centre, ++weight[f.literals[i] >> 1];
            pace.check(2 * (f.indptr[c + 1] - f.indptr[c]));
        }
        if (!(span < least)) break;
        least = span, best = order;
        for (const int32_t v : order) position[v] = pull[v] / weight[v];
        std::stable_sort(order.begin(), order.end(), [&](int32_t x, int32_t y) { return position[x] < position[y]; });
    }
    return best;
}

// Each next variable is one that leaves the fewest kinds of open clauses.
//
// The variables set so far cut each clause into what is behind and what is ahead. Two pasts are of one kind if the same
// futures follow: for the paths of a network that is the node where a path stands, whatever way it took. The number of
// kinds bounds what `Shannon` has to tell apart (2^kinds), and the order that keeps it small is that of the paths'
// steps, found without knowing of paths.
class KindsOrder {
  public:
    KindsOrder(const Formula &f, const Occurrences &at, Pace &pace) : f_(f), at_(at), pace_(pace) {
        past_.assign(f.num_clauses, 0);
        ahead_.assign(f.num_clauses, 0);
        for (int64_t c = 0; c < f.num_clauses; ++c)
            for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) ahead_[c] += weigh(f.literals[i]);
        sign_.assign(1, 0), members_.assign(1, static_cast<int32_t>(f.num_clauses));
        for (int64_t c = 0; c < f.num_clauses; ++c) sign_[0] += mix(ahead_[c]);
        kinds_[sign_[0]] = 1;
    }

    // About how many steps it takes: each next variable is chosen among all that are left.
    static int64_t steps(int64_t vars, int64_t literals) { return 4 * vars * literals; }

    std::vector<int32_t> order() {
        std::vector<int32_t> left = at_.variables(), out;
        std::stable_sort(left.begin(), left.end(), [&](int32_t x, int32_t y) { return at_.count(x) > at_.count(y); });
        while (!left.empty()) {
            std::size_t best = 0;
            int64_t least = std::numeric_limits<int64_t>::max();
            for (std::size_t i = 0; i < left.size(); ++i) {
                const int64_t more = added(left[i], false);
                if (more < least) least = more, best = i;
            }
            added(left[best], true);
            out.push_back(left[best]);
            left.erase(left.begin() + static_cast<std::ptrdiff_t>(best));
        }
        return out;
    }

  private:
    static uint64_t weigh(int32_t lit) {
        return mix(static_cast<uint64_t>(lit) * 0x9e3779b97f4a7c15ULL + 0x632be59bd9b4e019ULL);
    }

    struct Split {
        int32_t past, literal, count;
        bool first;  // the first split of this past: the other sign of v may split it again
        uint64_t removed, added;
    };

    // How many kinds setting v next adds (or takes away); with `apply`, sets it.
    int64_t added(int32_t v, bool apply) {
        splits_.clear();
        const int64_t first = at_.start[v], last = at_.start[v + 1];
        for (int64_t i = first; i < last; ++i) {
            const int32_t c = at_.clause[i], lit = at_.literal[i];
            const bool first_of_past = slot_of(past_[c], 1 - (lit & 1)) < 0;
            int32_t &slot = slot_of(past_[c], lit & 1);
            if (slot < 0)
                slot = static_cast<int32_t>(splits_.size()), splits_.push_back({past_[c], lit, 0, first_of_past, 0, 0});
            Split &split = splits_[slot];
            ++split.count;
            split.removed += mix(ahead_[c]), split.added += mix(ahead_[c] - weigh(lit));
        }
        const auto before = static_cast<int64_t>(kinds_.size());
        for (const Split &s : splits_)
            if (s.first) bump(sign_[s.past], -1);
        for (const Split &s : splits_) sign_[s.past] -= s.removed, members_[s.past] -= s.count;
        for (const Split &s : splits_) {
            if (s.first && members_[s.past] > 0) bump(sign_[s.past], 1);
            bump(s.added, 1);
        }
        const int64_t more = static_cast<int64_t>(kinds_.size()) - before;
        if (!apply) {
            for (const Split &s : splits_) {
                if (s.first && members_[s.past] > 0) bump(sign_[s.past], -1);
                bump(s.added, -1);
            }
            for (const Split &s : splits_) sign_[s.past] += s.removed, members_[s.past] += s.count;
            for (const Split &s : splits_)
                if (s.first) bump(sign_[s.past], 1);
        } else {
            const auto base = static_cast<int32_t>(sign_.size());
            for (const Split &s : splits_) sign_.push_back(s.added), members_.push_back(s.count);
            for (int64_t i = first; i < last; ++i) {
                const int32_t c = at_.clause[i];
                const int32_t slot = slot_of(past_[c], at_.literal[i] & 1);
                past_[c] = base + slot;
                ahead_[c] -= weigh(at_.literal[i]);
            }
        }
        for (const Split &s : splits_) slot_of(s.past, s.literal & 1) = -1;
        pace_.check(8 * (last - first));
        return more;
    }
    int32_t &slot_of(int32_t past, int sign) {
        if (static_cast<std::size_t>(2 * past + 1) >= slots_.size()) slots_.resize(2 * (sign_.size() + 1), -1);
        return slots_[2 * past + sign];
    }
    void bump(uint64_t sign, int by) {
        const auto found = kinds_.try_emplace(sign, 0).first;
        if ((found->second += by) == 0) kinds_.erase(found);
    }

    const Formula &f_;
    const Occurrences &at_;
    Pace &pace_;
    std::vector<int32_t> past_;     // the number of the past that each clause has
    std::vector<uint64_t> ahead_;   // for each clause, the sum of weigh() over its literals that are still ahead
    std::vector<uint64_t> sign_;    // for each past, the sum over the futures of its clauses
    std::vector<int32_t> members_;  // how many clauses each past has
    std::unordered_map<uint64_t, int32_t> kinds_;
    std::vector<Split> splits_;
    std::vector<int32_t> slots_;
};

}  // namespace sharpdnf
