// Exact network reliability by the frontier method (Hardy, Lucet, Limnios 2007; Sekine, Imai 1995).
//
// Links are decided one after the other. Of the links decided so far only this matters for the rest: how the nodes of
// the frontier, those with links on both sides of the cut, are connected. States that agree in it are merged, so the
// cost grows with the width of the frontier and not with the number of paths. Two kinds of state:
//   Partition   undirected, k terminals: which frontier nodes are connected, and which classes hold a terminal
//   Distances   directed or with a limit on hops, two terminals: shortest distances between frontier nodes
// Every state is a node of a decision diagram over links (and nodes that can fail), so a run can be kept as a circuit.
// Both the probability that the answer is yes and that it is no are sums of positive numbers: each is accurate even
// where it is tiny, and together they bound the answer when the run has to stop early.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "poll.hpp"

namespace sharpdnf {

namespace frontier {

constexpr int kMaxWidth = 62;  // slots of a frontier; the states of wider ones could never be enumerated
constexpr int32_t kNo = -1, kYes = -2;
using Bytes = std::array<uint8_t, kMaxWidth + 2>;
constexpr uint8_t kFar = 255;  // a distance beyond the limit on hops

struct Graph {
    int64_t num_nodes = 0, num_edges = 0;
    const int32_t *from = nullptr, *to = nullptr;  // of each link, in the order in which links are decided
    const uint8_t *terminal = nullptr;             // of each node
    const uint8_t *fails = nullptr;                // of each node: whether it is a variable too
    const uint8_t *both_ways = nullptr;            // of each link
};

// What happens between two decisions: nodes enter the frontier, a link may be up, nodes leave.
struct Event {
    enum Kind : uint8_t { enter, decide_node, decide_edge, leave } kind;
    int32_t what;   // the node or link
    int32_t slot;   // of the node, or of the link's first end
    int32_t other;  // the link's second end; of a leaving node: which terminals have no links left
};
constexpr int32_t kSourceDone = 1, kTargetDone = 2;

// The fixed sequence of events for an order of the links.
struct Schedule {
    std::vector<Event> events;
    int width = 0;
    bool too_wide = false;
};

// With `keep_terminals`, nodes 0 (source) and 1 (target) are the terminals; they enter first and stay.
inline Schedule plan(const Graph &g, bool keep_terminals) {
    Schedule out;
    std::vector<int64_t> last(g.num_nodes, -1);
    for (int64_t e = 0; e < g.num_edges; ++e) last[g.from[e]] = last[g.to[e]] = e;
    std::vector<int32_t> slots;
    std::vector<char> inside(g.num_nodes, 0);
    const auto enter = [&](int32_t v) {
        if (inside[v]) return;
        inside[v] = 1;
        out.events.push_back({Event::enter, v, static_cast<int32_t>(slots.size()), 0});
        if (g.fails[v]) out.events.push_back({Event::decide_node, v, static_cast<int32_t>(slots.size()), 0});
        slots.push_back(v);
        out.width = std::max(out.width, static_cast<int>(slots.size()));
    };
    const auto slot_of = [&](int32_t v) {
        return static_cast<int32_t>(std::find(slots.begin(), slots.end(), v) - slots.begin());
    };
    if (keep_terminals)
        for (int32_t v = 0; v < g.num_nodes; ++v)
            if (g.terminal[v]) enter(v);
    for (int64_t e = 0; e < g.num_edges; ++e) {
        enter(g.from[e]), enter(g.to[e]);
        if (out.width > kMaxWidth) {
            out.too_wide = true;
            return out;
        }
        out.events.push_back({Event::decide_edge, static_cast<int32_t>(e), slot_of(g.from[e]), slot_of(g.to[e])});
        for (const int32_t v : {g.from[e], g.to[e]}) {
            if (last[v] != e || !inside[v] || (keep_terminals && g.terminal[v])) continue;
            const int32_t slot = slot_of(v);
            if (slot == static_cast<int32_t>(slots.size())) continue;  // a loop's node has left already
            const int32_t done =
                keep_terminals ? (last[0] <= e ? kSourceDone : 0) | (last[1] <= e ? kTargetDone : 0) : 0;
            out.events.push_back({Event::leave, v, slot, done});
            slots.erase(slots.begin() + slot);
        }
    }
    return out;
}

// Undirected: the class of every frontier node (0: the node is down), and whether a class holds a terminal. Classes are
// numbered in the order of their first node, so equal partitions are equal bytes.
class Partition {
  public:
    Partition(const Graph &g) : graph_(g) {
        for (int64_t v = 0; v < g.num_nodes; ++v) terminals_ += g.terminal[v];
    }
    void start() { size_ = 0, classes_ = 0, seen_ = 0; }
    int bytes(int slots) const { return 2 * slots + 1; }
    // The bytes of a state: classes, then flags; `seen` terminals are the same for all states of a level.
    void store(uint8_t *out, int slots) {
        normalise();
        std::memcpy(out, label_.data(), size_);
        for (int c = 1; c <= classes_; ++c) out[slots + c - 1] = flag_[c];
        std::memset(out + slots + classes_, 0, slots - classes_ + 1);
    }
    void load(const uint8_t *in, int slots, int seen) {
        size_ = slots, seen_ = seen, classes_ = 0;
        for (int i = 0; i < slots; ++i) label_[i] = in[i], classes_ = std::max<int>(classes_, in[i]);
        for (int c = 1; c <= classes_; ++c) flag_[c] = in[slots + c - 1];
    }
    int seen() const { return seen_; }
    // Each returns kYes or kNo where that decides the answer, else 0.
    int32_t enter(const Event &event) {
        label_[size_++] = static_cast<uint8_t>(++classes_);
        flag_[classes_] = graph_.terminal[event.what];
        seen_ += graph_.terminal[event.what];
        return decided();
    }
    int32_t node(const Event &event, bool up) {
        if (up) return 0;
        if (graph_.terminal[event.what]) return kNo;
        label_[event.slot] = 0;
        return 0;
    }
    int32_t edge(const Event &event, bool up) {
        const uint8_t a = label_[event.slot], b = label_[event.other];
        if (!up || a == b || a == 0 || b == 0) return 0;
        flag_[a] |= flag_[b];
        flag_[b] = 0;
        for (int i = 0; i < size_; ++i)
            if (label_[i] == b) label_[i] = a;
        return decided();
    }
    int32_t leave(const Event &event) {
        const uint8_t gone = label_[event.slot];
        std::memmove(label_.data() + event.slot, label_.data() + event.slot + 1, size_ - event.slot - 1);
        --size_;
        if (gone == 0 || std::find(label_.begin(), label_.begin() + size_, gone) != label_.begin() + size_) return 0;
        // The last node of its class: a terminal in it can meet no other any more.
        const bool held = flag_[gone];
        flag_[gone] = 0;
        return held ? kNo : 0;
    }

