// An order in which to sum the variables of a formula out, and what that will cost, before anything is summed.
//
// The primal graph joins variables that share a clause (or a factor). Eliminating v joins its neighbours; v and they
// are its bag, and the table over the neighbours is what is left of v. Min-fill takes the variable whose neighbours
// lack the fewest edges, min-degree the one with the fewest neighbours; both are exact on trees, chains and cycles.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <queue>
#include <tuple>
#include <vector>

#include "poll.hpp"
#include "subformula.hpp"

namespace sharpdnf {

// Variable order[r] is eliminated r-th; its neighbours then are scope[start[r] .. start[r+1]), the latest first.
struct EliminationPlan {
    static constexpr int kMaxScope = 30;

    std::vector<int32_t> order, rank;  // rank[v] is -1 for a variable that occurs nowhere
    std::vector<int64_t> start;
    std::vector<int32_t> scope;
    std::vector<int32_t> parent;  // the place of the first neighbour to go, -1 at a root
    double operations = std::numeric_limits<double>::infinity();
    double bytes = 0.0;  // of all tables that are alive at once, at most
    int width = 0;       // the largest number of neighbours

    bool found() const { return operations < std::numeric_limits<double>::infinity(); }
    int32_t size() const { return static_cast<int32_t>(order.size()); }
    int scope_size(int32_t r) const { return static_cast<int>(start[r + 1] - start[r]); }
    const int32_t *scope_of(int32_t r) const { return scope.data() + start[r]; }
};

// The graph as it shrinks. Edges come as groups of variables that all hang together.
class EliminationGraph {
  public:
    EliminationGraph(int64_t num_vars, Pace &pace)
        : adjacent_(num_vars), occurs_(num_vars, 0), mark_(num_vars, 0), pace_(pace) {}

    // Variables that hang together, at most a few dozen. Call `finish` after the last group.
    template <class Iterator, class Variable> void join(Iterator first, Iterator last, Variable variable) {
        for (Iterator i = first; i != last; ++i) {
            const int32_t v = variable(*i);
            occurs_[v] = 1;
            for (Iterator j = first; j != last; ++j)
                if (i != j) adjacent_[v].push_back(variable(*j));
        }
        work_ += (last - first) * (last - first);
        pace_.check((last - first) * (last - first));
    }
    void finish() {
        for (auto &list : adjacent_) {
            if (list.size() < 2) continue;
            std::sort(list.begin(), list.end());
            list.erase(std::unique(list.begin(), list.end()), list.end());
            pace_.check(static_cast<int64_t>(list.size()));
        }
    }
    int64_t work() const { return work_; }
    // From now on variables with smaller numbers go first, unless min-fill is asked for.
    void follow(std::vector<int64_t> places) { places_ = std::move(places); }

    // The largest least degree of a subgraph: whatever the order, some bag has that many neighbours, because the first
    // variable of that subgraph to go still has all of its neighbours there.
    int32_t degeneracy() const {
        const auto n = static_cast<int32_t>(adjacent_.size());
        std::vector<int32_t> degree(n);
        std::vector<std::vector<int32_t>> of_degree;
        for (int32_t v = 0; v < n; ++v) {
            degree[v] = static_cast<int32_t>(adjacent_[v].size());
            if (degree[v] >= static_cast<int32_t>(of_degree.size())) of_degree.resize(degree[v] + 1);
            of_degree[degree[v]].push_back(v);
        }
        int32_t most = 0;
        for (int32_t d = 0; d < static_cast<int32_t>(of_degree.size());) {
            if (of_degree[d].empty()) {
                ++d;
                continue;
            }
            const int32_t v = of_degree[d].back();
            of_degree[d].pop_back();
            if (degree[v] != d) continue;  // it went, or has fewer neighbours by now
            degree[v] = -1;
            most = std::max(most, d);
            for (const int32_t u : adjacent_[v])
                if (degree[u] > 0) of_degree[--degree[u]].push_back(u);
            pace_.check(static_cast<int64_t>(adjacent_[v].size()));
            d = std::max(0, d - 1);
        }
        return most;
    }

