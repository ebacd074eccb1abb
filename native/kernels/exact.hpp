// The one front for exact answers: it foresees what each method costs, and gives each in turn a larger share.
//
// Elimination says beforehand what it will cost. The others cannot be foreseen, but they can be interrupted and go on,
// so they are run in rounds, each with eight times the operations of the one before; elimination runs in the round that
// can bear its cost. Only operations are counted, never seconds, so the same formula is solved the same way everywhere.
#pragma once
#include <iterator>
#include <memory>
#include <string_view>

#include "diagram.hpp"
#include "dtree.hpp"
#include "eliminate.hpp"
#include "hierarchy.hpp"
#include "lift.hpp"
#include "shannon.hpp"
#include "sift.hpp"
#include "variable_order.hpp"

namespace sharpdnf {

enum class ExactMethod {
    automatic,
    hierarchy,
    eliminate,
    diagram_kinds,
    diagram_sifted,
    shannon_kinds,
    shannon_tree,
    shannon_force,
    dtree
};
inline constexpr ExactMethod kOrdered[] = {ExactMethod::diagram_kinds, ExactMethod::diagram_sifted,
                                           ExactMethod::shannon_kinds, ExactMethod::shannon_tree,
                                           ExactMethod::shannon_force};
inline bool by_diagram(ExactMethod method) {
    return method == ExactMethod::diagram_kinds || method == ExactMethod::diagram_sifted;
}
inline const char *name_of(ExactMethod method) {
    static const char *names[] = {"auto",          "hierarchy",    "eliminate",     "diagram-kinds", "diagram-sifted",
                                  "shannon-kinds", "shannon-tree", "shannon-force", "dtree"};
    return names[static_cast<int>(method)];
}

struct ExactOptions {
    ExactMethod method = ExactMethod::automatic;
    double max_operations = std::numeric_limits<double>::infinity();   // of each method but elimination
    double max_elimination = std::numeric_limits<double>::infinity();  // predicted; at most 32 for each of the above
    int64_t max_search = std::numeric_limits<int64_t>::max();          // steps that the search for its order may take
    std::size_t memory = std::size_t{2} << 30;
    int threads = 1;
    bool tree = true;  // let the d-tree take part
};

struct ExactResult {
    bool solved = false;
    Bounds bounds = Bounds::unknown();  // apart by rounding only where it is solved
    ExactMethod method = ExactMethod::automatic;
    int64_t nodes = 0;
    double operations = 0.0;  // of the method that solved it
    const char *stopped = "done";
};

// What the operations of the methods cost, measured: elimination's, which is sure to end, may be 32 for each that the
// others are given in a round; one of a diagram takes the time of 32 of those that look at a suffix.
inline constexpr double kEliminationsPerOperation = 32.0;
inline constexpr int64_t kOperationsPerUnion = 32;

// The best of what sifting makes of the three other orders: where it ends depends on where it begins. Empty if that
// takes more than `max_work` steps.
inline std::vector<int32_t> sifted_order(const Formula &f, const Occurrences &at, int64_t max_work, Pace &pace) {
    constexpr int64_t kPasses = 24;  // over the literals, for each of the orders to be found at all
    if (kPasses * f.size() > max_work) return {};
    const std::vector<int32_t> starts[] = {order_by_elimination(f, at, max_work, pace),
                                           order_by_force(f, at.variables(), 60, pace),
                                           KindsOrder(f, at, pace).order(max_work)};
    std::vector<int32_t> best;
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const std::vector<int32_t> &start : starts) {
        if (start.empty()) continue;
        Sifting sifting(f, start, pace);
        std::vector<int32_t> order = sifting.run(max_work);
        if (sifting.size() < least) least = sifting.size(), best = std::move(order);
    }
    return best;
}

// The order that a Shannon method goes by; empty if finding it takes longer than a run of so many operations.
inline std::vector<int32_t> order_for(ExactMethod method, const Formula &f, const Occurrences &at, int64_t operations,
                                      Pace &pace) {
    const int64_t max_work = operations > (int64_t{1} << 56) ? operations : 16 * operations;
    if (method == ExactMethod::shannon_kinds || method == ExactMethod::diagram_kinds)
        return KindsOrder(f, at, pace).order(max_work);
    if (method == ExactMethod::shannon_tree) return order_by_elimination(f, at, max_work, pace);
    if (method == ExactMethod::diagram_sifted) return sifted_order(f, at, max_work, pace);
    return order_by_force(f, at.variables(), 60, pace);
}

