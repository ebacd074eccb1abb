#include <nanobind/stl/tuple.h>

#include <tuple>

#include "arrays.hpp"
#include "klm.hpp"

namespace sharpdnf {

void bind_klm(nb::module_ &m) {
    m.def(
        "klm",
        [](In<int64_t> indptr, In<int32_t> literals, In<double> prob, int64_t trials, uint64_t seed, double seconds) {
            const Formula f = view(indptr, literals, prob);
            if (f.num_clauses < 1) throw std::invalid_argument("no clauses to sample");
            KlmResult result;
            interruptible([&](Poll &poll) { result = klm(f, trials, seed, poll); }, seconds);
            return std::make_tuple(result.trials, result.accepted, result.log_sum, result.complete);
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("trials"), nb::arg("seed"), nb::arg("seconds"),
        "(trials made, accepted, log S, complete)");
}

}  // namespace sharpdnf