    // Eliminates everything unless that takes more than `max_operations` or this search more than `max_work` steps.
    // Equal scores are settled by `seed`. What is given up half-way still has its `order` so far.
    EliminationPlan eliminate(bool fill, uint64_t seed, double max_operations, int64_t max_work,
                              int max_scope = EliminationPlan::kMaxScope) {
        EliminationPlan plan;
        const auto n = static_cast<int32_t>(adjacent_.size());
        plan.rank.assign(n, -1);
        score_.assign(n, 0);
        work_ = 0;
        std::vector<Entry> first;
        for (int32_t v = 0; v < n; ++v) {
            if (!occurs_[v]) continue;
            score_[v] = fill ? missing(v) : places_.empty() ? 0 : places_[v];
            if (work_ > max_work) return plan;
            first.push_back(entry(v, seed));
        }
        queue_ = Queue(std::greater<Entry>(), std::move(first));
        std::vector<int32_t> scopes;
        plan.start.push_back(0);
        double operations = 0.0;
        while (!queue_.empty()) {
            const auto [score, degree, tie, v] = queue_.top();
            (void)tie;
            queue_.pop();
            if (plan.rank[v] >= 0 || score != score_[v] || degree != static_cast<int32_t>(adjacent_[v].size()))
                continue;
            if (degree > max_scope) return plan;
            operations += std::ldexp(2.0, degree);
            if (operations > max_operations || work_ > max_work) return plan;
            plan.rank[v] = plan.size();
            plan.order.push_back(v);
            scopes.insert(scopes.end(), adjacent_[v].begin(), adjacent_[v].end());
            plan.start.push_back(static_cast<int64_t>(scopes.size()));
            remove(v, fill, seed);
        }
        plan.scope.swap(scopes);
        complete(plan, operations, max_operations);
        return plan;
    }

  private:
    using Entry = std::tuple<int64_t, int32_t, uint32_t, int32_t>;
    using Queue = std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>>;

    Entry entry(int32_t v, uint64_t seed) const {
        const uint32_t tie =
            seed == 0 ? 0 : static_cast<uint32_t>(mix(seed + static_cast<uint64_t>(v) * 0x9e3779b97f4a7c15ULL));
        return {score_[v], static_cast<int32_t>(adjacent_[v].size()), tie, v};
    }
    void did(int64_t steps) {
        work_ += steps;
        pace_.check(steps);
    }
    // The edges that v's neighbours lack among themselves.
    int64_t missing(int32_t v) {
        const auto &around = adjacent_[v];
        const auto d = static_cast<int64_t>(around.size());
        if (d < 2) return 0;
        ++stamp_;
        for (const int32_t u : around) mark_[u] = stamp_;
        int64_t present = 0, steps = d;
        for (const int32_t u : around) {
            for (const int32_t w : adjacent_[u]) present += mark_[w] == stamp_;
            steps += static_cast<int64_t>(adjacent_[u].size());
        }
        did(steps);
        return (d * (d - 1) - present) / 2;
    }

