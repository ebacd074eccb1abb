// What Python calls of ground logic programs: worlds drawn, and how often each query holds in them.
#include "fixpoint.hpp"

#include <nanobind/stl/vector.h>

#include "results.hpp"

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
            throw std::invalid_argument("a gate reads a gate that does not exist");
    for (const int32_t g : outputs)
        if (g < 0 || g >= p.num_gates) throw std::invalid_argument("an output names a gate that does not exist");
    p.kind = kind.data(), p.arg = arg.data(), p.indptr = indptr.data(), p.inputs = inputs.data();
    p.prob = prob.data();
    return p;
}

struct FixpointSample {
    std::vector<int64_t> successes, trials;
    std::vector<uint8_t> done;
    int64_t worlds = 0, accepted = 0, looks = 0, in_circles = 0;
};

struct FixpointOrder {
    std::vector<int32_t> gates;
    std::vector<int64_t> start;
    std::vector<uint8_t> circle;
};

}  // namespace

void bind_fixpoint(nb::module_ &m) {
    using S = FixpointSample;
    Result<S>(m, "FixpointSample", "Worlds of a ground program. Those in which the evidence holds are its trials.")
        .field("successes", &S::successes, "Per output: the trials in which it is true.")
        .field("trials", &S::trials, "Per output: the trials up to its last success that was asked for.")
        .field("done", &S::done, "Per output: 1 if so many successes or trials as asked for were made.")
        .field("worlds", &S::worlds, "How many worlds were drawn.")
        .field("accepted", &S::accepted, "In how many of them the evidence holds.")
        .field("looks", &S::looks)
        .field("in_circles", &S::in_circles, "How many gates depend on themselves.");
    Result<FixpointOrder>(m, "FixpointOrder",
                          "The components of what the outputs need, inputs first: gates[start[c]:start[c + 1]].")
        .field("gates", &FixpointOrder::gates)
        .field("start", &FixpointOrder::start)
        .field("circle", &FixpointOrder::circle, "Per component: 1 if its gates depend on each other.");
    m.def(
        "fixpoint",
        [](In<uint8_t> kind, In<int32_t> arg, In<int64_t> indptr, In<int32_t> inputs, In<double> prob,
           std::vector<int32_t> outputs, int32_t evidence, uint64_t seed, int64_t successes, int64_t trials,
           int64_t max_worlds, double seconds) {
            const fixpoint::Program p = program(kind, arg, indptr, inputs, prob, outputs);
            if (evidence >= p.num_gates) throw std::invalid_argument("the evidence names a gate that does not exist");
            const fixpoint::Plan plan{seed, successes, trials, max_worlds};
            fixpoint::Result result;
            interruptible([&](Poll &poll) { result = fixpoint::sample(p, outputs, evidence, plan, poll); }, seconds);
            result.output.resize(outputs.size());
            FixpointSample out;
            for (const fixpoint::Tally &tally : result.output) {
                out.successes.push_back(tally.successes), out.trials.push_back(tally.trials);
                out.done.push_back(tally.done);
            }
            out.worlds = result.worlds, out.accepted = result.accepted;
            out.looks = result.looks, out.in_circles = result.in_circles;
            return out;
        },
        nb::arg("kind"), nb::arg("arg"), nb::arg("indptr"), nb::arg("inputs"), nb::arg("prob"), nb::arg("outputs"),
        nb::arg("evidence"), nb::arg("seed"), nb::arg("successes"), nb::arg("trials"), nb::arg("max_worlds"),
        nb::arg("seconds"), "Draws worlds until every output has so many successes or trials.");
    m.def(
        "fixpoint_order",
        [](In<uint8_t> kind, In<int32_t> arg, In<int64_t> indptr, In<int32_t> inputs, In<double> prob,
           std::vector<int32_t> outputs) {
            const fixpoint::Program p = program(kind, arg, indptr, inputs, prob, outputs);
            fixpoint::Order order;
            interruptible([&](Poll &poll) { order = fixpoint::order_of(p, outputs, poll); });
            return FixpointOrder{std::move(order.gates), std::move(order.start),
                                 std::vector<uint8_t>(order.circle.begin(), order.circle.end())};
        },
        nb::arg("kind"), nb::arg("arg"), nb::arg("indptr"), nb::arg("inputs"), nb::arg("prob"), nb::arg("outputs"),
        "Puts the gates that the outputs need into an order of evaluation.");
}

}  // namespace sharpdnf