// One of the methods that go by an order, with values of one kind. It can be interrupted and goes on where it was.
template <class Algebra> class Ordered {
  public:
    // True if it finished within so many operations, all in all.
    bool run(ExactMethod method, const Formula &f, Algebra &algebra, double budget, std::size_t memory, Poll &poll,
             Pace &pace, std::unique_ptr<Occurrences> &at) {
        if (over_) return false;
        const auto operations = static_cast<int64_t>(std::min(budget, 0x1p60));
        if (!shannon_ && !diagram_ && !start(method, f, algebra, operations, memory, poll, pace, at)) return false;
        const bool done = diagram_ ? diagram_->run(operations / kOperationsPerUnion) : shannon_->run(operations);
        over_ = done || (diagram_ ? diagram_->exhausted() : shannon_->exhausted());
        return done;
    }
    void give_up() { over_ = true; }
    bool over() const { return over_; }  // whether it is finished, out of memory, or of no use for this formula
    bool started() const { return shannon_ || diagram_; }
    typename Algebra::Value value() const { return diagram_ ? diagram_->value() : shannon_->value(); }
    int64_t operations() const {
        return diagram_ ? kOperationsPerUnion * diagram_->operations() : shannon_->operations();
    }
    int64_t nodes() const { return diagram_ ? diagram_->nodes() : shannon_->nodes(); }
    TwoProbs sure() const { return diagram_ ? diagram_->sure() : shannon_->sure(); }

  private:
    // Finding an order may cost as much as the round; one that costs more is tried again in a later, larger round.
    bool start(ExactMethod method, const Formula &f, Algebra &algebra, int64_t operations, std::size_t memory,
               Poll &poll, Pace &pace, std::unique_ptr<Occurrences> &at) {
        if (by_diagram(method) && f.num_vars > DiagramShannon<Algebra>::kMostVariables) {
            over_ = true;
            return false;
        }
        if (!at) at = std::make_unique<Occurrences>(f, pace);
        const std::vector<int32_t> order = order_for(method, f, *at, operations, pace);
        if (order.empty()) return false;
        ShannonOptions options;
        options.memory = memory;
        if (by_diagram(method))
            diagram_ = std::make_unique<DiagramShannon<Algebra>>(f, order, algebra, memory, poll);
        else
            shannon_ = std::make_unique<Shannon<Algebra>>(f, levels(order, f.num_vars), algebra, options, poll);
        return true;
    }

    std::unique_ptr<Shannon<Algebra>> shannon_;
    std::unique_ptr<DiagramShannon<Algebra>> diagram_;
    bool over_ = false;
};

class ExactSolver {
  public:
    // The formula has clauses, none of them empty, and outlives the solver.
    ExactSolver(const Formula &f, const ExactOptions &options, Poll &poll)
        : original_(f), options_(options), poll_(poll), pace_(poll) {}

    ExactResult run() {
        try {
            solve();
        } catch (const Stopped &) {
            out_.stopped = "time limit";
        }
        if (!out_.solved) collect();
        return out_;
    }

  private:
    bool wants(ExactMethod method) const {
        return options_.method == ExactMethod::automatic || options_.method == method;
    }

    void solve() {
        if (wants(ExactMethod::hierarchy) && by_hierarchy()) return;
        if (options_.method == ExactMethod::hierarchy) {
            out_.stopped = "no hierarchy";
            return;
        }
        lifted_ = Lifting(original_, pace_).run();
        f_ = lifted_.formula.view();
        algebra_ = BothProbs(lifted_.weights.data());
        if (wants(ExactMethod::eliminate)) {
            const double most =
                std::min({options_.max_operations * kEliminationsPerOperation, options_.max_elimination, 0x1p36});
            plan_ = plan_elimination(f_, most, poll_, options_.max_search);
            if (plan_.found() && plan_.bytes > static_cast<double>(options_.memory)) plan_ = {};
        }
        constexpr double kFirst = 1 << 17;
        for (double budget = std::min(options_.max_operations, kFirst);; budget *= 8.0) {
            budget = std::min(budget, options_.max_operations);
            if (round(budget)) return;
            if (budget >= options_.max_operations) {
                out_.stopped = "operations";
                return;
            }
            if (!alive()) {
                out_.stopped = plan_.found() || options_.method != ExactMethod::eliminate ? "memory limit" : "too wide";
                return;
            }
        }
    }
    bool by_hierarchy() {
        Bounds found;
        if (!Hierarchy(original_.num_vars).solve(original_, found)) return false;
        out_.bounds = found;
        return done(ExactMethod::hierarchy, 0, static_cast<double>(original_.size()));
    }
    bool done(ExactMethod method, int64_t nodes, double operations) {
        out_.solved = true, out_.method = method, out_.nodes = nodes, out_.operations = operations;
        return true;
    }

