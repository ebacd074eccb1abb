// What Python calls to make a formula smaller and to bound it.
#include "results.hpp"

#include <nanobind/stl/pair.h>

#include <utility>

#include "bounds.hpp"
#include "simplify.hpp"

namespace sharpdnf {

static SimplifyResult simplify_arrays(In<int64_t> indptr, In<int32_t> literals, In<double> prob, bool solve,
                                      double seconds) {
    const Formula f = view(indptr, literals, prob);
    if (f.size() > std::numeric_limits<int32_t>::max()) throw std::invalid_argument("more than 2^31 literals");
    SimplifyOptions options;
    options.solve = solve;
    SimplifyResult out;
    interruptible([&](Poll &poll) { out = simplify(f, options, poll); }, seconds);
    return out;
}

static void declare_results(nb::module_ &m) {
    Result<Fold>(m, "Fold", "P(formula) = F (1 - M (1 - mu)), mu the probability of what remains of it.")
        .field("log_factor", &Fold::log_factor, "log F")
        .field("log_cofactor", &Fold::log_cofactor, "log(1 - F)")
        .field("log_miss", &Fold::log_miss, "log M")
        .field("log_hit", &Fold::log_hit, "log(1 - M)")
        .field("rounding", &Fold::rounding, "The relative error that rounding may have made in F, 1 - F, M and 1 - M.")
        .method(
            "whole",
            [](const Fold &self, double log_mu, double log_nu, int direction) {
                const auto whole = self.whole(log_mu, log_nu, direction);
                return std::make_pair(whole.log_p, whole.log_q);
            },
            nb::arg("log_mu"), nb::arg("log_nu"), nb::arg("direction"),
            "(log P, log(1 - P)) of the whole from (log mu, log(1 - mu)) of what remains, rounded down (direction -1), "
            "up (1) or to nearest (0).");
    using R = SimplifyResult;
    Result<R>(m, "SimplifyResult", "What remains of a formula, how its answer becomes the whole's, what was removed.")
        .field("unchanged", &R::unchanged, "Whether nothing was removed: then the arrays are empty.")
        .array<int64_t>("indptr", [](R &self) -> auto & { return self.formula.indptr; })
        .array<int32_t>("literals", [](R &self) -> auto & { return self.formula.literals; })
        .array<double>("prob", [](R &self) -> auto & { return self.formula.prob; })
        .field("variables", &R::variables, "The original variable of each remaining one.")
        .value("fold", [](const R &self) { return self.fold; })
        .field("impossible", &R::impossible, "Clauses with a literal of probability 0.")
        .field("duplicate", &R::duplicate, "Repeated clauses.")
        .field("absorbed", &R::absorbed, "Clauses that hold all literals of another one.")
        .field("fixed", &R::fixed, "Variables of probability 0 or 1.")
        .field("negated_units", &R::negated_units, "Literals dropped because their negation is a clause of its own.")
        .field("factored", &R::factored, "Literals common to all clauses.")
        .field("solved", &R::solved, "Components solved exactly.");
    Result<Interval>(m, "Interval", "Bounds of P and of 1 - P that hold surely.")
        .field("log_lower", &Interval::log_lower)
        .field("log_upper", &Interval::log_upper)
        .field("log_complement_lower", &Interval::log_complement_lower)
        .field("log_complement_upper", &Interval::log_complement_upper)
        .field("unate", &Interval::unate, "Whether no variable occurs with both signs.")
        .field("pairs", &Interval::pairs, "Whether pairs of clauses were counted.");
}

void bind_simplify(nb::module_ &m) {
    declare_results(m);
    m.def("simplify", &simplify_arrays, nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("solve"),
          nb::arg("seconds"), "Removes what can be removed in linear time.");
    m.def(
        "certified_bounds",
        [](In<int64_t> indptr, In<int32_t> literals, In<double> prob, int64_t pair_budget, double seconds) {
            const Formula f = view(indptr, literals, prob);
            Interval out;
            for (int64_t c = 0; c < f.num_clauses; ++c)
                if (f.indptr[c] == f.indptr[c + 1]) {  // an empty clause is true, and so is the formula
                    out.log_lower = 0.0, out.log_complement_upper = out.log_complement_lower;
                    return out;
                }
            interruptible([&](Poll &signals) {
                Poll poll(seconds, signal_pending);
                out = certified_bounds(f, pair_budget, signals, poll);
            });
            return out;
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("pair_budget"), nb::arg("seconds"),
        "Bounds from one pass over the clauses, and from their pairs where these are few enough.");
}

}  // namespace sharpdnf
