// Orders in which a circuit's variables are branched on: none is best everywhere, so the compiler tries several.
#pragma once
#include <deque>
#include <queue>
#include <unordered_set>

#include "circuit.hpp"

namespace sharpdnf {

// The gates that an output needs, inputs before readers, and the output last.
inline std::vector<int32_t> needed_gates(const CircuitView &c, int32_t output) {
    std::vector<uint8_t> needed(output + 1, 0);
    needed[output] = 1;
    std::vector<int32_t> out;
    for (int32_t g = output; g >= 0; --g) {
        if (!needed[g]) continue;
        out.push_back(g);
        for (int64_t i = c.indptr[g]; i < c.indptr[g + 1]; ++i) needed[c.inputs[i]] = 1;
    }
    std::reverse(out.begin(), out.end());
    return out;
}

// Variables in the order in which a walk from the output meets them, depth first or level by level.
inline std::vector<int32_t> walk_order(const CircuitView &c, int32_t output, bool levels) {
    std::vector<int32_t> out;
    std::deque<int32_t> open{output};
    std::vector<uint8_t> seen(c.num_gates, 0), placed(c.num_vars, 0);
    while (!open.empty()) {
        const int32_t g = open.front();
        open.pop_front();
        if (seen[g]) continue;
        seen[g] = 1;
        if (c.kind[g] == gVar && !placed[c.arg[g]]) placed[c.arg[g]] = 1, out.push_back(c.arg[g]);
        for (int64_t i = 0; i < c.width(g); ++i) {
            if (levels)
                open.push_back(c.inputs[c.indptr[g] + i]);
            else
                open.push_front(c.inputs[c.indptr[g + 1] - 1 - i]);
        }
    }
    return out;
}

// Variables by how many gates read them, the most read first.
inline std::vector<int32_t> frequency_order(const CircuitView &c, const std::vector<int32_t> &gates,
                                            std::vector<int32_t> order) {
    std::vector<int64_t> times(c.num_vars, 0);
    for (const int32_t g : gates)
        for (int64_t i = c.indptr[g]; i < c.indptr[g + 1]; ++i) {
            int32_t in = c.inputs[i];
            while (c.kind[in] == gNot) in = c.inputs[c.indptr[in]];
            if (c.kind[in] == gVar && c.kind[g] != gNot) ++times[c.arg[in]];
        }
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return times[a] > times[b]; });
    return order;
}

// FORCE (Aloul, Markov, Sakallah, 2003): gates and variables move to the middle of what they are connected with.
inline std::vector<int32_t> force_order(const CircuitView &c, const std::vector<int32_t> &gates,
                                        const std::vector<int32_t> &start, Pace &pace) {
    constexpr int ROUNDS = 40;
    std::vector<double> at(c.num_gates, 0.0), sum(c.num_gates), weight(c.num_gates);
    std::vector<int32_t> moving = gates;
    std::vector<double> first(c.num_vars, 0.0);
    for (size_t i = 0; i < start.size(); ++i) first[start[i]] = static_cast<double>(i);
    for (const int32_t g : gates) {  // a gate starts in the middle of its inputs
        if (c.kind[g] == gVar)
            at[g] = first[c.arg[g]];
        else if (c.width(g)) {
            for (int64_t i = c.indptr[g]; i < c.indptr[g + 1]; ++i) at[g] += at[c.inputs[i]];
            at[g] /= static_cast<double>(c.width(g));
        }
    }
    for (int round = 0; round < ROUNDS; ++round) {
        for (const int32_t g : gates) sum[g] = weight[g] = 0.0;
        for (const int32_t g : gates) {
            if (!c.width(g)) continue;
            pace.check(2 * c.width(g));
            double centre = at[g];
            for (int64_t i = c.indptr[g]; i < c.indptr[g + 1]; ++i) centre += at[c.inputs[i]];
            centre /= static_cast<double>(c.width(g) + 1);
            sum[g] += centre, weight[g] += 1.0;
            for (int64_t i = c.indptr[g]; i < c.indptr[g + 1]; ++i)
                sum[c.inputs[i]] += centre, weight[c.inputs[i]] += 1.0;
        }
        for (const int32_t g : gates)
            if (weight[g] > 0.0) at[g] = sum[g] / weight[g];
        std::stable_sort(moving.begin(), moving.end(), [&](int32_t a, int32_t b) { return at[a] < at[b]; });
        for (size_t i = 0; i < moving.size(); ++i) at[moving[i]] = static_cast<double>(i);
    }
    std::vector<int32_t> out;
    std::vector<uint8_t> placed(c.num_vars, 0);
    for (const int32_t g : moving)
        if (c.kind[g] == gVar && !placed[c.arg[g]]) placed[c.arg[g]] = 1, out.push_back(c.arg[g]);
    return out;
}

