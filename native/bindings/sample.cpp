// What Python calls of grouped coverage sampling: how many draws are needed, the draws, and drawn models.
#include <nanobind/stl/pair.h>

#include <utility>

#include "results.hpp"
#include "sample.hpp"
#include "stopping.hpp"

namespace sharpdnf {

// What the draws say, and the plan they were made by.
struct Sample : SampleResult {
    double log_scale = 0.0;  // stopped before S' is known: then P <= 1 is all that is known
    Estimator estimator = Estimator::automatic;
};

void bind_sample(nb::module_ &m) {
    Result<Sample>(m, "Sample", "0/1 draws with P(success) = P(formula) / S'.")
        .field("draws", &Sample::draws)
        .field("successes", &Sample::successes)
        .field("complete", &Sample::complete, "Whether so many successes or draws as asked for were made.")
        .field("log_scale", &Sample::log_scale, "log S'")
        .value(
            "estimator", [](const Sample &self) { return static_cast<int>(self.estimator); },
            "The estimator that was chosen, by its number.")
        .field("operations", &Sample::operations)
        .field("true_count", &Sample::true_count,
               "Per variable: in how many successes it was drawn true; empty if marginals were not asked for.")
        .field("seen", &Sample::seen, "Per variable: in how many successes it was drawn at all.")
        .field("marginal_successes", &Sample::marginal_successes,
               "The successes that true_count and seen are over: all of the blocks run, more than `successes`.");
    m.def("successes_needed", &stopping::successes, nb::arg("epsilon"), nb::arg("delta"));
    m.def("additive_draws", &stopping::additive_draws, nb::arg("epsilon"), nb::arg("delta"));
    m.def(
        "sample",
        [](In<int64_t> indptr, In<int32_t> literals, In<double> prob, uint64_t seed, int64_t successes,
           int64_t max_draws, int threads, double seconds, int estimator, bool marginals) {
            const Formula f = view(indptr, literals, prob);
            if (f.num_clauses < 1) throw std::invalid_argument("no clauses to sample");
            Sample out;
            const auto kernel = [&](Poll &poll) {
                const SamplePlan plan = make_plan(f, static_cast<Estimator>(estimator), poll);
                out.log_scale = plan.log_scale;
                out.estimator = plan.chosen;
                static_cast<SampleResult &>(out) = sample(plan, seed, successes, max_draws, threads, marginals, poll);
            };
            if (!interruptible(kernel, seconds) && marginals)
                out.true_count.resize(f.num_vars), out.seen.resize(f.num_vars);
            return out;
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("seed"), nb::arg("successes"),
        nb::arg("max_draws"), nb::arg("threads"), nb::arg("seconds"), nb::arg("estimator"), nb::arg("marginals"),
        "Draws until so many successes or so many draws, by the estimator of that number (0: the cheapest).");
    m.def(
        "sample_models",
        [](In<int64_t> indptr, In<int32_t> literals, In<double> prob, uint64_t seed, int64_t count, double seconds) {
            const Formula f = view(indptr, literals, prob);
            if (f.num_clauses < 1) throw std::invalid_argument("no clauses to sample");
            // Not cleared: pages come when a block writes its rows, inside the kernel, which looks at the clock.
            const size_t size = static_cast<size_t>(count) * f.num_vars;
            uint8_t *const out = new uint8_t[size];
            nb::capsule owner(out, [](void *p) noexcept { delete[] static_cast<uint8_t *>(p); });
            int64_t made = 0;
            interruptible(
                [&](Poll &poll) {
                    const SamplePlan plan = make_plan(f, Estimator::automatic, poll);
                    SampleScratch scratch(f.num_vars);
                    uint64_t mixed = seed ^ 0x6d6f64656c73ULL;
                    LaneRandom rest(splitmix64(mixed));
                    Pace pace(poll);
                    for (uint64_t block = 0; made < count && !poll.look(); ++block) {
                        LaneWord success;
                        if (!run_block(plan, scratch, seed, block, success, poll)) return;
                        if (!success.ones()) continue;
                        for (int32_t v = 0; v < static_cast<int32_t>(f.num_vars); ++v) {
                            // What no clause asked for keeps its own probability.
                            const LaneWord &word = scratch.word(v, [&] { return bernoulli(rest, f.prob[v]); });
                            int64_t row = made;
                            for (int lane = 0; lane < LANES && row < count; ++lane)
                                if (success.lane(lane))
                                    out[static_cast<size_t>(row++) * f.num_vars + v] = word.lane(lane);
                            pace.check(LANES / 8);
                        }
                        made = std::min(count, made + success.ones());
                    }
                },
                seconds);
            return std::make_pair(Out<uint8_t>(out, {size}, owner), made);
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("seed"), nb::arg("count"), nb::arg("seconds"),
        "(uint8[count * n] rows of satisfying assignments, how many were made)");
}

}  // namespace sharpdnf
