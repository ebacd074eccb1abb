// Pivotal variables in drawn worlds: those that the truth of the formula hangs on there.
//
// Variable v is pivotal in a world if the formula changes its truth with v: up if it is
// true exactly for v = 1, down if exactly for v = 0. P(up) - P(down) is the influence of v, and neither depends on the
// value that v has in the world.
#pragma once
#include <cstdint>
#include <vector>

#include "formula.hpp"

namespace sharpdnf {

struct PivotCounts {
    int64_t worlds = 0, operations = 0;
    double log_scale = 0.0;         // coverage: log S, S the sum of the clauses' probabilities; else 0
    std::vector<int64_t> up, down;  // in how many worlds each variable is pivotal
};

// Runs blocks [first, first + blocks) of 512 worlds of the stream `seed`, as many as the poll allows, whole blocks
// only. Plain: worlds as the variables are, so up / worlds estimates P(up). Coverage: a clause in proportion to its
// probability, then a world in which it holds; a world counts only if no clause before the drawn one holds, and then
// p_v P(up) / S = E[up] / worlds and (1 - p_v) P(down) / S = E[down] / worlds: for formulas that are seldom true.
PivotCounts count_pivots(const Formula &f, uint64_t seed, uint64_t first, int64_t blocks, bool coverage, Poll &poll);

}  // namespace sharpdnf