    void remove(int32_t v, bool fill, uint64_t seed) {
        std::vector<int32_t> around;
        around.swap(adjacent_[v]);
        const auto d = static_cast<int64_t>(around.size());
        if (fill && score_[v] == 0) {  // nothing to join: u only loses the edges that v lacked
            for (const int32_t u : around) {
                auto &list = adjacent_[u];
                score_[u] -= static_cast<int64_t>(list.size()) - d;
                list.erase(std::lower_bound(list.begin(), list.end(), v));
                did(static_cast<int64_t>(list.size()) / 8 + 1);
                queue_.push(entry(u, seed));
            }
            return;
        }
        fresh_.clear();
        for (const int32_t u : around) {
            merged_.clear();
            auto &list = adjacent_[u];
            auto i = list.begin();
            for (const int32_t w : around) {
                for (; i != list.end() && *i < w; ++i)
                    if (*i != v) merged_.push_back(*i);
                if (i != list.end() && *i == w)
                    ++i;
                else if (w != u && w > u)
                    fresh_.emplace_back(u, w);
                if (w != u) merged_.push_back(w);
            }
            for (; i != list.end(); ++i)
                if (*i != v) merged_.push_back(*i);
            did(static_cast<int64_t>(merged_.size()));
            list.assign(merged_.begin(), merged_.end());
        }
        if (fill) rescore(around, seed);
        for (const int32_t u : around) {
            if (fill) score_[u] = missing(u);
            queue_.push(entry(u, seed));
        }
    }
    // A new edge between a and b is one that their common neighbours outside the bag lack no more.
    void rescore(const std::vector<int32_t> &around, uint64_t seed) {
        changed_.clear();
        for (const auto &[a, b] : fresh_) {
            const auto &x = adjacent_[a], &y = adjacent_[b];
            auto i = x.begin(), j = y.begin();
            while (i != x.end() && j != y.end()) {
                if (*i < *j)
                    ++i;
                else if (*j < *i)
                    ++j;
                else
                    --score_[*i], changed_.push_back(*i), ++i, ++j;
            }
            did(static_cast<int64_t>(x.size() + y.size()));
        }
        std::sort(changed_.begin(), changed_.end());
        changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
        for (const int32_t w : changed_)
            if (!std::binary_search(around.begin(), around.end(), w)) queue_.push(entry(w, seed));
    }

    // Scopes in the order of the tables, parents, and what it all costs.
    void complete(EliminationPlan &plan, double operations, double max_operations) {
        const int32_t n = plan.size();
        plan.parent.assign(n, -1);
        double alive = 0.0;
        std::vector<double> waiting(n, 0.0);  // bytes of tables that wait for this variable
        for (int32_t r = 0; r < n; ++r) {
            const auto first = plan.scope.begin() + plan.start[r], last = plan.scope.begin() + plan.start[r + 1];
            std::sort(first, last, [&](int32_t x, int32_t y) { return plan.rank[x] > plan.rank[y]; });
            const int k = plan.scope_size(r);
            plan.width = std::max(plan.width, k);
            const double own = std::ldexp(8.0, k);
            alive += own;
            plan.bytes = std::max(plan.bytes, alive);
            alive -= waiting[r];
            if (k == 0) {
                alive -= own;
                continue;
            }
            plan.parent[r] = plan.rank[*(last - 1)];
            waiting[plan.parent[r]] += own;
            operations += std::ldexp(2.0, plan.scope_size(plan.parent[r]));
        }
        if (operations <= max_operations) plan.operations = operations;
        pace_.check(static_cast<int64_t>(plan.scope.size()));
    }

    std::vector<std::vector<int32_t>> adjacent_;
    std::vector<uint8_t> occurs_;
    std::vector<int64_t> score_, places_;
    std::vector<int64_t> mark_;
    int64_t stamp_ = 0, work_ = 0;
    Pace &pace_;
    Queue queue_;
    std::vector<int32_t> merged_, changed_;
    std::vector<std::pair<int32_t, int32_t>> fresh_;
};

// The best of several orders: the search may take about as long as what it saves, and `max_work` steps an order. Not
// found() if every order takes more than `max_operations`.
inline EliminationPlan plan_elimination(const EliminationGraph &graph, double max_operations,
                                        int64_t max_work = std::numeric_limits<int64_t>::max()) {
    constexpr int kTries = 12;
    EliminationPlan best;
    if (std::ldexp(2.0, graph.degeneracy()) > max_operations) return best;
    const int64_t allowed = std::min(64 * graph.work() + (1 << 20), max_work);
    for (int attempt = 0; attempt < kTries; ++attempt) {
        EliminationGraph copy = graph;
        const bool fill = attempt != 1;
        EliminationPlan plan = copy.eliminate(fill, attempt < 2 ? 0 : static_cast<uint64_t>(attempt),
                                              std::min(max_operations, best.operations), allowed);
        if (plan.operations < best.operations) best = std::move(plan);
        const auto spent = static_cast<double>(copy.work());
        if (best.found() && best.operations < 8.0 * spent * (attempt + 1)) break;
        if (attempt >= 1 && !best.found()) break;
    }
    return best;
}

}  // namespace sharpdnf
