// Elimination along the clause-variable graph: wide clauses are split into gates first.
//
// A clause of many literals puts all of its variables into one bag of the primal graph. In the graph that joins clauses
// with their variables it is a single node, and a table has to say no more of it than whether its literals so far are
// all true (Samer, Szeider 2010: the width of that graph is at most one more than the primal one, and may be far less).
// An order of that graph tells where the literals of a clause meet. Each such place becomes a gate: a variable that is
// true iff the two it reads are. Short clauses and gates are left, and `Elimination` sums them out as it does all
// others, in the order in which the gates were made or in a better one.
#pragma once
#include <array>
#include <queue>
#include <tuple>
#include <vector>

#include "eliminate.hpp"

namespace sharpdnf {

// Short clauses over the variables of a formula and gates: gate g, variable num_vars + g, is true iff both of its
// literals are. With the gates summed out it is the formula that was split.
struct SplitFormula {
    static constexpr int kWhole = 3;  // a clause of so many literals stays as it is

    int64_t num_vars = 0;
    std::vector<std::array<int32_t, 2>> gates;
    std::vector<std::vector<int32_t>> clauses;
    std::vector<int64_t> places;  // of the variables in an order in which they can be summed out, gates included

    // The literal of a gate that is made at some place of the order; what it reads is needed until then.
    int32_t both(int32_t a, int32_t b, int64_t place) {
        const auto gate = static_cast<int32_t>(size());
        gates.push_back({a, b});
        places.push_back(place);
        need(a, place), need(b, place);
        return 2 * gate;
    }
    void need(int32_t literal, int64_t place) { places[literal >> 1] = std::max(places[literal >> 1], place); }
    int64_t size() const { return num_vars + static_cast<int64_t>(gates.size()); }
};

class Splitting {
  public:
    Splitting(const Formula &f, Pace &pace) : f_(f), pace_(pace) {
        for (int64_t c = 0; c < f.num_clauses; ++c) wide_ += wide(c);
    }
    int64_t num_wide() const { return wide_; }

    // False if an order of the clause-variable graph takes too many operations or too many steps to find.
    bool run(double max_operations, int64_t max_work, SplitFormula &out) {
        const EliminationPlan plan = order(max_operations, max_work);
        if (!plan.found()) return false;
        out.num_vars = f_.num_vars;
        for (int64_t v = 0; v < f_.num_vars; ++v) out.places.push_back(place(plan.rank[v], plan.rank[v]));
        auto node = static_cast<int32_t>(f_.num_vars);
        for (int64_t c = 0; c < f_.num_clauses; ++c) {
            const int32_t *first = f_.literals + f_.indptr[c], *last = f_.literals + f_.indptr[c + 1];
            if (wide(c))
                split(plan, plan.rank[node++], first, last, out);
            else
                out.clauses.emplace_back(first, last);
        }
        return true;
    }

  private:
    bool wide(int64_t c) const { return f_.indptr[c + 1] - f_.indptr[c] > SplitFormula::kWhole; }

    // Nodes are the variables, and after them the wide clauses in their order.
    EliminationPlan order(double max_operations, int64_t max_work) {
        EliminationGraph graph(f_.num_vars + wide_, pace_);
        auto node = static_cast<int32_t>(f_.num_vars);
        for (int64_t c = 0; c < f_.num_clauses; ++c) {
            const int32_t *first = f_.literals + f_.indptr[c], *last = f_.literals + f_.indptr[c + 1];
            if (!wide(c)) {
                graph.join(first, last, [](int32_t lit) { return lit >> 1; });
                continue;
            }
            for (const int32_t *lit = first; lit != last; ++lit) {
                const int32_t edge[] = {*lit >> 1, node};
                graph.join(edge, edge + 2, [](int32_t v) { return v; });
            }
            ++node;
        }
        graph.finish();
        return plan_elimination(graph, max_operations, max_work);
    }

    // Nodes of the clause-variable graph go one after the other, and what meets at a node in the order of the variables
    // that it began with.
    static int64_t place(int32_t node, int32_t since) { return static_cast<int64_t>(node) << 31 | since; }

    // The literals of a clause climb from the places of their variables to that of the clause, `top`, and those that
    // meet become one. All clauses join what meets at a node in the same order, so few of their gates are open at once.
    void split(const EliminationPlan &plan, int32_t top, const int32_t *first, const int32_t *last,
               SplitFormula &out) const {
        using Climber = std::tuple<int32_t, int32_t, int32_t>;  // where it is, where it began, the literal
        std::priority_queue<Climber, std::vector<Climber>, std::greater<Climber>> climbers;
        for (const int32_t *lit = first; lit != last; ++lit) {
            const int32_t r = plan.rank[*lit >> 1];  // variables that outlive the clause have nowhere to climb
            climbers.emplace(std::min(r, top), r, *lit);
        }
        for (;;) {
            auto [at, since, lit] = climbers.top();
            climbers.pop();
            for (; !climbers.empty() && std::get<0>(climbers.top()) == at; climbers.pop()) {
                const auto [same, later, other] = climbers.top();
                if (same == top && climbers.size() == 1) {
                    out.need(lit, place(top, later)), out.need(other, place(top, later));
                    out.clauses.push_back({lit, other});
                    return;
                }
                lit = out.both(lit, other, place(at, later));
            }
            if (at == top) {  // all literals have met before
                out.clauses.push_back({lit});
                return;
            }
            climbers.emplace(plan.parent[at], since, lit);
            pace_.check(16);
        }
    }

