// Helper threads that may fail to start and never let an exception out.
#pragma once
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

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
    } catch (const std::system_error &) {  // no more threads: those that run do the work
    } catch (const std::bad_alloc &) {
    }
    guarded(0);
    for (auto &thread : pool) thread.join();
    if (error) std::rethrow_exception(error);
}
