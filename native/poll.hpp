// How a kernel hears of the deadline and of Ctrl-C: it asks `stop()` often, which looks at the clock rarely.
#pragma once
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>

class Poll {
  public:
    using Clock = std::chrono::steady_clock;

    // A deadline decades away is none: the clock's integers could not hold it. `interrupted` runs on the calling thread at most every 20 ms and says whether to give up (a signal came).
    Poll(double seconds, std::function<bool()> interrupted)
        : has_deadline_(seconds < 1e9), interrupted_(std::move(interrupted)), last_(Clock::now()) {
        if (has_deadline_) deadline_ = last_ + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(seconds < 0 ? 0 : seconds));
    }

    // For a helper thread: the same deadline, no signals, and it stops when its parent does.
    explicit Poll(const Poll &parent, int) : has_deadline_(parent.has_deadline_), deadline_(parent.deadline_), last_(Clock::now()), parent_(&parent) {}

    // For the calling thread: looks at the clock, and asks for signals when 20 ms have passed.
    bool look() {
        const auto now = Clock::now();
        if (has_deadline_ && now >= deadline_) stopped_.store(true, std::memory_order_relaxed);
        if (now - last_ > std::chrono::milliseconds(20)) {
            last_ = now;
            if (interrupted_ && interrupted_()) stopped_.store(true, std::memory_order_relaxed);
        }
        return stopped();
    }
    // For any thread.
    bool stopped() const {
        return stopped_.load(std::memory_order_relaxed) || (parent_ && parent_->stopped());
    }

  private:
    bool has_deadline_;
    Clock::time_point deadline_{};
    std::function<bool()> interrupted_;
    Clock::time_point last_;
    const Poll *parent_ = nullptr;
    std::atomic<bool> stopped_{false};
};
