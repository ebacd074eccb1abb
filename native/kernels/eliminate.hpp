// Bucket elimination (Dechter 1999): variables are summed out one by one along an `EliminationPlan`.
//
// The table that variable v leaves says, for every assignment of its bag's other variables, the value of "some clause
// below v is true". Given that assignment the parts below are independent, so they are combined by "or", and v itself
// by a Shannon expansion. What a value is, an algebra says: the probability of true, of false, both for numbers beyond
// doubles, a node of a circuit, or a plain sum of products (then the parts are combined by "times"). Nothing is ever
// subtracted from a number close to it, so small probabilities keep their relative precision.
#pragma once
#include <atomic>
#include <vector>

#include "elimination_order.hpp"
#include "formula.hpp"
#include "nodes.hpp"
#include "threads.hpp"
#include "wide.hpp"

namespace sharpdnf {

// --- what a value can be: `nothing` is the neutral element of `meet`, `truth` the value of a clause that is true
// ------

// Variable v weighs weights[2v] if true and weights[2v+1] if false; together 1, except in factors of other kinds.
template <class Number> struct Weighted {
    using Value = Number;
    const double *weights;
    Number mix(int32_t v, const Number &high, const Number &low) const {
        return high * weights[2 * v] + low * weights[2 * v + 1];
    }
};
struct ProbTrue : Weighted<double> {
    static constexpr bool kCountsTrue = true;
    static constexpr double nothing() { return 0.0; }
    static constexpr double truth() { return 1.0; }
    static double meet(double a, double b) { return a + (1.0 - a) * b; }
};
struct WideTrue : Weighted<Wide> {
    static constexpr bool kCountsTrue = true;
    static Wide nothing() { return Wide(); }
    static Wide truth() { return Wide::of(1.0); }
    static Wide meet(const Wide &a, const Wide &b) { return a + b * a.complement(); }
};
// The probability that no clause is true; with factors instead of clauses, their sum of products.
struct ProbFalse : Weighted<double> {
    static constexpr bool kCountsTrue = false;
    static constexpr double nothing() { return 1.0; }
    static constexpr double truth() { return 0.0; }
    static double meet(double a, double b) { return a * b; }
};
struct WideFalse : Weighted<Wide> {
    static constexpr bool kCountsTrue = false;
    static Wide nothing() { return Wide::of(1.0); }
    static Wide truth() { return Wide(); }
    static Wide meet(const Wide &a, const Wide &b) { return a * b; }
};

// Wide loops over doubles, compiled for the vectors the machine has (eliminate.cpp).
namespace lanes {
void or_run(double *into, const double *from, int count);
void or_picked(double *into, const double *from, const int32_t *place, int count);
void times_run(double *into, const double *from, int count);
void times_picked(double *into, const double *from, const int32_t *place, int count);
void mix_run(double *out, const double *high, const double *low, double weight_high, double weight_low, int count);
}  // namespace lanes

template <class Algebra> class Elimination {
  public:
    using Value = typename Algebra::Value;

    Elimination(const EliminationPlan &plan, Algebra &algebra, int threads, Poll &poll)
        : plan_(plan),
          algebra_(algebra),
          threads_(threads),
          poll_(poll),
          pace_(poll),
          tables_(plan.size()),
          first_child_(plan.size(), -1),
          next_child_(plan.size(), -1),
          first_clause_(plan.size(), -1),
          first_factor_(plan.size(), -1),
          place_(plan.rank.size(), -1) {
        for (int32_t r = plan.size() - 1; r >= 0; --r)
            if (plan.parent[r] >= 0) next_child_[r] = first_child_[plan.parent[r]], first_child_[plan.parent[r]] = r;
    }

    // The clauses are read until `run` is over.
    void add_clauses(const Formula &f) {
        formula_ = &f;
        next_clause_.assign(f.num_clauses, -1);
        for (int64_t c = f.num_clauses - 1; c >= 0; --c) {
            int32_t r = std::numeric_limits<int32_t>::max();
            for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) r = std::min(r, plan_.rank[f.literals[i] >> 1]);
            next_clause_[c] = first_clause_[r];
            first_clause_[r] = c;
            pace_.check(f.indptr[c + 1] - f.indptr[c]);
        }
    }

