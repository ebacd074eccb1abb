// Reachability in 512 random worlds at once: a node's word says in which worlds it has been reached.
//
// Worlds are drawn as they are needed: a link (or a node that can fail) gets its word when the search first comes to
// it, so what lies behind a cut costs nothing. Nodes are numbered in the order of a search from the source, in which
// the pending ones are swept, forwards and backwards in turn, until none is left: worlds in which a node is reached by
// ways of different lengths are mostly looked at together. A limit on hops needs the search hop by hop. Block b of a
// seed is the same whichever thread runs it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "poll.hpp"
#include "random.hpp"
#include "threads.hpp"

namespace sharpdnf {

namespace reach {

struct Graph {
    int64_t num_nodes = 0, num_edges = 0;
    const int64_t *start = nullptr;  // of each node's outgoing links in `target` and `link`
    const int32_t *target = nullptr;
    const int32_t *link = nullptr;  // the number of the link; both directions of an undirected one have the same
    const double *edge_prob = nullptr;
    const double *node_prob = nullptr;
};

struct Question {
    int32_t source = 0;
    std::vector<int32_t> terminals;  // success: all of them are reached
    int64_t hops = std::numeric_limits<int64_t>::max();
};

// The graph with its nodes numbered in the order of a breadth-first search from the source, unreachable ones left out.
struct Ordered {
    Graph graph;
    std::vector<int64_t> start{0};
    std::vector<int32_t> target, link, node;  // node: the old number of each
    std::vector<double> node_prob;
    Question question;
    bool possible = true;  // whether every terminal can be reached at all

    Ordered(const Graph &g, const Question &q, Poll &poll) : question(q) {
        std::vector<int32_t> place(g.num_nodes, -1);
        node.push_back(q.source);
        place[q.source] = 0;
        Pace pace(poll);
        for (std::size_t i = 0; i < node.size(); ++i) {
            for (int64_t k = g.start[node[i]]; k < g.start[node[i] + 1]; ++k) {
                const int32_t v = g.target[k];
                if (place[v] < 0 && g.edge_prob[g.link[k]] > 0.0) {
                    place[v] = static_cast<int32_t>(node.size());
                    node.push_back(v);
                }
            }
            pace.check(g.start[node[i] + 1] - g.start[node[i]] + 1);
        }
        for (const int32_t v : node) {
            node_prob.push_back(g.node_prob[v]);
            for (int64_t k = g.start[v]; k < g.start[v + 1]; ++k)
                if (place[g.target[k]] >= 0) target.push_back(place[g.target[k]]), link.push_back(g.link[k]);
            start.push_back(static_cast<int64_t>(target.size()));
            pace.check(g.start[v + 1] - g.start[v] + 1);
        }
        question.source = 0;
        for (int32_t &v : question.terminals) possible &= (v = place[v]) >= 0;
        graph = g;
        graph.num_nodes = static_cast<int64_t>(node.size());
        graph.start = start.data(), graph.target = target.data(), graph.link = link.data();
        graph.node_prob = node_prob.data();
    }
};

// What one thread needs to search one block of worlds after another.
class Search {
  public:
    explicit Search(const Ordered &o)
        : g_(o.graph),
          q_(o.question),
          node_data_(g_.num_nodes),
          edge_(g_.num_edges),
          node_(g_.num_nodes),
          edge_stamp_(g_.num_edges, 0),
          node_stamp_(g_.num_nodes, 0),
          pending_((g_.num_nodes + 63) / 64, 0) {}

    int64_t looks = 0;  // links looked at, each in 512 worlds

