#include "circuit_sample.hpp"

#include <atomic>
#include <cmath>
#include <memory>

#include "threads.hpp"

namespace sharpdnf {

namespace {

// Bit-sliced counters: sum[j] is bit j of every lane's count; waiting[j] is a word of weight 2^j that waits for a
// second.
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

// Draws and successes of one block for one output, up to the wanted success.
void tally(const LaneWord &success, int64_t wanted, int64_t max_draws, int64_t &draws, int64_t &successes,
           uint8_t &complete) {
    for (int w = 0; w < WORDS && !complete; ++w) {
        const int64_t ones = __builtin_popcountll(success.word()[w]);
        if (successes + ones < wanted && draws + 64 <= max_draws) {
            successes += ones;
            draws += 64;
            complete = draws == max_draws;
            continue;
        }
        for (int bit = 0; bit < 64 && !complete; ++bit) {
            ++draws;
            successes += (success.word()[w] >> bit) & 1;
            complete = successes >= wanted || draws == max_draws;
        }
    }
}

// One thread's words.
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

CircuitSample sample_circuit(const CircuitView &c, const std::vector<int32_t> &outputs,
                             const CircuitSampleOptions &options, Poll &poll) {
    constexpr std::size_t ROUND_BYTES = 16 << 20;
    CircuitSample out;
    const auto total = static_cast<int64_t>(outputs.size());
    out.draws.assign(total, 0), out.successes.assign(total, 0), out.complete.assign(total, 0);
    std::vector<int32_t> active(total), gates(outputs);
    std::iota(active.begin(), active.end(), 0);
    CircuitProgram program = make_program(c, gates);
    const int threads = std::max(1, std::min(options.threads, 64));
    std::vector<Lane> lanes(threads);
    if (options.marginals)
        for (auto &lane : lanes) lane.true_count.assign(c.num_vars, 0);
    std::vector<LaneWord> results;
    const auto wanted = [&](int32_t o) {  // blocks that an output still needs, as far as its draws tell
        const double rate = (out.successes[o] + 0.5) / (out.draws[o] + 1.0);
        const double left = std::min(std::max(1.0, (options.successes - out.successes[o]) / rate),
                                     static_cast<double>(options.max_draws - out.draws[o]));
        return std::ceil(left / LANES);
    };
    while (!active.empty() && !poll.stopped()) {
        double needed = 1.0;
        for (const int32_t o : active) needed = std::max(needed, wanted(o));
        const std::size_t fit = std::max<std::size_t>(1, ROUND_BYTES / (sizeof(LaneWord) * active.size()));
        const auto blocks = static_cast<int64_t>(std::min({needed, out.blocks ? 64.0 : 1.0, static_cast<double>(fit)}));
        const std::size_t width = active.size();
        results.assign(blocks * width, LaneWord{});
        std::atomic<int64_t> next{0};
        std::atomic<bool> left_out{false};
        const auto work = [&](int t) {
            Poll helper(poll, 0);
            Poll &own = t == 0 ? poll : helper;
            for (int64_t b; (b = next.fetch_add(1)) < blocks;) {
                LaneWord among;
                const auto number = options.first_block + static_cast<uint64_t>(out.blocks + b);
                if (own.look() || !run_circuit_block(program, c, options, number, lanes[t], among, own)) {
                    left_out.store(true);  // block b was claimed and not run
                    return;
                }
                if (!any(among.bits)) continue;
                for (std::size_t o = 0; o < width; ++o)
                    results[b * width + o] = output_lanes(program, o, lanes[t], among);
                if (options.marginals) count_true(program, results[b * width], lanes[t]);
            }
        };
        const int helpers = static_cast<int>(std::min<int64_t>(threads - 1, program.cost() * blocks / 20000));
        run_on_threads(helpers, work);
        if (left_out.load()) break;  // a round with gaps is not tallied
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
    if (options.marginals) {
        out.true_count.assign(c.num_vars, 0);
        for (const auto &lane : lanes) {
            out.marginal_successes += lane.marginal_successes;
            for (int64_t v = 0; v < c.num_vars; ++v) out.true_count[v] += lane.true_count[v];
        }
        std::vector<uint8_t> asked(c.num_vars, 0);
        for (const int32_t v : program.variables) asked[v] = 1;
        for (int64_t v = 0; v < c.num_vars; ++v)
            if (!asked[v]) out.true_count[v] = -1;
    }
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
            else {  // what the output does not ask for keeps its own probability
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
