// Rounds of sampling: blocks of 512 draws shared out among threads, counted in their order.
//
// The promise is "same seed, same answer, whatever the number of threads". Three rules keep it. A block's draws depend
// on the seed and the block's number alone, so it does not matter who runs it. How many blocks a round has follows from
// the draws counted so far, not from the clock or the threads. And draws are counted block after block, lane after
// lane, up to the success that ends the run: what threads have drawn beyond it is dropped. Counting it would also spoil
// the stopping rule, whose proof is about the draw at which the last success came.
#pragma once
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>

#include "poll.hpp"
#include "random.hpp"
#include "threads.hpp"

namespace sharpdnf {

// How many blocks are still needed for so many successes or draws, if successes go on to come as they did.
inline double blocks_needed(int64_t draws, int64_t successes, int64_t wanted, int64_t max_draws) {
    const double rate = (successes + 0.5) / (draws + 1.0);
    const double left = std::min(std::max(1.0, (wanted - successes) / rate), static_cast<double>(max_draws - draws));
    return std::ceil(left / LANES);
}

// Runs run(thread, b, poll) for b = 0 .. blocks - 1 here and on so many helpers, whoever is free. False if some block
// did not come to its end: then the round has a gap and must not be counted.
template <class Run> bool run_round(int64_t blocks, int helpers, Poll &poll, const Run &run) {
    std::atomic<int64_t> next{0};
    std::atomic<bool> gap{false};
    run_on_threads(helpers, [&](int t) {
        Poll helper(poll, 0);
        Poll &own = t == 0 ? poll : helper;
        for (int64_t b; (b = next.fetch_add(1)) < blocks;)
            if (own.look() || !run(t, b, own)) {
                gap.store(true);
                return;
            }
    });
    return !gap.load();
}

// Counts the draws of one block in their order until there are `wanted` successes or `max_draws` draws: then the run is
// complete and the rest of the block is dropped. Words of 64 draws that cannot end the run are counted at once.
template <class Flag>
void tally(const LaneWord &success, int64_t wanted, int64_t max_draws, int64_t &draws, int64_t &successes,
           Flag &complete) {
    for (int w = 0; w < WORDS && !complete; ++w) {
        const int64_t ones = __builtin_popcountll(success.word()[w]);
        if (successes + ones < wanted && draws + 64 <= max_draws) {
            successes += ones;
            draws += 64;
            complete = draws == max_draws;
            continue;
        }
        for (int bit = 0; bit < 64 && !complete; ++bit) {
            ++draws;
            successes += (success.word()[w] >> bit) & 1;
            complete = successes >= wanted || draws == max_draws;
        }
    }
}

}  // namespace sharpdnf
