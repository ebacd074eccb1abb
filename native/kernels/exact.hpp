// The one front for exact answers: it foresees what each method costs, and gives each in turn a larger share.
//
// Elimination says beforehand what it will cost. The others can be interrupted and go on, so they are run in rounds,
// each with twice the operations of the one before, and elimination runs in the round that can bear its cost. How far a
// method has come says roughly what it will take in all; the one that promises most goes ahead of the others in each
// round. Only operations are counted, never seconds, so the same formula is solved the same way everywhere.
#pragma once
#include <iterator>
#include <memory>
#include <string_view>

#include "diagram.hpp"
#include "dtree.hpp"
#include "hierarchy.hpp"
#include "incidence.hpp"
#include "lift.hpp"
#include "shannon.hpp"
#include "sift.hpp"
#include "variable_order.hpp"

namespace sharpdnf {

enum class ExactMethod {
    automatic,
    hierarchy,
    eliminate,
    incidence,
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
    static const char *names[] = {"auto",           "hierarchy",     "eliminate",    "incidence",     "diagram-kinds",
                                  "diagram-sifted", "shannon-kinds", "shannon-tree", "shannon-force", "dtree"};
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

// What the operations of the methods cost, measured: 64 of elimination, which is sure to end, take as long as one of
// each of the others; one of a diagram takes the time of 32 of those that look at a suffix.
inline constexpr double kEliminationsPerOperation = 64.0;
inline constexpr int64_t kOperationsPerUnion = 32;

// The orders of the variables that the methods go by. What several of them need is made once.
class Orders {
  public:
    // The formula outlives it.
    Orders(const Formula &f, Pace &pace) : f_(f), pace_(pace) {}

    // Empty if finding the order takes more than so many steps.
    std::vector<int32_t> find(ExactMethod method, int64_t max_work) {
        if (method == ExactMethod::shannon_kinds || method == ExactMethod::diagram_kinds) return kinds(max_work);
        if (method == ExactMethod::shannon_tree) return order_by_elimination(f_, occurrences(), max_work, pace_);
        if (method == ExactMethod::diagram_sifted) return sifted(max_work);
        return force(max_work);
    }

  private:
    const Occurrences &occurrences() {
        if (!at_) at_ = std::make_unique<Occurrences>(f_, pace_);
        return *at_;
    }
    const std::vector<int32_t> &kinds(int64_t max_work) {
        const auto vars = static_cast<int64_t>(occurrences().variables().size());
        if (kinds_.empty() && KindsOrder::steps(vars, f_.size()) <= max_work)
            kinds_ = KindsOrder(f_, occurrences(), pace_).order();
        return kinds_;
    }
    std::vector<int32_t> force(int64_t max_work) {
        constexpr int kRounds = 60;
        if (kRounds * f_.size() > 4 * max_work) return {};
        return order_by_force(f_, occurrences().variables(), kRounds, pace_);
    }
    // The best of what sifting makes of the three other orders: where it ends depends on where it begins.
    std::vector<int32_t> sifted(int64_t max_work) {
        constexpr int64_t kPasses = 24;  // over the literals, for each of the orders to be found at all
        if (kPasses * f_.size() > max_work) return {};
        const std::vector<int32_t> starts[] = {order_by_elimination(f_, occurrences(), max_work, pace_),
                                               force(max_work), kinds(max_work)};
        std::vector<int32_t> best;
        int64_t least = std::numeric_limits<int64_t>::max();
        for (const std::vector<int32_t> &start : starts) {
            if (start.empty()) continue;
            Sifting sifting(f_, start, pace_);
            std::vector<int32_t> order = sifting.run(max_work);
            if (sifting.size() < least) least = sifting.size(), best = std::move(order);
        }
        return best;
    }

