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
    struct Variable {
        double prob;
        uint64_t state;  // 2 * epoch + value; an older epoch means not drawn yet
    };
    std::vector<Variable> variables(f.num_vars);
    for (int64_t v = 0; v < f.num_vars; ++v) variables[v] = {f.prob[v], 0};
    uint64_t epoch = 0;
    const auto draw_assignment = [&] {
        ++epoch;
        const double u = random.uniform();
        int64_t c = guide[static_cast<int64_t>(u * static_cast<double>(m))];
        while (c + 1 < m && cumulative[c] <= u * sum) ++c;
        for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i)
            variables[f.literals[i] >> 1].state = 2 * epoch + !(f.literals[i] & 1);
    };
    // Whether a variable is drawn already is a coin toss to the branch predictor: a value is drawn either way and
    // kept only where there is none.
    const auto value = [&](int32_t v) -> uint64_t {
        Variable &x = variables[v];
        const uint64_t fresh = 2 * epoch + (random.uniform() < x.prob);
        x.state = (x.state >> 1) == epoch ? x.state : fresh;
        return x.state & 1;
    };
    // The clauses to check do not depend on the assignments: picked ahead, so that memory has time to answer.
    constexpr int AHEAD = 64;
    int64_t picks[AHEAD];
    bool current = false;
    while (out.trials < trials) {
        if (out.trials % (512 * AHEAD) == 0 && poll.look()) return out;
        const int batch = static_cast<int>(std::min<int64_t>(AHEAD, trials - out.trials));
        for (int j = 0; j < batch; ++j) {
            picks[j] = static_cast<int64_t>(random.below(static_cast<uint64_t>(m)));
            __builtin_prefetch(&f.indptr[picks[j]]);
        }
        for (int j = 0; j < batch; ++j) __builtin_prefetch(&f.literals[f.indptr[picks[j]]]);
        for (int j = 0; j < batch; ++j) {
            if (j + 4 < batch && f.indptr[picks[j + 4]] < f.indptr[picks[j + 4] + 1])
                __builtin_prefetch(&variables[f.literals[f.indptr[picks[j + 4]]] >> 1]);
            if (!current) draw_assignment(), current = true;
            bool satisfied = true;
            for (int64_t i = f.indptr[picks[j]]; satisfied && i < f.indptr[picks[j] + 1]; ++i)
                satisfied = value(f.literals[i] >> 1) != static_cast<uint64_t>(f.literals[i] & 1);
            out.accepted += satisfied;
            current = !satisfied;
        }
        out.trials += batch;
    }
    out.complete = true;
    return out;
}
