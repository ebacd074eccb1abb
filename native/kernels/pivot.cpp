// The inner loops of pivot.hpp: worlds are drawn, and in each lane the clauses that one variable decides are found.
#include "pivot.hpp"

#include <algorithm>
#include <cmath>

#include "random.hpp"

namespace sharpdnf {

namespace {

// A clause of each lane in proportion to the clauses' probabilities.
class ClauseDraw {
  public:
    ClauseDraw(const Formula &f, Pace &pace) : cumulative_(f.num_clauses) {
        clause_log_probs(f, cumulative_.data(), pace);
        const double largest = *std::max_element(cumulative_.begin(), cumulative_.end());
        double sum = 0.0;
        for (double &value : cumulative_) value = (sum += std::exp(value - largest));
        log_sum = largest + std::log(sum);
        for (double &value : cumulative_) value /= sum;
        // The last clause that can be drawn closes the interval, whatever rounding did.
        last_ = std::lower_bound(cumulative_.begin(), cumulative_.end(), cumulative_.back()) - cumulative_.begin();
    }
    int32_t pick(uint64_t bits) const {
        const double u = static_cast<double>(bits >> 11) * 0x1.0p-53;
        const auto at = std::upper_bound(cumulative_.begin(), cumulative_.end(), u) - cumulative_.begin();
        return static_cast<int32_t>(std::min<int64_t>(at, last_));
    }
    double log_sum = 0.0;

  private:
    std::vector<double> cumulative_;
    int64_t last_ = 0;
};

// What one block of worlds needs; vectors of words have an entry for every variable.
struct Scratch {
    std::vector<LaneWord> word;
    std::vector<LaneWord> one_off;  // lanes in which some clause fails by this variable alone
    std::vector<LaneWord> needed;   // lanes in which every clause found true so far has it; of `candidates` only
    std::vector<int32_t> candidates;
    std::vector<uint8_t> is_candidate;
    std::vector<int32_t> in_clause;  // the last clause that was marked as having it
    std::vector<int32_t> used;       // the variables that occur
    int32_t drawn[LANES];            // coverage: the clause of each lane
    int32_t first_true[LANES];

    explicit Scratch(const Formula &f)
        : word(f.num_vars),
          one_off(f.num_vars),
          needed(f.num_vars),
          is_candidate(f.num_vars, 0),
          in_clause(f.num_vars, -1) {
        std::vector<uint8_t> occurs(f.num_vars, 0);
        for (int64_t i = 0; i < f.size(); ++i) occurs[f.literals[i] >> 1] = 1;
        for (int32_t v = 0; v < static_cast<int32_t>(f.num_vars); ++v)
            if (occurs[v]) used.push_back(v);
    }
    void next_block() {
        for (const int32_t v : candidates) is_candidate[v] = 0;
        candidates.clear();
    }
};

SHARPDNF_CLONES void draw_worlds(const Formula &f, Scratch &s, LaneRandom &random, const ClauseDraw *clauses) {
    for (const int32_t v : s.used) {
        s.word[v].bits = bernoulli(random, f.prob[v]);
        s.one_off[v].bits = Lanes::none();
    }
    if (clauses == nullptr) return;
    for (int chunk = 0; chunk < LANES / WORDS; ++chunk) {
        LaneWord bits;
        bits.bits = random.next();
        for (int w = 0; w < WORDS; ++w) {
            const int lane = chunk * WORDS + w;
            const int32_t c = s.drawn[lane] = clauses->pick(bits.word()[w]);
            for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) {
                LaneWord &word = s.word[f.literals[i] >> 1];
                if (f.literals[i] & 1)
                    word.clear(lane);
                else
                    word.set(lane);
            }
        }
    }
}

// Clause c is the first true one in these lanes: what it has is what may be needed.
SHARPDNF_INLINE void start_lanes(const Formula &f, Scratch &s, int32_t c, const Lanes &lanes) {
    for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) {
        const int32_t v = f.literals[i] >> 1;
        if (!s.is_candidate[v]) {
            s.is_candidate[v] = 1;
            s.needed[v].bits = Lanes::none();
            s.candidates.push_back(v);
        }
        s.needed[v].bits |= lanes;
    }
}

// Clause c holds in these lanes, in which others did before: what it lacks is not needed. All candidates at once;
// returns the lanes in which something still is.
SHARPDNF_INLINE Lanes narrow_all(const Formula &f, Scratch &s, int32_t c, const Lanes &lanes) {
    for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) s.in_clause[f.literals[i] >> 1] = c;
    Lanes left = Lanes::none();
    size_t kept = 0;
    for (const int32_t v : s.candidates) {
        if (s.in_clause[v] != c) s.needed[v].bits &= ~lanes;
        left |= s.needed[v].bits;
        if (any(s.needed[v].bits))
            s.candidates[kept++] = v;
        else
            s.is_candidate[v] = 0;
    }
    s.candidates.resize(kept);
    return left;
}

// The same for one lane, where that is less work: false if nothing is left.
SHARPDNF_INLINE bool narrow_lane(const Formula &f, Scratch &s, int32_t c, int lane) {
    const int32_t *begin = f.literals + f.indptr[c], *end = f.literals + f.indptr[c + 1];
    bool left = false;
    const int32_t first = s.first_true[lane];
    for (int64_t i = f.indptr[first]; i < f.indptr[first + 1]; ++i) {
        LaneWord &needed = s.needed[f.literals[i] >> 1];
        if (!s.is_candidate[f.literals[i] >> 1] || !needed.lane(lane)) continue;
        if (std::binary_search(begin, end, f.literals[i]))
            left = true;
        else
            needed.clear(lane);
    }
    return left;
}

