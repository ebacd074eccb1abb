// The self-adjusting coverage algorithm of Karp, Luby and Madras (1989), as the Neural#DNF paper states it:
//   if there is no current assignment, draw clause i with probability p(C_i)/S and an assignment that satisfies it;
//   draw clause k uniformly: if the assignment satisfies it, ++N and forget the assignment;
// after tau trials return tau S / (m N). Variables get a value only when a clause reads them.
#pragma once
#include <cmath>
#include <numeric>

#include "formula.hpp"
#include "poll.hpp"
#include "random.hpp"

struct KlmResult {
    int64_t trials = 0, accepted = 0;
    double log_sum = 0.0;  // log S
    bool complete = false;
};

inline KlmResult klm(const Formula &f, int64_t trials, uint64_t seed, Poll &poll) {
    KlmResult out;
    const int64_t m = f.num_clauses;
    std::vector<double> cumulative(m);
    clause_log_probs(f, cumulative.data());
    const double log_max = *std::max_element(cumulative.begin(), cumulative.end());
    for (auto &x : cumulative) x = std::exp(x - log_max);
    std::partial_sum(cumulative.begin(), cumulative.end(), cumulative.begin());
    const double sum = cumulative.back();
    out.log_sum = log_max + std::log(sum);
    std::vector<int32_t> guide(m + 1);  // bucket -> first clause whose cumulative weight may exceed it
    for (int64_t bucket = 0, c = 0; bucket <= m; ++bucket) {
        while (c + 1 < m && cumulative[c] <= sum * static_cast<double>(bucket) / static_cast<double>(m)) ++c;
        guide[bucket] = static_cast<int32_t>(c);
    }

    Random random(seed);
    std::vector<uint32_t> state(f.num_vars, 0);  // 2 * epoch + value; an older epoch means not drawn yet
    uint32_t epoch = 0;
    const auto value = [&](int32_t v) -> uint32_t {
        if ((state[v] >> 1) != epoch) state[v] = 2 * epoch + (random.uniform() < f.prob[v]);
        return state[v] & 1;
    };
    const auto draw_assignment = [&] {
        if (++epoch == 0x7fffffff) {
            std::fill(state.begin(), state.end(), 0u);
            epoch = 1;
        }
        const double u = random.uniform();
        int64_t c = guide[static_cast<int64_t>(u * static_cast<double>(m))];
        while (c + 1 < m && cumulative[c] <= u * sum) ++c;
        for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i)
            state[f.literals[i] >> 1] = 2 * epoch + !(f.literals[i] & 1);
    };
    bool current = false;
    while (out.trials < trials) {
        if ((out.trials & 0xffff) == 0 && poll.look()) return out;
        if (!current) draw_assignment(), current = true;
        const auto k = static_cast<int64_t>(random.below(static_cast<uint64_t>(m)));
        bool satisfied = true;
        for (int64_t i = f.indptr[k]; satisfied && i < f.indptr[k + 1]; ++i)
            satisfied = value(f.literals[i] >> 1) != static_cast<uint32_t>(f.literals[i] & 1);
        ++out.trials;
        if (satisfied) ++out.accepted, current = false;
    }
    out.complete = true;
    return out;
}
