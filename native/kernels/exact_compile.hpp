// The smallest circuit that the exact methods find for a formula within the same number of operations.
#pragma once
#include "exact.hpp"

namespace sharpdnf {

struct CompileOptions {
    ExactMethod method = ExactMethod::automatic;
    double max_operations = std::numeric_limits<double>::infinity();
    std::size_t memory = std::size_t{2} << 30;
};

class ExactCompiler {
  public:
    ExactCompiler(const Formula &f, const CompileOptions &options, Poll &poll)
        : original_(f), options_(options), poll_(poll), pace_(poll) {}

    // Without nodes if no method finishes within the operations and the memory. Throws Stopped if the deadline comes
    // before there is any circuit.
    Compiled run() {
        try {
            search();
        } catch (const Stopped &) {
            if (best_.kind.empty() || poll_.abandoned()) throw;
        }
        return std::move(best_);
    }
    ExactMethod method() const { return method_; }

  private:
    // Once a method is finished, the others have four times as long for a smaller circuit, if that is soon.
    void search() {
        lifted_ = Lifting(original_, pace_).run();
        f_ = lifted_.formula.view();
        orders_ = std::make_unique<Orders>(f_, pace_);
        if (wants(ExactMethod::eliminate))
            plan_ = plan_elimination(f_, std::min(options_.max_operations, 0x1p30), poll_);
        constexpr double kFirst = 1 << 17;
        for (double budget = std::min(options_.max_operations, kFirst);; budget *= 2.0) {
            budget = std::min(budget, options_.max_operations);
            round(budget);
            if (budget >= options_.max_operations || !alive()) return;
            constexpr double kSoon = 1 << 21;
            if (best_.kind.empty()) continue;
            if (budget <= kSoon) round(std::min(4.0 * budget, options_.max_operations));
            return;
        }
    }

    bool wants(ExactMethod method) const {
        return options_.method == ExactMethod::automatic || options_.method == method;
    }
    std::size_t share() const { return options_.memory / (options_.method == ExactMethod::automatic ? 7 : 1); }

    struct Runner {
        std::unique_ptr<NodeBuilder> nodes;
        Ordered<NodeBuilder> solver;
    };
    static std::size_t place_of(ExactMethod method) {
        return static_cast<std::size_t>(method) - static_cast<std::size_t>(ExactMethod::diagram_kinds);
    }

    void round(double budget) {
        if (plan_.found() && plan_.operations <= budget / 4) eliminated();
        double least = std::numeric_limits<double>::infinity();
        for (const Runner &runner : runners_) least = std::min(least, runner.solver.foreseen());
        for (const ExactMethod method : kOrdered)
            if (wants(method)) ordered(method, runners_[place_of(method)].solver.share(budget, least));
        if (wants(ExactMethod::dtree) && !tree_over_) tree(budget);
    }
    bool alive() const {
        if (plan_.found() || (wants(ExactMethod::dtree) && !tree_over_)) return true;
        for (const ExactMethod method : kOrdered)
            if (wants(method) && !runners_[place_of(method)].solver.over()) return true;
        return false;
    }
    void offer(Compiled &&found, ExactMethod method) {
        const auto size = [](const Compiled &c) { return c.kind.size() + c.literals.size() / 4; };
        if (!best_.kind.empty() && size(best_) <= size(found)) return;
        best_ = std::move(found);
        method_ = method;
    }

    void eliminated() {
        NodeBuilder nodes(share(), &lifted_);
        Elimination<NodeBuilder> elimination(plan_, nodes, 1, poll_);
        elimination.add_clauses(f_);
        int32_t root = NodeBuilder::nothing();
        try {
            elimination.run([&](int32_t part) { root = nodes.meet(root, part); });
            offer(nodes.compiled(root), ExactMethod::eliminate);
        } catch (const Stopped &) {
            if (poll_.stopped()) throw;  // otherwise it was thrown because the memory is full
        }
        plan_ = {};
    }
    void ordered(ExactMethod method, double budget) {
        Runner &runner = runners_[place_of(method)];
        if (runner.solver.over()) return;
        if (!runner.nodes) runner.nodes = std::make_unique<NodeBuilder>(share(), &lifted_);
        try {
            // What sifting gains it gains soon; in large formulas it would take longer than all the rest.
            constexpr double kMostSifting = 0x1p27;
            double search = 16.0 * std::min(budget, 0x1p56);
            const bool enough = options_.method == ExactMethod::automatic && method == ExactMethod::diagram_sifted &&
                                search >= kMostSifting;
            if (enough) search = kMostSifting;
            if (runner.solver.run(method, f_, *runner.nodes, budget, static_cast<int64_t>(search), share(), poll_,
                                  *orders_))
                offer(runner.nodes->compiled(runner.solver.value()), method);
            if (enough && !runner.solver.started()) runner.solver.give_up();
        } catch (const Stopped &) {
            if (poll_.stopped()) throw;
            runner.solver.give_up();  // the memory is full
        }
    }
    void tree(double budget) {
        if (!tree_) {
            DTreeOptions options;
            options.compile = true;
            options.memory = share();
            options.poll = &poll_;
            tree_ = std::make_unique<DTree>(original_, options);
        }
        const DTreeResult result = tree_->resume(static_cast<int64_t>(std::min(budget / 2, 0x1p60)));
        if (poll_.stopped()) throw Stopped{};
        tree_over_ = result.exact || std::string_view(result.stopped) == "memory limit";
        if (result.exact) offer(tree_->compiled(), ExactMethod::dtree);
    }

    const Formula &original_;
    Lifted lifted_;
    Formula f_{};
    CompileOptions options_;
    Poll &poll_;
    Pace pace_;
    EliminationPlan plan_;
    std::unique_ptr<Orders> orders_;
    Runner runners_[std::size(kOrdered)];
    std::unique_ptr<DTree> tree_;
    bool tree_over_ = false;
    Compiled best_;
    ExactMethod method_ = ExactMethod::automatic;
};

}  // namespace sharpdnf