    // A factor over distinct variables: entry i of `table` is its value where variable vars[j] is bit j of i.
    template <class Entry> void add_factor(const int32_t *vars, int count, const Entry *table) {
        std::vector<int> by_rank(count);
        std::iota(by_rank.begin(), by_rank.end(), 0);
        std::sort(by_rank.begin(), by_rank.end(),
                  [&](int x, int y) { return plan_.rank[vars[x]] > plan_.rank[vars[y]]; });
        Factor factor;
        for (const int j : by_rank) factor.scope.push_back(vars[j]);
        factor.table.resize(std::size_t{1} << count);
        for (std::size_t i = 0; i < factor.table.size(); ++i) {
            std::size_t from = 0;
            for (int j = 0; j < count; ++j) from |= (i >> j & 1) << by_rank[j];
            factor.table[i] = value_of(table[from]);
        }
        const int32_t r = plan_.rank[factor.scope.back()];
        factor.next = first_factor_[r];
        first_factor_[r] = static_cast<int32_t>(factors_.size());
        factors_.push_back(std::move(factor));
    }

    // `meet` over all roots, in the order of the plan.
    template <class Root> void run(Root root) {
        for (int32_t r = 0; r < plan_.size(); ++r) {
            eliminate(r);
            if (plan_.scope_size(r) == 0) root(tables_[r][0]), std::vector<Value>().swap(tables_[r]);
        }
    }

  private:
    static constexpr int kLow = 9;               // a block is so many bits of the table: it stays in the nearest cache
    static constexpr int64_t kShared = 1 << 18;  // entries times tables from which threads pay

    struct Factor {
        std::vector<int32_t> scope;  // the variable that goes first is the last
        std::vector<Value> table;
        int32_t next = -1;
    };
    struct Source {  // a table to be combined into a bag's: its entry for (block, low) is at high[block] + low[low]
        const Value *table;
        std::size_t half;  // where v is true
        std::vector<int32_t> low;
        std::vector<std::size_t> high;
        bool in_a_row;
    };
    struct Cube {  // a clause within the bag: it is true where (assignment ^ want) & care is 0
        uint32_t care, want;
        bool high;
    };

    template <class Entry> static Value value_of(const Entry &x) {
        if constexpr (std::is_same_v<Value, Wide>)
            return Wide::of(x);
        else
            return x;
    }

    void eliminate(int32_t r) {
        const int k = plan_.scope_size(r), low_bits = std::min(k, kLow);
        const int32_t v = plan_.order[r];
        for (int j = 0; j < k; ++j) place_[plan_.scope_of(r)[j]] = j;
        place_[v] = k;
        Value fixed[2] = {Algebra::nothing(), Algebra::nothing()};  // what does not depend on the bag: [v is true]
        cubes_.clear();
        for (int64_t c = first_clause_[r]; c >= 0; c = next_clause_[c]) add_cube(c, v, fixed);
        num_sources_ = 0;
        for (int32_t f = first_factor_[r]; f >= 0; f = factors_[f].next)
            add_source(factors_[f].table, factors_[f].scope.data(), static_cast<int>(factors_[f].scope.size()), k,
                       low_bits, fixed);
        for (int32_t child = first_child_[r]; child >= 0; child = next_child_[child])
            add_source(tables_[child], plan_.scope_of(child), plan_.scope_size(child), k, low_bits, fixed);
        tables_[r].resize(std::size_t{1} << k);
        const int64_t blocks = int64_t{1} << (k - low_bits);
        const int64_t work = (int64_t{1} << k) * (num_sources_ + 1);
        constexpr bool numbers = !std::is_same_v<Algebra, NodeBuilder>;  // nodes are made one after the other
        if (numbers && threads_ > 1 && work >= kShared) {
            shared(r, v, blocks, low_bits, fixed);
        } else {
            for (int64_t b = 0; b < blocks; ++b)
                block(r, v, b, low_bits, fixed), pace_.check((num_sources_ + 1) << low_bits);
            if (blocks == 1) pace_.check(static_cast<int64_t>(cubes_.size()));
        }
        for (int32_t child = first_child_[r]; child >= 0; child = next_child_[child])
            std::vector<Value>().swap(tables_[child]);
    }

