#include <nanobind/stl/tuple.h>

#include <tuple>

#include "arrays.hpp"
#include "sample.hpp"
#include "stopping.hpp"

namespace sharpdnf {

void bind_sample(nb::module_ &m) {
    m.def("successes_needed", &stopping::successes, nb::arg("epsilon"), nb::arg("delta"));
    m.def("additive_draws", &stopping::additive_draws, nb::arg("epsilon"), nb::arg("delta"));
    m.def(
        "sample",
        [](In<int64_t> indptr, In<int32_t> literals, In<double> prob, uint64_t seed, int64_t successes,
           int64_t max_draws, int threads, double seconds, int estimator, bool marginals) {
            const Formula f = view(indptr, literals, prob);
            if (f.num_clauses < 1) throw std::invalid_argument("no clauses to sample");
            SampleResult result;
            double log_scale = 0.0;  // told to stop before S' is known: P <= 1
            auto chosen = Estimator::automatic;
            const auto kernel = [&](Poll &poll) {
                const SamplePlan plan = make_plan(f, static_cast<Estimator>(estimator), poll);
                log_scale = plan.log_scale;
                chosen = plan.chosen;
                result = sample(plan, seed, successes, max_draws, threads, marginals, poll);
            };
            if (!interruptible(kernel, seconds) && marginals)
                result.true_count.resize(f.num_vars), result.seen.resize(f.num_vars);
            return std::make_tuple(result.draws, result.successes, result.complete, log_scale, static_cast<int>(chosen),
                                   result.operations, to_numpy(std::move(result.true_count)),
                                   to_numpy(std::move(result.seen)), result.marginal_successes);
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("seed"), nb::arg("successes"),
        nb::arg("max_draws"), nb::arg("threads"), nb::arg("seconds"), nb::arg("estimator"), nb::arg("marginals"),
        "(draws, successes, complete, log S', estimator, operations, true_count, seen, marginal_successes)");
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
            return std::make_tuple(Out<uint8_t>(out, {size}, owner), made);
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("seed"), nb::arg("count"), nb::arg("seconds"),
        "(uint8[count * n] rows of satisfying assignments, how many were made)");
}

}  // namespace sharpdnf
