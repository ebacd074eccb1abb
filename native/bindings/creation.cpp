// What Python calls for rare failures of a network: the scale of the estimator, and its draws.
#include "creation.hpp"

#include "results.hpp"

namespace sharpdnf {

namespace {

creation::Graph checked(const In<int64_t> &start, const In<int32_t> &end, const In<double> &rate,
                        const In<uint8_t> &terminal) {
    creation::Graph g;
    g.num_nodes = static_cast<int64_t>(terminal.shape(0)), g.num_elements = static_cast<int64_t>(rate.shape(0));
    const auto ends = static_cast<int64_t>(end.shape(0));
    if (static_cast<int64_t>(start.shape(0)) != g.num_elements + 1 || start.data()[0] != 0 ||
        start.data()[g.num_elements] != ends || g.num_elements == 0)
        throw std::invalid_argument("the arrays of a network do not fit together");
    for (int64_t e = 0; e < g.num_elements; ++e) {
        if (start.data()[e + 1] > ends || start.data()[e] + 2 > start.data()[e + 1])
            throw std::invalid_argument("an element needs at least two ends");
        if (!(rate.data()[e] > 0.0 && rate.data()[e] < 1e6))
            throw std::invalid_argument("a rate must be positive and finite");
    }
    for (int64_t i = 0; i < ends; ++i)
        if (end.data()[i] < 0 || end.data()[i] >= g.num_nodes)
            throw std::invalid_argument("an element ends at a node that does not exist");
    int64_t terminals = 0;
    for (int64_t v = 0; v < g.num_nodes; ++v) terminals += terminal.data()[v] != 0;
    if (terminals < 2) throw std::invalid_argument("two terminals are needed");
    g.start = start.data(), g.end = end.data(), g.rate = rate.data(), g.terminal = terminal.data();
    return g;
}

struct Scale : creation::Scale {
    bool complete = false;
};

}  // namespace

void bind_creation(nb::module_ &m) {
    Result<Scale>(m, "CreationScale", "An upper bound B on P(failure), and the rates that draws below it need.")
        .field("complete", &Scale::complete, "Whether it was found before the deadline: else it says nothing.")
        .field("log_scale", &Scale::log_scale, "log B")
        .field("cut", &Scale::cut)
        .field("trees", &Scale::trees)
        .field("base", &Scale::base)
        .field("step", &Scale::step);
    Result<creation::Result>(m, "CreationSample", "0/1 draws with P(success) = P(failure) / B.")
        .field("draws", &creation::Result::draws)
        .field("successes", &creation::Result::successes)
        .field("complete", &creation::Result::complete)
        .field("looks", &creation::Result::looks);
    m.def(
        "creation_scale",
        [](In<int64_t> start, In<int32_t> end, In<double> rate, In<uint8_t> terminal, double seconds) {
            const creation::Graph g = checked(start, end, rate, terminal);
            Scale scale;
            scale.complete = interruptible(
                [&](Poll &poll) {
                    Pace pace(poll);
                    static_cast<creation::Scale &>(scale) = creation::find_scale(g, pace);
                },
                seconds);
            return scale;
        },
        nb::arg("start"), nb::arg("end"), nb::arg("rate"), nb::arg("terminal"), nb::arg("seconds"),
        "An upper bound on P(terminals not connected), and the line of rates that draws under it need");
    m.def(
        "creation_sample",
        [](In<int64_t> start, In<int32_t> end, In<double> rate, In<uint8_t> terminal, double base, double step,
           uint64_t seed, int64_t successes, int64_t max_draws, int threads, double seconds) {
            const creation::Graph g = checked(start, end, rate, terminal);
            if (!(base > 0.0 && step > 0.0))
                throw std::invalid_argument("the rates of the slow process must be positive");
            if (successes <= 0 && max_draws <= 0) throw std::invalid_argument("successes or max_draws must be above 0");
            creation::Scale scale;
            scale.base = base, scale.step = step;
            creation::Result result;
            interruptible(
                [&](Poll &poll) { result = creation::sample(g, scale, seed, successes, max_draws, threads, poll); },
                seconds);
            return result;
        },
        nb::arg("start"), nb::arg("end"), nb::arg("rate"), nb::arg("terminal"), nb::arg("base"), nb::arg("step"),
        nb::arg("seed"), nb::arg("successes"), nb::arg("max_draws"), nb::arg("threads"), nb::arg("seconds"),
        "0/1 draws whose mean is P(terminals not connected) / scale");
}

}  // namespace sharpdnf
