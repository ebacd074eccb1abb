// Thousands of formulas over one variable space, counted in parallel: what `auto` does, without leaving native code.
#pragma once
#include <atomic>
#include <cmath>
#include <limits>

#include "bounds.hpp"
#include "conditioned.hpp"
#include "dtree.hpp"
#include "formula.hpp"
#include "hierarchy.hpp"
#include "poll.hpp"
#include "sample.hpp"
#include "simplify.hpp"
#include "stopping.hpp"
#include "threads.hpp"

enum class Promise : int { exact = 0, relative = 1, additive = 2, bounds = 3, none = 4 };
enum class Method : int { trivial = 0, simplify = 1, bounds = 2, dtree = 3, sampling = 4, conditioned = 5 };

struct BatchAsk {
    Promise promise;
    double epsilon, delta;
    uint64_t seed;
    std::size_t memory;
};

struct BatchAnswer {
    double log_prob = 0.0, log_lower = 0.0, log_upper = 0.0;            // hold with probability 1 - delta
    double log_certified_lower = 0.0, log_certified_upper = 0.0;        // hold surely
    Promise promise = Promise::exact;
    Method method = Method::trivial;
    int64_t samples = 0;
    bool met = true;
};

class BatchCounter {
  public:
    static constexpr double kEver = std::numeric_limits<double>::infinity(), kNever = -kEver;

    explicit BatchCounter(const BatchAsk &ask)
        : ask_(ask),
          successes_(ask.promise == Promise::relative ? stopping::successes(ask.epsilon, ask.delta) : 0),
          draws_(ask.promise == Promise::additive ? stopping::additive_draws(ask.epsilon, ask.delta) : 0) {}

    BatchAnswer run(const Formula &f, uint64_t index, Poll &poll, Hierarchy &hierarchy) const {
        if (f.num_clauses == 0) return exactly(kNever, kNever, Method::trivial);
        for (int64_t c = 0; c < f.num_clauses; ++c)
            if (f.indptr[c] == f.indptr[c + 1]) return exactly(0.0, 0.0, Method::trivial);
        Bounds bounds;
        if (hierarchy.solve(f, bounds)) return exactly(bounds, Method::simplify);
        const SimplifyResult simple = simplify(f, {}, poll);
        const auto combine = [&](double log_mu, int direction) {
            return simple.fold.whole(log_mu, log1mexp(log_mu), direction).log_p;
        };
        const Formula rest = simple.unchanged ? f : simple.formula.view();
        if (rest.num_clauses == 0) {
            BatchAnswer out = exactly(combine(kNever, -1), combine(kNever, 1), Method::simplify);
            out.log_prob = combine(kNever, 0);
            return out;
        }
        BatchAnswer out = solve(rest, index, poll);
        if (simple.fold.trivial()) return out;
        out.log_prob = combine(out.log_prob, 0);
        for (double *x : {&out.log_lower, &out.log_certified_lower}) *x = combine(*x, -1);
        for (double *x : {&out.log_upper, &out.log_certified_upper}) *x = combine(*x, 1);
        return out;
    }

  private:
    // An answer whose bounds are apart by rounding, or by next to nothing.
    BatchAnswer exactly(double log_lower, double log_upper, Method method) const {
        BatchAnswer out;
        out.log_prob = log_lower == log_upper ? log_lower : middle(log_lower, log_upper);
        out.log_lower = out.log_certified_lower = log_lower;
        out.log_upper = out.log_certified_upper = log_upper;
        out.method = method;
        return out;
    }
    BatchAnswer exactly(const Bounds &bounds, Method method) const {
        return exactly(bounds.lower.log_p<false>(), bounds.upper.log_p<true>(), method);
    }

    // The point with the least relative (harmonic mean) or additive (mean) error against both ends. Where P is near 1
    // it has the digits of 1 - P.
    double middle(double log_lower, double log_upper) const {
        const double half = std::log1p(std::expm1(log_lower - log_upper) / 2.0);  // log((1 + lower / upper) / 2)
        if (ask_.promise == Promise::additive) return log_upper + half;
        return log_lower > kNever ? log_lower - half : log_upper - std::log(2.0);
    }
    bool within(double log_lower, double log_upper) const {
        const double ratio = std::exp(log_lower - log_upper);
        if (ask_.promise == Promise::relative) return (1.0 - ratio) / (1.0 + ratio) <= ask_.epsilon;
        if (ask_.promise == Promise::additive) return std::exp(log_upper) * (1.0 - ratio) / 2.0 <= ask_.epsilon;
        return ask_.promise == Promise::bounds;
    }
    BatchAnswer interval(double log_lower, double log_upper, Method method) const {
        BatchAnswer out;
        out.log_prob = middle(log_lower, log_upper);
        out.log_lower = out.log_certified_lower = log_lower;
        out.log_upper = out.log_certified_upper = log_upper;
        out.method = method;
        out.met = within(log_lower, log_upper);
        out.promise = out.met ? ask_.promise : Promise::bounds;
        return out;
    }

