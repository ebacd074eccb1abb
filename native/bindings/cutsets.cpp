// What Python calls of minimal cut sets: the diagram, and the sets in it by size, by probability or one by one.
#include "results.hpp"

#include "cutsets.hpp"

namespace sharpdnf {

// The levels of the variables must be 0 .. n-1 in some order.
static void check_levels(const In<int32_t> &level, int64_t n) {
    std::vector<uint8_t> seen(n, 0);
    if (static_cast<int64_t>(level.shape(0)) != n)
        throw std::invalid_argument("level must have one entry for each variable");
    for (int64_t v = 0; v < n; ++v) {
        const int32_t at = level.data()[v];
        if (at < 0 || at >= n || seen[at]) throw std::invalid_argument("the levels must be a permutation");
        seen[at] = 1;
    }
}

// The gates as the kernel may rely on them: every input comes before its gate, no gate is a negation.
static void check_gates(const CircuitView &c) {
    for (int64_t g = 0; g < c.num_gates; ++g) {
        if (c.kind[g] == gVar && (c.arg[g] < 0 || c.arg[g] >= c.num_vars))
            throw std::invalid_argument("no such variable");
        if (c.indptr[g] < 0 || c.indptr[g + 1] < c.indptr[g] || c.indptr[g + 1] > c.indptr[c.num_gates])
            throw std::invalid_argument("indptr must not decrease");
        for (int64_t i = c.indptr[g]; i < c.indptr[g + 1]; ++i)
            if (c.inputs[i] < 0 || c.inputs[i] >= g) throw std::invalid_argument("a gate reads gates before it");
        if (c.kind[g] == gAtLeast && c.arg[g] > c.width(g))
            throw std::invalid_argument("a gate asks for at least more inputs than it has");
    }
}

// The nodes that the root needs, children first and level by level. Nodes 0 and 1 are the two constants and have no
// entry: entry i is node i + 2.
struct CutSetDiagram {
    std::vector<int32_t> level, lo, hi;
    int32_t root = 0;
    const char *stopped = "done";
};

static CutSetDiagram extract(const CutSets &sets, int32_t root) {
    std::vector<int32_t> place(sets.size(), -1), found;
    place[0] = 0, place[1] = 1;
    std::vector<int32_t> waiting{root};
    while (!waiting.empty()) {
        const int32_t f = waiting.back();
        waiting.pop_back();
        if (f < 2 || place[f] >= 0) continue;
        place[f] = 2;
        found.push_back(f);
        waiting.push_back(sets[f].lo), waiting.push_back(sets[f].hi);
    }
    std::stable_sort(found.begin(), found.end(), [&](int32_t a, int32_t b) { return sets[a].level > sets[b].level; });
    for (size_t i = 0; i < found.size(); ++i) place[found[i]] = static_cast<int32_t>(i) + 2;
    CutSetDiagram out;
    for (const int32_t f : found) {
        out.level.push_back(sets[f].level);
        out.lo.push_back(place[sets[f].lo]), out.hi.push_back(place[sets[f].hi]);
    }
    out.root = place[root];
    return out;
}

void bind_cutsets(nb::module_ &m) {
    using D = CutSetDiagram;
    Result<D>(m, "CutSetDiagram",
              "Minimal cut sets as a decision diagram; entry i is node i + 2, 0 and 1 are constants.")
        .field("level", &D::level)
        .field("lo", &D::lo, "The node of the sets without the level's variable.")
        .field("hi", &D::hi, "The node of the sets with it.")
        .field("root", &D::root)
        .field("stopped", &D::stopped, "\"done\", or the limit that was met: \"time\" or \"nodes\".");
    m.def(
        "cut_sets",
        [](In<uint8_t> kind, In<int32_t> arg, In<int64_t> indptr, In<int32_t> inputs, In<double> prob, int32_t output,
           In<int32_t> level, int32_t order, double log_cutoff, int64_t max_nodes, double seconds) {
            const auto gates = static_cast<int64_t>(kind.shape(0));
            if (static_cast<int64_t>(arg.shape(0)) != gates || static_cast<int64_t>(indptr.shape(0)) != gates + 1 ||
                indptr.data()[gates] != static_cast<int64_t>(inputs.shape(0)) || output < 0 || output >= gates)
                throw std::invalid_argument("not the arrays of a circuit");
            const CircuitView c{kind.data(),
                                arg.data(),
                                indptr.data(),
                                inputs.data(),
                                gates,
                                prob.data(),
                                static_cast<int64_t>(prob.shape(0))};
            check_gates(c);
            check_levels(level, c.num_vars);
            std::vector<double> log_prob(c.num_vars);
            for (int64_t v = 0; v < c.num_vars; ++v) log_prob[level.data()[v]] = std::log(c.prob[v]);
            CutSetDiagram out;
            const bool done = interruptible(
                [&](Poll &poll) {
                    try {
                        CutSets sets(std::move(log_prob), order < 0 ? CutSets::kAny : order, log_cutoff,
                                     std::min<int64_t>(std::max<int64_t>(max_nodes, 2), CutSets::kAny), poll);
                        out = extract(sets, sets.of_circuit(c, output, level.data()));
                    } catch (const CutSets::Full &) {
                        out.stopped = "nodes";
                    }
                },
                seconds);
            if (!done) out.stopped = "time";
            return out;
        },
        nb::arg("kind"), nb::arg("arg"), nb::arg("indptr"), nb::arg("inputs"), nb::arg("prob"), nb::arg("output"),
        nb::arg("level"), nb::arg("order"), nb::arg("log_cutoff"), nb::arg("max_nodes"), nb::arg("seconds"),
        "The minimal cut sets of an output up to an order and a probability.");
}

}  // namespace sharpdnf
