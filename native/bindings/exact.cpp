#include "arrays.hpp"

#include <nanobind/stl/string.h>

#include <string>

#include "exact_compile.hpp"

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

// log P and log(1 - P): the one close to 0 from the other, which is small.
static std::pair<double, double> logarithms(const ExactResult &out) {
    double holds = out.prob.holds.log(), fails = out.prob.fails.log();
    if (out.solved && fails < -1.0) holds = std::log1p(-std::exp(fails));
    else if (out.solved && holds < -1.0) fails = std::log1p(-std::exp(holds));
    return {std::min(holds, 0.0), std::min(fails, 0.0)};
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
            const auto logs = logarithms(out);
            return nb::make_tuple(out.solved, logs.first, logs.second, name_of(out.method), out.nodes,
                                  out.operations, out.stopped);
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("method"), nb::arg("max_operations"),
        nb::arg("seconds"), nb::arg("memory"), nb::arg("threads"),
        "(solved, log P, log(1 - P), method, nodes, operations, why it stopped); not solved: what is sure of both");
    m.def(
        "exact_compile",
        [](In<int64_t> indptr, In<int32_t> literals, In<double> prob, const std::string &method, double max_operations,
           double seconds, int64_t memory) -> nb::object {
            const Formula f = solvable(indptr, literals, prob);
            CompileOptions options;
            options.method = method_of(method);
            options.max_operations = max_operations;
            options.memory = static_cast<std::size_t>(std::max<int64_t>(memory, 0));
            Compiled out;
            ExactMethod chosen = ExactMethod::automatic;
            interruptible([&](Poll &poll) {
                ExactCompiler compiler(f, options, poll);
                out = compiler.run();
                chosen = compiler.method();
            }, seconds);
            if (out.kind.empty()) return nb::none();
            return nb::make_tuple(to_numpy(std::move(out.kind)), to_numpy(std::move(out.a)), to_numpy(std::move(out.b)),
                                  to_numpy(std::move(out.var)), to_numpy(std::move(out.literals)), name_of(chosen));
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("method"), nb::arg("max_operations"),
        nb::arg("seconds"), nb::arg("memory"),
        "(kind, a, b, var, literals, method) of the smallest circuit found, or None if a limit was met first");
}
