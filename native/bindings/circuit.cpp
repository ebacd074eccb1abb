// What Python calls of circuits: drawing worlds and models of their outputs, and compiling them.
#include "results.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <optional>
#include <utility>

#include "circuit_compile.hpp"
#include "circuit_sample.hpp"

namespace sharpdnf {

// A Circuit's arrays as the kernels see them: its construction has checked them, so only the shapes are looked at here.
static CircuitView circuit_view(const In<uint8_t> &kind, const In<int32_t> &arg, const In<int64_t> &indptr,
                                const In<int32_t> &inputs, const In<double> &prob) {
    const auto gates = static_cast<int64_t>(kind.shape(0));
    if (static_cast<int64_t>(arg.shape(0)) != gates || static_cast<int64_t>(indptr.shape(0)) != gates + 1 ||
        indptr.data()[gates] != static_cast<int64_t>(inputs.shape(0)))
        throw std::invalid_argument("not the arrays of a circuit");
    return {
        kind.data(), arg.data(), indptr.data(), inputs.data(), gates, prob.data(), static_cast<int64_t>(prob.shape(0))};
}

static std::vector<int32_t> output_gates(const In<int32_t> &outputs, const CircuitView &c) {
    std::vector<int32_t> out(outputs.data(), outputs.data() + outputs.shape(0));
    for (const int32_t g : out)
        if (g < 0 || g >= c.num_gates) throw std::invalid_argument("no such output");
    return out;
}

// The plan of the DNF that covers the event; none if it has no clauses, which stands for drawing directly.
static std::optional<SamplePlan> cover_plan(const Formula &f, Poll &poll) {
    if (f.num_clauses == 0) return {};
    return make_plan(f, Estimator::automatic, poll);
}

// What the draws say of each output, and the scale of the cover they were made from.
struct ScaledCircuitSample : CircuitSample {
    double log_scale = 0.0;
};

static void declare_results(nb::module_ &m) {
    using S = ScaledCircuitSample;
    Result<S>(m, "CircuitSample", "0/1 draws of a circuit's outputs with P(success) = P(output) / S'.")
        .field("draws", &S::draws, "Per output, up to its last success that was asked for.")
        .field("successes", &S::successes, "Per output.")
        .field("complete", &S::complete, "Per output: 1 if so many successes or draws as asked for were made.")
        .field("log_scale", &S::log_scale, "log S', 0 without a cover.")
        .field("operations", &S::operations, "Gate inputs read, each for a whole block of draws.")
        .field("true_count", &S::true_count,
               "Per variable: in how many successes it is true, -1 where the output does not read it.")
        .field("marginal_successes", &S::marginal_successes, "The successes that true_count is over.");
    using R = CircuitResult;
    Result<R>(m, "CircuitResult", "Bounds of P and of 1 - P that hold surely, and what finding them took.")
        .bounds(&R::bounds)
        .field("exact", &R::exact, "Whether what is left between the bounds is rounding.")
        .field("nodes", &R::nodes, "How many subcircuits were expanded.")
        .field("work", &R::work, "How many gate inputs were looked at.")
        .field("stopped", &R::stopped, "Why the search ended: done, time, memory or work.")
        .value(
            "compiled",
            [](const R &self) -> std::optional<Compiled> {
                if (self.compiled.kind.empty()) return {};
                return self.compiled;
            },
            "The finished d-tree, if it was asked for and no limit was met first.");
}

void bind_circuit(nb::module_ &m) {
    declare_results(m);
    m.def(
        "circuit_sample",
        [](In<uint8_t> kind, In<int32_t> arg, In<int64_t> indptr, In<int32_t> inputs, In<double> prob,
           In<int32_t> outputs, In<int64_t> cover_indptr, In<int32_t> cover_literals, uint64_t seed,
           uint64_t first_block, int64_t successes, int64_t max_draws, int threads, double seconds, bool marginals) {
            const CircuitView c = circuit_view(kind, arg, indptr, inputs, prob);
            const Formula cover = view(cover_indptr, cover_literals, prob);
            const std::vector<int32_t> gates = output_gates(outputs, c);
            if (cover.num_clauses && gates.size() != 1) throw std::invalid_argument("a cover is for one output");
            ScaledCircuitSample out;
            out.draws.assign(gates.size(), 0), out.successes.assign(gates.size(), 0),
                out.complete.assign(gates.size(), 0);
            interruptible(
                [&](Poll &poll) {
                    const auto plan = cover_plan(cover, poll);
                    CircuitSampleOptions options{
                        seed, first_block, successes, max_draws, threads, marginals, plan ? &*plan : nullptr};
                    if (plan) out.log_scale = plan->log_scale;
                    static_cast<CircuitSample &>(out) = sample_circuit(c, gates, options, poll);
                },
                seconds);
            if (marginals) out.true_count.resize(c.num_vars, 0);
            return out;
        },
        nb::arg("kind"), nb::arg("arg"), nb::arg("indptr"), nb::arg("inputs"), nb::arg("prob"), nb::arg("outputs"),
        nb::arg("cover_indptr"), nb::arg("cover_literals"), nb::arg("seed"), nb::arg("first_block"),
        nb::arg("successes"), nb::arg("max_draws"), nb::arg("threads"), nb::arg("seconds"), nb::arg("marginals"),
        "Draws until every output has so many successes, or so many draws are made.");
    m.def(
        "circuit_models",
        [](In<uint8_t> kind, In<int32_t> arg, In<int64_t> indptr, In<int32_t> inputs, In<double> prob, int32_t output,
           In<int64_t> cover_indptr, In<int32_t> cover_literals, uint64_t seed, int64_t count, double seconds) {
            const CircuitView c = circuit_view(kind, arg, indptr, inputs, prob);
            const Formula cover = view(cover_indptr, cover_literals, prob);
            if (output < 0 || output >= c.num_gates || count < 0) throw std::invalid_argument("no such output");
            const size_t size = static_cast<size_t>(count) * c.num_vars;
            uint8_t *const rows = new uint8_t[size];
            nb::capsule owner(rows, [](void *p) noexcept { delete[] static_cast<uint8_t *>(p); });
            int64_t made = 0;
            interruptible(
                [&](Poll &poll) {
                    const auto plan = cover_plan(cover, poll);
                    CircuitSampleOptions options;
                    options.seed = seed, options.cover = plan ? &*plan : nullptr;
                    made = circuit_models(c, output, options, count, rows, poll);
                },
                seconds);
            return std::make_pair(Out<uint8_t>(rows, {size}, owner), made);
        },
        nb::arg("kind"), nb::arg("arg"), nb::arg("indptr"), nb::arg("inputs"), nb::arg("prob"), nb::arg("output"),
        nb::arg("cover_indptr"), nb::arg("cover_literals"), nb::arg("seed"), nb::arg("count"), nb::arg("seconds"),
        "(uint8[count * n] rows of satisfying assignments, how many were made)");
    m.def(
        "circuit_compile",
        [](In<uint8_t> kind, In<int32_t> arg, In<int64_t> indptr, In<int32_t> inputs, In<double> prob, int32_t output,
           int64_t work, double seconds, int64_t memory, double relative_epsilon, double additive_epsilon,
           bool compile) {
            const CircuitView c = circuit_view(kind, arg, indptr, inputs, prob);
            if (output < 0 || output >= c.num_gates) throw std::invalid_argument("no such output");
            CircuitOptions options;
            options.work = work;
            options.memory = static_cast<std::size_t>(std::max<int64_t>(memory, 0));
            options.relative_epsilon = relative_epsilon;
            options.additive_epsilon = additive_epsilon;
            options.compile = compile;
            CircuitResult out;
            const bool done = interruptible(
                [&](Poll &poll) {
                    options.poll = &poll;
                    solve_circuit(c, output, options, out);
                },
                seconds);
            if (!done) out.stopped = "time";
            return out;
        },
        nb::arg("kind"), nb::arg("arg"), nb::arg("indptr"), nb::arg("inputs"), nb::arg("prob"), nb::arg("output"),
        nb::arg("work"), nb::arg("seconds"), nb::arg("memory"), nb::arg("relative_epsilon"),
        nb::arg("additive_epsilon"), nb::arg("compile"),
        "Narrows the bounds of an output until they meet, are within epsilon, or a limit is met.");
}

}  // namespace sharpdnf
