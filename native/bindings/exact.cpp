#include "arrays.hpp"

#include <nanobind/stl/string.h>

#include <string>

#include "exact.hpp"

static ExactMethod method_of(const std::string &name) {
    for (int i = 0; i <= static_cast<int>(ExactMethod::dtree); ++i)
        if (name == name_of(static_cast<ExactMethod>(i))) return static_cast<ExactMethod>(i);
    throw std::invalid_argument("no exact method is called " + name);
}

static Formula solvable(const In<int64_t> &indptr, const In<int32_t> &literals, const In<double> &prob) {
    const Formula f = view(indptr, literals, prob);
    if (f.num_clauses == 0) throw std::invalid_argument("a formula without clauses is trivial");
    for (int64_t c = 0; c < f.num_clauses; ++c)
        if (f.indptr[c] == f.indptr[c + 1]) throw std::invalid_argument("a formula with an empty clause is trivial");
    if (f.size() > std::numeric_limits<int32_t>::max()) throw std::invalid_argument("more than 2^31 literals");
    return f;
}

void bind_exact(nb::module_ &m) {
    m.def(
        "elimination_operations",
        [](In<int64_t> indptr, In<int32_t> literals, In<double> prob, double max_operations, double seconds) {
            const Formula f = solvable(indptr, literals, prob);
            EliminationPlan plan;
            interruptible([&](Poll &poll) { plan = plan_elimination(f, max_operations, poll); }, seconds);
            return nb::make_tuple(plan.operations, plan.found() ? plan.width + 1 : 0, plan.bytes);
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("max_operations"), nb::arg("seconds"),
        "(operations, variables of the largest bag, bytes) of the best elimination order; inf beyond max_operations");
    m.def(
        "exact",
        [](In<int64_t> indptr, In<int32_t> literals, In<double> prob, const std::string &method, double max_operations,
           double seconds, int64_t memory, int threads) {
            const Formula f = solvable(indptr, literals, prob);
            ExactOptions options;
            options.method = method_of(method);
            options.max_operations = max_operations;
            options.memory = static_cast<std::size_t>(std::max<int64_t>(memory, 0));
            options.threads = threads;
            ExactResult out;
            interruptible([&](Poll &poll) { out = ExactSolver(f, options, poll).run(); }, seconds);
            return nb::make_tuple(out.solved, out.prob.holds.log(), out.prob.fails.log(), name_of(out.method), out.nodes,
                                  out.operations, out.stopped);
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("method"), nb::arg("max_operations"),
        nb::arg("seconds"), nb::arg("memory"), nb::arg("threads"),
        "(solved, log P, log(1 - P), method, nodes, operations, why it stopped); not solved: what is sure of both");
}
