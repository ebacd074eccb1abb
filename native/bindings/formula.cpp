// What Python calls of a formula's arrays: the check of every index, the normal form, and clause probabilities.
#include "results.hpp"

#include <nanobind/stl/string.h>

#include <string>

namespace sharpdnf {

// "" if the arrays are a normal-form DNF, else what is wrong.
static std::string check_formula(In<int64_t> indptr, In<int32_t> literals, In<double> prob) {
    const auto m = static_cast<int64_t>(indptr.shape(0)) - 1;
    const auto size = static_cast<int64_t>(literals.shape(0)), n = static_cast<int64_t>(prob.shape(0));
    const auto *ptr = indptr.data();
    const auto *lit = literals.data();
    if (m < 0 || ptr[0] != 0 || ptr[m] != size) return "indptr must start at 0 and end at the number of literals";
    for (int64_t c = 0; c < m; ++c) {
        if (ptr[c + 1] < ptr[c] || ptr[c + 1] > size) return "indptr decreases at clause " + std::to_string(c);
        for (int64_t i = ptr[c]; i < ptr[c + 1]; ++i) {
            if (lit[i] < 0 || (lit[i] >> 1) >= n)
                return "clause " + std::to_string(c) + " has a literal of no variable: " + std::to_string(lit[i]);
            if (i > ptr[c] && (lit[i] >> 1) <= (lit[i - 1] >> 1))
                return "the variables of clause " + std::to_string(c) + " do not strictly increase";
        }
    }
    for (int64_t v = 0; v < n; ++v)
        if (!(prob.data()[v] >= 0.0 && prob.data()[v] <= 1.0))
            return "variable " + std::to_string(v + 1) + " has probability " + std::to_string(prob.data()[v]) +
                   ", expected a number in [0, 1]";
    return "";
}

// A pass that computes one number for each clause.
template <void (*Pass)(const Formula &, double *, Pace &)>
static Out<double> one_pass(In<int64_t> indptr, In<int32_t> literals, In<double> prob) {
    const Formula f = view(indptr, literals, prob);
    std::vector<double> out(f.num_clauses);
    interruptible([&](Poll &poll) {
        Pace pace(poll);
        Pass(f, out.data(), pace);
    });
    return to_numpy(std::move(out));
}

void bind_formula(nb::module_ &m) {
    Result<Normalised>(m, "Normalised", "Clauses with sorted literals, and what was mended on the way.")
        .field("indptr", &Normalised::indptr)
        .field("literals", &Normalised::literals)
        .field("repeated_literals", &Normalised::repeated_literals, "How many literals were merged with an equal one.")
        .field("impossible_clauses", &Normalised::impossible_clauses,
               "How many clauses were dropped because they hold a literal and its negation.");
    m.def("check_formula", &check_formula, nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"));
    m.def("clause_probs", &one_pass<clause_probs>, nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"),
          "p(C) of every clause: the reference pass.");
    m.def("clause_log_probs", &one_pass<clause_log_probs>, nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"),
          "log p(C) of every clause, in one pass.");
    m.def(
        "normalise",
        [](In<int64_t> indptr, In<int32_t> literals) {
            const auto m = static_cast<int64_t>(indptr.shape(0)) - 1;
            const int64_t *const ends = indptr.data();
            if (m < 0 || ends[0] != 0 || ends[m] != static_cast<int64_t>(literals.shape(0)) ||
                !std::is_sorted(ends, ends + m + 1))
                throw std::invalid_argument("indptr does not span the literals");
            Normalised out;
            interruptible([&](Poll &poll) {
                Pace pace(poll);
                out = normalise(indptr.data(), literals.data(), m, pace);
            });
            return out;
        },
        nb::arg("indptr"), nb::arg("literals"),
        "Sorts the literals of every clause, merges repeated ones and drops impossible clauses.");
}

}  // namespace sharpdnf
