// Certified bounds in one or two passes. The proofs stand in engines/bounds.py.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "chance.hpp"
#include "formula.hpp"
#include "wide.hpp"

namespace sharpdnf {

// One pass over the clauses: the largest, the sum, and "independent or" over all clauses and over a greedy choice of
// clauses that share no variable. What is a bound below is rounded down, what is one above is rounded up.
class IntervalSums {
  public:
    void reset(std::size_t num_vars) {
        taken_.assign(num_vars, 0);
        largest_ = Chance::never();
        sum_.clear(), independent_.clear(), disjoint_.clear();
    }
    void add(const Bounds &p) {
        if (largest_ < p.lower) largest_ = p.lower;
        sum_.add(p.upper.p(), plus);
        independent_.add(p.upper, either<true>);
    }
    // Takes the clause into the greedy choice if it shares no variable with those chosen.
    template <class Slot> void choose(const Bounds &p, const int32_t *first, const int32_t *last, Slot slot) {
        for (const int32_t *lit = first; lit != last; ++lit)
            if (taken_[slot(*lit >> 1)]) return;
        for (const int32_t *lit = first; lit != last; ++lit) taken_[slot(*lit >> 1)] = 1;
        disjoint_.add(p.lower, either<false>);
    }
    Chance lower() const { return std::max(largest_, disjoint_.total(Chance::never(), either<false>)); }
    Chance upper(bool unate) const {
        const Wide whole = sum();
        Chance out = whole < Wide{0.5, 0} ? Chance{whole, false} : Chance{Wide::of(whole.complement()), true};
        if (unate) out = std::min(out, independent_.total(Chance::never(), either<true>));
        return out;
    }
    Wide largest() const { return largest_.p(); }
    // Rounded up: a sum of 2^64 numbers in pairs takes less than 128 steps from a number to the sum.
    Wide sum() const { return sum_.total(Wide(), plus) * Wide::of(1.0 + 256.0 * kUnit); }

  private:
    static Wide plus(const Wide &a, const Wide &b) { return a + b; }

    std::vector<uint8_t> taken_;
    Chance largest_;
    Pairwise<Wide> sum_;
    Pairwise<Chance> independent_, disjoint_;
};

struct Interval {
    double log_lower = -std::numeric_limits<double>::infinity(), log_upper = 0.0;
    double log_complement_lower = -std::numeric_limits<double>::infinity(), log_complement_upper = 0.0;
    bool unate = false, pairs = false;  // unate: no variable with both signs; pairs: second-order bounds were used
};

// Second-order sums: with q(i) = p(i) / scale, S1 = sum q(i), S2 = sum over pairs of P(i and j) / scale, and the bounds
// of Dawson and Sankoff (1967), de Caen (1997) below, Kounias (1968) above. Pairs without a common variable are
// counted in closed form; `budget` limits the work on the others.
class PairBounds {
  public:
    // `prob` the clauses' probabilities; false if the pairs cost more than the budget. Throws Stopped.
    bool run(const Formula &f, const std::vector<Chance> &prob, const Wide &scale, int64_t budget, Pace &pace) {
        const int64_t m = f.num_clauses;
        if (!index(f, budget, pace)) return false;
        std::vector<int64_t> seen(m, -1);
        std::vector<double> plain(m), scaled(m);
        int64_t widest = 0;
        for (int64_t c = 0; c < m; ++c) widest = std::max(widest, f.indptr[c + 1] - f.indptr[c]);
        // No sum below has more than 2 m terms, no term more than 2 w factors and ten other operations. What a
        // difference may have lost is this part of what was added up before.
        const double rounding = 4.0 * kUnit * static_cast<double>(2 * m + 2 * widest + 16);
        double total = 0.0, s1 = 0.0, s2 = 0.0, s2_gross = 0.0, caen = 0.0, kounias = 0.0;
        for (int64_t c = 0; c < m; ++c) {
            plain[c] = prob[c].p().value();
            const Wide inverse{1.0 / scale.m, -scale.e};
            scaled[c] = (prob[c].p() * inverse).value();
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
            kounias = std::max(kounias, meets - rounding * gross);
            if (scaled[c] > 0.0) caen += scaled[c] * scaled[c] / (scaled[c] + meets + rounding * gross);
        }
        s2 += rounding * s2_gross;
        const double k = 1.0 + std::floor(std::min(2.0 * s2 / s1, 1e15));
        const double sankoff = 2.0 * s1 / (k + 1.0) - 2.0 * s2 / (k * (k + 1.0)) - rounding * s1;
        lower = scale * Wide::of(std::max({caen * (1.0 - rounding), sankoff, 0.0}));
        upper = scale * Wide::of(std::max(s1 * (1.0 + rounding) - kounias, 0.0) * (1.0 + rounding));
        return true;
    }
    Wide lower, upper;

