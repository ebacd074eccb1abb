// What Python calls for groups of independent rows: the probability that at least so many of them exist.
#include "tails.hpp"

#include <nanobind/stl/pair.h>

#include <tuple>

#include "results.hpp"

namespace sharpdnf {

// The number of groups; an error unless group g is start[g] .. start[g + 1] of so many entries.
static int64_t check_groups(const In<int64_t> &indptr, std::size_t entries) {
    const int64_t groups = static_cast<int64_t>(indptr.shape(0)) - 1, *start = indptr.data();
    if (groups < 0 || start[0] != 0 || start[groups] != static_cast<int64_t>(entries) ||
        !std::is_sorted(start, start + groups + 1))
        throw std::invalid_argument("indptr must span the entries");
    return groups;
}

static void check_rows(const In<int32_t> &rows, int64_t known) {
    for (std::size_t i = 0; i < rows.shape(0); ++i)
        if (rows.data()[i] < 0 || rows.data()[i] >= known) throw std::invalid_argument("a row beyond the known rows");
}

using Ends = std::pair<Out<double>, Out<double>>;

// `events(g, out)` writes the probabilities of group g's events.
template <class Events> static Ends run(const In<int64_t> &needed, const int64_t *start, Events events) {
    const auto groups = static_cast<int64_t>(needed.shape(0));
    int64_t widest = 0;
    for (int64_t g = 0; g < groups; ++g) {
        const int64_t size = start[g + 1] - start[g];
        if (needed.data()[g] < 1 || needed.data()[g] > size)
            throw std::invalid_argument("a group needs between one and all of its events");
        widest = std::max(widest, size);
    }
    std::vector<double> more(groups), fewer(groups), prob(widest);
    std::vector<double> now(tail_memory(widest)), next(tail_memory(widest));
    interruptible([&](Poll &poll) {
        Pace pace(poll);
        for (int64_t g = 0; g < groups; ++g) {
            events(g, prob.data());
            std::tie(more[g], fewer[g]) =
                tails(prob.data(), start[g + 1] - start[g], needed.data()[g], now.data(), next.data(), pace);
        }
    });
    return {to_numpy(std::move(more)), to_numpy(std::move(fewer))};
}

void bind_tails(nb::module_ &m) {
    m.def(
        "at_least",
        [](In<int64_t> needed, In<int64_t> indptr, In<int32_t> rows, In<double> prob) {
            if (check_groups(indptr, rows.shape(0)) != static_cast<int64_t>(needed.shape(0)))
                throw std::invalid_argument("one number needed a group");
            check_rows(rows, static_cast<int64_t>(prob.shape(0)));
            const int64_t *start = indptr.data();
            return run(needed, start, [&](int64_t g, double *out) {
                for (int64_t i = start[g]; i < start[g + 1]; ++i) *out++ = prob.data()[rows.data()[i]];
            });
        },
        nb::arg("needed"), nb::arg("indptr"), nb::arg("rows"), nb::arg("prob"),
        "P(at least so many of the independent events of each group), and 1 minus it; event i has prob[rows[i]].");
    m.def(
        "repeats",
        [](In<int64_t> indptr, In<int32_t> rows, int64_t known) {
            const int64_t groups = check_groups(indptr, rows.shape(0)), *start = indptr.data();
            check_rows(rows, known);
            bool found = false;
            interruptible([&](Poll &poll) {
                Pace pace(poll);
                std::vector<int32_t> last(known, -1);  // the group that had each row last
                for (int64_t g = 0; g < groups && !found; ++g) {
                    pace.check(start[g + 1] - start[g]);
                    for (int64_t i = start[g]; i < start[g + 1]; ++i) {
                        int32_t &group = last[rows.data()[i]];
                        found |= group == g;
                        group = static_cast<int32_t>(g);
                    }
                }
            });
            return found;
        },
        nb::arg("indptr"), nb::arg("rows"), nb::arg("known"), "Whether a row stands twice in one group.");
}

}  // namespace sharpdnf
