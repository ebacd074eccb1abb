// Reachability in 512 random worlds at once: a node's word says in which worlds it has been reached.
//
// Worlds are drawn as they are needed: a link (or a node that can fail) gets its word when the search first comes to
// it, so what lies behind a cut costs nothing. Two terminals are searched for from both ends, level by level, until in
// every world the two searches have met or one of them has come to its end: of a large network only a part is seen.
// For other questions nodes are numbered in the order of a search from the source, in which the pending ones are swept,
// forwards and backwards in turn, until none is left: worlds in which a node is reached by ways of different lengths
// are mostly looked at together; with a limit on hops, hop by hop. Block b of a seed is the same whichever
// thread runs it.
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
    int64_t num_nodes = 0, num_links = 0;
    const int32_t *tail = nullptr, *head = nullptr;  // the two nodes of each link
    bool directed = false;
    const double *link_prob = nullptr;
    const double *node_prob = nullptr;
};

struct Question {
    int32_t source = 0;
    std::vector<int32_t> terminals;  // success: all of them are reached
    int64_t hops = std::numeric_limits<int64_t>::max();

    bool limited() const { return hops != std::numeric_limits<int64_t>::max(); }
};

// The ways out of each node: those of node u are start[u] .. start[u + 1] - 1. Both directions of an undirected link
// have its number.
struct Arcs {
    std::vector<int64_t> start;
    std::vector<int32_t> target, link;

    int64_t count(int32_t u) const { return start[u + 1] - start[u]; }
};

// Arcs from tail[i] to head[i] as `link(i)`, and back if `both`, each node's in the order of i.
template <class Link>
Arcs arcs_of(int64_t num_nodes, int64_t size, const int32_t *tail, const int32_t *head, bool both, Link link) {
    Arcs out;
    out.start.assign(num_nodes + 1, 0);
    for (int64_t i = 0; i < size; ++i) {
        ++out.start[tail[i] + 1];
        if (both) ++out.start[head[i] + 1];
    }
    for (int64_t v = 0; v < num_nodes; ++v) out.start[v + 1] += out.start[v];
    out.target.resize(out.start[num_nodes]), out.link.resize(out.start[num_nodes]);
    std::vector<int64_t> next(out.start.begin(), out.start.end() - 1);
    for (int64_t i = 0; i < size; ++i) {
        const int64_t there = next[tail[i]]++;
        out.target[there] = head[i], out.link[there] = link(i);
        if (!both) continue;
        const int64_t back = next[head[i]]++;
        out.target[back] = tail[i], out.link[back] = link(i);
    }
    return out;
}

// The network with its nodes and links numbered in the order of a breadth-first search from the source, so that what
// is looked at together lies together; what cannot be reached is left out.
struct Ordered {
    int64_t num_nodes = 0;
    Arcs ahead, back;  // back: the arcs turned round, made only if a directed network is searched from both ends
    bool turned = false;
    std::vector<int32_t> node;  // the number of each in the caller's network
    std::vector<double> node_prob, link_prob;
    Question question;
    bool possible = true;  // whether every terminal can be reached at all
    bool two_ends = false;

    Ordered(const Graph &g, const Question &q, bool count_nodes, Poll &poll) : question(q) {
        const auto itself = [](int64_t i) { return static_cast<int32_t>(i); };
        const Arcs all = arcs_of(g.num_nodes, g.num_links, g.tail, g.head, !g.directed, itself);
        const std::vector<int32_t> place = search(g, all, poll);
        std::vector<int32_t> number(g.num_links, -1), from;  // number: the new one of each link
        ahead.start.push_back(0);
        Pace pace(poll);
        for (const int32_t v : node) {
            node_prob.push_back(g.node_prob[v]);
            for (int64_t k = all.start[v]; k < all.start[v + 1]; ++k) {
                if (place[all.target[k]] < 0) continue;
                int32_t &link = number[all.link[k]];
                if (link < 0) {
                    link = static_cast<int32_t>(link_prob.size());
                    link_prob.push_back(g.link_prob[all.link[k]]);
                }
                from.push_back(place[v]), ahead.target.push_back(place[all.target[k]]), ahead.link.push_back(link);
            }
            ahead.start.push_back(static_cast<int64_t>(ahead.target.size()));
            pace.check(all.count(v) + 1);
        }
        num_nodes = static_cast<int64_t>(node.size());
        question.source = 0;
        for (int32_t &v : question.terminals) possible &= (v = place[v]) >= 0;
        std::vector<int32_t> &ends = question.terminals;
        ends.erase(std::remove(ends.begin(), ends.end(), 0), ends.end());  // the source reaches itself
        two_ends = possible && ends.size() == 1 && !count_nodes;
        turned = two_ends && g.directed;
        if (turned)
            back = arcs_of(num_nodes, static_cast<int64_t>(from.size()), ahead.target.data(), from.data(), false,
                           [&](int64_t i) { return ahead.link[i]; });
    }

