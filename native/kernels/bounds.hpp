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
    void add(const Wide &p) {
        if (largest_ < p) largest_ = p;
        sum_ = sum_ + p;
        independent_ = either(independent_, p);
    }
    // Takes the clause into the greedy choice if it shares no variable with those chosen; says whether it did.
    template <class Slot> bool choose(const Wide &p, const int32_t *first, const int32_t *last, Slot slot) {
        for (const int32_t *lit = first; lit != last; ++lit)
            if (taken_[slot(*lit >> 1)]) return false;
        for (const int32_t *lit = first; lit != last; ++lit) taken_[slot(*lit >> 1)] = 1;
        disjoint_ = either(disjoint_, p);
        return true;
    }
    Wide lower() const { return largest_ < disjoint_ ? disjoint_ : largest_; }
    Wide upper(bool unate) const { return at_most_one(unate && independent_ < sum_ ? independent_ : sum_); }
    const Wide &largest() const { return largest_; }
    const Wide &sum() const { return sum_; }

  private:
    std::vector<uint8_t> taken_;
    Wide largest_, sum_, independent_, disjoint_;
};

// log(1 - exp(x)) for x <= 0.
inline double log1mexp(double x) {
    if (x >= 0.0) return -std::numeric_limits<double>::infinity();
    return x > -0.6931471805599453 ? std::log(-std::expm1(x)) : std::log1p(-std::exp(x));
}

struct Interval {
    double log_lower = -std::numeric_limits<double>::infinity(), log_upper = 0.0;            // of P
    double log_miss_lower = -std::numeric_limits<double>::infinity(), log_miss_upper = 0.0;  // of 1 - P
    bool unate = false, pairs = false;  // unate: no variable with both signs; pairs: second-order bounds were used
};

// Second-order sums: with q(i) = p(i) / scale, S1 = sum q(i), S2 = sum over pairs of P(i and j) / scale, and the bounds
// of Dawson and Sankoff (1967), de Caen (1997) below, Kounias (1968) above. Pairs without a common variable are
// counted in closed form; `budget` limits the work on the others.
class PairBounds {
  public:
    // `prob` the clauses' probabilities; false if the pairs cost more than the budget. Throws Stopped.
    bool run(const Formula &f, const std::vector<Wide> &prob, const Wide &scale, int64_t budget, Pace &pace) {
        const int64_t m = f.num_clauses;
        if (!index(f, budget, pace)) return false;
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
            pace.check(16 * (f.indptr[c + 1] - f.indptr[c]));
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
    bool index(const Formula &f, int64_t budget, Pace &pace) {
        // Sum of squares >= square of the sum / how many (Cauchy-Schwarz): often no need to count.
        if (static_cast<double>(f.size()) * static_cast<double>(f.size()) >
            static_cast<double>(budget) * static_cast<double>(f.num_vars))
            return false;
        first_.assign(f.num_vars + 1, 0);
        for (int64_t i = 0; i < f.size(); ++i) ++first_[(f.literals[i] >> 1) + 1];
        for (int64_t v = 0; v < f.num_vars; ++v) {
            budget -= first_[v + 1] * first_[v + 1];
            if (budget < 0) return false;
            first_[v + 1] += first_[v];
        }
        occurs_.resize(f.size());
        std::vector<int64_t> next(first_.begin(), first_.end() - 1);
        for (int64_t c = 0; c < f.num_clauses; ++c) {
            for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) occurs_[next[f.literals[i] >> 1]++] = c;
            pace.check(f.indptr[c + 1] - f.indptr[c]);
        }
        return true;
    }
    std::vector<int64_t> first_, occurs_;
};

// 1 - p(C), right where p(C) is close to 1 too.
inline double clause_miss(const Formula &f, int64_t c, const Wide &p) {
    if (p < Wide::of(0.5)) return p.complement();
    double hit = 1.0, miss = 0.0;
    for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) {
        miss += hit * f.literal_prob(f.literals[i] ^ 1);
        hit *= f.literal_prob(f.literals[i]);
    }
    return miss;
}

