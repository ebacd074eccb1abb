// The one front for exact answers: it foresees what each method costs, and gives each in turn a larger share.
//
// Elimination says beforehand what it will cost. The others cannot be foreseen, but they can be interrupted and go on,
// so they are run in rounds, each with eight times the operations of the one before; elimination runs in the round that
// can bear its cost. Only operations are counted, never seconds, so the same formula is solved the same way everywhere.
#pragma once
#include <memory>
#include <string_view>

#include "dtree.hpp"
#include "eliminate.hpp"
#include "hierarchy.hpp"
#include "lift.hpp"
#include "shannon.hpp"
#include "variable_order.hpp"

enum class ExactMethod { automatic, hierarchy, eliminate, shannon_kinds, shannon_tree, shannon_force, dtree };
inline const char *name_of(ExactMethod method) {
    static const char *names[] = {"auto", "hierarchy", "eliminate", "shannon-kinds", "shannon-tree", "shannon-force", "dtree"};
    return names[static_cast<int>(method)];
}

struct ExactOptions {
    ExactMethod method = ExactMethod::automatic;
    double max_operations = std::numeric_limits<double>::infinity();
    std::size_t memory = std::size_t{2} << 30;
    int threads = 1;
};

struct ExactResult {
    bool solved = false;
    Bounds bounds = Bounds::unknown();  // apart by rounding only where it is solved
    ExactMethod method = ExactMethod::automatic;
    int64_t nodes = 0;
    double operations = 0.0;  // of the method that solved it
    const char *stopped = "done";
};

// An operation of elimination is one multiplication in a long row; of the others, an integer looked up.
inline constexpr double kEliminationsPerOperation = 8.0;

// The order that a Shannon method goes by; empty if finding it takes longer than a run of so many operations.
inline std::vector<int32_t> order_for(ExactMethod method, const Formula &f, const Occurrences &at, int64_t operations, Pace &pace) {
    const int64_t max_work = operations > (int64_t{1} << 56) ? operations : 16 * operations;
    if (method == ExactMethod::shannon_kinds) return KindsOrder(f, at, pace).order(max_work);
    if (method == ExactMethod::shannon_tree) return order_by_elimination(f, at, max_work, pace);
    std::vector<int32_t> as_written;
    for (int32_t v = 0; v < f.num_vars; ++v)
        if (at.count(v) > 0) as_written.push_back(v);
    return order_by_force(f, as_written, 60, pace);
}

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
    bool wants(ExactMethod method) const { return options_.method == ExactMethod::automatic || options_.method == method; }

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
            const double most = std::min(options_.max_operations * kEliminationsPerOperation, 0x1p36);
            plan_ = plan_elimination(f_, most, poll_);
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
        if (original_.size() > Hierarchy::kMaxLiterals || !Hierarchy(original_.num_vars).solve(original_, found)) return false;
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
        for (const ExactMethod method : {ExactMethod::shannon_kinds, ExactMethod::shannon_tree, ExactMethod::shannon_force})
            if (wants(method) && shannon(method, budget)) return true;
        return wants(ExactMethod::dtree) && tree(budget);
    }
    bool alive() const {
        if (plan_.found()) return true;
        if (wants(ExactMethod::dtree) && !tree_exhausted_) return true;
        for (const Runner &runner : runners_)
            if (runner.solver && !runner.solver->exhausted()) return true;
        return false;
    }

    struct Runner {
        std::unique_ptr<Shannon<BothProbs>> solver;
    };

    bool shannon(ExactMethod method, double budget) {
        Runner &runner = runners_[static_cast<int>(method) - static_cast<int>(ExactMethod::shannon_kinds)];
        const auto operations = static_cast<int64_t>(std::min(budget, 0x1p60));
        if (!runner.solver) {
            // An order may cost as much as the round; a dear one is tried again when rounds are larger.
            if (!at_) at_ = std::make_unique<Occurrences>(f_, pace_);
            const std::vector<int32_t> order = order_for(method, f_, *at_, operations, pace_);
            if (order.empty()) return false;
            ShannonOptions options;
            options.memory = options_.memory / (options_.method == ExactMethod::automatic ? 4 : 1);
            runner.solver = std::make_unique<Shannon<BothProbs>>(f_, levels(order, f_.num_vars), algebra_, options, poll_);
        }
        if (runner.solver->exhausted() || !runner.solver->run(operations)) return false;
        settle(runner.solver->value());
        return done(method, runner.solver->nodes(), static_cast<double>(runner.solver->operations()));
    }
    // On the original: the d-tree takes 1 - P of a variable from P, which is too little for merged ones.
    bool tree(double budget) {
        DTreeOptions options;
        options.memory = options_.memory / (options_.method == ExactMethod::automatic ? 4 : 1);
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

    // Every variable is mixed in once and every table or part joined once, with a handful of roundings each.
    double units() const { return 8.0 * static_cast<double>(original_.num_vars + original_.num_clauses); }
    void settle(const TwoProbs &prob) { out_.bounds = Bounds::about(Chance::of(prob.holds, prob.fails), units()); }
    void narrow(const Bounds &sure) {
        if (out_.bounds.lower < sure.lower) out_.bounds.lower = sure.lower;
        if (sure.upper < out_.bounds.upper) out_.bounds.upper = sure.upper;
    }
    // The best of what the methods are sure of so far.
    void collect() {
        for (const Runner &runner : runners_) {
            if (!runner.solver) continue;
            const TwoProbs sure = runner.solver->sure();
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
    Runner runners_[3];
    bool tree_exhausted_ = false;
};
