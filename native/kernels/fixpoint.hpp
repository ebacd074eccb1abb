// Ground logic programs in 512 random worlds at once, cycles included.
//
// Gates may depend on each other in circles, as "there is a path" does. Their meaning is the least fixpoint: what can
// be derived. Gates are put into strongly connected components (Tarjan 1972), which are evaluated in an order in which
// inputs come first; within a circle all gates start as false and are evaluated again until nothing changes. A negation
// inside a circle has no such meaning and is refused. Worlds in which the evidence does not hold are dropped, so the
// worlds that count are distributed as they are given the evidence, and a stopping rule for 0/1 draws applies to them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "poll.hpp"
#include "random.hpp"

namespace sharpdnf {

namespace fixpoint {

enum Kind : uint8_t { kFalse, kTrue, kVar, kNot, kAnd, kOr };

struct Program {
    int64_t num_gates = 0;
    const uint8_t *kind = nullptr;
    const int32_t *arg = nullptr;  // the variable of a kVar gate
    const int64_t *indptr = nullptr;
    const int32_t *inputs = nullptr;
    const double *prob = nullptr;
};

// The gates in an order of evaluation: component c is order[start[c] .. start[c + 1]), a circle if `circle[c]`.
struct Order {
    std::vector<int32_t> gates;
    std::vector<int64_t> start{0};
    std::vector<char> circle;
    int64_t in_circles = 0;
};

// Only what the wanted gates need is put into the order.
inline Order order_of(const Program &p, const std::vector<int32_t> &wanted, Poll &poll) {
    Order out;
    std::vector<int32_t> number(p.num_gates, -1), low(p.num_gates, 0), stack;
    std::vector<char> on_stack(p.num_gates, 0);
    std::vector<std::pair<int32_t, int64_t>> walk;
    int32_t next = 0;
    Pace pace(poll);
    for (const int32_t root : wanted) {
        if (number[root] >= 0) continue;
        walk.emplace_back(root, p.indptr[root]);
        number[root] = low[root] = next++;
        stack.push_back(root), on_stack[root] = 1;
        while (!walk.empty()) {
            auto &[g, at] = walk.back();
            pace.check(1);
            if (at < p.indptr[g + 1]) {
                const int32_t h = p.inputs[at++];
                if (number[h] < 0) {
                    number[h] = low[h] = next++;
                    stack.push_back(h), on_stack[h] = 1;
                    walk.emplace_back(h, p.indptr[h]);
                } else if (on_stack[h]) {
                    low[g] = std::min(low[g], number[h]);
                }
                continue;
            }
            const int32_t done = g;
            walk.pop_back();
            if (!walk.empty()) low[walk.back().first] = std::min(low[walk.back().first], low[done]);
            if (low[done] != number[done]) continue;
            int32_t h;
            do {
                h = stack.back();
                stack.pop_back(), on_stack[h] = 0;
                out.gates.push_back(h);
            } while (h != done);
            const int64_t first = out.start.back(), size = static_cast<int64_t>(out.gates.size()) - first;
            bool circle = size > 1;
            for (int64_t i = p.indptr[done]; i < p.indptr[done + 1]; ++i) circle |= p.inputs[i] == done;
            if (circle)
                for (int64_t i = first; i < first + size; ++i)
                    if (p.kind[out.gates[i]] == kNot)
                        throw std::invalid_argument("a negation inside a circle: the program is not stratified");
            // Tarjan pops a component backwards; first found is nearer to what asked for it.
            std::reverse(out.gates.begin() + first, out.gates.end());
            out.circle.push_back(circle);
            out.in_circles += circle ? size : 0;
            out.start.push_back(static_cast<int64_t>(out.gates.size()));
        }
    }
    return out;
}

// One block of worlds after another.
class Worlds {
  public:
    Worlds(const Program &p, const Order &order) : p_(p), order_(order), value_(p.num_gates) {}
    int64_t looks = 0;  // gate inputs read, each in 512 worlds

