#include "fixpoint.hpp"

#include <nanobind/stl/vector.h>

#include "arrays.hpp"

namespace sharpdnf {

namespace {

fixpoint::Program program(const In<uint8_t> &kind, const In<int32_t> &arg, const In<int64_t> &indptr,
                          const In<int32_t> &inputs, const In<double> &prob, const std::vector<int32_t> &outputs) {
    fixpoint::Program p;
    p.num_gates = static_cast<int64_t>(kind.shape(0));
    const auto size = static_cast<int64_t>(inputs.shape(0)), vars = static_cast<int64_t>(prob.shape(0));
    if (static_cast<int64_t>(arg.shape(0)) != p.num_gates || static_cast<int64_t>(indptr.shape(0)) != p.num_gates + 1 ||
        indptr.data()[0] != 0 || indptr.data()[p.num_gates] != size)
        throw std::invalid_argument("the arrays of a program do not fit together");
    for (int64_t g = 0; g < p.num_gates; ++g) {
        const int64_t width = indptr.data()[g + 1] - indptr.data()[g];
        const uint8_t k = kind.data()[g];
        if (width < 0 || k > fixpoint::kOr || (k == fixpoint::kNot && width != 1) ||
            (k == fixpoint::kVar && (arg.data()[g] < 0 || arg.data()[g] >= vars)))
            throw std::invalid_argument("a gate is not valid");
    }
    for (int64_t i = 0; i < size; ++i)
        if (inputs.data()[i] < 0 || inputs.data()[i] >= p.num_gates)
            throw std::invalid_argument("a gate reads no gate");
    for (const int32_t g : outputs)
        if (g < 0 || g >= p.num_gates) throw std::invalid_argument("an output is no gate");
    p.kind = kind.data(), p.arg = arg.data(), p.indptr = indptr.data(), p.inputs = inputs.data();
    p.prob = prob.data();
    return p;
}

}  // namespace

void bind_fixpoint(nb::module_ &m) {
    m.def(
        "fixpoint",
        [](In<uint8_t> kind, In<int32_t> arg, In<int64_t> indptr, In<int32_t> inputs, In<double> prob,
           std::vector<int32_t> outputs, int32_t evidence, uint64_t seed, int64_t successes, int64_t trials,
           int64_t max_worlds, double seconds) {
            const fixpoint::Program p = program(kind, arg, indptr, inputs, prob, outputs);
            if (evidence >= p.num_gates) throw std::invalid_argument("the evidence is no gate");
            const fixpoint::Plan plan{seed, successes, trials, max_worlds};
            fixpoint::Result result;
            interruptible([&](Poll &poll) { result = fixpoint::sample(p, outputs, evidence, plan, poll); }, seconds);
            result.output.resize(outputs.size());
            std::vector<int64_t> hits, tried;
            std::vector<uint8_t> done;
            for (const fixpoint::Tally &tally : result.output)
                hits.push_back(tally.successes), tried.push_back(tally.trials), done.push_back(tally.done);
            nb::dict out;
            out["successes"] = to_numpy(std::move(hits)), out["trials"] = to_numpy(std::move(tried));
            out["done"] = to_numpy(std::move(done)), out["worlds"] = result.worlds;
            out["accepted"] = result.accepted, out["looks"] = result.looks, out["in_circles"] = result.in_circles;
            return out;
        },
        nb::arg("kind"), nb::arg("arg"), nb::arg("indptr"), nb::arg("inputs"), nb::arg("prob"), nb::arg("outputs"),
        nb::arg("evidence"), nb::arg("seed"), nb::arg("successes"), nb::arg("trials"), nb::arg("max_worlds"),
        nb::arg("seconds"),
        "Worlds of a ground program: of each output how many of the worlds that count were tried, and hit");
    m.def(
        "fixpoint_order",
        [](In<uint8_t> kind, In<int32_t> arg, In<int64_t> indptr, In<int32_t> inputs, In<double> prob,
           std::vector<int32_t> outputs) {
            const fixpoint::Program p = program(kind, arg, indptr, inputs, prob, outputs);
            fixpoint::Order order;
            interruptible([&](Poll &poll) { order = fixpoint::order_of(p, outputs, poll); });
            std::vector<uint8_t> circle(order.circle.begin(), order.circle.end());
            return nb::make_tuple(to_numpy(std::move(order.gates)), to_numpy(std::move(order.start)),
                                  to_numpy(std::move(circle)));
        },
        nb::arg("kind"), nb::arg("arg"), nb::arg("indptr"), nb::arg("inputs"), nb::arg("prob"), nb::arg("outputs"),
        "(gates, start, circle): the components of what the outputs need, inputs first");
}

}  // namespace sharpdnf
