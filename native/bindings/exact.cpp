// What Python calls of the exact methods: the cost foreseen, the answer, the circuit, and sums over factors.
#include "results.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <utility>

#include "exact_compile.hpp"

namespace sharpdnf {

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

// Checks every index once. Factor f is over scope[start[f] .. start[f+1]); the tables lie one after the other.
static Factors factors(const In<int64_t> &start, const In<int32_t> &scope, const In<double> &tables,
                       const In<double> &weights, std::vector<int64_t> &table_start) {
    if (start.shape(0) < 1 || weights.shape(0) % 2)
        throw std::invalid_argument("start is empty, or a variable lacks a weight");
    const auto count = static_cast<int64_t>(start.shape(0)) - 1, n = static_cast<int64_t>(weights.shape(0)) / 2;
    const int64_t *at = start.data();
    if (at[0] != 0 || at[count] != static_cast<int64_t>(scope.shape(0)))
        throw std::invalid_argument("start does not span the scopes");
    int64_t size = 0;
    for (int64_t f = 0; f < count; ++f) {
        const int64_t width = at[f + 1] - at[f];
        if (width < 0 || width > EliminationPlan::kMaxScope)
            throw std::invalid_argument("a factor must be over at most 30 variables");
        std::vector<int32_t> vars(scope.data() + at[f], scope.data() + at[f + 1]);
        std::sort(vars.begin(), vars.end());
        if (std::adjacent_find(vars.begin(), vars.end()) != vars.end())
            throw std::invalid_argument("a factor names a variable twice");
        if (!vars.empty() && (vars.front() < 0 || vars.back() >= n))
            throw std::invalid_argument("a factor names a variable without weights");
        table_start.push_back(size);
        size += int64_t{1} << width;
    }
    if (size != static_cast<int64_t>(tables.shape(0)))
        throw std::invalid_argument("tables must hold 2^width entries a factor");
    for (const auto *values : {&tables, &weights})
        for (std::size_t i = 0; i < values->shape(0); ++i)
            if (!(values->data()[i] >= 0.0) || std::isinf(values->data()[i]))
                throw std::invalid_argument("entries and weights must be at least 0");
    return {at, table_start.data(), scope.data(), tables.data(), weights.data(), count, n};
}

// What elimination along the best order found would take.
struct EliminationCost {
    double operations = 0.0, bytes = 0.0;
    int largest_bag = 0;
};

void bind_exact(nb::module_ &m) {
    Result<EliminationCost>(m, "EliminationCost", "What elimination along the best order found would take.")
        .field("operations", &EliminationCost::operations, "About a nanosecond each; inf if more than were allowed.")
        .field("bytes", &EliminationCost::bytes, "Of all tables that are alive at once, at most.")
        .field("largest_bag", &EliminationCost::largest_bag, "The most variables that one table is over.");
    Result<ExactResult>(m, "ExactResult", "Bounds of P and of 1 - P that hold surely, and what finding them took.")
        .bounds(&ExactResult::bounds)
        .field("solved", &ExactResult::solved, "Whether what is left between the bounds is rounding.")
        .value(
            "method", [](const ExactResult &self) { return name_of(self.method); }, "The method that solved it.")
        .field("nodes", &ExactResult::nodes, "How many nodes it expanded.")
        .field("operations", &ExactResult::operations, "How many operations it took.")
        .field("stopped", &ExactResult::stopped, "Why the search ended: done or the limit that was met.");
    m.def(
        "elimination_operations",
        [](In<int64_t> indptr, In<int32_t> literals, In<double> prob, double max_operations, double seconds) {
            const Formula f = solvable(indptr, literals, prob);
            EliminationPlan plan;
            interruptible([&](Poll &poll) { plan = plan_elimination(f, max_operations, poll); }, seconds);
            return EliminationCost{plan.operations, plan.bytes, plan.found() ? plan.width + 1 : 0};
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("max_operations"), nb::arg("seconds"),
        "Looks for a cheap elimination order, and gives up beyond max_operations.");
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
            return out;
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("method"), nb::arg("max_operations"),
        nb::arg("seconds"), nb::arg("memory"), nb::arg("threads"),
        "Solves the formula exactly by one method or by the cheapest, within the limits.");
    m.def(
        "exact_compile",
        [](In<int64_t> indptr, In<int32_t> literals, In<double> prob, const std::string &method, double max_operations,
           double seconds, int64_t memory) -> std::optional<Compiled> {
            const Formula f = solvable(indptr, literals, prob);
            CompileOptions options;
            options.method = method_of(method);
            options.max_operations = max_operations;
            options.memory = static_cast<std::size_t>(std::max<int64_t>(memory, 0));
            Compiled out;
            interruptible(
                [&](Poll &poll) {
                    ExactCompiler compiler(f, options, poll);
                    out = compiler.run();
                },
                seconds);
            if (out.kind.empty()) return {};
            return out;
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("method"), nb::arg("max_operations"),
        nb::arg("seconds"), nb::arg("memory"), "The smallest circuit found, or None if a limit was met first.");
    m.def(
        "eliminate_factors",
        [](In<int64_t> start, In<int32_t> scope, In<double> tables, In<double> weights, double max_operations,
           double seconds, int64_t memory, int threads) -> std::optional<std::pair<double, double>> {
            std::vector<int64_t> table_start;
            const Factors f = factors(start, scope, tables, weights, table_start);
            EliminationPlan plan;
            Wide out;
            const bool done = interruptible(
                [&](Poll &poll) {
                    plan = plan_factors(f, max_operations, poll);
                    if (plan.found() && plan.bytes > static_cast<double>(memory)) plan = {};
                    if (plan.found()) out = sum_of_products(f, plan, threads, poll);
                },
                seconds);
            if (!done || !plan.found()) return {};
            return std::make_pair(out.log(), plan.operations);
        },
        nb::arg("start"), nb::arg("scope"), nb::arg("tables"), nb::arg("weights"), nb::arg("max_operations"),
        nb::arg("seconds"), nb::arg("memory"), nb::arg("threads"),
        "(log of the sum over all assignments of the product of factors and weights, operations), or None at a limit");
}

}  // namespace sharpdnf
