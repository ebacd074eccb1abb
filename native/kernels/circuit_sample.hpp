// Direct and coverage sampling of circuits, 512 lanes at a time.
//
// The words of a variable depend on (seed, block, variable) alone, so an output's answer does not depend on which other
// outputs are counted with it, nor on the number of threads. Negations are folded into what reads them; "at least k"
// adds its inputs in bit-sliced counters, two at a time through full adders.
//
// Coverage: a DNF that contains the event is sampled as in sample.hpp, which gives each of its models once, with scale
// S'; the circuit is then tested in the same lanes, so P(success) = P(event) / S'.
#pragma once
#include "circuit.hpp"
#include "sample.hpp"

namespace sharpdnf {

// The gates that some outputs need, as straight-line code over words: first the variables, then one word an operation.
struct CircuitProgram {
    struct Operation {
        uint8_t kind;         // gAnd, gOr or gAtLeast
        int32_t first, last;  // refs[first .. last): 2 * place of a word, plus 1 if it is read negated
        int32_t k;
    };
    std::vector<int32_t> variables;
    std::vector<Operation> operations;
    std::vector<int32_t> refs;
    std::vector<int32_t> outputs;  // the word of each output, written like refs

    int64_t num_words() const { return static_cast<int64_t>(variables.size() + operations.size()); }
    int64_t cost() const { return static_cast<int64_t>(refs.size()) + 8 * static_cast<int64_t>(variables.size()); }
};

CircuitProgram make_program(const CircuitView &c, const std::vector<int32_t> &outputs);

// Fills the words of the variables, then those of the operations.
void draw_variables(const CircuitProgram &program, const double *prob, uint64_t seed, uint64_t block, LaneWord *words);
void run_program(const CircuitProgram &program, LaneWord *words);

struct CircuitSample {
    std::vector<int64_t> draws, successes;  // for each output, up to the success that was its last wanted one
    std::vector<uint8_t> complete;
    int64_t blocks = 0, operations = 0;  // operations: words read by gates
    std::vector<int64_t> true_count;     // in how many successes of the only output each variable is true; -1: not read
    int64_t marginal_successes = 0;
};

struct CircuitSampleOptions {
    uint64_t seed = 0, first_block = 0;
    int64_t successes = 0, max_draws = 0;
    int threads = 1;
    bool marginals = false;
    const SamplePlan *cover = nullptr;  // a DNF that contains the output, of which there is one then
};

// Draws until every output has its successes or max_draws are made.
CircuitSample sample_circuit(const CircuitView &c, const std::vector<int32_t> &outputs,
                             const CircuitSampleOptions &options, Poll &poll);

// Rows of satisfying assignments of one output, at most `count`; returns how many were made.
int64_t circuit_models(const CircuitView &c, int32_t output, const CircuitSampleOptions &options, int64_t count,
                       uint8_t *out, Poll &poll);

}  // namespace sharpdnf
