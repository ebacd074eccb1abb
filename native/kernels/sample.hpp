// Grouped coverage sampling, 512 lanes at a time: one 0/1 estimator with direct Monte Carlo and Karp-Luby as its ends.
//
// Partition the clauses into groups; E_g is a conjunction of literals that every clause of group g contains, and
// S' = sum of P(E_g). Draw a group with probability P(E_g)/S', then an assignment conditioned on E_g. It is a success
// if some clause of g holds and no clause of an earlier group does: each satisfying assignment is a success for
// exactly one group, so P(success) = P(formula) / S'.
//   one group, E = true        direct Monte Carlo, S' = 1
//   one group per clause       Karp-Luby coverage, S' = S = sum of clause probabilities
//   groups by conjunctions     in between: what many clauses share costs its probability once (grouping.hpp)
// P(formula) does not depend on the partition, so the one with the least S' needs the fewest draws: the choice looks
// at the formula alone, needs no pilot, and leaves the guarantee untouched.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "formula.hpp"
#include "poll.hpp"
#include "random.hpp"

namespace sharpdnf {

enum class Estimator : int { automatic = 0, direct = 1, coverage = 2, grouped = 3 };

struct Span {
    const int32_t *first, *last;
    const int32_t *begin() const { return first; }
    const int32_t *end() const { return last; }
};

// A formula laid out for sampling: groups in falling weight. A clause that is a group of its own is its event. Most
// lanes are decided by the heaviest groups, so their literals are copied, the selective ones first; the events of the
// others, single clauses all of them, are read where they stand.
struct SamplePlan {
    // Of the heaviest groups each takes its part of the lanes that are left; of the others each lane draws one.
    static constexpr int64_t MAX_PEELED = 64;

    Formula formula;
    int64_t groups = 0;
    std::vector<int32_t> order;         // the formula's clause of each group of one, -1 for other groups
    std::vector<int64_t> event_ptr{0};  // where the copied events of the first groups begin and end
    std::vector<int32_t> event_literals;
    std::vector<int64_t> clause_ptr;   // the clauses of group g, none for a group of one, which groups beyond it are
    std::vector<int64_t> rest_ptr{0};  // where the literals of each of these clauses that are not in the event begin
    std::vector<int32_t> rest_literals;
    std::vector<double> share;       // for each of the heaviest groups: P(E_g) / (the sum of it and all that follow)
    std::vector<double> cumulative;  // for each group after those: the share of the groups up to it, the last has 1
    std::vector<int32_t> guide;      // for each bucket of [0, 1): the first group whose cumulative may lie beyond it
    double log_scale = 0.0;          // log S'
    Estimator chosen = Estimator::automatic;
    bool failures = false;  // count the lanes in which the formula is false; direct only

    int64_t peeled() const { return static_cast<int64_t>(share.size()); }
    SHARPDNF_INLINE Span event(int64_t g) const {
        if (g + 1 < static_cast<int64_t>(event_ptr.size()))
            return {event_literals.data() + event_ptr[g], event_literals.data() + event_ptr[g + 1]};
        return {formula.literals + formula.indptr[order[g]], formula.literals + formula.indptr[order[g] + 1]};
    }
    SHARPDNF_INLINE bool single(int64_t g) const {
        return g + 1 >= static_cast<int64_t>(clause_ptr.size()) || clause_ptr[g] == clause_ptr[g + 1];
    }
    SHARPDNF_INLINE Span rest(int64_t c) const {
        return {rest_literals.data() + rest_ptr[c], rest_literals.data() + rest_ptr[c + 1]};
    }
};

// Chooses the groups and lays the formula out. Throws Stopped when the poll says so.
SamplePlan make_plan(const Formula &f, Estimator wanted, Poll &poll);

// What one thread needs to run blocks. Words stand in the order in which the block drew its variables: those of a
// clause stand together, and memory is touched only as far as variables are drawn.
//
// Whether a variable was drawn in this block is told by its slot, which is a stamp and a place in one number: base_
// plus the place of its word. A new block moves base_ beyond every slot that the last one wrote, so all variables count
// as not drawn without an array of n entries being cleared, which would take longer than a block of a large formula
// that is decided by a few clauses. The subtraction in drawn() is unsigned: an old slot lies below base_ and comes out
// huge. That holds only as long as base_ does not wrap around, so next_block() clears the slots just before it would;
// without that, an old slot could pass for a new one, and a block would read another variable's word.
class SampleScratch {
  public:
    explicit SampleScratch(int64_t num_vars) : slot_(num_vars, 0) { words_.reserve(num_vars); }
    int64_t operations = 0;  // 512-bit word operations: literal reads and random rounds

    void next_block() {
        const auto used = static_cast<uint32_t>(words_.size());
        words_.clear();
        if (base_ >
            std::numeric_limits<uint32_t>::max() - used -
                slot_.size()) {  // the numbers for slots are used up: all slots are cleared, and they start again
            std::fill(slot_.begin(), slot_.end(), 0u);
            base_ = 1;
        } else {
            base_ += used;
        }
    }
    SHARPDNF_INLINE bool drawn(int32_t v) const { return slot_[v] - base_ < words_.size(); }
    // The word of a variable that was drawn, or of one that was not: then `draw()` makes it.
    template <class Draw> SHARPDNF_INLINE LaneWord &word(int32_t v, Draw draw) {
        if (!drawn(v)) {
            slot_[v] = base_ + static_cast<uint32_t>(words_.size());
            words_.push_back({draw()});
        }
        return words_[slot_[v] - base_];
    }
    const LaneWord &word(int32_t v) const { return words_[slot_[v] - base_]; }

    // The groups that were drawn in this block, in their order, and the lanes of each.
    std::vector<int32_t> drawn_group = std::vector<int32_t>(LANES);
    std::vector<LaneWord> drawn_lanes = std::vector<LaneWord>(LANES);

  private:
    std::vector<LaneWord> words_;
    std::vector<uint32_t> slot_;   // base_ + the variable's place in words_; anything else: not drawn in this block
    uint32_t base_ = 0xfff00000u;  // close to the end, so that longer runs go round and tests see it
};

// Runs block `block` of the stream `seed` and writes the success lanes: the same whichever thread runs it. False if
// it was told to stop.
bool run_block(const SamplePlan &plan, SampleScratch &scratch, uint64_t seed, uint64_t block, LaneWord &success,
               Poll &poll);

struct SampleResult {
    int64_t draws = 0, successes = 0, blocks = 0, operations = 0;
    bool complete = false;
    std::vector<int64_t> true_count;  // per variable, over all successes of the blocks run
    std::vector<int64_t> seen;        // per variable, how many of these successes had drawn it
    int64_t marginal_successes = 0;
};

// Draws until `successes` are reached (draws after the last are dropped) or `max_draws` are made.
SampleResult sample(const SamplePlan &plan, uint64_t seed, int64_t successes, int64_t max_draws, int threads,
                    bool marginals, Poll &poll);

}  // namespace sharpdnf
