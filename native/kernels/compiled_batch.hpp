// A circuit under many rows of probabilities, eight at a time: values forwards, derivatives backwards.
//
// P and 1 - P of every node are kept side by side as doubles, so nothing cancels at either end. All factors are at most
// 1, so what underflows on the way would underflow in the result too; rows whose P itself is beyond what doubles hold
// with room to spare are done again with a wider exponent.
#pragma once
#include <stdexcept>
#include <vector>

#include "compiled.hpp"
#include "poll.hpp"

namespace sharpdnf {

enum class Slopes { none, of_prob, of_log };

inline constexpr int kRows = 8;

// Memory for eight rows: hit[8 i + r] and miss[8 i + r] are P and 1 - P of node i in row r.
struct RowBlock {
    std::vector<double> hit, miss, flow, literal, slope, behind;
};

// Eight rows; literal[8 l + r] is the probability of literal l in row r. With slopes, slope[8 v + r] becomes
// d P / d prob[v], or d log P. False if it is to stop.
bool compiled_block(const CompiledView &c, Slopes slopes, RowBlock &block, Poll &poll, bool looks);

// Every index once: children come before their parents, literals and variables exist.
inline void check_compiled(const CompiledView &c, int64_t num_vars, int64_t num_literals) {
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
    if (!good) throw std::invalid_argument("not a circuit: a child, a literal or a variable that does not exist");
}

// log_prob[r] and, with slopes, slope[r * num_vars ..] for every row of `probs`. Throws Stopped.
void compiled_batch(const CompiledView &c, const double *probs, int64_t rows, int64_t num_vars, Slopes slopes,
                    int threads, Poll &poll, double *log_prob, double *slope);

}  // namespace sharpdnf
