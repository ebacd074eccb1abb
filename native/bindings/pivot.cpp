#include "pivot.hpp"

#include <nanobind/stl/tuple.h>

#include <tuple>

#include "arrays.hpp"

namespace sharpdnf {

void bind_pivot(nb::module_ &m) {
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
            return std::make_tuple(out.worlds, out.operations, out.log_scale, to_numpy(std::move(out.up)),
                                   to_numpy(std::move(out.down)));
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("seed"), nb::arg("first"), nb::arg("blocks"),
        nb::arg("coverage"), nb::arg("seconds"),
        "(worlds, operations, log S, worlds in which each variable is pivotal up, and down)");
}

}  // namespace sharpdnf