    void add_cube(int64_t c, int32_t v, Value *fixed) {
        Cube cube{0, 0, true};
        for (int64_t i = formula_->indptr[c]; i < formula_->indptr[c + 1]; ++i) {
            const int32_t lit = formula_->literals[i];
            if (lit >> 1 == v) {
                cube.high = !(lit & 1);
                continue;
            }
            cube.care |= 1u << place_[lit >> 1];
            if (!(lit & 1)) cube.want |= 1u << place_[lit >> 1];
        }
        if (cube.care == 0)
            fixed[cube.high] = Algebra::truth();
        else
            cubes_.push_back(cube);
    }

    // scope[count - 1] is v itself, the highest bit of the table's index.
    void add_source(const std::vector<Value> &table, const int32_t *scope, int count, int k, int low_bits,
                    Value *fixed) {
        if (count == 1) {
            fixed[0] = algebra_.meet(fixed[0], table[0]);
            fixed[1] = algebra_.meet(fixed[1], table[1]);
            return;
        }
        if (num_sources_ == static_cast<int>(sources_.size())) sources_.emplace_back();
        Source &source = sources_[num_sources_++];
        source.table = table.data();
        source.half = std::size_t{1} << (count - 1);
        source.low.assign(std::size_t{1} << low_bits, 0);
        source.high.assign(std::size_t{1} << (k - low_bits), 0);
        source.in_a_row = low_bits == kLow && count - 1 >= kLow && place_[scope[kLow - 1]] == kLow - 1;
        for (int j = 0; j < count - 1; ++j) {
            const int at = place_[scope[j]];
            if (at < low_bits)
                source.low[std::size_t{1} << at] = int32_t{1} << j;
            else
                source.high[std::size_t{1} << (at - low_bits)] = std::size_t{1} << j;
        }
        for (std::size_t i = 1; i < source.low.size(); ++i)
            if (i & (i - 1)) source.low[i] = source.low[i & (i - 1)] + source.low[i & (~i + 1)];
        for (std::size_t i = 1; i < source.high.size(); ++i)
            if (i & (i - 1)) source.high[i] = source.high[i & (i - 1)] + source.high[i & (~i + 1)];
    }

    // Entries block * 2^low_bits and on of v's table.
    void block(int32_t r, int32_t v, int64_t block, int low_bits, const Value *fixed) {
        const int count = 1 << low_bits;
        Value side[2][1 << kLow];
        for (int high = 0; high < 2; ++high) {
            std::fill(side[high], side[high] + count, fixed[high]);
            for (int s = 0; s < num_sources_; ++s) {
                const Source &source = sources_[s];
                const Value *from = source.table + source.high[block] + (high ? source.half : 0);
                combine(side[high], from, source, count);
            }
        }
        const auto outer = static_cast<uint32_t>(block << low_bits), low_mask = static_cast<uint32_t>(count - 1);
        for (const Cube &cube : cubes_) {
            if ((outer ^ cube.want) & cube.care & ~low_mask) continue;
            const uint32_t want = cube.want & low_mask, free = ~cube.care & low_mask;
            for (uint32_t rest = free;; rest = (rest - 1) & free) {
                side[cube.high][want | rest] = Algebra::truth();
                if (rest == 0) break;
            }
        }
        Value *out = tables_[r].data() + outer;
        if constexpr (std::is_same_v<Value, double>) {
            lanes::mix_run(out, side[1], side[0], algebra_.weights[2 * v], algebra_.weights[2 * v + 1], count);
        } else {
            for (int i = 0; i < count; ++i) out[i] = algebra_.mix(v, side[1][i], side[0][i]);
        }
    }
    void combine(Value *into, const Value *from, const Source &source, int count) {
        if constexpr (std::is_same_v<Algebra, ProbTrue>) {
            if (source.in_a_row)
                lanes::or_run(into, from, count);
            else
                lanes::or_picked(into, from, source.low.data(), count);
        } else if constexpr (std::is_same_v<Value, double>) {
            if (source.in_a_row)
                lanes::times_run(into, from, count);
            else
                lanes::times_picked(into, from, source.low.data(), count);
        } else {
            for (int i = 0; i < count; ++i) into[i] = algebra_.meet(into[i], from[source.low[i]]);
        }
    }