// Clause c holds in these lanes.
SHARPDNF_INLINE void note_true(const Formula &f, Scratch &s, int32_t c, const LaneWord &holds, bool coverage,
                               LaneWord &alive, LaneWord &true_in, int64_t &operations) {
    LaneWord later, fresh;
    later.bits = holds.bits & true_in.bits;
    fresh.bits = holds.bits & ~true_in.bits;
    const int64_t width = f.indptr[c + 1] - f.indptr[c];
    if (any(later.bits)) {
        const auto all = static_cast<int64_t>(s.candidates.size());
        if (4 * later.ones() * width > all) {
            alive.bits &= ~(true_in.bits & ~narrow_all(f, s, c, later.bits));
            operations += all + width;
        } else {
            for (int w = 0; w < WORDS; ++w)
                for (uint64_t rest = later.word()[w]; rest; rest &= rest - 1)
                    if (!narrow_lane(f, s, c, 64 * w + __builtin_ctzll(rest)))
                        alive.clear(64 * w + __builtin_ctzll(rest));
            operations += all;
        }
    }
    true_in.bits |= holds.bits;
    if (!any(fresh.bits)) return;
    for (int w = 0; w < WORDS; ++w) {
        for (uint64_t rest = fresh.word()[w]; rest; rest &= rest - 1) {
            const int lane = 64 * w + __builtin_ctzll(rest);
            s.first_true[lane] = c;
            if (!coverage || s.drawn[lane] == c) continue;
            alive.clear(lane);  // a clause before the drawn one holds: the world does not count
            fresh.clear(lane);
        }
    }
    if (width == 0) alive.bits &= ~fresh.bits;
    start_lanes(f, s, c, fresh.bits);
    operations += width;
}

// Looks at every clause in the lanes that may still tell something: (lanes in which the formula is true, of `alive`).
// False if told to stop.
SHARPDNF_CLONES bool scan(const Formula &f, Scratch &s, bool coverage, LaneWord &alive, LaneWord &true_in,
                          int64_t &operations, Pace &pace) {
    alive.bits = ~Lanes::none();
    true_in.bits = Lanes::none();
    for (int32_t c = 0; c < static_cast<int32_t>(f.num_clauses) && any(alive.bits); ++c) {
        const int64_t begin = f.indptr[c], end = f.indptr[c + 1];
        LaneWord holds;  // no literal is false so far
        holds.bits = alive.bits;
        Lanes one = Lanes::none();  // exactly one literal is false so far
        int64_t i = begin;
        for (; i < end && any(holds.bits | one); ++i) {
            const Lanes literal =
                s.word[f.literals[i] >> 1].bits ^ Lanes::all(-static_cast<uint64_t>(f.literals[i] & 1));
            one = (one & literal) | (holds.bits & ~literal);
            holds.bits &= literal;
        }
        operations += i - begin + 1;
        if (pace.stop(8 * (i - begin + 1))) return false;
        if (any(one)) {
            for (i = begin; i < end; ++i) {
                const int32_t v = f.literals[i] >> 1;
                const Lanes literal = s.word[v].bits ^ Lanes::all(-static_cast<uint64_t>(f.literals[i] & 1));
                s.one_off[v].bits |= one & ~literal;
            }
            operations += end - begin;
        }
        if (any(holds.bits)) note_true(f, s, c, holds, coverage, alive, true_in, operations);
    }
    return true;
}

// In a false world a variable is pivotal if some clause fails by it alone; in a true one if every true clause needs it
// and no clause waits for its other value.
SHARPDNF_CLONES void tally(const Scratch &s, const LaneWord &alive, const LaneWord &true_in, PivotCounts &out) {
    const auto add = [&](int32_t v, const Lanes &pivotal, const Lanes &up) {
        if (!any(pivotal)) return;
        LaneWord ups, downs;
        ups.bits = pivotal & up;
        downs.bits = pivotal & ~up;
        out.up[v] += ups.ones();
        out.down[v] += downs.ones();
    };
    const Lanes false_in = alive.bits & ~true_in.bits, tell = alive.bits & true_in.bits;
    if (any(false_in))
        for (const int32_t v : s.used) add(v, s.one_off[v].bits & false_in, ~s.word[v].bits);
    for (const int32_t v : s.candidates) add(v, s.needed[v].bits & tell & ~s.one_off[v].bits, s.word[v].bits);
}

}  // namespace

PivotCounts count_pivots(const Formula &f, uint64_t seed, uint64_t first, int64_t blocks, bool coverage, Poll &poll) {
    PivotCounts out;
    out.up.assign(f.num_vars, 0);
    out.down.assign(f.num_vars, 0);
    Pace pace(poll);
    Scratch scratch(f);
    std::vector<ClauseDraw> clauses;
    if (coverage) {
        clauses.emplace_back(f, pace);
        out.log_scale = clauses[0].log_sum;
    }
    for (int64_t block = 0; block < blocks && !poll.look(); ++block) {
        uint64_t mixed = seed ^ ((first + block) * 0xd1342543de82ef95ULL) ^ 0x7069766f7473ULL;
        LaneRandom random(splitmix64(mixed));
        scratch.next_block();
        draw_worlds(f, scratch, random, coverage ? &clauses[0] : nullptr);
        LaneWord alive, true_in;
        if (!scan(f, scratch, coverage, alive, true_in, out.operations, pace)) break;
        tally(scratch, alive, true_in, out);
        out.worlds += LANES;
        out.operations += 10 * static_cast<int64_t>(scratch.used.size());
    }
    return out;
}

}  // namespace sharpdnf
