// What Python calls of the approximation that conditions on a few variables.
#include "conditioned.hpp"
#include "arrays.hpp"

#include <nanobind/stl/optional.h>

namespace sharpdnf {

void bind_conditioned(nb::module_ &m) {
    m.def(
        "conditioned",
        [](In<int64_t> indptr, In<int32_t> literals, In<double> prob, int variables,
           double seconds) -> std::optional<double> {
            const Formula f = view(indptr, literals, prob);
            if (f.num_clauses < 1 || variables < 0 || variables > 12)
                throw std::invalid_argument(
                    "conditioned: the formula needs a clause, and variables must be from 0 to 12");
            double log_prob = 0.0;
            if (!interruptible([&](Poll &poll) { log_prob = conditioned(f, variables, poll); }, seconds)) return {};
            return log_prob;
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("variables"), nb::arg("seconds"),
        "log of the approximation, or None at the deadline");
}

}  // namespace sharpdnf