  private:
    // Yes as soon as all terminals are in and stand in one class.
    int32_t decided() const {
        if (seen_ < terminals_) return 0;
        int held = 0;
        for (int c = 1; c <= classes_; ++c) held += flag_[c];
        return held <= 1 ? kYes : 0;
    }
    void normalise() {
        Bytes name{}, flag{};
        int next = 0;
        for (int i = 0; i < size_; ++i) {
            const uint8_t c = label_[i];
            if (c == 0) continue;
            if (!name[c]) name[c] = static_cast<uint8_t>(++next), flag[next] = flag_[c];
            label_[i] = name[c];
        }
        flag_ = flag, classes_ = next;
    }
    const Graph &graph_;
    Bytes label_{}, flag_{};
    int size_ = 0, classes_ = 0, seen_ = 0, terminals_ = 0;
};

// Two terminals, directed or with at most `hops` links: the shortest distance from each frontier node to each other
// over links decided to be up. The terminals, slots 0 (source) and 1 (target), never leave. Without a limit on hops a
// link is 0 long, and a distance is 0 or kFar.
class Distances {
  public:
    Distances(const Graph &g, int hops) : graph_(g), limit_(hops < 0 ? 0 : hops), length_(hops < 0 ? 0 : 1) {}
    void start() { size_ = 0; }
    int bytes(int slots) const { return slots * slots; }
    void store(uint8_t *out, int slots) {
        normalise();
        for (int i = 0; i < slots; ++i) std::memcpy(out + i * slots, far_[i].data(), slots);
    }
    void load(const uint8_t *in, int slots, int) {
        size_ = slots;
        for (int i = 0; i < slots; ++i) std::memcpy(far_[i].data(), in + i * slots, slots);
    }
    int seen() const { return 0; }
    int32_t enter(const Event &) {
        for (int i = 0; i < size_; ++i) far_[i][size_] = far_[size_][i] = kFar;
        far_[size_][size_] = 0;
        ++size_;
        return 0;
    }
    int32_t node(const Event &event, bool up) {
        if (up) return 0;
        if (graph_.terminal[event.what]) return kNo;
        far_[event.slot][event.slot] =
            kFar;  // a failed node does not reach even itself, so that no path goes through it
        return 0;
    }
    int32_t edge(const Event &event, bool up) {
        if (!up) return 0;
        way(event.slot, event.other);
        if (graph_.both_ways[event.what]) way(event.other, event.slot);
        return far_[0][1] <= limit_ ? kYes : 0;
    }
    int32_t leave(const Event &event) {
        const int gone = event.slot;
        for (int i = 0; i < size_; ++i) std::memmove(&far_[i][gone], &far_[i][gone + 1], size_ - gone - 1);
        for (int i = gone; i + 1 < size_; ++i) far_[i] = far_[i + 1];
        --size_;
        // Lost if the source has no link left and reaches nothing of the frontier, or if nothing reaches the target.
        bool out = !(event.other & kSourceDone), in = !(event.other & kTargetDone);
        for (int i = 2; i < size_; ++i) out |= far_[0][i] != kFar, in |= far_[i][1] != kFar;
        return out && in ? 0 : kNo;
    }

