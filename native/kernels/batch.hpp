// Thousands of formulas over one variable space, counted in parallel: what `auto` does, without leaving native code.
#pragma once
#include <atomic>

#include "auto.hpp"
#include "threads.hpp"

namespace sharpdnf {

// Formula i is clauses formula_indptr[i] .. formula_indptr[i+1] of `all`; its draws depend on
// the seed and numbers[i] alone. `details`, if given, gets the whole answers.
inline std::vector<Row> count_batch(const Formula &all, const int64_t *formula_indptr, uint64_t seed,
                                    const int64_t *numbers, int64_t num_formulas, const Ask &ask, int threads,
                                    Poll &poll, std::vector<Answer> *details) {
    std::vector<Row> rows(num_formulas);
    if (details) details->resize(num_formulas);
    const Auto chooser(ask);
    constexpr int64_t kTaken = 8;  // formulas a thread takes at a time
    // After the deadline formulas with this many literals together are still looked at closely, which takes a few
    // milliseconds; those after them get one pass over their literals.
    std::atomic<int64_t> grace{1 << 16};
    std::atomic<int64_t> next{0};
    std::atomic<bool> failed{false};
    const int crew = static_cast<int>(std::min<int64_t>(std::max(1, threads), std::max<int64_t>(1, num_formulas / 16)));
    const int each = std::max(1, threads / crew);  // where formulas are few, threads share the draws of one
    const auto work = [&](int t) {
        Poll helper(poll, 0);
        Poll &own = t == 0 ? poll : helper;
        std::vector<int64_t> indptr;
        try {
            Hierarchy hierarchy(all.num_vars);
            // The clock costs as much as a small formula: it is looked at after some literals, and after every formula
            // that took more than a pass over them.
            constexpr int64_t kLook = 256;
            int64_t unwatched = kLook;
            const auto one = [&](int64_t i, bool late) {
                const int64_t first = formula_indptr[i], last = formula_indptr[i + 1], start = all.indptr[first];
                const int64_t size = all.indptr[last] - start;
                indptr.resize(last - first + 1);
                for (int64_t c = first; c <= last; ++c) indptr[c - first] = all.indptr[c] - start;
                const bool sparing = late && num_formulas > 1 && grace.fetch_sub(size) < size;
                uint64_t state = seed + static_cast<uint64_t>(numbers[i]) * 0x9e3779b97f4a7c15ULL;
                const Answer answer =
                    chooser.run({indptr.data(), all.literals + start, all.prob, last - first, all.num_vars},
                                splitmix64(state), numbers[i], each, own, hierarchy, sparing);
                rows[i] = Row(answer);
                unwatched += answer.method <= Method::simplify ? size + 8 : kLook;
                if (details) (*details)[i] = answer;
            };
            for (int64_t i; (i = next.fetch_add(kTaken)) < num_formulas;)
                for (const int64_t end = std::min(num_formulas, i + kTaken); i < end; ++i) {
                    if (unwatched >= kLook) unwatched = 0, own.look();
                    const bool late = own.stopped();
                    if (own.abandoned() || failed.load(std::memory_order_relaxed)) return;
                    one(i, late);
                }
        } catch (...) {
            failed.store(true);  // tells the other threads to end
            throw;
        }
    };
    run_on_threads(crew - 1, work);
    return rows;
}

}  // namespace sharpdnf
