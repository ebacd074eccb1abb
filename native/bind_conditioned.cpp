#include "arrays.hpp"
#include "conditioned.hpp"

void bind_conditioned(nb::module_ &m) {
    m.def(
        "conditioned",
        [](In<int64_t> indptr, In<int32_t> literals, In<double> prob, int variables) {
            const Formula f = view(indptr, literals, prob);
            if (f.num_clauses < 1 || variables < 0 || variables > 12) throw std::invalid_argument("conditioned: bad arguments");
            nb::gil_scoped_release release;
            return conditioned(f, variables);
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("variables"));
}