  private:
    void way(int u, int v) {
        for (int i = 0; i < size_; ++i) {
            if (far_[i][u] == kFar) continue;
            for (int j = 0; j < size_; ++j) {
                if (far_[v][j] == kFar) continue;
                const int through = far_[i][u] + length_ + far_[v][j];
                if (through <= limit_ && through < far_[i][j]) far_[i][j] = static_cast<uint8_t>(through);
            }
        }
    }
    // Forgets what cannot matter, so that more states are equal. Without a limit on hops: a node that the source
    // reaches may as well be reached from everywhere, and one that reaches the target may as well reach everything (a
    // way over such a link has a part that leads from the source, or to the target, without it). With a limit: a way
    // from i to j is useless if the source is as near to j as i is, or if i is as near to the target as to j.
    void normalise() {
        if (length_ == 0) {
            for (int j = 1; j < size_; ++j) {
                if (far_[j][j] == kFar) continue;
                for (int i = 0; i < size_; ++i) {
                    if (far_[i][i] == kFar) continue;
                    if (far_[0][j] == 0) far_[i][j] = 0;
                    if (j != 1 && far_[j][1] == 0) far_[j][i] = 0;
                }
            }
            return;
        }
        for (int i = 1; i < size_; ++i)
            for (int j = 0; j < size_; ++j)
                if (i != j && j != 1 && (far_[0][j] <= far_[i][j] || far_[i][1] <= far_[i][j])) far_[i][j] = kFar;
    }
    const Graph &graph_;
    int limit_, length_, size_ = 0;
    std::array<Bytes, kMaxWidth + 2> far_{};
};

// Fixed-size keys in one array with an open-addressed index: the states of one level.
class Level {
  public:
    void reset(int bytes) {
        bytes_ = (std::max(bytes, 1) + 7) / 8 * 8;  // whole words, the rest of the last one zero
        keys_.clear(), value_.clear();
        table_.assign(1024, -1);
    }
    int64_t size() const { return static_cast<int64_t>(value_.size()); }
    const uint8_t *key(int64_t i) const { return keys_.data() + i * bytes_; }
    double value(int64_t i) const { return value_[i]; }
    uint8_t *scratch() {
        scratch_.assign(bytes_, 0);
        return scratch_.data();
    }
    std::size_t memory() const { return keys_.capacity() + value_.capacity() * 8 + table_.capacity() * 4; }
    // The number of the state in scratch(), which is added if it is new; its probability grows by `mass`.
    int32_t add(double mass) {
        std::size_t mask = table_.size() - 1, place = hash() & mask;
        for (; table_[place] >= 0; place = (place + 1) & mask) {
            const int32_t found = table_[place];
            if (!std::memcmp(key(found), scratch_.data(), bytes_)) {
                value_[found] += mass;
                return found;
            }
        }
        const auto fresh = static_cast<int32_t>(value_.size());
        table_[place] = fresh;
        keys_.insert(keys_.end(), scratch_.begin(), scratch_.end());
        value_.push_back(mass);
        if (2 * value_.size() > table_.size()) grow();
        return fresh;
    }