// Backwards along a least-degree elimination of the graph that ties each gate to its inputs: separators come first, so
// that the circuit falls apart. Wide gates are tied along a chain. Empty if the graph gets too dense.
inline std::vector<int32_t> separator_order(const CircuitView &c, const std::vector<int32_t> &gates, Pace &pace) {
    constexpr size_t DENSE = 48;
    std::vector<std::unordered_set<int32_t>> next(c.num_gates);
    const auto tie = [&](int32_t a, int32_t b) {
        if (a != b) next[a].insert(b), next[b].insert(a);
    };
    const auto plain = [&](int32_t g) {
        while (c.kind[g] == gNot) g = c.inputs[c.indptr[g]];
        return g;
    };
    for (const int32_t g : gates) {
        if (c.kind[g] == gNot) continue;
        for (int64_t i = c.indptr[g]; i < c.indptr[g + 1]; ++i) {
            tie(g, plain(c.inputs[i]));
            if (i > c.indptr[g]) tie(plain(c.inputs[i - 1]), plain(c.inputs[i]));
        }
        pace.check(8 * c.width(g));
    }
    using Entry = std::pair<size_t, int32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> queue;
    std::vector<uint8_t> gone(c.num_gates, 0), placed(c.num_vars, 0);
    for (const int32_t g : gates)
        if (c.kind[g] != gNot) queue.push({next[g].size(), g});
    std::vector<int32_t> eliminated, around;
    std::vector<std::vector<int32_t>> children(c.num_gates), bag(c.num_gates);
    while (!queue.empty()) {
        const auto [degree, g] = queue.top();
        queue.pop();
        if (gone[g] || degree != next[g].size()) continue;
        if (degree > DENSE) return {};
        gone[g] = 1;
        eliminated.push_back(g);
        around.assign(next[g].begin(), next[g].end());
        std::sort(around.begin(), around.end());
        pace.check(static_cast<int64_t>(around.size() * around.size() + 8));
        for (const int32_t a : around) next[a].erase(g);
        for (size_t i = 0; i < around.size(); ++i)
            for (size_t j = i + 1; j < around.size(); ++j) tie(around[i], around[j]);
        for (const int32_t a : around) queue.push({next[a].size(), a});
        bag[g] = around;
        next[g].clear();
    }
    // The elimination tree from its root, subtree by subtree: the variables of a part stand together.
    std::vector<int32_t> when(c.num_gates, -1), stack, out;
    for (size_t i = 0; i < eliminated.size(); ++i) when[eliminated[i]] = static_cast<int32_t>(i);
    for (const int32_t g : eliminated) {
        int32_t up = -1;
        for (const int32_t a : bag[g])
            if (up < 0 || when[a] < when[up]) up = a;
        if (up >= 0)
            children[up].push_back(g);
        else
            stack.push_back(g);
    }
    while (!stack.empty()) {
        const int32_t g = stack.back();
        stack.pop_back();
        if (c.kind[g] == gVar && !placed[c.arg[g]]) placed[c.arg[g]] = 1, out.push_back(c.arg[g]);
        stack.insert(stack.end(), children[g].begin(), children[g].end());
    }
    return out;
}

}  // namespace sharpdnf
