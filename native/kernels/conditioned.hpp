// Conditioning on K variables, clauses independent in each of the 2^K cases:
//   P ~ sum over cases x of P(x) * (1 - prod over clauses C compatible with x of (1 - p(C | x))).
// A clause asks of each conditioned variable nothing, true or false: one of 3^K patterns. log(1 - p(C | x)) is the
// same in all compatible cases, so it is added to the clause's pattern once, and one zeta transform, variable by
// variable, gives the sums of all 2^K cases at a cost that does not depend on the formula.
#pragma once
#include <cmath>
#include <numeric>

#include "formula.hpp"

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

// log of the approximation. Throws Stopped when the poll says so.
inline double conditioned(const Formula &f, int k, Poll &poll) {
    Pace pace(poll);
    const int64_t m = f.num_clauses;
    std::vector<double> prob(m);
    clause_log_probs(f, prob.data(), pace);
    const double log_max = *std::max_element(prob.begin(), prob.end());
    for (auto &p : prob) p = std::exp(p - log_max);  // relative: scores and tiny answers do not underflow
    const auto chosen = influential_variables(f, prob, k, pace);
    k = static_cast<int>(chosen.size());

    std::vector<int8_t> slot(f.num_vars, -1);
    std::vector<int64_t> power(k + 1, 1);
    for (int j = 0; j < k; ++j) slot[chosen[j]] = static_cast<int8_t>(j), power[j + 1] = 3 * power[j];
    std::vector<double> cell(power[k], 0.0);
    // Where every clause is this unlikely, 1 - prod(1 - p) is the sum of the p to the last bit.
    const bool linear = log_max < -600.0;
    const double shift = linear ? log_max : 0.0;
    const double unit = linear ? 1.0 : std::exp(log_max);
    for (int64_t c = 0; c < m; ++c) {
        int64_t pattern = 0;
        double asked = 1.0;
        for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) {
            const int j = slot[f.literals[i] >> 1];
            if (j < 0) continue;
            pattern += power[j] * (1 + (f.literals[i] & 1));
            asked *= f.literal_prob(f.literals[i]);
        }
        pace.check(f.indptr[c + 1] - f.indptr[c]);
        const double rest = asked > 0.0 ? prob[c] * unit / asked : 0.0;
        cell[pattern] += linear ? rest : std::log1p(-std::min(1.0, rest));
    }
    // Zeta transform: axis j of (nothing, true, false) becomes (true, false), in place from the last axis to the first.
    std::vector<double> cases = std::move(cell);
    std::vector<double> weight{1.0};
    for (int j = k - 1; j >= 0; --j) {
        // layout: [tail of 2^(k-1-j) cases][3 of axis j][3^j]
        const int64_t tail = int64_t{1} << (k - 1 - j), head = power[j];
        std::vector<double> next(tail * 2 * head);
        for (int64_t t = 0; t < tail; ++t)
            for (int64_t h = 0; h < head; ++h) {
                const double *axis = &cases[(t * 3) * head + h];
                next[(t * 2) * head + h] = axis[0] + axis[head];
                next[(t * 2 + 1) * head + h] = axis[0] + axis[2 * head];
            }
        cases.swap(next);
        std::vector<double> wider;
        for (double w : weight) wider.push_back(w * f.prob[chosen[j]]), wider.push_back(w * (1.0 - f.prob[chosen[j]]));
        weight.swap(wider);
    }
    double total = 0.0;
    for (size_t x = 0; x < weight.size(); ++x) total += weight[x] * (linear ? cases[x] : -std::expm1(cases[x]));
    return std::min(0.0, shift + std::log(total));
}