  private:
    // The new number of each node, -1 for what the source cannot reach.
    std::vector<int32_t> search(const Graph &g, const Arcs &all, Poll &poll) {
        std::vector<int32_t> place(g.num_nodes, -1);
        node.push_back(question.source);
        place[question.source] = 0;
        Pace pace(poll);
        for (std::size_t i = 0; i < node.size(); ++i) {
            for (int64_t k = all.start[node[i]]; k < all.start[node[i] + 1]; ++k) {
                const int32_t v = all.target[k];
                if (place[v] < 0 && g.link_prob[all.link[k]] > 0.0) {
                    place[v] = static_cast<int32_t>(node.size());
                    node.push_back(v);
                }
            }
            pace.check(all.count(node[i]) + 1);
        }
        return place;
    }
};

// What one thread needs to search one block of worlds after another.
class Search {
  public:
    explicit Search(const Ordered &o)
        : o_(o),
          q_(o.question),
          link_(o.link_prob.size()),
          node_(o.num_nodes),
          link_stamp_(o.link_prob.size(), 0),
          node_stamp_(o.num_nodes, 0) {
        sides_[0].arcs = &o.ahead, sides_[1].arcs = o.turned ? &o.back : &o.ahead;
        for (int i = 0; i < (o.two_ends ? 2 : 1); ++i) {
            sides_[i].nodes.resize(o.num_nodes);
            sides_[i].pending.resize((o.num_nodes + 63) / 64, 0);
        }
    }

    int64_t looks = 0;  // links looked at, each in 512 worlds

    // The worlds in which every terminal is reached; false if it was told to stop.
    bool run(uint64_t seed, uint64_t block, LaneWord &success, Poll &poll) {
        uint64_t mixed = seed ^ (block * 0xd1342543de82ef95ULL);
        LaneRandom random(splitmix64(mixed));
        ++stamp_;
        for (Side &side : sides_) side.clear();
        Pace pace(poll);
        if (o_.two_ends) return meet(success.bits, random, pace);
        const Lanes up = node(q_.source, random);
        sides_[0].nodes[q_.source] = {{up}, {up}};
        if (!(q_.limited() ? hop(random, pace) : sweep(random, pace))) return false;
        success.bits = up;
        for (const int32_t v : q_.terminals) success.bits &= reached(v).bits;
        return true;
    }
    const LaneWord &reached(int64_t v) const { return sides_[0].nodes[v].reached; }

  private:
    struct Node {
        LaneWord reached, fresh;  // fresh: the worlds in which its links have not been followed yet
    };
    // A search from one end.
    struct Side {
        const Arcs *arcs = nullptr;
        std::vector<Node> nodes;
        std::vector<uint64_t> pending;  // a bit for each node with fresh worlds
        std::vector<int32_t> now, next;
        int64_t cost = 0;  // arcs that the next level looks at

