// Grouped coverage sampling, 512 lanes at a time: one 0/1 estimator with direct Monte Carlo and Karp-Luby as its ends.
//
// Partition the clauses into groups; E_g is a conjunction of literals that every clause of group g contains, and
// S' = sum of P(E_g). Draw a group with probability P(E_g)/S', then an assignment conditioned on E_g. It is a success
// if some clause of g holds and no clause of an earlier group does: each satisfying assignment is a success for
// exactly one group, so P(success) = P(formula) / S'.
//   one group, E = true        direct Monte Carlo, S' = 1
//   one group per clause       Karp-Luby coverage, S' = S = sum of clause probabilities
//   groups by frequent literal in between: a variable shared by most clauses costs its probability once
// P(formula) does not depend on the partition, so the one with the least S' needs the fewest draws: the choice looks
// at the formula alone, needs no pilot, and leaves the guarantee untouched.
#pragma once
#include <cstdint>
#include <vector>

#include "formula.hpp"
#include "poll.hpp"
#include "random.hpp"

enum class Estimator : int { automatic = 0, direct = 1, coverage = 2, grouped = 3 };

// A formula laid out for sampling: clauses in falling weight within groups, selective literals first.
struct SamplePlan {
    std::vector<int64_t> indptr;
    std::vector<int32_t> literals;
    std::vector<int64_t> group_end;        // of each shared group: its clauses end here; singletons follow
    std::vector<std::vector<int32_t>> event;  // E_g of each shared group
    std::vector<double> cumulative;        // over shared groups, then singleton clauses, in units of S'
    std::vector<int32_t> guide;            // bucket -> first group whose cumulative may exceed it
    double log_scale = 0.0;                // log S'
    Estimator chosen = Estimator::direct;
    const double *prob = nullptr;
    int64_t num_vars = 0;

    int64_t shared() const { return static_cast<int64_t>(group_end.size()); }
    int64_t num_clauses() const { return static_cast<int64_t>(indptr.size()) - 1; }
};

SamplePlan make_plan(const Formula &f, Estimator wanted);

// What one thread needs to run blocks.
struct SampleScratch {
    std::vector<LaneWord> words;
    std::vector<uint32_t> stamp;
    uint32_t now = 0;
    int64_t operations = 0;  // 512-bit word operations: literal reads and random rounds
    explicit SampleScratch(int64_t num_vars) : words(num_vars), stamp(num_vars, 0) {}
};

// Runs block `block` of the stream `seed` and writes the success lanes: the same whichever thread runs it.
void run_block(const SamplePlan &plan, SampleScratch &scratch, uint64_t seed, uint64_t block, LaneWord &success);

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

// The least k for which Huber's GBAS estimate (k-1)/R is within a factor 1 +- epsilon with probability 1 - delta.
int64_t gbas_successes(double epsilon, double delta);