    // Runs one block; false if it was told to stop.
    bool run(uint64_t seed, uint64_t block, Poll &poll) {
        uint64_t mixed = seed ^ (block * 0xd1342543de82ef95ULL);
        LaneRandom random(splitmix64(mixed));
        Pace pace(poll);
        for (std::size_t c = 0; c + 1 < order_.start.size(); ++c) {
            const int64_t first = order_.start[c], last = order_.start[c + 1];
            if (!order_.circle[c]) {
                const int32_t g = order_.gates[first];
                value_[g].bits = p_.kind[g] == kVar ? bernoulli(random, p_.prob[p_.arg[g]]) : evaluate(g);
                if (pace.stop(4 + 2 * (p_.indptr[g + 1] - p_.indptr[g]))) return false;
                continue;
            }
            for (int64_t i = first; i < last; ++i) value_[order_.gates[i]].bits = Lanes::none();
            // Backwards and forwards in turn: what a circle derives travels along the order in both directions.
            for (bool changed = true, forward = false; changed; forward = !forward) {
                changed = false;
                for (int64_t i = 0; i < last - first; ++i) {
                    const int32_t g = order_.gates[forward ? first + i : last - 1 - i];
                    const Lanes now = evaluate(g);
                    if (any(now ^ value_[g].bits)) value_[g].bits = now, changed = true;
                    if (pace.stop(2 * (p_.indptr[g + 1] - p_.indptr[g]) + 1)) return false;
                }
            }
        }
        return true;
    }
    const LaneWord &value(int32_t g) const { return value_[g]; }

  private:
    SHARPDNF_INLINE Lanes evaluate(int32_t g) {
        const int64_t from = p_.indptr[g], to = p_.indptr[g + 1];
        looks += to - from;
        switch (p_.kind[g]) {
            case kTrue:
                return Lanes::all(~0ULL);
            case kNot:
                return ~value_[p_.inputs[from]].bits;
            case kAnd: {
                Lanes all = Lanes::all(~0ULL);
                for (int64_t i = from; i < to; ++i) all &= value_[p_.inputs[i]].bits;
                return all;
            }
            case kOr: {
                Lanes some = Lanes::none();
                for (int64_t i = from; i < to; ++i) some |= value_[p_.inputs[i]].bits;
                return some;
            }
            default:
                return Lanes::none();
        }
    }
    const Program &p_;
    const Order &order_;
    std::vector<LaneWord> value_;
};

struct Tally {
    int64_t trials = 0, successes = 0;  // of the worlds that count, up to the wanted number of successes
    bool done = false;
};

struct Result {
    std::vector<Tally> output;
    int64_t worlds = 0, accepted = 0, looks = 0, in_circles = 0;
};

struct Plan {
    uint64_t seed = 0;
    int64_t successes = 0;  // an output is done at this many successes,
    int64_t trials = 0;     // or after this many worlds in which the evidence holds
    int64_t max_worlds = 0;
};

inline Result sample(const Program &p, const std::vector<int32_t> &outputs, int32_t evidence, const Plan &plan,
                     Poll &poll) {
    Result out;
    out.output.resize(outputs.size());
    std::vector<int32_t> wanted(outputs);
    if (evidence >= 0) wanted.push_back(evidence);
    const Order order = order_of(p, wanted, poll);
    out.in_circles = order.in_circles;
    Worlds worlds(p, order);
    std::size_t left = outputs.size();
    for (uint64_t block = 0; left && out.worlds < plan.max_worlds; ++block) {
        if (!worlds.run(plan.seed, block, poll)) return out;
        LaneWord given;
        given.bits = evidence >= 0 ? worlds.value(evidence).bits : Lanes::all(~0ULL);
        const int64_t accepted = given.ones();
        for (std::size_t o = 0; o < outputs.size(); ++o) {
            Tally &tally = out.output[o];
            if (tally.done) continue;
            LaneWord hit;
            hit.bits = worlds.value(outputs[o]).bits & given.bits;
            const int64_t hits = hit.ones();
            if (tally.successes + hits < plan.successes && tally.trials + accepted < plan.trials) {
                tally.successes += hits, tally.trials += accepted;
                continue;
            }
            for (int lane = 0; lane < LANES && !tally.done; ++lane) {  // the block in which it comes to its end
                if (!given.lane(lane)) continue;
                ++tally.trials;
                tally.successes += hit.lane(lane);
                tally.done = tally.successes == plan.successes || tally.trials == plan.trials;
            }
            left -= tally.done;
        }
        out.worlds += LANES, out.accepted += accepted, out.looks = worlds.looks;
    }
    return out;
}

}  // namespace fixpoint

}  // namespace sharpdnf
