#include <nanobind/stl/tuple.h>

#include <tuple>

#include "arrays.hpp"
#include "sample.hpp"

void bind_sample(nb::module_ &m) {
    m.def("gbas_successes", &gbas_successes, nb::arg("epsilon"), nb::arg("delta"));
    m.def(
        "sample",
        [](In<int64_t> indptr, In<int32_t> literals, In<double> prob, uint64_t seed, int64_t successes,
           int64_t max_draws, int threads, double seconds, int estimator, bool marginals) {
            const Formula f = view(indptr, literals, prob);
            if (f.num_clauses < 1) throw std::invalid_argument("no clauses to sample");
            SampleResult result;
            double log_scale;
            int chosen;
            {
                nb::gil_scoped_release release;
                Poll poll(seconds, signal_pending);
                const SamplePlan plan = make_plan(f, static_cast<Estimator>(estimator));
                result = sample(plan, seed, successes, max_draws, threads, marginals, poll);
                log_scale = plan.log_scale;
                chosen = static_cast<int>(plan.chosen);
            }
            if (PyErr_Occurred()) throw nb::python_error();
            return std::make_tuple(result.draws, result.successes, result.complete, log_scale, chosen,
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
            std::vector<uint8_t> out(static_cast<size_t>(count) * f.num_vars);
            int64_t made = 0;
            {
                nb::gil_scoped_release release;
                Poll poll(seconds, signal_pending);
                const SamplePlan plan = make_plan(f, Estimator::automatic);
                SampleScratch scratch(f.num_vars);
                uint64_t mixed = seed ^ 0x6d6f64656c73ULL;
                LaneRandom rest(splitmix64(mixed));
                for (uint64_t block = 0; made < count && !poll.look(); ++block) {
                    LaneWord success;
                    run_block(plan, scratch, seed, block, success);
                    if (!success.ones()) continue;
                    for (int64_t v = 0; v < f.num_vars; ++v)  // what no clause asked for keeps its own probability
                        if (scratch.stamp[v] != scratch.now) scratch.words[v].bits = bernoulli(rest, f.prob[v]);
                    for (int lane = 0; lane < LANES && made < count; ++lane) {
                        if (!success.lane(lane)) continue;
                        uint8_t *row = out.data() + static_cast<size_t>(made++) * f.num_vars;
                        for (int64_t v = 0; v < f.num_vars; ++v) row[v] = scratch.words[v].lane(lane);
                    }
                }
            }
            if (PyErr_Occurred()) throw nb::python_error();
            return std::make_tuple(to_numpy(std::move(out)), made);
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("seed"), nb::arg("count"),
        nb::arg("seconds"), "(uint8[count * n] rows of satisfying assignments, how many were made)");
}