        void clear() {
            std::fill(nodes.begin(), nodes.end(), Node{});
            std::fill(pending.begin(), pending.end(), 0);
            now.clear(), cost = 0;
        }
        bool wait(int32_t v) {  // returns false if it was waiting already
            const bool first = !(pending[v >> 6] >> (v & 63) & 1);
            pending[v >> 6] |= 1ULL << (v & 63);
            return first;
        }
        void visited(int32_t v) { pending[v >> 6] &= ~(1ULL << (v & 63)); }
        // Asks memory for what following the links of u will read.
        SHARPDNF_INLINE void expect(int32_t u) const {
            for (int64_t i = arcs->start[u]; i < arcs->start[u + 1]; ++i) {
                __builtin_prefetch(&nodes[arcs->target[i]].reached);
            }
        }
    };
    // Follows the links of u in the worlds `here`; tells `found` which nodes were reached in new worlds.
    template <class Found>
    SHARPDNF_INLINE void follow(Side &side, int32_t u, const Lanes &here, LaneRandom &random, Found found) {
        const Arcs &arcs = *side.arcs;
        for (int64_t i = arcs.start[u]; i < arcs.start[u + 1]; ++i) {
            const int32_t v = arcs.target[i];
            Lanes arrives = here & ~side.nodes[v].reached.bits;
            if (!any(arrives)) continue;
            arrives &= link(arcs.link[i], random);
            arrives &= node(v, random);
            if (!any(arrives)) continue;
            side.nodes[v].reached.bits |= arrives;
            found(v, arrives);
        }
        looks += arcs.count(u);
    }
    // From both ends, a level of the cheaper side at a time. A world is decided if the sides have met in it, or if one
    // of them found nothing new: then it has seen all that its end is connected to. Nodes within a hops of the one end
    // and b of the other are there if and only if the ends are within a + b hops of each other, so a limit on hops is
    // one on levels.
    bool meet(Lanes &met, LaneRandom &random, Pace &pace) {
        const int32_t ends[2] = {q_.source, q_.terminals[0]};
        Lanes active = Lanes::all(~0ULL);
        for (int i = 0; i < 2; ++i) {
            const Lanes up = node(ends[i], random);
            active &= up;
            sides_[i].nodes[ends[i]] = {{up}, {up}};
            sides_[i].now.push_back(ends[i]);
            sides_[i].cost = sides_[i].arcs->count(ends[i]);
        }
        met = Lanes::none();
        arriving_.resize(o_.num_nodes);
        for (int64_t level = 0; level < q_.hops && any(active); ++level) {
            const int cheaper = sides_[1].cost < sides_[0].cost;
            Side &side = sides_[cheaper];
            const Side &other = sides_[1 - cheaper];
            Lanes grew = Lanes::none();
            side.next.clear(), side.cost = 0;
            for (std::size_t i = 0; i < side.now.size(); ++i) {
                if (i + 1 < side.now.size()) side.expect(side.now[i + 1]);
                const int32_t u = side.now[i];
                const Lanes here = side.nodes[u].fresh.bits & active;
                if (!any(here)) continue;
                follow(side, u, here, random, [&](int32_t v, const Lanes &arrives) {
                    met |= arrives & other.nodes[v].reached.bits;
                    const Lanes on = arrives & ~met;
                    if (!any(on)) return;
                    grew |= on;
                    if (side.wait(v)) {
                        side.next.push_back(v), side.cost += side.arcs->count(v) + 1;
                        arriving_[v].bits = Lanes::none();
                    }
                    arriving_[v].bits |= on;
                });
                active &= ~met;
                if (pace.stop(4 * side.arcs->count(u) + 1)) return false;
            }
            active &= grew;
            advance(side);
        }
        return true;
    }
    // All pending nodes in the order of their numbers, then in the opposite order, until none is pending.
    bool sweep(LaneRandom &random, Pace &pace) {
        Side &side = sides_[0];
        std::vector<uint64_t> &pending = side.pending;
        side.wait(q_.source);
        const auto words = static_cast<int64_t>(pending.size());
        const auto visit = [&](int64_t word, int bit) {
            const auto u = static_cast<int32_t>(64 * word + bit);
            side.visited(u);
            const Lanes here = side.nodes[u].fresh.bits;
            side.nodes[u].fresh.bits = Lanes::none();
            follow(side, u, here, random, [&](int32_t v, const Lanes &arrives) {
                side.nodes[v].fresh.bits |= arrives;
                side.wait(v);
            });
            return !pace.stop(4 * side.arcs->count(u) + 1);
        };
        bool any_left = true;
        while (any_left) {
            for (int64_t w = 0; w < words; ++w)
                while (pending[w])
                    if (!visit(w, __builtin_ctzll(pending[w]))) return false;
            any_left = false;
            for (int64_t w = words; w-- > 0;)
                while (pending[w])
                    if (!visit(w, 63 - __builtin_clzll(pending[w]))) return false;
            for (int64_t w = 0; w < words; ++w) any_left |= pending[w] != 0;
        }
        return true;
    }
    // Hop by hop, at most as many as are allowed.
    bool hop(LaneRandom &random, Pace &pace) {
        Side &side = sides_[0];
        side.now.assign(1, q_.source);
        arriving_.resize(o_.num_nodes);
        for (int64_t step = 0; step < q_.hops && !side.now.empty(); ++step) {
            side.next.clear();
            for (const int32_t u : side.now) {
                const Lanes here = side.nodes[u].fresh.bits;
                follow(side, u, here, random, [&](int32_t v, const Lanes &arrives) {
                    if (side.wait(v)) side.next.push_back(v), arriving_[v].bits = Lanes::none();
                    arriving_[v].bits |= arrives;
                });
                if (pace.stop(4 * side.arcs->count(u) + 1)) return false;
            }
            advance(side);
        }
        return true;
    }
    // The nodes that were found are the next level.
    void advance(Side &side) {
        for (const int32_t v : side.next) {
            side.visited(v);
            side.nodes[v].fresh.bits = arriving_[v].bits;
        }
        std::swap(side.now, side.next);
    }
    Lanes link(int32_t e, LaneRandom &random) {
        if (link_stamp_[e] != stamp_) link_stamp_[e] = stamp_, link_[e].bits = bernoulli(random, o_.link_prob[e]);
        return link_[e].bits;
    }
    Lanes node(int32_t v, LaneRandom &random) {
        if (o_.node_prob[v] >= 1.0) return Lanes::all(~0ULL);
        if (node_stamp_[v] != stamp_) node_stamp_[v] = stamp_, node_[v].bits = bernoulli(random, o_.node_prob[v]);
        return node_[v].bits;
    }
    const Ordered &o_;
    const Question &q_;
    Side sides_[2];
    std::vector<LaneWord> link_, node_, arriving_;
    std::vector<uint32_t> link_stamp_, node_stamp_;
    uint32_t stamp_ = 0;
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
    const Ordered ordered(g, q, plan.count_nodes, poll);
    out.impossible = !ordered.possible;
    if (out.impossible && !plan.count_nodes) return out;  // no number of draws would find a success
    // A thread costs more than it brings where a block of worlds is searched in less time than it takes to start.
    const int threads = ordered.ahead.target.size() < 4096 ? 1 : std::max(1, plan.threads);
    std::vector<Search> searches;
    searches.reserve(threads);
    for (int t = 0; t < threads; ++t) searches.emplace_back(ordered);
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
        for (int64_t v = 0; plan.count_nodes && v < ordered.num_nodes; ++v) {
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
