// What Python calls of the frontier method: an order of the links, and the run along it.
#include "frontier.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <unordered_map>

#include "results.hpp"

namespace sharpdnf {

namespace {

struct Key {
    int32_t var, high, low;
    bool operator==(const Key &k) const { return var == k.var && high == k.high && low == k.low; }
};
struct KeyHash {
    std::size_t operator()(const Key &k) const {
        uint64_t h = static_cast<uint32_t>(k.var) * 0x9e3779b97f4a7c15ULL;
        h = (h ^ static_cast<uint32_t>(k.high)) * 0xbf58476d1ce4e5b9ULL;
        h = (h ^ (h >> 31) ^ static_cast<uint32_t>(k.low)) * 0x94d049bb133111ebULL;
        return static_cast<std::size_t>(h ^ (h >> 29));
    }
};

// A kept diagram as a circuit: the same nodes backwards, so that children come first, equal ones merged and those that
// decide nothing left out.
Compiled reduce(const frontier::Result &run) {
    Compiled out;
    const auto add = [&](uint8_t kind, int32_t a, int32_t b, int32_t var) {
        out.kind.push_back(kind), out.a.push_back(a), out.b.push_back(b), out.var.push_back(var);
        return static_cast<int32_t>(out.kind.size()) - 1;
    };
    const int32_t no = add(Compiled::kFalse, 0, 0, -1), yes = add(Compiled::kTrue, 0, 0, -1);
    std::vector<int32_t> name(run.variable.size());
    std::unordered_map<Key, int32_t, KeyHash> known;
    const auto named = [&](int32_t child) {
        return child == frontier::kNo ? no : child == frontier::kYes ? yes : name[child];
    };
    for (std::size_t i = run.variable.size(); i-- > 0;) {
        const Key key{run.variable[i], named(run.high[i]), named(run.low[i])};
        if (key.high == key.low) {
            name[i] = key.high;
            continue;
        }
        const auto [place, fresh] = known.try_emplace(key, 0);
        if (fresh) place->second = add(Compiled::kShannon, key.high, key.low, key.var);
        name[i] = place->second;
    }
    const int32_t root = run.variable.empty() ? (run.yes > 0.0 ? yes : no) : name[0];
    for (auto *column : {&out.a, &out.b, &out.var}) column->resize(root + 1);
    out.kind.resize(root + 1);
    return out;
}

struct Run : frontier::Result {
    std::optional<Compiled> diagram;
};

}  // namespace

void bind_frontier(nb::module_ &m) {
    Result<Run>(m, "FrontierRun", "A run of the frontier method.")
        .field("yes", &Run::yes, "The probability of what is decided: connected.")
        .field("no", &Run::no, "The probability of what is decided: not connected.")
        .field("complete", &Run::complete, "Whether everything is decided.")
        .field("width", &Run::width)
        .field("states", &Run::states)
        .field("too_wide", &Run::too_wide)
        .field("diagram", &Run::diagram, "What leads to a yes, if it was kept.");
    m.def(
        "frontier_order",
        [](int64_t num_nodes, In<int32_t> from, In<int32_t> to, std::vector<int32_t> starts, double seconds) {
            const auto edges = static_cast<int64_t>(from.shape(0));
            if (static_cast<int64_t>(to.shape(0)) != edges)
                throw std::invalid_argument("from and to must have one entry for each link");
            for (int64_t e = 0; e < edges; ++e)
                if (from.data()[e] < 0 || to.data()[e] < 0 || from.data()[e] >= num_nodes || to.data()[e] >= num_nodes)
                    throw std::invalid_argument("a link ends at a node that does not exist");
            for (const int32_t v : starts)
                if (v < 0 || v >= num_nodes)
                    throw std::invalid_argument("an order starts at a node that does not exist");
            std::vector<int32_t> order;
            interruptible(
                [&](Poll &poll) {
                    frontier::Orderer orderer(num_nodes, edges, from.data(), to.data());
                    order = orderer.best(starts, poll);
                },
                seconds);
            return to_numpy(std::move(order));
        },
        nb::arg("num_nodes"), nb::arg("tail"), nb::arg("head"), nb::arg("starts"), nb::arg("seconds"),
        "int32[e]: an order of the links that keeps the frontier narrow; empty at the deadline");
    m.def(
        "frontier",
        [](In<int32_t> from, In<int32_t> to, In<uint8_t> both_ways, In<uint8_t> terminal, In<uint8_t> fails,
           In<double> prob, In<double> complement, bool partition, int hops, int64_t keep_nodes, int64_t max_states,
           int64_t memory, double seconds) {
            frontier::Graph g;
            g.num_nodes = static_cast<int64_t>(terminal.shape(0));
            g.num_edges = static_cast<int64_t>(from.shape(0));
            if (static_cast<int64_t>(to.shape(0)) != g.num_edges ||
                static_cast<int64_t>(both_ways.shape(0)) != g.num_edges ||
                static_cast<int64_t>(fails.shape(0)) != g.num_nodes ||
                static_cast<int64_t>(prob.shape(0)) != g.num_edges + g.num_nodes ||
                complement.shape(0) != prob.shape(0))
                throw std::invalid_argument("the arrays of a network do not fit together");
            for (int64_t e = 0; e < g.num_edges; ++e)
                if (from.data()[e] < 0 || to.data()[e] < 0 || from.data()[e] >= g.num_nodes ||
                    to.data()[e] >= g.num_nodes)
                    throw std::invalid_argument("a link ends at a node that does not exist");
            if (hops > 250) throw std::invalid_argument("at most 250 hops");
            if (!partition && g.num_nodes < 2) throw std::invalid_argument("a source and a target are needed");
            g.from = from.data(), g.to = to.data(), g.both_ways = both_ways.data();
            g.terminal = terminal.data(), g.fails = fails.data();
            const frontier::Limits limits{keep_nodes, max_states,
                                          static_cast<std::size_t>(std::max<int64_t>(memory, 0))};
            Run run;
            interruptible(
                [&](Poll &poll) {
                    frontier::Result &out = run;
                    out = partition ? frontier::run(g, frontier::Partition(g), prob.data(), complement.data(), false,
                                                    limits, poll)
                                    : frontier::run(g, frontier::Distances(g, hops), prob.data(), complement.data(),
                                                    true, limits, poll);
                    if (run.kept) run.diagram = reduce(run);
                },
                seconds);
            return run;
        },
        nb::arg("tail"), nb::arg("head"), nb::arg("both_ways"), nb::arg("terminal"), nb::arg("fails"), nb::arg("prob"),
        nb::arg("complement"), nb::arg("partition"), nb::arg("hops"), nb::arg("keep_nodes"), nb::arg("max_states"),
        nb::arg("memory"), nb::arg("seconds"), "Runs the frontier method over the links in their order.");
}

}  // namespace sharpdnf
