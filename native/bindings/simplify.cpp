#include "arrays.hpp"

#include <nanobind/stl/tuple.h>

#include <tuple>

#include "bounds.hpp"
#include "simplify.hpp"

namespace sharpdnf {

static nb::tuple simplify_arrays(In<int64_t> indptr, In<int32_t> literals, In<double> prob, bool solve,
                                 double seconds) {
    const Formula f = view(indptr, literals, prob);
    if (f.size() > std::numeric_limits<int32_t>::max()) throw std::invalid_argument("more than 2^31 literals");
    SimplifyOptions options;
    options.solve = solve;
    SimplifyResult out;
    interruptible([&](Poll &poll) { out = simplify(f, options, poll); }, seconds);
    const auto notes = std::make_tuple(out.impossible, out.duplicate, out.absorbed, out.fixed, out.negated_units,
                                       out.factored, out.solved);
    const auto fold = std::make_tuple(out.fold.log_factor, out.fold.log_cofactor, out.fold.log_miss, out.fold.log_hit,
                                      out.fold.rounding);
    if (out.unchanged) return nb::make_tuple(nb::none(), fold, notes);
    const std::vector<int64_t> variables(out.variables.begin(), out.variables.end());
    const auto arrays =
        nb::make_tuple(to_numpy(std::move(out.formula.indptr)), to_numpy(std::move(out.formula.literals)),
                       to_numpy(std::move(out.formula.prob)), to_numpy(std::vector<int64_t>(variables)));
    return nb::make_tuple(arrays, fold, notes);
}

void bind_simplify(nb::module_ &m) {
    m.def("simplify", &simplify_arrays, nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("solve"),
          nb::arg("seconds"),
          "((indptr, literals, prob, variables) or None if nothing changed, "
          "(log F, log(1 - F), log M, log(1 - M), relative rounding), notes)");
    m.def(
        "fold",
        [](std::tuple<double, double, double, double, double> parts, double log_mu, double log_nu, int direction) {
            const auto [factor, cofactor, miss, hit, rounding] = parts;
            const auto whole = Fold{factor, cofactor, miss, hit, rounding}.whole(log_mu, log_nu, direction);
            return std::make_tuple(whole.log_p, whole.log_q);
        },
        nb::arg("parts"), nb::arg("log_mu"), nb::arg("log_nu"), nb::arg("direction"),
        "(log P, log(1 - P)) of the whole from (log mu, log(1 - mu)) of what remains; rounded down (-1), up (1) or "
        "not");
    m.def(
        "certified_bounds",
        [](In<int64_t> indptr, In<int32_t> literals, In<double> prob, int64_t pair_budget, double seconds) {
            const Formula f = view(indptr, literals, prob);
            Interval out;
            interruptible([&](Poll &signals) {
                Poll poll(seconds, signal_pending);
                out = certified_bounds(f, pair_budget, signals, poll);
            });
            return std::make_tuple(out.log_lower, out.log_upper, out.log_complement_lower, out.log_complement_upper,
                                   out.unate, out.pairs);
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("pair_budget"), nb::arg("seconds"),
        "(log lower, log upper, log lower and log upper of 1 - P, unate, whether pairs were counted)");
}

}  // namespace sharpdnf