// The greedy choice of disjoint clauses, from the likeliest down, and in `miss` the probability that none of them
// holds. Throws Stopped: what was chosen till then stands.
inline void choose_disjoint(const Formula &f, const std::vector<Wide> &prob, IntervalSums &sums, Wide &miss, Pace &pace) {
    constexpr int64_t AHEAD = 8;
    std::vector<double> log_prob(f.num_clauses);
    for (int64_t c = 0; c < f.num_clauses; ++c) {
        log_prob[c] = prob[c].log();
        pace.check(4);
    }
    const auto order = FallingOrder(log_prob, sums.largest().log()).clauses;
    for (int64_t i = 0; i < f.num_clauses; ++i) {
        const int32_t c = order[i];
        pace.check(8);
        if (i + AHEAD < f.num_clauses) __builtin_prefetch(f.literals + f.indptr[order[i + AHEAD]]);
        if (sums.choose(prob[c], f.literals + f.indptr[c], f.literals + f.indptr[c + 1], [](int32_t v) { return v; }))
            miss = miss * clause_miss(f, c, prob[c]);
    }
}

// p(C), however small.
inline Wide clause_prob(const Formula &f, int64_t c) {
    double p = 1.0;
    for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) p *= f.literal_prob(f.literals[i]);
    if (p >= 1e-290) return Wide::of(p);
    Wide product = Wide::of(1.0);  // it underflows, or is on the way
    for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) product = product * f.literal_prob(f.literals[i]);
    return product;
}

// Bounds that hold surely: widened by what rounding can add up to. The formula has no empty clause. The first pass
// runs to its end unless `signals` (Ctrl-C) stops it, so that there is a bound to return; the others end with `poll`,
// which is told of the deadline too.
inline Interval certified_bounds(const Formula &f, int64_t pair_budget, Poll &signals, Poll &poll) {
    Interval out;
    if (f.num_clauses == 0) {
        out.log_upper = -std::numeric_limits<double>::infinity();
        out.log_miss_lower = 0.0;
        return out;
    }
    Pace pace(signals);
    std::vector<Wide> prob(f.num_clauses);
    std::vector<uint8_t> signs(f.num_vars, 0);
    IntervalSums sums;
    sums.reset(f.num_vars);
    int64_t widest = 0;
    Wide miss_all = Wide::of(1.0), miss_disjoint = Wide::of(1.0);
    for (int64_t c = 0; c < f.num_clauses; ++c) {
        for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) signs[f.literals[i] >> 1] |= 1 + (f.literals[i] & 1);
        prob[c] = clause_prob(f, c);
        sums.add(prob[c]);
        miss_all = miss_all * clause_miss(f, c, prob[c]);
        widest = std::max(widest, f.indptr[c + 1] - f.indptr[c]);
        pace.check(f.indptr[c + 1] - f.indptr[c]);
    }
    out.unate = std::find(signs.begin(), signs.end(), 3) == signs.end();
    PairBounds pairs;
    try {
        Pace rest(poll);
        rest.check(f.size());
        choose_disjoint(f, prob, sums, miss_disjoint, rest);
        // Where the sum is large pairs add nothing to the greedy bound and the union bound.
        out.pairs = pair_budget > 0 && sums.sum() < Wide::of(2.0) && !sums.largest().zero() &&
                    pairs.run(f, prob, sums.largest(), pair_budget, rest);
    } catch (const Stopped &) {
    }
    Wide lower = sums.lower(), upper = sums.upper(out.unate);
    if (out.pairs) {
        if (lower < pairs.lower) lower = pairs.lower;
        if (pairs.upper < upper) upper = pairs.upper;
    }
    // Every sum and product of k factors is off by at most about k units in the last place.
    const double slack = 1e-12 + 4e-16 * static_cast<double>(f.num_clauses + widest);
    out.log_lower = std::min(lower.log(), 0.0) - slack;
    out.log_upper = std::min(upper.log() + slack, 0.0);
    if (out.log_upper < out.log_lower) out.log_upper = out.log_lower;  // both right, apart by rounding only
    out.log_miss_lower = log1mexp(out.log_upper), out.log_miss_upper = log1mexp(out.log_lower);
    if (out.unate) out.log_miss_lower = std::max(out.log_miss_lower, std::min(miss_all.log(), 0.0) - slack);
    out.log_miss_upper = std::max(out.log_miss_lower, std::min(out.log_miss_upper, miss_disjoint.log() + slack));
    return out;
}
