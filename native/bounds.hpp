// Certified bounds in one or two passes. The proofs stand in engines/bounds.py.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "formula.hpp"
#include "wide.hpp"

// One pass over the clauses: the largest, the sum, and "independent or" over all clauses and over a greedy choice of
// clauses that share no variable.
class IntervalSums {
  public:
    void reset(std::size_t num_vars) {
        taken_.assign(num_vars, 0);
        largest_ = sum_ = independent_ = disjoint_ = Wide();
    }
    template <class Slot> void add(const Wide &p, const int32_t *first, const int32_t *last, Slot slot) {
        if (largest_ < p) largest_ = p;
        sum_ = sum_ + p;
        independent_ = either(independent_, p);
        for (const int32_t *lit = first; lit != last; ++lit)
            if (taken_[slot(*lit >> 1)]) return;
        for (const int32_t *lit = first; lit != last; ++lit) taken_[slot(*lit >> 1)] = 1;
        disjoint_ = either(disjoint_, p);
    }
    Wide lower() const { return largest_ < disjoint_ ? disjoint_ : largest_; }
    Wide upper(bool unate) const { return at_most_one(unate && independent_ < sum_ ? independent_ : sum_); }
    const Wide &largest() const { return largest_; }
    const Wide &sum() const { return sum_; }

  private:
    std::vector<uint8_t> taken_;
    Wide largest_, sum_, independent_, disjoint_;
};

struct Interval {
    double log_lower = -std::numeric_limits<double>::infinity(), log_upper = 0.0;
    bool unate = false, pairs = false;  // unate: no variable with both signs; pairs: second-order bounds were used
};

// Second-order sums: with q(i) = p(i) / scale, S1 = sum q(i), S2 = sum over pairs of P(i and j) / scale, and the bounds
// of Dawson and Sankoff (1967), de Caen (1997) below, Kounias (1968) above. Pairs without a common variable are
// counted in closed form; `budget` limits the work on the others.
class PairBounds {
  public:
    // `prob` the clauses' probabilities; false if the pairs cost more than the budget.
    bool run(const Formula &f, const std::vector<Wide> &prob, const Wide &scale, int64_t budget) {
        const int64_t m = f.num_clauses;
        if (!index(f, budget)) return false;
        std::vector<int64_t> seen(m, -1);
        std::vector<double> plain(m), scaled(m);
        double total = 0.0, s1 = 0.0, s2 = 0.0, s2_gross = 0.0, caen = 0.0, kounias = 0.0;
        for (int64_t c = 0; c < m; ++c) {
            plain[c] = prob[c].value();
            const Wide inverse{1.0 / scale.m, -scale.e};
            scaled[c] = (prob[c] * inverse).value();
            total += plain[c], s1 += scaled[c];
        }
        std::vector<int32_t> value(f.num_vars, -1);
        for (int64_t c = 0; c < m; ++c) {
            for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) value[f.literals[i] >> 1] = f.literals[i];
            double meets = scaled[c] * total;  // sum over all j of q(c) p(j), as if all were independent
            double gross = meets;
            meets -= scaled[c] * plain[c];
            seen[c] = c;
            for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i)
                for (int64_t j = first_[f.literals[i] >> 1]; j < first_[(f.literals[i] >> 1) + 1]; ++j) {
                    const int64_t other = occurs_[j];
                    if (seen[other] == c) continue;
                    seen[other] = c;
                    const double both = scaled[c] * rest_of(f, other, value);
                    meets += both - scaled[c] * plain[other];
                    gross += both;
                }
            for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) value[f.literals[i] >> 1] = -1;
            meets = std::max(meets, 0.0);
            s2 += meets / 2.0, s2_gross += gross;
            kounias = std::max(kounias, meets - 1e-12 * gross);
            if (scaled[c] > 0.0) caen += scaled[c] * scaled[c] / (scaled[c] + meets + 1e-12 * gross);
        }
        s2 += 1e-12 * s2_gross;
        const double k = 1.0 + std::floor(std::min(2.0 * s2 / s1, 1e15));
        const double sankoff = 2.0 * s1 / (k + 1.0) - 2.0 * s2 / (k * (k + 1.0)) - 1e-12 * s1;
        lower = scale * Wide::of(std::max({caen, sankoff, 0.0}));
        upper = scale * Wide::of(std::max(s1 * (1.0 + 1e-12) - kounias, 0.0));
        return true;
    }
    Wide lower, upper;

  private:
    // P(clause `other` | the literals in `value`): the product of what it adds, 0 on contradiction.
    static double rest_of(const Formula &f, int64_t other, const std::vector<int32_t> &value) {
        double rest = 1.0;
        for (int64_t i = f.indptr[other]; i < f.indptr[other + 1]; ++i) {
            const int32_t lit = f.literals[i], known = value[lit >> 1];
            if (known < 0) rest *= f.literal_prob(lit);
            else if (known != lit) return 0.0;
        }
        return rest;
    }
    bool index(const Formula &f, int64_t budget) {
        first_.assign(f.num_vars + 1, 0);
        for (int64_t i = 0; i < f.size(); ++i) ++first_[(f.literals[i] >> 1) + 1];
        for (int64_t v = 0; v < f.num_vars; ++v) {
            budget -= first_[v + 1] * first_[v + 1];
            if (budget < 0) return false;
            first_[v + 1] += first_[v];
        }
        occurs_.resize(f.size());
        std::vector<int64_t> next(first_.begin(), first_.end() - 1);
        for (int64_t c = 0; c < f.num_clauses; ++c)
            for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) occurs_[next[f.literals[i] >> 1]++] = c;
        return true;
    }
    std::vector<int64_t> first_, occurs_;
};

