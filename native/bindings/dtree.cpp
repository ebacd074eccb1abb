#include "arrays.hpp"

#include <nanobind/stl/tuple.h>

#include <string>
#include <tuple>

#include "compiled.hpp"
#include "dtree.hpp"

static DTreeOptions options_of(const Formula &f, int64_t node_budget, int64_t memory) {
    if (f.size() > std::numeric_limits<int32_t>::max()) throw std::invalid_argument("more than 2^31 literals");
    DTreeOptions options;
    options.node_budget = node_budget;
    options.memory = static_cast<std::size_t>(std::max<int64_t>(memory, 0));
    return options;
}

static CompiledView compiled_view(const In<uint8_t> &kind, const In<int32_t> &a, const In<int32_t> &b,
                                const In<int32_t> &var, const In<int32_t> &literals) {
    return {kind.data(), a.data(), b.data(), var.data(), literals.data(), static_cast<int64_t>(kind.shape(0))};
}

void bind_dtree(nb::module_ &m) {
    m.def(
        "dtree",
        [](In<int64_t> indptr, In<int32_t> literals, In<double> prob, int64_t node_budget, double seconds,
           int64_t memory, double relative_epsilon, double additive_epsilon, int64_t work_budget, bool tables) {
            const Formula f = view(indptr, literals, prob);
            DTreeOptions options = options_of(f, node_budget, memory);
            options.work_budget = work_budget;
            options.relative_epsilon = relative_epsilon;
            options.additive_epsilon = additive_epsilon;
            options.tables = tables;
            DTreeResult out;
            interruptible([&](Poll &poll) {
                options.poll = &poll;
                out = dtree(f, options);
            }, seconds);
            const Chance &lower = out.bounds.lower, &upper = out.bounds.upper;
            return nb::make_tuple(lower.log_p<false>(), upper.log_p<true>(), upper.log_q<false>(), lower.log_q<true>(),
                                  out.exact, out.nodes, out.stopped);
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("node_budget"), nb::arg("seconds"),
        nb::arg("memory"), nb::arg("relative_epsilon"), nb::arg("additive_epsilon"), nb::arg("work_budget"),
        nb::arg("tables"),
        "(log lower, log upper, log lower and log upper of 1 - P, exact, expansions, why it stopped)");
    m.def(
        "dtree_compile",
        [](In<int64_t> indptr, In<int32_t> literals, In<double> prob, int64_t node_budget, double seconds,
           int64_t memory, int64_t work_budget, bool tables) -> nb::object {
            const Formula f = view(indptr, literals, prob);
            DTreeOptions options = options_of(f, node_budget, memory);
            options.compile = true;
            options.work_budget = work_budget;
            options.tables = tables;
            Compiled out;
            interruptible([&](Poll &poll) {
                options.poll = &poll;
                DTree tree(f, options);
                if (tree.run().exact) out = tree.compiled();
            }, seconds);
            if (out.kind.empty()) return nb::none();
            return nb::make_tuple(to_numpy(std::move(out.kind)), to_numpy(std::move(out.a)), to_numpy(std::move(out.b)),
                                  to_numpy(std::move(out.var)), to_numpy(std::move(out.literals)));
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("node_budget"), nb::arg("seconds"),
        nb::arg("memory"), nb::arg("work_budget"), nb::arg("tables"),
        "(kind, a, b, var, literals) of the circuit, or None if a limit was met first");
    m.def(
        "compiled_log_prob",
        [](In<uint8_t> kind, In<int32_t> a, In<int32_t> b, In<int32_t> var, In<int32_t> literals, In<double> probs,
           int64_t num_vars) {
            const CompiledView compiled = compiled_view(kind, a, b, var, literals);
            const int64_t rows = num_vars == 0 ? 1 : static_cast<int64_t>(probs.shape(0)) / num_vars;
            std::vector<double> out(rows);
            interruptible([&](Poll &poll) {
                Pace pace(poll);
                std::vector<Value> value;
                for (int64_t r = 0; r < rows; ++r) {
                    compiled_values(compiled, probs.data() + r * num_vars, value);
                    out[r] = std::min(value.back().log(), 0.0);
                    pace.check(static_cast<int64_t>(value.size()));
                }
            });
            return to_numpy(std::move(out));
        },
        nb::arg("kind"), nb::arg("a"), nb::arg("b"), nb::arg("var"), nb::arg("literals"), nb::arg("probs"),
        nb::arg("num_vars"), "float64[k]: log P under each of k rows of probabilities, given flat");
    m.def(
        "compiled_slopes",
        [](In<uint8_t> kind, In<int32_t> a, In<int32_t> b, In<int32_t> var, In<int32_t> literals, In<double> prob,
           bool of_log) {
            const CompiledView compiled = compiled_view(kind, a, b, var, literals);
            std::vector<double> slope(prob.shape(0), 0.0);
            double log_prob = 0.0;
            {
                nb::gil_scoped_release release;
                std::vector<Value> value;
                compiled_values(compiled, prob.data(), value);
                const Wide root = value.back().p;
                log_prob = std::min(value.back().log(), 0.0);
                if (!of_log || !root.zero())
                    compiled_slopes(compiled, prob.data(), value,
                                   of_log ? Wide::of(1.0) * Wide{1.0 / root.m, -root.e} : Wide::of(1.0),
                                   static_cast<int64_t>(prob.shape(0)), slope.data());
            }
            return std::make_tuple(log_prob, to_numpy(std::move(slope)));
        },
        nb::arg("kind"), nb::arg("a"), nb::arg("b"), nb::arg("var"), nb::arg("literals"), nb::arg("prob"),
        nb::arg("of_log"), "(log P, float64[n] d P / d prob, or d log P / d prob, zeros if P is 0)");
}