    // Entries do not depend on each other, so the answer is the same however threads share them out.
    void shared(int32_t r, int32_t v, int64_t blocks, int low_bits, const Value *fixed) {
        std::atomic<int64_t> next{0};
        const auto work = [&](Poll &poll, bool looks) {
            for (int64_t b; (b = next.fetch_add(8)) < blocks;) {
                if (looks ? poll.look() : poll.stopped()) return;
                for (const int64_t end = std::min(blocks, b + 8); b < end; ++b) block(r, v, b, low_bits, fixed);
            }
        };
        run_on_threads(threads_ - 1, [&](int t) { work(poll_, t == 0); });
        if (poll_.stopped()) throw Stopped{};
    }

    const EliminationPlan &plan_;
    Algebra &algebra_;
    int threads_;
    Poll &poll_;
    Pace pace_;
    const Formula *formula_ = nullptr;
    std::vector<std::vector<Value>> tables_;
    std::vector<int32_t> first_child_, next_child_;
    std::vector<int64_t> first_clause_, next_clause_;
    std::vector<int32_t> first_factor_;
    std::vector<int32_t> place_;
    std::vector<Factor> factors_;
    std::vector<Source> sources_;
    int num_sources_ = 0;
    std::vector<Cube> cubes_;
};

// The plan of a DNF without empty clauses; not found() beyond `max_operations`, or if an order takes more than
// `max_work` steps to find.
inline EliminationPlan plan_elimination(const Formula &f, double max_operations, Poll &poll,
                                        int64_t max_work = std::numeric_limits<int64_t>::max()) {
    // Every clause lies in some bag, so a wide clause alone can be too much: then no graph has to be built.
    int64_t pairs = 0;
    for (int64_t c = 0; c < f.num_clauses; ++c) {
        const int64_t width = f.indptr[c + 1] - f.indptr[c];
        pairs += width * width;
        if (width > EliminationPlan::kMaxScope + 1 || std::ldexp(1.0, static_cast<int>(width)) > max_operations)
            return {};
    }
    if (pairs > max_work) return {};
    Pace pace(poll);
    EliminationGraph graph(f.num_vars, pace);
    for (int64_t c = 0; c < f.num_clauses; ++c) {
        const int32_t *first = f.literals + f.indptr[c], *last = f.literals + f.indptr[c + 1];
        graph.join(first, last, [](int32_t lit) { return lit >> 1; });
    }
    graph.finish();
    return plan_elimination(graph, max_operations, max_work);
}

template <class Algebra>
Wide eliminated(const Formula &f, const double *weights, const EliminationPlan &plan, int threads, Poll &poll) {
    Algebra algebra{{weights}};
    Elimination<Algebra> elimination(plan, algebra, threads, poll);
    elimination.add_clauses(f);
    constexpr bool counts_true = Algebra::kCountsTrue;
    Wide all = counts_true ? Wide() : Wide::of(1.0);
    elimination.run([&](const auto &value) {
        Wide wide;
        if constexpr (std::is_same_v<typename Algebra::Value, Wide>)
            wide = value;
        else
            wide = Wide::of(value);
        all = counts_true ? all + wide * all.complement() : all * wide;
    });
    return all;
}

