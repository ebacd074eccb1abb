// An approximation: K variables are conditioned on, and clauses count as independent in each of the 2^K cases.
//
//   P ~ sum over cases x of P(x) * (1 - prod over clauses C compatible with x of (1 - p(C | x))).
// A clause asks of each conditioned variable nothing, true or false: one of 3^K patterns. log(1 - p(C | x)) is the
// same in all compatible cases, so it is added to the clause's pattern once, and one zeta transform, variable by
// variable, gives the sums of all 2^K cases at a cost that does not depend on the formula.
#pragma once
#include <cmath>
#include <limits>
#include <numeric>

#include "formula.hpp"
#include "wide.hpp"

namespace sharpdnf {

// The k variables with the largest summed probability of their clauses.
inline std::vector<int32_t> influential_variables(const Formula &f, const std::vector<double> &prob, int k,
                                                  Pace &pace) {
    std::vector<double> score(f.num_vars, 0.0);
    for (int64_t c = 0; c < f.num_clauses; ++c) {
        for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) score[f.literals[i] >> 1] += prob[c];
        pace.check(f.indptr[c + 1] - f.indptr[c]);
    }
    std::vector<int32_t> best(f.num_vars);
    std::iota(best.begin(), best.end(), 0);
    k = static_cast<int>(std::min<int64_t>(k, f.num_vars));
    const auto above = [&](int32_t a, int32_t b) { return score[a] != score[b] ? score[a] > score[b] : a < b; };
    std::nth_element(best.begin(), best.begin() + k, best.end(), above);
    best.resize(k);
    std::sort(best.begin(), best.end(), above);
    return best;
}

// Sums of all 2^k cases from the 3^k patterns. Axis j of (nothing, true, false) becomes (true, false), from the last
// axis to the first; the layout is [cases of later axes][3 of axis j][3^j patterns of earlier ones].
template <class T> std::vector<T> sum_cases(std::vector<T> cells, int k) {
    int64_t head = 1;
    for (int j = 1; j < k; ++j) head *= 3;
    for (int j = k - 1; j >= 0; --j, head /= 3) {
        const int64_t tail = int64_t{1} << (k - 1 - j);
        std::vector<T> next(tail * 2 * head);
        for (int64_t t = 0; t < tail; ++t)
            for (int64_t h = 0; h < head; ++h) {
                const T *axis = &cells[(t * 3) * head + h];
                next[(t * 2) * head + h] = axis[0] + axis[head];
                next[(t * 2 + 1) * head + h] = axis[0] + axis[2 * head];
            }
        cells.swap(next);
    }
    return cells;
}

// log of the approximation. Throws Stopped when the poll says so.
inline double conditioned(const Formula &f, int k, Poll &poll) {
    Pace pace(poll);
    const int64_t m = f.num_clauses;
    std::vector<double> prob(m);
    clause_log_probs(f, prob.data(), pace);
    const auto [least, most] = std::minmax_element(prob.begin(), prob.end());
    const double log_max = *most;
    if (log_max == -std::numeric_limits<double>::infinity()) return log_max;
    // Clauses this unlikely vanish beside 1 in a sum of log(1 - p), though what they are conditioned on may be as
    // unlikely as they are: then the p themselves are summed too, with a wider exponent.
    const bool tiny = *least < -600.0;
    for (auto &p : prob) p = std::exp(p - log_max);  // relative to the largest, so that scores do not underflow
    const auto chosen = influential_variables(f, prob, k, pace);
    k = static_cast<int>(chosen.size());

    std::vector<int8_t> slot(f.num_vars, -1);
    std::vector<int64_t> power(k + 1, 1);
    for (int j = 0; j < k; ++j) slot[chosen[j]] = static_cast<int8_t>(j), power[j + 1] = 3 * power[j];
    std::vector<double> log_misses(power[k], 0.0);
    std::vector<Wide> sums(tiny ? power[k] : 0);
    const double unit = std::exp(log_max);
    for (int64_t c = 0; c < m; ++c) {
        int64_t pattern = 0;
        double asked = 1.0;
        Wide others = Wide::of(1.0);
        for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) {
            const int j = slot[f.literals[i] >> 1];
            if (j >= 0)
                pattern += power[j] * (1 + (f.literals[i] & 1)), asked *= f.literal_prob(f.literals[i]);
            else if (tiny)
                others = others * f.literal_prob(f.literals[i]);
        }
        pace.check(f.indptr[c + 1] - f.indptr[c]);
        const double rest = tiny ? others.value() : prob[c] * unit / asked;
        log_misses[pattern] += std::log1p(-std::min(1.0, rest));
        if (tiny) sums[pattern] = sums[pattern] + others;
    }
    const auto log_miss = sum_cases(std::move(log_misses), k);
    const auto sum = tiny ? sum_cases(std::move(sums), k) : std::vector<Wide>();
    Wide total;
    for (std::size_t x = 0; x < log_miss.size(); ++x) {
        Wide weight = Wide::of(1.0);
        for (int j = 0; j < k; ++j) weight = weight * (x >> j & 1 ? 1.0 - f.prob[chosen[j]] : f.prob[chosen[j]]);
        // Where the sum is this small 1 - prod(1 - p) is the sum to the last bit.
        total = total + weight * (tiny && sum[x] < Wide::of(1e-16) ? sum[x] : Wide::of(-std::expm1(log_miss[x])));
    }
    return std::min(0.0, total.log());
}

}  // namespace sharpdnf
