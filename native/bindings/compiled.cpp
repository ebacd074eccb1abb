// What Python calls of a finished d-tree: its values under many rows of probabilities, and their derivatives.
#include "compiled_batch.hpp"

#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>

#include "arrays.hpp"

namespace sharpdnf {

// Refuses what is not a probability, and says where it stands.
static void check_probs(const double *probs, int64_t rows, int64_t num_vars) {
    bool good = true;
    for (int64_t i = 0; i < rows * num_vars; ++i) good &= probs[i] >= 0.0 && probs[i] <= 1.0;
    for (int64_t i = 0; !good && i < rows * num_vars; ++i)
        if (!(probs[i] >= 0.0 && probs[i] <= 1.0))
            throw std::invalid_argument("row " + std::to_string(i / num_vars) + ", variable " +
                                        std::to_string(i % num_vars) + ": " + nb::repr(nb::float_(probs[i])).c_str() +
                                        " is not a probability in [0, 1]");
}

void bind_compiled(nb::module_ &m) {
    m.def(
        "compiled_batch",
        [](In<uint8_t> kind, In<int32_t> a, In<int32_t> b, In<int32_t> var, In<int32_t> literals, In<int32_t> outputs,
           In<double> probs, int64_t rows, int64_t num_vars, In<double> weights, bool slopes, bool of_log,
           int threads) {
            const auto nodes = static_cast<int64_t>(kind.shape(0)), count = static_cast<int64_t>(outputs.shape(0));
            for (const auto *children : {&a, &b, &var})
                if (static_cast<int64_t>(children->shape(0)) != nodes)
                    throw std::invalid_argument("a circuit's arrays differ in length");
            if (rows < 0 || num_vars < 0 || static_cast<int64_t>(probs.shape(0)) != rows * num_vars)
                throw std::invalid_argument("probs must have rows * num_vars entries");
            if (slopes && weights.shape(0) != 0 && static_cast<int64_t>(weights.shape(0)) != rows * count)
                throw std::invalid_argument("weights must have rows * outputs entries, or none");
            check_probs(probs.data(), rows, num_vars);
            const CompiledView compiled{kind.data(), a.data(), b.data(), var.data(), literals.data(), nodes};
            check_compiled(compiled, num_vars, static_cast<int64_t>(literals.shape(0)), outputs.data(), count);
            const Slopes wanted = !slopes ? Slopes::none : of_log ? Slopes::of_log : Slopes::of_prob;
            const std::vector<double> ones(slopes && weights.shape(0) == 0 ? rows * count : 0, 1.0);
            const double *weight = ones.empty() ? weights.data() : ones.data();
            const BatchRequest asked{outputs.data(), count, probs.data(), rows, num_vars, wanted, weight};
            std::vector<double> log_prob(rows * count), slope(slopes ? rows * num_vars : 0);
            interruptible([&](Poll &poll) {
                compiled_batch(compiled, asked, threads, poll, log_prob.data(), slopes ? slope.data() : nullptr);
            });
            double steepest = 0.0;
            for (const double s : slope) steepest = std::max(steepest, std::abs(s));
            return std::make_tuple(to_numpy(std::move(log_prob)), to_numpy(std::move(slope)), steepest);
        },
        nb::arg("kind"), nb::arg("a"), nb::arg("b"), nb::arg("var"), nb::arg("literals"), nb::arg("outputs"),
        nb::arg("probs"), nb::arg("rows"), nb::arg("num_vars"), nb::arg("weights"), nb::arg("slopes"),
        nb::arg("of_log"), nb::arg("threads"),
        "(float64[k o] log P of o nodes under k rows of probabilities; float64[k n] the sum over the outputs of their "
        "weight, 1 if none are given, times d P / d prob or d log P / d prob; the largest absolute value of these). "
        "Arrays are flat.");
}

}  // namespace sharpdnf
