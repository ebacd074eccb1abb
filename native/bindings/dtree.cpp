// What Python calls of d-trees: bounds that narrow to the answer, and the finished tree.
#include "results.hpp"

#include <nanobind/stl/optional.h>

#include <optional>

namespace sharpdnf {

static DTreeOptions options_of(const Formula &f, int64_t node_budget, int64_t memory) {
    if (f.size() > std::numeric_limits<int32_t>::max()) throw std::invalid_argument("more than 2^31 literals");
    DTreeOptions options;
    options.node_budget = node_budget;
    options.memory = static_cast<std::size_t>(std::max<int64_t>(memory, 0));
    return options;
}

void bind_dtree(nb::module_ &m) {
    Result<DTreeResult>(m, "DTreeResult", "Bounds of P and of 1 - P that hold surely, and what finding them took.")
        .bounds(&DTreeResult::bounds)
        .field("exact", &DTreeResult::exact, "Whether what is left between the bounds is rounding, or next to nothing.")
        .field("nodes", &DTreeResult::nodes, "How many subformulas were expanded.")
        .field("stopped", &DTreeResult::stopped, "Why the search ended: done, time, memory, nodes or work.");
    Result<Compiled>(m, "CompiledArrays",
                     "A finished d-tree, children before parents, the last node the whole; sharpdnf.compiled explains "
                     "the arrays.")
        .field("kind", &Compiled::kind)
        .field("a", &Compiled::a)
        .field("b", &Compiled::b)
        .field("var", &Compiled::var)
        .field("literals", &Compiled::literals);
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
            return out;
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("node_budget"), nb::arg("seconds"),
        nb::arg("memory"), nb::arg("relative_epsilon"), nb::arg("additive_epsilon"), nb::arg("work_budget"),
        nb::arg("tables"), "Decomposes the formula until the bounds meet, are within epsilon, or a budget is spent.");
    m.def(
        "dtree_compile",
        [](In<int64_t> indptr, In<int32_t> literals, In<double> prob, int64_t node_budget, double seconds,
           int64_t memory, int64_t work_budget, bool tables) -> std::optional<Compiled> {
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
            if (out.kind.empty()) return {};
            return out;
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("node_budget"), nb::arg("seconds"),
        nb::arg("memory"), nb::arg("work_budget"), nb::arg("tables"),
        "The finished d-tree, or None if a limit was met first.");
}

}  // namespace sharpdnf
