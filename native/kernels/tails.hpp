// P(at least k of n independent events), for many groups of events at once.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "formula.hpp"
#include "poll.hpp"

namespace sharpdnf {

constexpr int64_t kTailPad = 8;  // entries are computed by eights, which the compiler makes vectors of

// How much memory `tails` needs for groups of so many events, twice.
inline int64_t tail_memory(int64_t widest) { return widest / 2 + 2 + 2 * kTailPad; }

// Two more events: next[j] is the chance of j events after them, given those before in `now`. Two entries before the
// first are 0. `size` is a multiple of kTailPad: what stands behind the entries of interest never comes back to them.
SHARPDNF_INLINE void two_more(const double *__restrict now, double *__restrict next, int64_t size, double none,
                              double one, double both) {
    for (int64_t j = 0; j < size; ++j) next[j] = now[j] * none + now[j - 1] * one + now[j - 2] * both;
}

// {P(at least `needed` of the events), 1 minus it}, where 1 <= needed <= size. The number of events is carried up to
// the smaller of `needed` and the number of failures that are too many. Both results are sums of what is positive, so
// neither loses digits. `now` and `next` have `tail_memory` entries each.
SHARPDNF_CLONES inline std::pair<double, double> tails(const double *prob, int64_t size, int64_t needed, double *now,
                                                       double *next, Pace &pace) {
    const bool turned = needed > (size + 1) / 2;  // at least k of n are true iff at most n - k are false
    const int64_t cut = turned ? size - needed + 1 : needed;
    const int64_t wide = (cut + kTailPad - 1) / kTailPad * kTailPad;
    std::fill(now, now + wide + 2, 0.0);
    std::fill(next, next + wide + 2, 0.0);
    now += 2, next += 2;
    now[0] = 1.0;
    double reached = 0.0;
    for (int64_t i = 0; i < size; i += 2) {
        pace.check(2 * cut);
        const bool last = i + 1 == size;  // then the second event is one that never happens
        const double x = prob[i], y = last ? (turned ? 1.0 : 0.0) : prob[i + 1];
        const double p = turned ? 1.0 - x : x, q = turned ? x : 1.0 - x;
        const double r = turned ? 1.0 - y : y, s = turned ? y : 1.0 - y;
        const double one = p * s + q * r, both = p * r;
        reached += now[cut - 1] * (one + both) + now[cut - 2] * both;
        two_more(now, next, std::min((i + 2 + kTailPad) / kTailPad * kTailPad, wide), q * s, one, both);
        std::swap(now, next);
    }
    double below = 0.0;
    for (int64_t j = 0; j < cut; ++j) below += now[j];
    reached = std::min(reached, 1.0), below = std::min(below, 1.0);
    return turned ? std::pair(below, reached) : std::pair(reached, below);
}

}  // namespace sharpdnf
