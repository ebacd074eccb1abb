#include "arrays.hpp"

#include <optional>
#include <string>

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

void bind_circuit(nb::module_ &m) {
    m.def(
        "circuit_sample",
        [](In<uint8_t> kind, In<int32_t> arg, In<int64_t> indptr, In<int32_t> inputs, In<double> prob,
           In<int32_t> outputs, In<int64_t> cover_indptr, In<int32_t> cover_literals, uint64_t seed,
           uint64_t first_block, int64_t successes, int64_t max_draws, int threads, double seconds, bool marginals) {
            const CircuitView c = circuit_view(kind, arg, indptr, inputs, prob);
            const Formula cover = view(cover_indptr, cover_literals, prob);
            const std::vector<int32_t> gates = output_gates(outputs, c);
            if (cover.num_clauses && gates.size() != 1) throw std::invalid_argument("a cover is for one output");
            CircuitSample out;
            out.draws.assign(gates.size(), 0), out.successes.assign(gates.size(), 0),
                out.complete.assign(gates.size(), 0);
            double log_scale = 0.0;
            interruptible(
                [&](Poll &poll) {
                    const auto plan = cover_plan(cover, poll);
                    CircuitSampleOptions options{
                        seed, first_block, successes, max_draws, threads, marginals, plan ? &*plan : nullptr};
                    if (plan) log_scale = plan->log_scale;
                    out = sample_circuit(c, gates, options, poll);
                },
                seconds);
            if (marginals) out.true_count.resize(c.num_vars, 0);
            return nb::make_tuple(to_numpy(std::move(out.draws)), to_numpy(std::move(out.successes)),
                                  to_numpy(std::move(out.complete)), log_scale, out.operations,
                                  to_numpy(std::move(out.true_count)), out.marginal_successes);
        },
        nb::arg("kind"), nb::arg("arg"), nb::arg("indptr"), nb::arg("inputs"), nb::arg("prob"), nb::arg("outputs"),
        nb::arg("cover_indptr"), nb::arg("cover_literals"), nb::arg("seed"), nb::arg("first_block"),
        nb::arg("successes"), nb::arg("max_draws"), nb::arg("threads"), nb::arg("seconds"), nb::arg("marginals"),
        "(draws, successes, complete of each output, log S', gate inputs read, true_count, marginal_successes)");
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
            return nb::make_tuple(Out<uint8_t>(rows, {size}, owner), made);
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
            nb::object compiled = nb::none();
            if (!out.compiled.kind.empty()) {
                Compiled &d = out.compiled;
                compiled =
                    nb::make_tuple(to_numpy(std::move(d.kind)), to_numpy(std::move(d.a)), to_numpy(std::move(d.b)),
                                   to_numpy(std::move(d.var)), to_numpy(std::move(d.literals)));
            }
            return nb::make_tuple(out.bounds.lower.log_p<false>(), out.bounds.upper.log_p<true>(),
                                  out.bounds.upper.log_q<false>(), out.bounds.lower.log_q<true>(), out.exact, out.nodes,
                                  out.work, out.stopped, compiled);
        },
        nb::arg("kind"), nb::arg("arg"), nb::arg("indptr"), nb::arg("inputs"), nb::arg("prob"), nb::arg("output"),
        nb::arg("work"), nb::arg("seconds"), nb::arg("memory"), nb::arg("relative_epsilon"),
        nb::arg("additive_epsilon"), nb::arg("compile"),
        "(log lower, log upper, the same of the complement, exact, nodes, work, why it stopped, d-tree or None)");
}

}  // namespace sharpdnf