    // The worlds in which every terminal is reached; false if it was told to stop.
    bool run(uint64_t seed, uint64_t block, LaneWord &success, Poll &poll) {
        uint64_t mixed = seed ^ (block * 0xd1342543de82ef95ULL);
        LaneRandom random(splitmix64(mixed));
        ++stamp_;
        std::fill(node_data_.begin(), node_data_.end(), Node{});
        const Lanes up = node(q_.source, random);
        node_data_[q_.source] = {{up}, {up}};
        Pace pace(poll);
        const bool done = q_.hops == std::numeric_limits<int64_t>::max() ? sweep(random, pace) : hop(random, pace);
        if (!done) {
            std::fill(pending_.begin(), pending_.end(), 0);
            return false;
        }
        success.bits = Lanes::all(~0ULL);
        for (const int32_t v : q_.terminals) success.bits &= node_data_[v].reached.bits;
        return true;
    }
    const LaneWord &reached(int64_t v) const { return node_data_[v].reached; }

  private:
    struct Node {
        LaneWord reached, fresh;  // fresh: the worlds in which its links have not been followed yet
    };
    // Follows the links of u in the worlds `here`; tells `found` which nodes were reached in new worlds.
    template <class Found> SHARPDNF_INLINE void follow(int32_t u, const Lanes &here, LaneRandom &random, Found found) {
        for (int64_t i = g_.start[u]; i < g_.start[u + 1]; ++i) {
            const int32_t v = g_.target[i];
            Lanes arrives = here & ~node_data_[v].reached.bits;
            if (!any(arrives)) continue;
            arrives &= edge(g_.link[i], random);
            arrives &= node(v, random);
            if (!any(arrives)) continue;
            node_data_[v].reached.bits |= arrives;
            found(v, arrives);
        }
        looks += g_.start[u + 1] - g_.start[u];
    }
    // All pending nodes in the order of their numbers, then in the opposite order, until none is pending.
    bool sweep(LaneRandom &random, Pace &pace) {
        pending_[q_.source >> 6] |= 1ULL << (q_.source & 63);
        const auto words = static_cast<int64_t>(pending_.size());
        const auto visit = [&](int64_t word, int bit) {
            const auto u = static_cast<int32_t>(64 * word + bit);
            pending_[word] &= ~(1ULL << bit);
            const Lanes here = node_data_[u].fresh.bits;
            node_data_[u].fresh.bits = Lanes::none();
            follow(u, here, random, [&](int32_t v, const Lanes &arrives) {
                node_data_[v].fresh.bits |= arrives;
                pending_[v >> 6] |= 1ULL << (v & 63);
            });
            return !pace.stop(4 * (g_.start[u + 1] - g_.start[u]) + 1);
        };
        bool any_left = true;
        while (any_left) {
            if (q_.terminals.size() == 1 && !to_the_end && !any(~node_data_[q_.terminals[0]].reached.bits)) {
                std::fill(pending_.begin(), pending_.end(), 0);  // every world is decided
                return true;
            }
            for (int64_t w = 0; w < words; ++w)
                while (pending_[w])
                    if (!visit(w, __builtin_ctzll(pending_[w]))) return false;
            any_left = false;
            for (int64_t w = words; w-- > 0;)
                while (pending_[w])
                    if (!visit(w, 63 - __builtin_clzll(pending_[w]))) return false;
            for (int64_t w = 0; w < words; ++w) any_left |= pending_[w] != 0;
        }
        return true;
    }
    // Hop by hop, at most as many as are allowed.
    bool hop(LaneRandom &random, Pace &pace) {
        std::vector<int32_t> now{q_.source}, next;
        for (int64_t step = 0; step < q_.hops && !now.empty(); ++step) {
            next.clear();
            for (const int32_t u : now) {
                const Lanes here = node_data_[u].fresh.bits;
                follow(u, here, random, [&](int32_t v, const Lanes &arrives) {
                    uint64_t &word = pending_[v >> 6];
                    if (!(word >> (v & 63) & 1))
                        word |= 1ULL << (v & 63), next.push_back(v), arriving(v) = Lanes::none();
                    arriving(v) |= arrives;
                });
                if (pace.stop(4 * (g_.start[u + 1] - g_.start[u]) + 1)) return false;
            }
            for (const int32_t v : next) {
                pending_[v >> 6] &= ~(1ULL << (v & 63));
                node_data_[v].fresh.bits = arriving(v);
            }
            std::swap(now, next);
        }
        return true;
    }
    Lanes &arriving(int32_t v) {
        if (arriving_.empty()) arriving_.resize(g_.num_nodes);
        return arriving_[v].bits;
    }
    Lanes edge(int32_t e, LaneRandom &random) {
        if (edge_stamp_[e] != stamp_) edge_stamp_[e] = stamp_, edge_[e].bits = bernoulli(random, g_.edge_prob[e]);
        return edge_[e].bits;
    }
    Lanes node(int32_t v, LaneRandom &random) {
        if (g_.node_prob[v] >= 1.0) return Lanes::all(~0ULL);
        if (node_stamp_[v] != stamp_) node_stamp_[v] = stamp_, node_[v].bits = bernoulli(random, g_.node_prob[v]);
        return node_[v].bits;
    }
    const Graph &g_;
    const Question &q_;
    std::vector<Node> node_data_;
    std::vector<LaneWord> edge_, node_, arriving_;
    std::vector<uint32_t> edge_stamp_, node_stamp_;
    std::vector<uint64_t> pending_;
    uint32_t stamp_ = 0;