    const Formula &f_;
    Pace &pace_;
    int64_t wide_ = 0;
};

// The share of a table's worlds in which some clause is true, and that of the others. Until the gates are summed out
// they need not add up to 1: where a gate is not what it reads, both are 0.
template <class Number> struct Shares {
    Number holds{}, fails{};
};
template <class Number> struct SharedOut {
    using Value = Shares<Number>;
    const double *weights;

    static Number number(double x) {
        if constexpr (std::is_same_v<Number, Wide>)
            return Wide::of(x);
        else
            return x;
    }
    static Value nothing() { return {number(0.0), number(1.0)}; }
    static Value truth() { return {number(1.0), number(0.0)}; }
    static Value meet(const Value &a, const Value &b) {
        return {a.holds * (b.holds + b.fails) + a.fails * b.holds, a.fails * b.fails};
    }
    Value mix(int32_t v, const Value &high, const Value &low) const {
        const double yes = weights[2 * v], no = weights[2 * v + 1];
        return {high.holds * yes + low.holds * no, high.fails * yes + low.fails * no};
    }
};

// The plan of a formula that has been split, and what it needs to be carried out.
class SplitElimination {
  public:
    // An operation on two shares takes the time of so many on one number in wide vectors.
    static constexpr double kCost = 8.0;

    bool found() const { return plan_.found(); }
    double operations() const { return kCost * plan_.operations; }
    // Of the tables that are alive at once, at most, and of the gates and clauses, which are tables too.
    double bytes() const {
        constexpr double kFactor = 256.0;
        return static_cast<double>(sizeof(Shares<Wide>) / sizeof(double)) * plan_.bytes + kFactor * factors();
    }
    // How many numbers are rounded, at most, on the way to any entry of the last table.
    double roundings() const { return 8.0 * (static_cast<double>(plan_.size()) + factors()); }

    // Not found() beyond the limits, or if fewer clauses than `least_wide` would be split.
    void plan(const Formula &f, double max_operations, int64_t max_work, int64_t least_wide, Poll &poll) {
        Pace pace(poll);
        Splitting splitting(f, pace);
        const double most = max_operations / kCost;
        constexpr int64_t kMost = int64_t{1} << 29;  // nodes, so that their literals are numbers of 32 bits
        if (f.num_vars + f.size() > kMost || splitting.num_wide() < least_wide ||
            !splitting.run(most, max_work, split_))
            return;
        EliminationGraph graph(split_.size(), pace);
        each_factor([&](const int32_t *vars, int count, uint32_t, bool) {
            graph.join(vars, vars + count, [](int32_t v) { return v; });
        });
        graph.finish();
        EliminationGraph as_made = graph;
        as_made.follow(split_.places);
        plan_ = as_made.eliminate(false, 0, most, max_work);
        constexpr double kWorthwhile = 8.0;
        if (plan_.operations < kWorthwhile * static_cast<double>(as_made.work())) return;
        EliminationPlan other = plan_elimination(graph, std::min(most, plan_.operations), max_work);
        if (other.operations < plan_.operations) plan_ = std::move(other);
    }
    void forget() { *this = SplitElimination(); }

    // P and 1 - P of the formula, with weights[2v] = P(v) and weights[2v+1] = 1 - P(v). Throws Stopped at the deadline.
    TwoProbs run(std::vector<double> weights, int threads, Poll &poll) const {
        weights.resize(2 * split_.size(), 1.0);
        const Shares<double> quick = sums<double>(weights.data(), threads, poll);
        if (std::min(quick.holds, quick.fails) > kSafeDouble) return {Wide::of(quick.holds), Wide::of(quick.fails)};
        const Shares<Wide> slow = sums<Wide>(weights.data(), threads, poll);
        return {slow.holds, slow.fails};
    }

  private:
    double factors() const { return static_cast<double>(split_.gates.size() + split_.clauses.size()); }
    // Calls use(variables, how many, the bits that they have where all literals are true, whether it is a gate); the
    // gate itself is the last of its variables.
    template <class Use> void each_factor(Use use) const {
        int32_t vars[SplitFormula::kWhole];
        const auto literals = [&](const int32_t *first, const int32_t *last) {
            uint32_t want = 0;
            for (const int32_t *lit = first; lit != last; ++lit) {
                vars[lit - first] = *lit >> 1;
                want |= static_cast<uint32_t>(!(*lit & 1)) << (lit - first);
            }
            return want;
        };
        auto gate = static_cast<int32_t>(split_.num_vars);
        for (const auto &read : split_.gates) {
            const uint32_t want = literals(read.data(), read.data() + 2);
            vars[2] = gate++;
            use(vars, 3, want, true);
        }
        for (const auto &clause : split_.clauses) {
            const uint32_t want = literals(clause.data(), clause.data() + clause.size());
            use(vars, static_cast<int>(clause.size()), want, false);
        }
    }

    template <class Number> Shares<Number> sums(const double *weights, int threads, Poll &poll) const {
        using Algebra = SharedOut<Number>;
        using Value = typename Algebra::Value;
        Algebra algebra{weights};
        Elimination<Algebra> elimination(plan_, algebra, threads, poll);
        each_factor([&](const int32_t *vars, int count, uint32_t want, bool gate) {
            Value table[1 << SplitFormula::kWhole];
            for (uint32_t i = 0; i < 1u << count; ++i) {
                if (gate)
                    table[i] = ((i & 3) == want) == (i >> 2 != 0) ? Algebra::nothing() : Value();
                else
                    table[i] = i == want ? Algebra::truth() : Algebra::nothing();
            }
            elimination.add_factor(vars, count, table);
        });
        Value all = Algebra::nothing();
        elimination.run([&](const Value &part) { all = Algebra::meet(all, part); });
        return all;
    }

    SplitFormula split_;
    EliminationPlan plan_;
};

}  // namespace sharpdnf