// Each step that underflows loses less than 1e-300, which is below the rounding of any answer above this number.
inline constexpr double kSafeDouble = 1e-280;

// P(f) and 1 - P(f), with weights[2v] = P(v) and weights[2v+1] = 1 - P(v). Throws Stopped at the deadline.
inline TwoProbs eliminate(const Formula &f, const double *weights, const EliminationPlan &plan, int threads,
                          Poll &poll) {
    TwoProbs out;
    out.holds = eliminated<ProbTrue>(f, weights, plan, threads, poll);
    if (out.holds < Wide::of(kSafeDouble)) out.holds = eliminated<WideTrue>(f, weights, plan, threads, poll);
    if (out.holds < Wide::of(0.5)) {
        out.fails = Wide::of(out.holds.complement());
        return out;
    }
    out.fails = eliminated<ProbFalse>(f, weights, plan, threads, poll);
    if (out.fails < Wide::of(kSafeDouble)) out.fails = eliminated<WideFalse>(f, weights, plan, threads, poll);
    out.holds = Wide::of(out.fails.complement());
    return out;
}

// Factors over binary variables: factor f is over scope[start[f] .. start[f+1]), its table begins at table_start[f],
// and variable scope[start[f] + j] is bit j of the index. All entries and weights are at least 0.
struct Factors {
    const int64_t *start, *table_start;
    const int32_t *scope;
    const double *tables, *weights;
    int64_t num_factors, num_vars;
};

// Not found() beyond `max_operations` or if a factor alone is too wide.
inline EliminationPlan plan_factors(const Factors &f, double max_operations, Poll &poll) {
    Pace pace(poll);
    EliminationGraph graph(f.num_vars, pace);
    for (int64_t i = 0; i < f.num_factors; ++i) {
        if (f.start[i + 1] - f.start[i] > EliminationPlan::kMaxScope + 1) return {};
        graph.join(f.scope + f.start[i], f.scope + f.start[i + 1], [](int32_t v) { return v; });
    }
    graph.finish();
    return plan_elimination(graph, max_operations);
}

template <class Algebra> Wide sum_of_products(const Factors &f, const EliminationPlan &plan, int threads, Poll &poll) {
    Algebra algebra{{f.weights}};
    Elimination<Algebra> elimination(plan, algebra, threads, poll);
    Wide all = Wide::of(1.0);
    for (int64_t i = 0; i < f.num_factors; ++i) {
        const auto count = static_cast<int>(f.start[i + 1] - f.start[i]);
        if (count == 0)
            all = all * Wide::of(f.tables[f.table_start[i]]);
        else
            elimination.add_factor(f.scope + f.start[i], count, f.tables + f.table_start[i]);
    }
    for (int64_t v = 0; v < f.num_vars; ++v)
        if (plan.rank[v] < 0) all = all * Wide::of(f.weights[2 * v] + f.weights[2 * v + 1]);
    elimination.run([&](const auto &value) {
        if constexpr (std::is_same_v<typename Algebra::Value, Wide>)
            all = all * value;
        else
            all = all * Wide::of(value);
    });
    return all;
}

// The sum over all assignments of the product of factors and weights. Throws Stopped.
inline Wide sum_of_products(const Factors &f, const EliminationPlan &plan, int threads, Poll &poll) {
    const Wide quick = sum_of_products<ProbFalse>(f, plan, threads, poll);
    // Weights may exceed 1, so doubles may overflow as well as underflow.
    const bool safe = Wide::of(kSafeDouble) < quick && quick < Wide::of(1.0 / kSafeDouble);
    return safe ? quick : sum_of_products<WideFalse>(f, plan, threads, poll);
}

}  // namespace sharpdnf
