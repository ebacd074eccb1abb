// The inner loops of circuit_sample.hpp: words of 512 lanes go up through the gates, and successes are counted.
#include "circuit_sample.hpp"

#include <cmath>
#include <memory>
#include <numeric>

#include "rounds.hpp"

namespace sharpdnf {

namespace {

// Counts, in every lane at once, how many of the words added have a 1 there: the counts are bit-sliced, sum[j] holds
// bit j of all of them. A word of weight 2^j waits in waiting[j] for a second one, so that both are added in one step.
struct SlicedCounter {
    static constexpr int LEVELS = 32;
    Lanes sum[LEVELS], waiting[LEVELS];
    uint32_t full = 0;  // bit j: waiting[j] holds a word
    int levels = 0;

    SHARPDNF_INLINE void add(Lanes word) {
        int j = 0;
        for (;; ++j) {
            if (j == levels) sum[levels++] = Lanes::none();
            if (!(full >> j & 1)) break;
            full &= ~(1u << j);
            const Lanes both = waiting[j] ^ word, carry = (waiting[j] & word) | (sum[j] & both);
            sum[j] = sum[j] ^ both;
            word = carry;
        }
        waiting[j] = word;
        full |= 1u << j;
    }
    SHARPDNF_INLINE void flush() {
        for (int j = 0; j < levels; ++j) {
            if (!(full >> j & 1)) continue;
            full &= ~(1u << j);
            Lanes carry = waiting[j];
            for (int i = j; any(carry); ++i) {
                if (i == levels) sum[levels++] = Lanes::none();
                const Lanes next = sum[i] & carry;
                sum[i] = sum[i] ^ carry;
                carry = next;
            }
        }
    }
    // The lanes whose count is at least k, after flush().
    SHARPDNF_INLINE Lanes at_least(int64_t k) const {
        if (k <= 0) return ~Lanes::none();
        if (levels < 62 && k >> levels) return Lanes::none();
        Lanes equal = ~Lanes::none(), above = Lanes::none();
        for (int j = levels - 1; j >= 0; --j) {
            if (k >> j & 1)
                equal &= sum[j];
            else
                above |= equal & sum[j], equal &= ~sum[j];
        }
        return above | equal;
    }
};

uint64_t stream_of(uint64_t seed, uint64_t block, int32_t variable) {
    uint64_t state = seed ^ (block * 0xd1342543de82ef95ULL);
    uint64_t mixed = splitmix64(state) ^ (static_cast<uint64_t>(variable) * 0xda942042e4dd58b5ULL);
    return splitmix64(mixed);
}

SHARPDNF_INLINE Lanes read(const LaneWord *words, int32_t ref) {
    return words[ref >> 1].bits ^ Lanes::all(-static_cast<uint64_t>(ref & 1));
}

// What one thread needs: the words of variables and gates, what a cover needs, and its part of the marginals.
struct Lane {
    std::vector<LaneWord> words;
    std::unique_ptr<SampleScratch> scratch;
    std::vector<int64_t> true_count;
    int64_t marginal_successes = 0;
};

// Runs one block and leaves the words of variables and gates in lane.words; `among` are the lanes that count. False if
// it was told to stop.
bool run_circuit_block(const CircuitProgram &program, const CircuitView &c, const CircuitSampleOptions &options,
                       uint64_t block, Lane &lane, LaneWord &among, Poll &poll) {
    lane.words.resize(program.num_words());
    among.bits = ~Lanes::none();
    if (!options.cover) {
        draw_variables(program, c.prob, options.seed, block, lane.words.data());
    } else {
        if (!lane.scratch) lane.scratch = std::make_unique<SampleScratch>(c.num_vars);
        if (!run_block(*options.cover, *lane.scratch, options.seed, block, among, poll)) return false;
        if (!any(among.bits)) return true;
        for (size_t i = 0; i < program.variables.size(); ++i) {
            const int32_t v = program.variables[i];
            if (lane.scratch->drawn(v)) {
                lane.words[i] = lane.scratch->word(v);
            } else {
                LaneRandom random(stream_of(options.seed, block, v));
                lane.words[i].bits = bernoulli(random, c.prob[v]);
            }
        }
    }
    run_program(program, lane.words.data());
    return true;
}

LaneWord output_lanes(const CircuitProgram &program, size_t output, const Lane &lane, const LaneWord &among) {
    LaneWord out;
    out.bits = read(lane.words.data(), program.outputs[output]) & among.bits;
    return out;
}

void count_true(const CircuitProgram &program, const LaneWord &success, Lane &lane) {
    const int64_t total = success.ones();
    if (!total) return;
    lane.marginal_successes += total;
    for (size_t i = 0; i < program.variables.size(); ++i) {
        LaneWord hits;
        hits.bits = lane.words[i].bits & success.bits;
        lane.true_count[program.variables[i]] += hits.ones();
    }
}

}  // namespace

CircuitProgram make_program(const CircuitView &c, const std::vector<int32_t> &outputs) {
    CircuitProgram out;
    std::vector<uint8_t> needed(c.num_gates, 0);
    for (const int32_t g : outputs) needed[g] = 1;
    for (int64_t g = c.num_gates - 1; g >= 0; --g)
        if (needed[g])
            for (int64_t i = c.indptr[g]; i < c.indptr[g + 1]; ++i) needed[c.inputs[i]] = 1;
    std::vector<int32_t> word_of_var(c.num_vars, -1), ref(c.num_gates, -1);
    for (int64_t g = 0; g < c.num_gates; ++g) {  // variables come first
        if (!needed[g] || c.kind[g] != gVar) continue;
        int32_t &word = word_of_var[c.arg[g]];
        if (word < 0) word = static_cast<int32_t>(out.variables.size()), out.variables.push_back(c.arg[g]);
        ref[g] = 2 * word;
    }
    const auto variables = static_cast<int32_t>(out.variables.size());
    for (int64_t g = 0; g < c.num_gates; ++g) {
        if (!needed[g] || c.kind[g] == gVar) continue;
        if (c.kind[g] == gNot) {
            ref[g] = ref[c.inputs[c.indptr[g]]] ^ 1;
            continue;
        }
        const auto first = static_cast<int32_t>(out.refs.size());
        for (int64_t i = c.indptr[g]; i < c.indptr[g + 1]; ++i) out.refs.push_back(ref[c.inputs[i]]);
        const auto last = static_cast<int32_t>(out.refs.size());
        const uint8_t kind = c.kind[g] == gTrue ? uint8_t{gAnd} : c.kind[g] == gFalse ? uint8_t{gOr} : c.kind[g];
        ref[g] = 2 * (variables + static_cast<int32_t>(out.operations.size()));
        out.operations.push_back({kind, first, last, c.arg[g]});
    }
    for (const int32_t g : outputs) out.outputs.push_back(ref[g]);
    return out;
}

SHARPDNF_CLONES void draw_variables(const CircuitProgram &program, const double *prob, uint64_t seed, uint64_t block,
                                    LaneWord *words) {
    for (size_t i = 0; i < program.variables.size(); ++i) {
        LaneRandom random(stream_of(seed, block, program.variables[i]));
        words[i].bits = bernoulli(random, prob[program.variables[i]]);
    }
}

SHARPDNF_CLONES void run_program(const CircuitProgram &program, LaneWord *words) {
    const int32_t *const refs = program.refs.data();
    LaneWord *out = words + program.variables.size();
    for (const auto &op : program.operations) {
        Lanes acc;
        if (op.kind == gAnd) {
            acc = ~Lanes::none();
            for (int32_t i = op.first; i < op.last; ++i) acc &= read(words, refs[i]);
        } else if (op.kind == gOr) {
            acc = Lanes::none();
            for (int32_t i = op.first; i < op.last; ++i) acc |= read(words, refs[i]);
        } else {
            SlicedCounter counter;
            for (int32_t i = op.first; i < op.last; ++i) counter.add(read(words, refs[i]));
            counter.flush();
            acc = counter.at_least(op.k);
        }
        (out++)->bits = acc;
    }
}

namespace {

// How many blocks the next round has: what the hungriest output still needs, at first one, and never more than the
// results of the round may take of memory.
int64_t round_size(const CircuitSample &so_far, const std::vector<int32_t> &active,
                   const CircuitSampleOptions &options) {
    constexpr std::size_t ROUND_BYTES = 16 << 20;
    double needed = 1.0;
    for (const int32_t o : active)
        needed =
            std::max(needed, blocks_needed(so_far.draws[o], so_far.successes[o], options.successes, options.max_draws));
    const std::size_t fit = std::max<std::size_t>(1, ROUND_BYTES / (sizeof(LaneWord) * active.size()));
    return static_cast<int64_t>(std::min({needed, so_far.blocks ? 64.0 : 1.0, static_cast<double>(fit)}));
}

// Adds up what the threads have counted; a variable that the output does not read gets -1.
void add_marginals(const std::vector<Lane> &lanes, const CircuitProgram &program, int64_t num_vars,
                   CircuitSample &out) {
    out.true_count.assign(num_vars, -1);
    for (const int32_t v : program.variables) out.true_count[v] = 0;
    for (const auto &lane : lanes) {
        out.marginal_successes += lane.marginal_successes;
        for (const int32_t v : program.variables) out.true_count[v] += lane.true_count[v];
    }
}

}  // namespace

CircuitSample sample_circuit(const CircuitView &c, const std::vector<int32_t> &outputs,
                             const CircuitSampleOptions &options, Poll &poll) {
    CircuitSample out;
    const auto total = static_cast<int64_t>(outputs.size());
    out.draws.assign(total, 0), out.successes.assign(total, 0), out.complete.assign(total, 0);
    std::vector<int32_t> active(total), gates(outputs);  // the outputs that are not complete, and their gates
    std::iota(active.begin(), active.end(), 0);
    CircuitProgram program = make_program(c, gates);
    const int threads = std::max(1, std::min(options.threads, 64));
    std::vector<Lane> lanes(threads);
    if (options.marginals)
        for (auto &lane : lanes) lane.true_count.assign(c.num_vars, 0);
    std::vector<LaneWord> results;
    while (!active.empty() && !poll.stopped()) {
        const int64_t blocks = round_size(out, active, options);
        const std::size_t width = active.size();
        results.assign(blocks * width, LaneWord{});
        const auto run = [&](int t, int64_t b, Poll &own) {
            LaneWord among;
            const auto number = options.first_block + static_cast<uint64_t>(out.blocks + b);
            if (!run_circuit_block(program, c, options, number, lanes[t], among, own)) return false;
            if (!any(among.bits)) return true;
            for (std::size_t o = 0; o < width; ++o) results[b * width + o] = output_lanes(program, o, lanes[t], among);
            if (options.marginals) count_true(program, results[b * width], lanes[t]);
            return true;
        };
        const int helpers = static_cast<int>(std::min<int64_t>(threads - 1, program.cost() * blocks / 20000));
        if (!run_round(blocks, helpers, poll, run)) break;
        for (std::size_t o = 0; o < width; ++o) {
            const int32_t own = active[o];
            for (int64_t b = 0; b < blocks && !out.complete[own]; ++b)
                tally(results[b * width + o], options.successes, options.max_draws, out.draws[own], out.successes[own],
                      out.complete[own]);
        }
        out.blocks += blocks;
        out.operations += blocks * static_cast<int64_t>(program.refs.size());
        // Outputs that are done are no longer computed.
        const auto done = std::remove_if(active.begin(), active.end(), [&](int32_t o) { return out.complete[o]; });
        if (done != active.end()) {
            active.erase(done, active.end());
            gates.clear();
            for (const int32_t o : active) gates.push_back(outputs[o]);
            if (!active.empty()) program = make_program(c, gates);
        }
        poll.look();
    }
    if (options.marginals) add_marginals(lanes, program, c.num_vars, out);
    return out;
}

int64_t circuit_models(const CircuitView &c, int32_t output, const CircuitSampleOptions &options, int64_t count,
                       uint8_t *out, Poll &poll) {
    const CircuitProgram program = make_program(c, {output});
    std::vector<int32_t> word_of_var(c.num_vars, -1);
    for (size_t i = 0; i < program.variables.size(); ++i) word_of_var[program.variables[i]] = static_cast<int32_t>(i);
    Lane lane;
    Pace pace(poll);
    int64_t made = 0;
    for (uint64_t block = options.first_block; made < count && !poll.look(); ++block) {
        LaneWord among;
        if (!run_circuit_block(program, c, options, block, lane, among, poll)) break;
        if (!any(among.bits)) continue;
        const LaneWord success = output_lanes(program, 0, lane, among);
        if (!success.ones()) continue;
        for (int32_t v = 0; v < static_cast<int32_t>(c.num_vars); ++v) {
            LaneWord word;
            if (word_of_var[v] >= 0)
                word = lane.words[word_of_var[v]];
            else if (options.cover && lane.scratch->drawn(v))
                word = lane.scratch->word(v);
            else {  // a variable that the output does not read keeps its own probability
                LaneRandom random(stream_of(options.seed, block, v));
                word.bits = bernoulli(random, c.prob[v]);
            }
            int64_t row = made;
            for (int i = 0; i < LANES && row < count; ++i)
                if (success.lane(i)) out[static_cast<size_t>(row++) * c.num_vars + v] = word.lane(i);
            pace.check(LANES / 8);
        }
        made = std::min(count, made + success.ones());
    }
    return made;
}

}  // namespace sharpdnf
