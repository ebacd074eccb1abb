// What Python calls to count the worlds in which each variable is pivotal.
#include "pivot.hpp"

#include "results.hpp"

namespace sharpdnf {

void bind_pivot(nb::module_ &m) {
    Result<PivotCounts>(m, "PivotCounts", "In how many of the worlds drawn each variable decides the formula.")
        .field("worlds", &PivotCounts::worlds)
        .field("operations", &PivotCounts::operations)
        .field("log_scale", &PivotCounts::log_scale, "log S where worlds are drawn inside clauses, else 0.")
        .field("up", &PivotCounts::up, "Per variable: the worlds in which setting it makes the formula true.")
        .field("down", &PivotCounts::down, "Per variable: the worlds in which setting it makes the formula false.");
    m.def(
        "count_pivots",
        [](In<int64_t> indptr, In<int32_t> literals, In<double> prob, uint64_t seed, uint64_t first, int64_t blocks,
           bool coverage, double seconds) {
            const Formula f = view(indptr, literals, prob);
            if (f.num_clauses < 1 || blocks < 0) throw std::invalid_argument("count_pivots: no clause or no block");
            PivotCounts out;
            if (!interruptible([&](Poll &poll) { out = count_pivots(f, seed, first, blocks, coverage, poll); },
                               seconds))
                out.up.resize(f.num_vars), out.down.resize(f.num_vars);
            return out;
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("seed"), nb::arg("first"), nb::arg("blocks"),
        nb::arg("coverage"), nb::arg("seconds"),
        "Draws blocks of worlds, from block `first` on, and counts the pivotal variables of each.");
}

}  // namespace sharpdnf
