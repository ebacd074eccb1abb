// The self-adjusting coverage algorithm of Karp, Luby and Madras (1989), as the Neural#DNF paper states it.
//
// A trial:
//   if there is no current assignment, draw clause i with probability p(C_i)/S and an assignment that satisfies it;
//   draw clause k uniformly: if the assignment satisfies it, ++N and forget the assignment;
// after tau trials return tau S / (m N). Variables get a value only when a clause reads them.
#pragma once
#include <cmath>
#include <cstring>
#include <numeric>

#include "formula.hpp"
#include "poll.hpp"
#include "random.hpp"

namespace sharpdnf {

struct KlmResult {
    int64_t trials = 0, accepted = 0;
    double log_sum = 0.0;  // log S
    bool complete = false;
};

constexpr int AHEAD = 64;  // clauses that are drawn or picked at a time, long before they are read

// The first literals of a clause beside each other, padded with one that is always true.
constexpr int FRONT = 3;
struct ClauseFront {
    int32_t literal[FRONT];
    int32_t more;  // literals after these
};

// An assignment whose variables get a value when they are first read. Eight bytes a variable, so that the state of
// the paper's largest formulas stays in a core's own cache.
class LazyAssignment {
  public:
    explicit LazyAssignment(const Formula &f) : prob_(f.prob), variables_(f.num_vars + 1) {
        for (int64_t v = 0; v < f.num_vars; ++v) variables_[v].threshold = threshold(f.prob[v]);
        variables_[f.num_vars].threshold = threshold(1.0);  // the padding
    }
    void forget() {
        epoch_ += 2;
        if (epoch_ != 0) return;
        for (auto &x : variables_)
            x.state = 0;  // the epoch numbers are used up: all states are cleared, and they start again
        epoch_ = 2;
    }
    SHARPDNF_INLINE void set(int32_t literal) { variables_[literal >> 1].state = epoch_ + !(literal & 1); }
    SHARPDNF_INLINE void prefetch(int32_t literal) const { __builtin_prefetch(&variables_[literal >> 1]); }
    // 1 if the literal holds. Whether a variable is drawn already cannot be predicted, so there is no branch on it:
    // a value is made from the 32 random `bits` either way, and kept only where the variable had none.
    SHARPDNF_INLINE uint32_t holds(int32_t literal, uint32_t bits, Random &random) {
        Variable &x = variables_[literal >> 1];
        uint32_t fresh = epoch_ + (bits < x.threshold);
        if (bits == x.threshold) fresh = epoch_ + below_rest(literal >> 1, random);
        const uint32_t state = (x.state ^ epoch_) < 2 ? x.state : fresh;
        x.state = state;
        return (state ^ static_cast<uint32_t>(literal)) & 1;
    }

  private:
    struct Variable {
        uint32_t threshold;  // the first 32 bits of its probability; the others are asked for in a tie
        uint32_t state = 0;  // epoch + value, epochs are even; an older epoch means not drawn yet
    };
    static uint32_t threshold(double p) { return static_cast<uint32_t>(std::min(p * 0x1.0p32, 4294967295.0)); }
    bool below_rest(int64_t v, Random &random) const {
        const double p = v + 1 < static_cast<int64_t>(variables_.size()) ? prob_[v] : 1.0;
        return random.uniform() < p * 0x1.0p32 - static_cast<double>(variables_[v].threshold);
    }

    const double *prob_;
    std::vector<Variable> variables_;
    uint32_t epoch_ = 0;
};

// A clause drawn with probability p(C) / S: one look in the guide, then on average less than one step.
struct ClauseLaw {
    std::vector<double> cumulative;
    std::vector<int32_t> guide;  // bucket -> first clause whose cumulative weight may exceed it
    double sum = 0.0, log_sum = 0.0;