// Bounds that hold surely, up to a rounding slack of 1e-12 that is added outwards. The formula has no empty clause.
inline Interval certified_bounds(const Formula &f, int64_t pair_budget) {
    Interval out;
    if (f.num_clauses == 0) {
        out.log_upper = -std::numeric_limits<double>::infinity();
        return out;
    }
    std::vector<Wide> prob(f.num_clauses);
    std::vector<uint8_t> signs(f.num_vars, 0);
    for (int64_t c = 0; c < f.num_clauses; ++c) {
        Wide p = Wide::of(1.0);
        for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) {
            signs[f.literals[i] >> 1] |= (f.literals[i] & 1) ? 2 : 1;
            p = p * f.literal_prob(f.literals[i]);
        }
        prob[c] = p;
    }
    out.unate = std::find(signs.begin(), signs.end(), 3) == signs.end();
    std::vector<int64_t> order(f.num_clauses);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return prob[b] < prob[a] || (!(prob[a] < prob[b]) && a < b);
    });
    IntervalSums sums;
    sums.reset(f.num_vars);
    for (const int64_t c : order)
        sums.add(prob[c], f.literals + f.indptr[c], f.literals + f.indptr[c + 1], [](int32_t v) { return v; });
    Wide lower = sums.lower(), upper = sums.upper(out.unate);
    PairBounds pairs;  // where the sum is large they add nothing to the greedy bound and the union bound
    if (pair_budget > 0 && sums.sum() < Wide::of(2.0) && !sums.largest().zero() && pairs.run(f, prob, sums.largest(), pair_budget)) {
        out.pairs = true;
        if (lower < pairs.lower) lower = pairs.lower;
        if (pairs.upper < upper) upper = pairs.upper;
    }
    const double slack = 1e-12;
    out.log_lower = std::min(lower.log(), 0.0) - slack;
    out.log_upper = std::min(upper.log() + slack, 0.0);
    if (out.log_upper < out.log_lower) out.log_upper = out.log_lower;  // both right, apart by rounding only
    return out;
}
