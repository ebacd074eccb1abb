#include "arrays.hpp"

#include <string>

#include "circuit_compile.hpp"

// A Circuit's arrays as the kernels see them: its construction has checked them, so only the shapes are looked at here.
static CircuitView circuit_view(const In<uint8_t> &kind, const In<int32_t> &arg, const In<int64_t> &indptr,
                                const In<int32_t> &inputs, const In<double> &prob) {
    const auto gates = static_cast<int64_t>(kind.shape(0));
    if (static_cast<int64_t>(arg.shape(0)) != gates || static_cast<int64_t>(indptr.shape(0)) != gates + 1 ||
        indptr.data()[gates] != static_cast<int64_t>(inputs.shape(0)))
        throw std::invalid_argument("not the arrays of a circuit");
    return {kind.data(), arg.data(), indptr.data(), inputs.data(), gates, prob.data(), static_cast<int64_t>(prob.shape(0))};
}

void bind_circuit(nb::module_ &m) {
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
            const bool done = interruptible([&](Poll &poll) {
                options.poll = &poll;
                solve_circuit(c, output, options, out);
            }, seconds);
            if (!done) out.stopped = "time";
            nb::object compiled = nb::none();
            if (!out.compiled.kind.empty()) {
                Compiled &d = out.compiled;
                compiled = nb::make_tuple(to_numpy(std::move(d.kind)), to_numpy(std::move(d.a)), to_numpy(std::move(d.b)),
                                          to_numpy(std::move(d.var)), to_numpy(std::move(d.literals)));
            }
            return nb::make_tuple(out.bounds.lower.log(), out.bounds.upper.log(), out.bounds.not_lower.log(),
                                  out.bounds.not_upper.log(), out.exact, out.nodes, out.work, out.stopped, compiled);
        },
        nb::arg("kind"), nb::arg("arg"), nb::arg("indptr"), nb::arg("inputs"), nb::arg("prob"), nb::arg("output"),
        nb::arg("work"), nb::arg("seconds"), nb::arg("memory"), nb::arg("relative_epsilon"),
        nb::arg("additive_epsilon"), nb::arg("compile"),
        "(log lower, log upper, the same of the complement, exact, nodes, work, why it stopped, d-tree or None)");
}
