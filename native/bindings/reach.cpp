// What Python calls for reachability: worlds drawn, and how often the terminals are connected in them.
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
        [](In<int32_t> tail, In<int32_t> head, bool directed, In<double> link_prob, In<double> node_prob,
           int32_t source, std::vector<int32_t> terminals, int64_t hops, uint64_t seed, int64_t successes,
           int64_t max_draws, bool of_failure, bool count_nodes, int threads, double seconds) {
            reach::Graph g;
            g.num_nodes = static_cast<int64_t>(node_prob.shape(0)),
            g.num_links = static_cast<int64_t>(link_prob.shape(0));
            if (tail.shape(0) != link_prob.shape(0) || head.shape(0) != link_prob.shape(0))
                throw std::invalid_argument("the arrays of a network do not fit together");
            for (int64_t i = 0; i < g.num_links; ++i)
                for (const int32_t v : {tail.data()[i], head.data()[i]})
                    if (v < 0 || v >= g.num_nodes)
                        throw std::invalid_argument("a link ends at a node that does not exist");
            for (const int32_t v : terminals)
                if (v < 0 || v >= g.num_nodes) throw std::invalid_argument("no such terminal");
            if (source < 0 || source >= g.num_nodes) throw std::invalid_argument("no such source");
            if (successes <= 0 && max_draws <= 0) throw std::invalid_argument("successes or max_draws must be above 0");
            g.tail = tail.data(), g.head = head.data(), g.directed = directed;
            g.link_prob = link_prob.data(), g.node_prob = node_prob.data();
            reach::Question question;
            question.source = source, question.terminals = std::move(terminals);
            if (hops >= 0) question.hops = hops;
            const reach::Plan plan{seed, successes, max_draws, of_failure, count_nodes, threads};
            reach::Result result;
            interruptible([&](Poll &poll) { result = reach::sample(g, question, plan, poll); }, seconds);
            return result;
        },
        nb::arg("tail"), nb::arg("head"), nb::arg("directed"), nb::arg("link_prob"), nb::arg("node_prob"),
        nb::arg("source"), nb::arg("terminals"), nb::arg("hops"), nb::arg("seed"), nb::arg("successes"),
        nb::arg("max_draws"), nb::arg("of_failure"), nb::arg("count_nodes"), nb::arg("threads"), nb::arg("seconds"),
        "Draws worlds until so many successes or draws: how many there were, and how often each node was reached");
}

}  // namespace sharpdnf
