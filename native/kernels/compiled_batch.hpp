// A circuit under many rows of probabilities, sixteen at a time: values forwards, derivatives backwards.
//
// P and 1 - P of every node are kept side by side as doubles, so nothing cancels at either end. All factors are at most
// 1, so what underflows on the way would underflow in the result too; rows whose P itself is beyond what doubles hold
// with room to spare are done again with a wider exponent.
//
// Some nodes are outputs. Backwards, every output of every row has a weight, as in reverse-mode differentiation: what
// comes out is the sum over the outputs of weight times derivative. So many outputs cost one pass, whatever they share.
#pragma once
#include <stdexcept>
#include <vector>

#include "compiled.hpp"
#include "poll.hpp"

namespace sharpdnf {

enum class Slopes { none, of_prob, of_log };

inline constexpr int kRows = 16;  // two vectors at the widest, so that one does not wait for the other

// What is asked: log P of `outputs` nodes under `rows` rows of probabilities, and with slopes the sums over the outputs
// of weight[outputs r + o] times d P / d prob, or d log P / d prob.
struct BatchRequest {
    const int32_t *output;
    int64_t outputs;
    const double *probs;
    int64_t rows, num_vars;
    Slopes slopes;
    const double *weight;
};

// Checks every index once: children come before their parents, literals and variables exist.
inline void check_compiled(const CompiledView &c, int64_t num_vars, int64_t num_literals, const int32_t *output,
                           int64_t outputs) {
    if (c.num_nodes == 0) throw std::invalid_argument("a circuit has at least one node");
    bool good = true;
    for (int64_t i = 0; i < c.num_nodes; ++i) {
        const uint8_t kind = c.kind[i];
        if (kind == Compiled::kTerm) {
            good &= 0 <= c.a[i] && c.a[i] <= c.b[i] && c.b[i] <= num_literals;
        } else if (kind > Compiled::kTerm) {
            good &= 0 <= c.a[i] && c.a[i] < i && 0 <= c.b[i] && c.b[i] < i && kind <= Compiled::kShannon;
            if (kind == Compiled::kShannon) good &= 0 <= c.var[i] && c.var[i] < num_vars;
        }
    }
    for (int64_t j = 0; j < num_literals; ++j) good &= 0 <= c.literals[j] && c.literals[j] >> 1 < num_vars;
    for (int64_t o = 0; o < outputs; ++o) good &= 0 <= output[o] && output[o] < c.num_nodes;
    if (!good)
        throw std::invalid_argument("not a circuit: a child, a literal, a variable or an output that does not exist");
}

// log_prob[outputs r + o] and, with slopes, slope[num_vars r ..] for every row r. A log P of minus infinity has no
// slope and adds none. Throws Stopped.
void compiled_batch(const CompiledView &c, const BatchRequest &asked, int threads, Poll &poll, double *log_prob,
                    double *slope);

}  // namespace sharpdnf