  private:
    // P(clause `other` | the literals in `value`): the product of what it adds, 0 on contradiction.
    static double rest_of(const Formula &f, int64_t other, const std::vector<int32_t> &value) {
        double rest = 1.0;
        for (int64_t i = f.indptr[other]; i < f.indptr[other + 1]; ++i) {
            const int32_t lit = f.literals[i], known = value[lit >> 1];
            if (known < 0)
                rest *= f.literal_prob(lit);
            else if (known != lit)
                return 0.0;
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

// The greedy choice of disjoint clauses, from the likeliest down. At the deadline it throws Stopped, and
// what was chosen until then is a valid choice.
inline void choose_disjoint(const Formula &f, const std::vector<Chance> &prob, IntervalSums &sums, Pace &pace) {
    constexpr int64_t AHEAD = 8;
    std::vector<double> log_prob(f.num_clauses);
    for (int64_t c = 0; c < f.num_clauses; ++c) {
        log_prob[c] = prob[c].p().log();
        pace.check(4);
    }
    const auto order = FallingOrder(log_prob, *std::max_element(log_prob.begin(), log_prob.end())).clauses;
    for (int64_t i = 0; i < f.num_clauses; ++i) {
        const int32_t c = order[i];
        pace.check(8);
        if (i + AHEAD < f.num_clauses) __builtin_prefetch(f.literals + f.indptr[order[i + AHEAD]]);
        const int32_t *const first = f.literals + f.indptr[c], *const last = f.literals + f.indptr[c + 1];
        sums.choose(Bounds::about(prob[c], product_units(last - first)), first, last, [](int32_t v) { return v; });
    }
}

// Bounds that hold surely: widened by what rounding can add up to. The formula has no empty clause. The first pass
// runs to its end unless `signals` (Ctrl-C) stops it, so that there is a bound to return; the others end with `poll`,
// which is told of the deadline too.
inline Interval certified_bounds(const Formula &f, int64_t pair_budget, Poll &signals, Poll &poll) {
    Interval out;
    if (f.num_clauses == 0) {
        out.log_upper = -std::numeric_limits<double>::infinity();
        out.log_complement_lower = 0.0;
        return out;
    }
    Pace pace(signals);
    std::vector<Chance> prob(f.num_clauses);
    std::vector<uint8_t> signs(f.num_vars, 0);
    IntervalSums sums;
    sums.reset(f.num_vars);
    for (int64_t c = 0; c < f.num_clauses; ++c) {
        for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) signs[f.literals[i] >> 1] |= 1 + (f.literals[i] & 1);
        prob[c] = product(f.literals + f.indptr[c], f.literals + f.indptr[c + 1],
                          [&f](int32_t lit) { return f.literal_prob(lit); });
        sums.add(Bounds::about(prob[c], product_units(f.indptr[c + 1] - f.indptr[c])));
        pace.check(f.indptr[c + 1] - f.indptr[c]);
    }
    out.unate = std::find(signs.begin(), signs.end(), 3) == signs.end();
    PairBounds pairs;
    try {
        Pace rest(poll);
        rest.check(f.size());
        choose_disjoint(f, prob, sums, rest);
        // Where the sum is large pairs add nothing to the greedy bound and the union bound.
        out.pairs = pair_budget > 0 && sums.sum() < Wide::of(2.0) && !sums.largest().zero() &&
                    pairs.run(f, prob, sums.largest(), pair_budget, rest);
    } catch (const Stopped &) {}
    Chance lower = sums.lower(), upper = sums.upper(out.unate);
    if (out.pairs) {
        const auto chance = [](const Wide &p) { return Chance::of(p, Wide::of(p.complement())); };
        // Below a half a Chance keeps p, so the rounding of 1 - p does not matter; above it 1 - p is exact.
        lower = std::max(lower, chance(pairs.lower));
        upper = std::min(upper, chance(pairs.upper));
    }
    out.log_lower = lower.log_p<false>(), out.log_upper = upper.log_p<true>();
    out.log_complement_lower = upper.log_q<false>(), out.log_complement_upper = lower.log_q<true>();
    return out;
}

}  // namespace sharpdnf
