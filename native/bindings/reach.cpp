#include "reach.hpp"

#include <nanobind/stl/vector.h>

#include "results.hpp"

namespace sharpdnf {

void bind_reach(nb::module_ &m) {
    using R = reach::Result;
    Result<R>(m, "ReachSample", "Worlds of a network that were searched from the source.")
        .field("draws", &R::draws)
        .field("successes", &R::successes)
        .field("complete", &R::complete)
        .field("impossible", &R::impossible, "Whether some terminal cannot be reached in any world.")
        .field("looks", &R::looks)
        .field("reached", &R::reached, "Per node: in how many draws it was reached; empty if not asked for.");
    m.def(
        "reach",
        [](In<int64_t> start, In<int32_t> target, In<int32_t> link, In<double> edge_prob, In<double> node_prob,
           int32_t source, std::vector<int32_t> terminals, int64_t hops, uint64_t seed, int64_t successes,
           int64_t max_draws, bool of_failure, bool count_nodes, int threads, double seconds) {
            reach::Graph g;
            g.num_nodes = static_cast<int64_t>(node_prob.shape(0)),
            g.num_edges = static_cast<int64_t>(edge_prob.shape(0));
            const auto arcs = static_cast<int64_t>(target.shape(0));
            if (static_cast<int64_t>(start.shape(0)) != g.num_nodes + 1 ||
                static_cast<int64_t>(link.shape(0)) != arcs || start.data()[0] != 0 ||
                start.data()[g.num_nodes] != arcs)
                throw std::invalid_argument("the arrays of a network do not fit together");
            for (int64_t v = 0; v < g.num_nodes; ++v)
                if (start.data()[v] > start.data()[v + 1]) throw std::invalid_argument("start must not fall");
            for (int64_t i = 0; i < arcs; ++i)
                if (target.data()[i] < 0 || target.data()[i] >= g.num_nodes || link.data()[i] < 0 ||
                    link.data()[i] >= g.num_edges)
                    throw std::invalid_argument("a link ends at no node");
            for (const int32_t v : terminals)
                if (v < 0 || v >= g.num_nodes) throw std::invalid_argument("no such terminal");
            if (source < 0 || source >= g.num_nodes) throw std::invalid_argument("no such source");
            if (successes <= 0 && max_draws <= 0) throw std::invalid_argument("a number of draws is needed");
            g.start = start.data(), g.target = target.data(), g.link = link.data();
            g.edge_prob = edge_prob.data(), g.node_prob = node_prob.data();
            reach::Question question;
            question.source = source, question.terminals = std::move(terminals);
            if (hops >= 0) question.hops = hops;
            const reach::Plan plan{seed, successes, max_draws, of_failure, count_nodes, threads};
            reach::Result result;
            interruptible([&](Poll &poll) { result = reach::sample(g, question, plan, poll); }, seconds);
            return result;
        },
        nb::arg("start"), nb::arg("target"), nb::arg("link"), nb::arg("edge_prob"), nb::arg("node_prob"),
        nb::arg("source"), nb::arg("terminals"), nb::arg("hops"), nb::arg("seed"), nb::arg("successes"),
        nb::arg("max_draws"), nb::arg("of_failure"), nb::arg("count_nodes"), nb::arg("threads"), nb::arg("seconds"),
        "Draws worlds until so many successes or draws: how many there were, and how often each node was reached");
}

}  // namespace sharpdnf
