// Helper threads that may fail to start and never let an exception out.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "poll.hpp"

namespace sharpdnf {

// Runs work(0) here and work(1) .. work(helpers) on threads of their own: as many as the system lets start, so the
// work must be shared out as it is taken, not beforehand. When all have ended, the first exception is thrown here.
template <class Work> void run_on_threads(int helpers, const Work &work) {
    std::exception_ptr error;
    std::mutex mutex;
    const auto guarded = [&](int t) noexcept {
        try {
            work(t);
        } catch (...) {
            const std::lock_guard<std::mutex> lock(mutex);
            if (!error) error = std::current_exception();
        }
    };
    std::vector<std::thread> pool;
    try {
        for (int t = 1; t <= helpers; ++t) pool.emplace_back(guarded, t);
    } catch (const std::system_error &) {  // the system starts no more threads: those that run do all the work
    } catch (const std::bad_alloc &) {}
    guarded(0);
    for (auto &thread : pool) thread.join();
    if (error) std::rethrow_exception(error);
}

// Blocks 0, 1, 2, ... of random work, `places` of them at a time on some threads, tallied in their order: so the answer
// is that of one thread. work(thread, place, block, poll) says whether it came to its end, tally(place) whether that is
// enough. Returns when it is, or when a block did not end.
template <class Work, class Tally>
void in_order(int threads, int places, const Work &work, const Tally &tally, Poll &poll) {
    std::vector<char> done(places);
    for (uint64_t first = 0;; first += static_cast<uint64_t>(places)) {
        if (poll.look()) return;  // a block may be too short to look at the clock by itself
        std::atomic<int> taken{0};
        std::fill(done.begin(), done.end(), 0);
        run_on_threads(threads - 1, [&](int t) {
            Poll helper(poll, 0);
            Poll &own = t == 0 ? poll : helper;
            for (int place; (place = taken++) < places;)
                done[place] = work(t, place, first + static_cast<uint64_t>(place), own);
        });
        for (int place = 0; place < places; ++place)
            if (!done[place] || tally(place)) return;
    }
}

}  // namespace sharpdnf