    const Formula &f_;
    Pace &pace_;
    std::unique_ptr<Occurrences> at_;
    std::vector<int32_t> kinds_;
};

// One of the methods that go by an order, with values of one kind. It can be interrupted and goes on where it was.
template <class Algebra> class Ordered {
  public:
    // True if it finished within so many operations, all in all. The search for its order may take `search` steps.
    bool run(ExactMethod method, const Formula &f, Algebra &algebra, double budget, int64_t search, std::size_t memory,
             Poll &poll, Orders &orders) {
        if (over_) return false;
        const auto operations = static_cast<int64_t>(std::min(budget, 0x1p60));
        if (!started() && !start(method, f, algebra, search, memory, poll, orders)) return false;
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
    // What it will take in all if it goes on as it has begun: rough, but enough to tell the methods apart.
    double foreseen() const {
        if (!started() || over_) return std::numeric_limits<double>::infinity();
        const double progress = diagram_ ? diagram_->progress() : shannon_->progress();
        return progress > 0.0 ? static_cast<double>(operations()) / progress : std::numeric_limits<double>::infinity();
    }
    // Its part of a round: one that has had its chance and promises far less than the best goes on more slowly.
    double share(double budget, double least) const {
        constexpr double kChance = 1 << 21, kFar = 8.0;
        return budget > kChance && started() && foreseen() > kFar * least ? budget / 4.0 : budget;
    }

  private:
    // Finding an order may cost as much as the round; one that costs more is tried again in a later, larger round.
    bool start(ExactMethod method, const Formula &f, Algebra &algebra, int64_t search, std::size_t memory, Poll &poll,
               Orders &orders) {
        if (by_diagram(method) && f.num_vars > DiagramShannon<Algebra>::kMostVariables) {
            over_ = true;
            return false;
        }
        const std::vector<int32_t> order = orders.find(method, search);
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
        orders_ = std::make_unique<Orders>(f_, pace_);
        algebra_ = BothProbs(lifted_.weights.data());
        if (wants(ExactMethod::eliminate)) {
            plan_ = plan_elimination(f_, most_elimination(), poll_, options_.max_search);
            if (plan_.found() && plan_.bytes > static_cast<double>(options_.memory)) plan_ = {};
        }
        constexpr double kFirst = 1 << 15;
        for (double budget = std::min(options_.max_operations, kFirst);; budget *= 2.0) {
            budget = std::min(budget, options_.max_operations);
            if (round(budget)) return;
            if (budget >= options_.max_operations) {
                out_.stopped = "operations";
                return;
            }
            if (!alive()) {
                const bool sums =
                    options_.method == ExactMethod::eliminate || options_.method == ExactMethod::incidence;
                out_.stopped = sums ? "too wide" : "memory limit";
                return;
            }
        }
    }
    double most_elimination() const {
        return std::min({options_.max_operations * kEliminationsPerOperation, options_.max_elimination, 0x1p36});
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
        if (wants(ExactMethod::incidence) && incidence(budget)) return true;
        // First the d-tree, which finds its own way where orders differ widely, then what promises most.
        if (wants(ExactMethod::dtree) && options_.tree && !tree_exhausted_ && tree(budget)) return true;
        constexpr double kAhead = 2.0;
        const ExactMethod favourite = *std::min_element(
            std::begin(kOrdered), std::end(kOrdered),
            [&](ExactMethod x, ExactMethod y) { return runner_of(x).foreseen() < runner_of(y).foreseen(); });
        const double least = runner_of(favourite).foreseen();
        const bool promises = least < std::numeric_limits<double>::infinity();
        if (promises && ordered(favourite, std::min(kAhead * budget, options_.max_operations))) return true;
        for (const ExactMethod method : kOrdered)
            if (wants(method) && ordered(method, runner_of(method).share(budget, least))) return true;
        return false;
    }
    // The plan is made once, in the first round that takes longer than the search for it, if plain elimination has not
    // run by then.
    bool incidence(double budget) {
        constexpr int64_t kSteps = 256;  // that the search may take for each literal, at least
        const int64_t steps = search(ExactMethod::incidence, budget);
        if (!split_planned_ && steps >= kSteps * f_.size()) {
            split_planned_ = true;
            const double most = std::min(most_elimination(), plan_.operations);
            const int64_t least_wide = options_.method == ExactMethod::automatic ? 1 : 0;
            split_.plan(f_, most, std::min(steps, options_.max_search), least_wide, poll_);
            if (split_.found() && split_.bytes() > static_cast<double>(options_.memory)) split_.forget();
        }
        if (!split_.found() || split_.operations() > budget * kEliminationsPerOperation) return false;
        settle(split_.run(lifted_.weights, options_.threads, poll_), split_.roundings());
        return done(ExactMethod::incidence, 0, split_.operations());
    }
    bool ordered(ExactMethod method, double budget) {
        Ordered<BothProbs> &runner = runner_of(method);
        if (!runner.run(method, f_, algebra_, budget, search(method, budget), share(), poll_, *orders_)) return false;
        settle(runner.value());
        return done(method, runner.nodes(), static_cast<double>(runner.operations()));
    }
    // The steps that the search for a method's order may take: about as long as the round itself. Sifting, of which too
    // little would be for nothing, does not begin in the first rounds, unless it is alone.
    int64_t search(ExactMethod method, double budget) const {
        constexpr double kSifting = 1 << 19;
        const auto steps = static_cast<int64_t>(std::min(budget, 0x1p56));
        if (options_.method != ExactMethod::automatic || method != ExactMethod::diagram_sifted) return 16 * steps;
        return budget < kSifting ? 0 : 4 * steps;
    }
    Ordered<BothProbs> &runner_of(ExactMethod method) {
        return runners_[static_cast<int>(method) - static_cast<int>(ExactMethod::diagram_kinds)];
    }
    std::size_t share() const { return options_.memory / (options_.method == ExactMethod::automatic ? 6 : 1); }
    bool alive() {
        if (plan_.found() || (wants(ExactMethod::dtree) && options_.tree && !tree_exhausted_)) return true;
        if (wants(ExactMethod::incidence) && (split_.found() || !split_planned_)) return true;
        for (const ExactMethod method : kOrdered)
            if (wants(method) && !runner_of(method).over()) return true;
        return false;
    }

    // On the original: the d-tree merges variables by itself, at every node.
    bool tree(double budget) {
        if (!tree_) {
            DTreeOptions options;
            options.memory = share();
            options.poll = &poll_;
            tree_ = std::make_unique<DTree>(original_, options);
        }
        const DTreeResult result = tree_->resume(static_cast<int64_t>(std::min(budget, 0x1p60)));
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
    void settle(const TwoProbs &prob, double roundings = 0.0) {
        out_.bounds = Bounds::about(Chance::of(prob.holds, prob.fails), units() + roundings);
    }
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
    SplitElimination split_;
    bool split_planned_ = false;
    std::unique_ptr<Orders> orders_;
    Ordered<BothProbs> runners_[std::size(kOrdered)];
    std::unique_ptr<DTree> tree_;
    bool tree_exhausted_ = false;
};

}  // namespace sharpdnf