    BatchAnswer solve(const Formula &f, uint64_t index, Poll &poll) const {
        const bool pairs_pay = (f.num_clauses <= 300 || successes_ >= 1500) && !poll.look();
        Poll never(kEver, nullptr);
        const Interval sure = certified_bounds(f, pairs_pay ? 16 * f.size() + 100000 : 0, never, poll);
        BatchAnswer best = interval(sure.log_lower, sure.log_upper, Method::bounds);
        if (ask_.promise == Promise::none) {
            best.log_prob = std::min(std::max(conditioned(f, 8, never), sure.log_lower), sure.log_upper);
            best.promise = Promise::none, best.method = Method::conditioned, best.met = true;
            return best;
        }
        if (poll.look() || best.met) return best;
        if (ask_.promise == Promise::exact || f.size() <= 20000) {
            DTreeOptions options;
            options.memory = ask_.memory;
            options.poll = &poll;
            if (ask_.promise != Promise::exact) options.work_budget = 4 * f.size() + 20000;
            (ask_.promise == Promise::relative ? options.relative_epsilon : options.additive_epsilon) =
                ask_.promise == Promise::exact ? 0.0 : ask_.epsilon;
            const DTreeResult tree = dtree(f, options);
            if (tree.exact) return exactly(tree.bounds, Method::dtree);
            best = interval(std::max(tree.bounds.lower.log_p<false>(), sure.log_lower),
                            std::min(tree.bounds.upper.log_p<true>(), sure.log_upper), Method::dtree);
            if (best.met || ask_.promise == Promise::exact) return best;
        }
        return sampled(f, index, poll, best);
    }

    // What is left when there is no time to plan: the bounds.
    BatchAnswer sampled(const Formula &f, uint64_t index, Poll &poll, const BatchAnswer &sure) const {
        try {
            return drawn(f, index, poll, sure);
        } catch (const Stopped &) {
            return sure;
        }
    }
    BatchAnswer drawn(const Formula &f, uint64_t index, Poll &poll, const BatchAnswer &sure) const {
        const bool relative = ask_.promise == Promise::relative;
        uint64_t mixed = ask_.seed ^ (index * 0x9e6c63d0876a9a35ULL);
        const uint64_t seed = splitmix64(mixed);
        const SamplePlan plan = make_plan(f, relative ? Estimator::automatic : Estimator::direct, poll);
        const SampleResult result = relative ? sample(plan, seed, successes_, stopping::kUnlimited, 1, false, poll)
                                             : sample(plan, seed, stopping::kUnlimited, draws_, 1, false, poll);
        BatchAnswer out = sure;
        out.samples = result.draws;
        out.method = Method::sampling;
        const auto inside = [&](double x) { return std::min(std::max(x, sure.log_certified_lower), sure.log_certified_upper); };
        const double mean = result.draws ? static_cast<double>(result.successes) / static_cast<double>(result.draws) : 0.5;
        if (!result.complete) {
            out.log_prob = inside(plan.log_scale + std::log(mean));
            return out;
        }
        out.met = true, out.promise = ask_.promise;
        if (relative) {
            const double log_prob = plan.log_scale + stopping::log_estimate(successes_, result.draws);
            out.log_prob = inside(log_prob);
            out.log_lower = inside(log_prob - std::log1p(ask_.epsilon)), out.log_upper = inside(log_prob - std::log1p(-ask_.epsilon));
        } else {
            out.log_prob = inside(std::log(mean));
            out.log_lower = inside(std::log(std::max(0.0, mean - ask_.epsilon)));
            out.log_upper = inside(std::log(std::min(1.0, mean + ask_.epsilon)));
        }
        return out;
    }

    BatchAsk ask_;
    int64_t successes_, draws_;
};

// Formula i is clauses formula_indptr[i] .. formula_indptr[i+1] of `all`; its draws depend on (seed, i) alone.
inline std::vector<BatchAnswer> count_batch(const Formula &all, const int64_t *formula_indptr, int64_t num_formulas,
                                            const BatchAsk &ask, int threads, Poll &poll) {
    std::vector<BatchAnswer> answers(num_formulas);
    const BatchCounter counter(ask);
    constexpr int64_t kTaken = 8;  // formulas a thread takes at a time
    std::atomic<int64_t> next{0};
    std::atomic<bool> failed{false};
    const auto work = [&](int t) {
        Poll helper(poll, 0);
        Poll &own = t == 0 ? poll : helper;
        std::vector<int64_t> indptr;
        try {
            Hierarchy hierarchy(all.num_vars);
            const auto one = [&](int64_t i) {
                const int64_t first = formula_indptr[i], last = formula_indptr[i + 1], start = all.indptr[first];
                indptr.resize(last - first + 1);
                for (int64_t c = first; c <= last; ++c) indptr[c - first] = all.indptr[c] - start;
                answers[i] = counter.run({indptr.data(), all.literals + start, all.prob, last - first, all.num_vars},
                                         static_cast<uint64_t>(i), own, hierarchy);
            };
            for (int64_t i; (i = next.fetch_add(kTaken)) < num_formulas;)
                for (const int64_t end = std::min(num_formulas, i + kTaken); i < end; ++i) {
                    own.look();
                    if (own.abandoned() || failed.load(std::memory_order_relaxed)) return;
                    one(i);
                }
        } catch (...) {
            failed.store(true);  // the others need not go on
            throw;
        }
    };
    threads = static_cast<int>(std::min<int64_t>(std::max(1, threads), std::max<int64_t>(1, num_formulas / 16)));
    run_on_threads(threads - 1, work);
    return answers;
}
