// How a kernel hears of the deadline and of Ctrl-C: it asks `stop()` often, which looks at the clock rarely.
#pragma once
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>

namespace sharpdnf {

class Poll {
  public:
    using Clock = std::chrono::steady_clock;

    // A deadline decades away counts as no deadline, because the clock's integers could not hold it. `interrupted` runs
    // on the calling thread at most every 20 ms and says whether to give up (a signal came).
    Poll(double seconds, std::function<bool()> interrupted)
        : has_deadline_(seconds < 1e9), interrupted_(std::move(interrupted)), last_(Clock::now()) {
        if (has_deadline_)
            deadline_ = last_ + std::chrono::duration_cast<Clock::duration>(
                                    std::chrono::duration<double>(seconds < 0 ? 0 : seconds));
    }

    // For a helper thread: the same deadline, no signals, and it stops when its parent does.
    explicit Poll(const Poll &parent, int)
        : has_deadline_(parent.has_deadline_), deadline_(parent.deadline_), last_(Clock::now()), parent_(&parent) {}

    // For the calling thread: looks at the clock, and asks for signals when 20 ms have passed.
    bool look() {
        const auto now = Clock::now();
        if (has_deadline_ && now >= deadline_) stopped_.store(true, std::memory_order_relaxed);
        if (now - last_ > std::chrono::milliseconds(20)) {
            last_ = now;
            if (interrupted_ && interrupted_()) abandoned_.store(true), stopped_.store(true, std::memory_order_relaxed);
        }
        return stopped();
    }
    // For any thread.
    bool stopped() const { return stopped_.load(std::memory_order_relaxed) || (parent_ && parent_->stopped()); }
    // Whether a signal stopped it and not the deadline: then an exception follows, and no answer is read.
    bool abandoned() const { return abandoned_.load(std::memory_order_relaxed) || (parent_ && parent_->abandoned()); }

  private:
    bool has_deadline_;
    Clock::time_point deadline_{};
    std::function<bool()> interrupted_;
    Clock::time_point last_;
    const Poll *parent_ = nullptr;
    std::atomic<bool> stopped_{false}, abandoned_{false};
};

// Thrown by a pass that is told to stop and has nothing to return that is of use by itself.
struct Stopped {};

// For a long pass: told of the work done (literals touched), it looks at the poll every so many of them.
class Pace {
  public:
    explicit Pace(Poll &poll) : poll_(poll) {}
    bool stop(int64_t work) {
        if ((left_ -= work) > 0) return false;
        left_ = kStride;
        return poll_.look();
    }
    void check(int64_t work) {
        if (stop(work)) throw Stopped{};
    }

  private:
    static constexpr int64_t kStride = 1 << 16;  // about a millisecond
    Poll &poll_;
    int64_t left_ = kStride;
};

}  // namespace sharpdnf