  public:
    bool to_the_end = false;  // every node is counted, so a decided block goes on
};

struct Result {
    int64_t draws = 0, successes = 0, looks = 0;
    bool complete = false;
    bool impossible = false;       // some terminal cannot be reached in any world
    std::vector<int64_t> reached;  // of each node: in how many of the draws (with `count_nodes`)
};

struct Plan {
    uint64_t seed = 0;
    int64_t successes = 0;    // stop at this many, or
    int64_t max_draws = 0;    // after so many worlds
    bool of_failure = false;  // a success is that some terminal is not reached
    bool count_nodes = false;
    int threads = 1;
};

// Blocks are tallied in order and worlds after the last wanted success are dropped, so the answer is that of one
// thread.
inline Result sample(const Graph &g, const Question &q, const Plan &plan, Poll &poll) {
    Result out;
    if (plan.count_nodes) out.reached.assign(g.num_nodes, 0);
    const Ordered ordered(g, q, poll);
    out.impossible = !ordered.possible;
    if (out.impossible && !plan.count_nodes) return out;  // no number of draws would find a success
    // A thread costs more than it brings where a block of worlds is searched in less time than it takes to start.
    const int threads = ordered.start.back() < 4096 ? 1 : std::max(1, plan.threads);
    std::vector<Search> searches;
    searches.reserve(threads);
    for (int t = 0; t < threads; ++t) searches.emplace_back(ordered), searches.back().to_the_end = plan.count_nodes;
    // With `count_nodes` a search keeps what it found until it is tallied, so each has a place of its own.
    std::vector<LaneWord> success(threads);
    const auto work = [&](int t, int place, uint64_t block, Poll &own) {
        Search &search = searches[plan.count_nodes ? place : t];
        return search.run(plan.seed, block, success[place], own);
    };
    const auto tally = [&](int place) {
        if (plan.of_failure) success[place].bits = ~success[place].bits;
        for (int lane = 0; lane < LANES && !out.complete; ++lane) {
            ++out.draws;
            out.successes += success[place].lane(lane);
            out.complete = (plan.successes > 0 && out.successes == plan.successes) || out.draws == plan.max_draws;
        }
        // Of the last block only the worlds that count.
        const int64_t counted = out.complete ? (out.draws - 1) % LANES + 1 : LANES;
        for (int64_t v = 0; plan.count_nodes && v < ordered.graph.num_nodes; ++v) {
            const LaneWord &word = searches[place].reached(v);
            int64_t &count = out.reached[ordered.node[v]];
            if (counted == LANES) {
                count += word.ones();
            } else {
                for (int lane = 0; lane < counted; ++lane) count += word.lane(lane);
            }
        }
        return out.complete;
    };
    in_order(threads, threads, work, tally, poll);
    for (const Search &search : searches) out.looks += search.looks;
    return out;
}

}  // namespace reach

}  // namespace sharpdnf