    ClauseLaw(const Formula &f, Pace &pace) : cumulative(f.num_clauses), guide(f.num_clauses + 1) {
        const int64_t m = f.num_clauses;
        clause_log_probs(f, cumulative.data(), pace);
        const double log_max = *std::max_element(cumulative.begin(), cumulative.end());
        for (auto &x : cumulative) x = std::exp(x - log_max);
        std::partial_sum(cumulative.begin(), cumulative.end(), cumulative.begin());
        sum = cumulative.back();
        log_sum = log_max + std::log(sum);
        for (int64_t bucket = 0, c = 0; bucket <= m; ++bucket) {
            while (c + 1 < m && cumulative[c] <= sum * static_cast<double>(bucket) / static_cast<double>(m)) ++c;
            guide[bucket] = static_cast<int32_t>(c);
        }
    }
    // Many draws in steps, so that the memory each step asks for arrives together.
    template <int N> void draw(Random &random, int64_t (&out)[N]) const {
        const auto m = static_cast<int64_t>(cumulative.size());
        double u[N];
        for (int j = 0; j < N; ++j) {
            u[j] = random.uniform();
            __builtin_prefetch(&guide[out[j] = static_cast<int64_t>(u[j] * static_cast<double>(m))]);
        }
        for (int j = 0; j < N; ++j) __builtin_prefetch(&cumulative[out[j] = guide[out[j]]]);
        for (int j = 0; j < N; ++j)
            while (out[j] + 1 < m && cumulative[out[j]] <= u[j] * sum) ++out[j];
    }
};

inline std::vector<ClauseFront> clause_fronts(const Formula &f) {
    std::vector<ClauseFront> out(f.num_clauses);
    for (int64_t c = 0; c < f.num_clauses; ++c) {
        const int64_t width = f.indptr[c + 1] - f.indptr[c];
        for (int64_t i = 0; i < FRONT; ++i)
            out[c].literal[i] = i < width ? f.literals[f.indptr[c] + i] : static_cast<int32_t>(2 * f.num_vars);
        out[c].more = static_cast<int32_t>(std::max<int64_t>(0, width - FRONT));
    }
    return out;
}

// `rows` rows of eight random words.
SHARPDNF_CLONES static void fill(LaneRandom &random, uint64_t *out, int rows) {
    LaneRandom local = random;
    for (int row = 0; row < rows; ++row) {
        const Lanes bits = local.next();
        std::memcpy(out + row * WORDS, &bits, sizeof bits);
    }
    random = local;
}

// Step one of a trial: a clause drawn by its probability, and an assignment of which nothing but the clause is known.
class SatisfyingStart {
  public:
    SatisfyingStart(const Formula &f, const ClauseLaw &law, const std::vector<ClauseFront> &fronts)
        : f_(f), law_(law), fronts_(fronts) {}

    void draw(LazyAssignment &assignment, Random &random) {
        if (next_ == AHEAD) {
            law_.draw(random, drawn_);
            for (int64_t c : drawn_) __builtin_prefetch(&fronts_[c]);
            next_ = 0;
        }
        const int64_t c = drawn_[next_++];
        const ClauseFront &front = fronts_[c];
        assignment.forget();
        for (int32_t literal : front.literal) assignment.set(literal);
        for (int64_t i = f_.indptr[c + 1] - front.more; front.more && i < f_.indptr[c + 1]; ++i)
            assignment.set(f_.literals[i]);
    }

  private:
    const Formula &f_;
    const ClauseLaw &law_;
    const std::vector<ClauseFront> &fronts_;
    int64_t drawn_[AHEAD];  // clauses drawn ahead, so that memory has time to answer
    int next_ = AHEAD;
};

// Step two: whether the assignment satisfies clause `c`. The literals of the front take their random bits from `word`.
inline uint32_t satisfies(LazyAssignment &assignment, const Formula &f, const ClauseFront &front, int64_t c,
                          const uint64_t *word, Random &random) {
    uint32_t bits[4];
    std::memcpy(bits, word, sizeof bits);
    uint32_t satisfied = 1;
    for (int i = 0; i < FRONT; ++i) satisfied &= assignment.holds(front.literal[i], bits[i], random);
    if (!satisfied || !front.more) return satisfied;
    const int64_t end = f.indptr[c + 1];
    for (int64_t i = end - front.more; satisfied && i < end; ++i)
        satisfied = assignment.holds(f.literals[i], static_cast<uint32_t>(random.next() >> 32), random);
    return satisfied;
}

inline KlmResult klm(const Formula &f, int64_t trials, uint64_t seed, Poll &poll) {
    KlmResult out;
    const auto m = static_cast<uint64_t>(f.num_clauses);
    Pace pace(poll);
    const ClauseLaw law(f, pace);
    out.log_sum = law.log_sum;
    const auto fronts = clause_fronts(f);
    LazyAssignment assignment(f);
    Random random(seed);
    LaneRandom bulk(random.next());
    SatisfyingStart start(f, law, fronts);
    // The clauses to check do not depend on the assignments: picked ahead, so that memory has time to answer. A trial
    // takes three random words from the bulk: the pick, and 32 bits for each literal of the front.
    constexpr int NEAR = 6;
    alignas(64) uint64_t words[3 * AHEAD];
    const ClauseFront *picks[AHEAD];
    bool current = false;
    while (out.trials < trials) {
        if (out.trials % (512 * AHEAD) == 0 && poll.look()) return out;
        const int batch = static_cast<int>(std::min<int64_t>(AHEAD, trials - out.trials));
        fill(bulk, words, 3 * AHEAD / WORDS);
        for (int j = 0; j < batch; ++j) {
            picks[j] = &fronts[static_cast<uint64_t>((static_cast<unsigned __int128>(words[j]) * m) >> 64)];
            __builtin_prefetch(picks[j]);
        }
        for (int j = 0; j < batch; ++j) {
            if (j + NEAR < batch)
                for (int32_t literal : picks[j + NEAR]->literal) assignment.prefetch(literal);
            if (!current) start.draw(assignment, random);
            const bool satisfied =
                satisfies(assignment, f, *picks[j], picks[j] - fronts.data(), &words[AHEAD + 2 * j], random);
            out.accepted += satisfied;
            current = !satisfied;
        }
        out.trials += batch;
    }
    out.complete = true;
    return out;
}

}  // namespace sharpdnf