  private:
    std::size_t hash() const { return hash_of(scratch_.data()); }
    std::size_t hash_of(const uint8_t *bytes) const {
        uint64_t h = 0x9e3779b97f4a7c15ULL;
        for (int i = 0; i < bytes_; i += 8) {
            uint64_t word;
            std::memcpy(&word, bytes + i, 8);
            h = (h ^ word) * 0xbf58476d1ce4e5b9ULL;
            h ^= h >> 31;
        }
        return static_cast<std::size_t>(h ^ (h >> 32));
    }
    void grow() {
        table_.assign(2 * table_.size(), -1);
        const std::size_t mask = table_.size() - 1;
        for (int64_t i = 0; i < size(); ++i) {
            std::size_t place = hash_of(key(i)) & mask;
            while (table_[place] >= 0) place = (place + 1) & mask;
            table_[place] = static_cast<int32_t>(i);
        }
    }
    int bytes_ = 1;
    std::vector<uint8_t> keys_, scratch_;
    std::vector<double> value_;
    std::vector<int32_t> table_;
};

struct Result {
    double yes = 0.0, no = 0.0;  // probabilities of what is decided; they add up to 1 when the run is complete
    bool complete = false, kept = false, too_wide = false;
    int width = 0;
    int64_t states = 0;
    // The diagram, if it was kept: node i is decided by variable[i] and leads to low[i] or high[i], where kNo and kYes
    // are the answers. Node 0 is the root.
    std::vector<int32_t> variable, low, high;
};

struct Limits {
    int64_t keep_nodes = 0;  // the diagram is kept up to this many nodes
    int64_t max_states = std::numeric_limits<int64_t>::max();
    std::size_t memory = 0;
};

// Variables: link e is e, node v is num_edges + v. `prob` is that of each variable and `complement` that of its
// failure, which need not be 1 - prob as doubles: what stands for several links side by side may fail with 1e-30.
template <class Machine>
Result run(const Graph &g, Machine machine, const double *prob, const double *complement, bool keep_terminals,
           const Limits &limits, Poll &poll) {
    Result out;
    const Schedule schedule = plan(g, keep_terminals);
    out.width = schedule.width;
    if (schedule.too_wide) {
        out.too_wide = true;
        return out;
    }
    const auto &events = schedule.events;
    const auto decides = [](const Event &e) { return e.kind == Event::decide_node || e.kind == Event::decide_edge; };
    // Runs the events that decide nothing from `at` on; returns an answer, or 0 and leaves `at` at the next decision.
    int slots = 0;
    const auto advance = [&](std::size_t &at) -> int32_t {
        for (; at < events.size() && !decides(events[at]); ++at) {
            const int32_t answer =
                events[at].kind == Event::enter ? machine.enter(events[at]) : machine.leave(events[at]);
            if (answer) return answer;
        }
        return at == events.size() ? kNo : 0;
    };
    // The number of slots after each event, which is the same for every state.
    std::vector<int> slots_at(events.size() + 1, 0);
    std::vector<std::size_t> next_decision(events.size() + 1, events.size());
    for (std::size_t i = 0; i < events.size(); ++i)
        slots_at[i + 1] = slots_at[i] + (events[i].kind == Event::enter) - (events[i].kind == Event::leave);
    for (std::size_t i = events.size(); i-- > 0;) next_decision[i] = decides(events[i]) ? i : next_decision[i + 1];

    Level now, next;
    Pace pace(poll);
    machine.start();
    std::size_t at = 0;
    const int32_t answer = advance(at);
    if (answer) {
        (answer == kYes ? out.yes : out.no) = 1.0;
        out.complete = out.kept = true;
        return out;
    }
    slots = slots_at[at];
    now.reset(machine.bytes(slots));
    now.scratch();
    machine.store(now.scratch(), slots);
    now.add(1.0);
    bool keep = limits.keep_nodes > 0;
    int seen = machine.seen();
    int64_t first = 0;  // the number of the level's first node
    while (now.size()) {
        const Event &event = events[at];
        const std::size_t after = next_decision[at + 1];
        const int slots_after = slots_at[after];
        const int32_t variable =
            event.kind == Event::decide_edge ? event.what : static_cast<int32_t>(g.num_edges) + event.what;
        const double p = prob[variable], q = complement[variable];
        next.reset(machine.bytes(slots_after));
        int seen_after = seen;
        for (int64_t i = 0; i < now.size(); ++i) {
            int32_t child[2];
            for (int up = 0; up < 2; ++up) {
                machine.load(now.key(i), slots, seen);
                int32_t reached = event.kind == Event::decide_edge ? machine.edge(event, up) : machine.node(event, up);
                std::size_t place = at + 1;
                if (!reached) reached = advance(place);
                const double mass = now.value(i) * (up ? p : q);
                if (reached == kYes) {
                    out.yes += mass;
                } else if (reached == kNo) {
                    out.no += mass;
                } else {
                    machine.store(next.scratch(), slots_after);
                    seen_after = machine.seen();
                    reached = next.add(mass) + static_cast<int32_t>(first + now.size());
                }
                child[up] = reached;
            }
            if (keep) {
                out.variable.push_back(variable);
                out.low.push_back(child[0]);
                out.high.push_back(child[1]);
            }
            ++out.states;
            if (pace.stop(64) || out.states >= limits.max_states) return out;
        }
        first += now.size();
        if (keep && (first + next.size() > limits.keep_nodes ||
                     first + next.size() > std::numeric_limits<int32_t>::max() / 2)) {
            keep = false;
            std::vector<int32_t>().swap(out.variable), std::vector<int32_t>().swap(out.low),
                std::vector<int32_t>().swap(out.high);
        }
        if (!keep) first = 0;
        if (now.memory() + next.memory() + 12 * out.variable.capacity() > limits.memory) return out;
        std::swap(now, next);
        at = after, slots = slots_after, seen = seen_after;
    }
    out.complete = true;
    out.kept = keep;
    return out;
}

// An order of the links that keeps the frontier narrow: again and again the frontier node with the fewest neighbours
// outside is finished. Every start gives an order; the one with the least predicted number of states is returned.
class Orderer {
  public:
    Orderer(int64_t num_nodes, int64_t num_edges, const int32_t *from, const int32_t *to)
        : n_(num_nodes), from_(from), to_(to), start_(num_nodes + 1, 0) {
        for (int64_t e = 0; e < num_edges; ++e) ++start_[from[e] + 1], ++start_[to[e] + 1];
        for (int64_t v = 0; v < n_; ++v) start_[v + 1] += start_[v];
        links_.resize(start_[n_]);
        std::vector<int64_t> fill(start_.begin(), start_.end() - 1);
        for (int64_t e = 0; e < num_edges; ++e)
            links_[fill[from[e]]++] = static_cast<int32_t>(e), links_[fill[to[e]]++] = static_cast<int32_t>(e);
    }
    // (cost, order) from one node; the cost is the sum of kGrowth^width over the links, or infinity beyond `best`.
    double order_from(int32_t first, double best, std::vector<int32_t> &order, Poll &poll) {
        order.clear();
        std::vector<char> inside(n_, 0), decided(links_.size() / 2 + 1, 0);
        std::vector<int32_t> outside(n_, 0), frontier;
        for (int64_t v = 0; v < n_; ++v) outside[v] = static_cast<int32_t>(start_[v + 1] - start_[v]);
        double cost = 0.0;
        int64_t next_root = 0;
        const auto enter = [&](int32_t v) {
            inside[v] = 1;
            frontier.push_back(v);
            for (int64_t i = start_[v]; i < start_[v + 1]; ++i) --outside[other(links_[i], v)];
        };
        enter(first);
        Pace pace(poll);
        while (true) {
            if (frontier.empty()) {
                while (next_root < n_ && (inside[next_root] || start_[next_root] == start_[next_root + 1])) ++next_root;
                if (next_root == n_) break;
                enter(static_cast<int32_t>(next_root));
            }
            std::size_t chosen = 0;
            for (std::size_t i = 1; i < frontier.size(); ++i)
                if (outside[frontier[i]] < outside[frontier[chosen]]) chosen = i;
            const int32_t v = frontier[chosen];
            for (int64_t i = start_[v]; i < start_[v + 1]; ++i) {
                const int32_t e = links_[i], w = other(e, v);
                if (decided[e]) continue;
                decided[e] = 1;
                if (!inside[w]) enter(w);
                order.push_back(e);
                cost += std::pow(kGrowth, static_cast<double>(frontier.size()));
            }
            frontier.erase(std::find(frontier.begin(), frontier.end(), v));
            pace.check(static_cast<int64_t>(frontier.size()) + start_[v + 1] - start_[v]);
            if (cost >= best) return std::numeric_limits<double>::infinity();
        }
        return cost;
    }
    std::vector<int32_t> best(const std::vector<int32_t> &starts, Poll &poll) {
        std::vector<int32_t> found, trial;
        double least = std::numeric_limits<double>::infinity();
        for (const int32_t first : starts) {
            const double cost = order_from(first, least, trial, poll);
            if (cost < least) least = cost, found = trial;
        }
        return found;
    }

  private:
    static constexpr double kGrowth = 2.5;  // states grow about so much with each node of the frontier
    int32_t other(int32_t e, int32_t v) const { return from_[e] == v ? to_[e] : from_[e]; }
    int64_t n_;
    const int32_t *from_, *to_;
    std::vector<int64_t> start_;
    std::vector<int32_t> links_;
};

}  // namespace frontier

}  // namespace sharpdnf
