#include "arrays.hpp"

#include "dtree.hpp"

namespace sharpdnf {

static DTreeOptions options_of(const Formula &f, int64_t node_budget, int64_t memory) {
    if (f.size() > std::numeric_limits<int32_t>::max()) throw std::invalid_argument("more than 2^31 literals");
    DTreeOptions options;
    options.node_budget = node_budget;
    options.memory = static_cast<std::size_t>(std::max<int64_t>(memory, 0));
    return options;
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
            interruptible(
                [&](Poll &poll) {
                    options.poll = &poll;
                    out = dtree(f, options);
                },
                seconds);
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
            interruptible(
                [&](Poll &poll) {
                    options.poll = &poll;
                    DTree tree(f, options);
                    if (tree.run().exact) out = tree.compiled();
                },
                seconds);
            if (out.kind.empty()) return nb::none();
            return nb::make_tuple(to_numpy(std::move(out.kind)), to_numpy(std::move(out.a)), to_numpy(std::move(out.b)),
                                  to_numpy(std::move(out.var)), to_numpy(std::move(out.literals)));
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("node_budget"), nb::arg("seconds"),
        nb::arg("memory"), nb::arg("work_budget"), nb::arg("tables"),
        "(kind, a, b, var, literals) of the circuit, or None if a limit was met first");
}

}  // namespace sharpdnf