    bool round(double budget) {
        if (plan_.found() && plan_.operations <= budget * kEliminationsPerOperation) {
            settle(eliminate(f_, lifted_.weights.data(), plan_, options_.threads, poll_));
            return done(ExactMethod::eliminate, 0, plan_.operations);
        }
        for (const ExactMethod method : kOrdered) {
            if (!wants(method)) continue;
            Ordered<BothProbs> &runner = runner_of(method);
            if (!runner.run(method, f_, algebra_, budget, share(), poll_, pace_, at_)) continue;
            settle(runner.value());
            return done(method, runner.nodes(), static_cast<double>(runner.operations()));
        }
        return wants(ExactMethod::dtree) && options_.tree && tree(budget);
    }
    Ordered<BothProbs> &runner_of(ExactMethod method) {
        return runners_[static_cast<int>(method) - static_cast<int>(ExactMethod::diagram_kinds)];
    }
    std::size_t share() const { return options_.memory / (options_.method == ExactMethod::automatic ? 6 : 1); }
    bool alive() {
        if (plan_.found() || (wants(ExactMethod::dtree) && options_.tree && !tree_exhausted_)) return true;
        for (const ExactMethod method : kOrdered)
            if (wants(method) && !runner_of(method).over()) return true;
        return false;
    }

    // On the original: the d-tree takes 1 - P of a variable from P, which is too little for merged ones.
    bool tree(double budget) {
        DTreeOptions options;
        options.memory = share();
        options.work_budget = static_cast<int64_t>(std::min(budget / 2, 0x1p60));
        options.poll = &poll_;
        const DTreeResult result = dtree(original_, options);
        narrow(result.bounds);
        tree_exhausted_ = std::string_view(result.stopped) == "memory limit";
        if (poll_.stopped()) throw Stopped{};
        if (!result.exact) return false;
        out_.bounds = result.bounds;
        return done(ExactMethod::dtree, result.nodes, budget);
    }

    // On every way to the root each variable is merged, mixed in and its table or part joined at most once, with three
    // roundings each at the most.
    double units() const { return 12.0 * static_cast<double>(original_.num_vars); }
    void settle(const TwoProbs &prob) { out_.bounds = Bounds::about(Chance::of(prob.holds, prob.fails), units()); }
    void narrow(const Bounds &sure) {
        if (out_.bounds.lower < sure.lower) out_.bounds.lower = sure.lower;
        if (sure.upper < out_.bounds.upper) out_.bounds.upper = sure.upper;
    }
    // The best of what the methods are sure of so far.
    void collect() {
        for (const Ordered<BothProbs> &runner : runners_) {
            if (!runner.started()) continue;
            const TwoProbs sure = runner.sure();
            const Chance lower = Chance::of(sure.holds, Wide::of(sure.holds.complement()));
            const Chance upper = Chance::of(Wide::of(sure.fails.complement()), sure.fails);
            narrow({lower.moved<false>(2.0 * units()), upper.moved<true>(2.0 * units())});
        }
    }

    const Formula &original_;
    Lifted lifted_;
    Formula f_{};  // the lifted one
    ExactOptions options_;
    Poll &poll_;
    Pace pace_;
    BothProbs algebra_{nullptr};
    ExactResult out_;
    EliminationPlan plan_;
    std::unique_ptr<Occurrences> at_;
    Ordered<BothProbs> runners_[std::size(kOrdered)];
    bool tree_exhausted_ = false;
};

}  // namespace sharpdnf
