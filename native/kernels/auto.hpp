// What `auto` does with one formula: the one place where it is decided which algorithm answers. `count` asks for a
// batch of one, `count_many` for many, and both get this. Choices look at the formula, at what was asked and at
// counted operations, never at the clock, so the same seed gives the same answer; the deadline only cuts it short.
//
//   1. trivial; taken apart by common literals and independent parts (hierarchy.hpp); simplified
//   2. exact was asked: the methods of exact.hpp, without limit
//   3. elimination, if it is foreseen to take only milliseconds: the exact number is better than any estimate
//   4. certified bounds; then a small d-tree, or more where sampling would cost more
//   5. bounds that are narrow enough are an answer with delta = 0
//   6. sampling, clipped to the bounds that are known by then
//
// Where P is close to 1 an error epsilon P says little about 1 - P, which is what matters there. So a relative answer
// with P >= 1/2 is refined until 1 - P is within epsilon too, for about as many operations as the answer took; that
// serves P as well, since epsilon (1 - P) <= epsilon P. Asked `of` the complement, only 1 - P counts.
#pragma once
#include <array>
#include <cmath>
#include <limits>

#include "bounds.hpp"
#include "chance.hpp"
#include "conditioned.hpp"
#include "dtree.hpp"
#include "exact.hpp"
#include "formula.hpp"
#include "hierarchy.hpp"
#include "poll.hpp"
#include "sample.hpp"
#include "simplify.hpp"
#include "stopping.hpp"

namespace sharpdnf {

enum class Promise : int8_t { exact = 0, relative = 1, additive = 2, bounds = 3, none = 4 };
enum class Method : int8_t {
    trivial = 0,
    simplify = 1,
    bounds = 2,
    dtree = 3,
    sampling = 4,
    conditioned = 5,
    exact = 6
};

struct Ask {
    Promise promise;
    bool complement;  // a relative guarantee is about 1 - P
    double epsilon, delta;
    int64_t successes, third_successes;  // that a relative guarantee needs at delta, and at delta / 3
    int64_t draws;                       // that an additive guarantee needs
    std::size_t memory;
};

// Natural logarithms of an estimate, of ends that hold with probability 1 - delta, and of ends that hold surely.
struct Side {
    double value = 0.0, lower = 0.0, upper = 0.0, sure_lower = 0.0, sure_upper = 0.0;

    double inside(double x) const { return std::min(std::max(x, sure_lower), sure_upper); }
    void keep_within(double low, double high) { lower = inside(low), upper = inside(high); }
};

struct Answer {
    Side hit, miss;  // of P and of 1 - P
    Promise promise = Promise::exact;
    Method method = Method::trivial;
    bool met = true;
    bool complement = false;  // a relative promise holds for 1 - P
    int64_t samples = 0;
    // How the answer came about; `Estimate.info` shows it.
    const char *why = "", *stopped = "", *by = "";  // `by`: the exact method
    bool unate = false, pairs = false;
    int64_t nodes = 0, successes = 0, operations = 0;
    int estimator = -1;
    double log_scale = 0.0;
    std::array<int32_t, 7> notes{};  // what simplification did, in the order of SimplifyResult
};

// What is kept of an answer where there are thousands of them.
struct Row {
    double log_prob, log_lower, log_upper, log_sure_lower, log_sure_upper;
    double log_complement, log_complement_lower, log_complement_upper;
    int64_t samples;
    Promise promise;
    Method method;
    bool met, complement;

    Row() = default;
    explicit Row(const Answer &a)
        : log_prob(a.hit.value),
          log_lower(a.hit.lower),
          log_upper(a.hit.upper),
          log_sure_lower(a.hit.sure_lower),
          log_sure_upper(a.hit.sure_upper),
          log_complement(a.miss.value),
          log_complement_lower(a.miss.lower),
          log_complement_upper(a.miss.upper),
          samples(a.samples),
          promise(a.promise),
          method(a.method),
          met(a.met),
          complement(a.complement) {}
};

// The end of {q : n KL(mean || q) <= log(2 / delta)} on one side of the mean: by Chernoff's bound the set holds the
// probability behind n independent draws with this mean, except with probability delta.
inline double chernoff_end(double mean, double n, double delta, bool upper) {
    const double budget = std::log(2.0 / delta) / n;
    const auto divergence = [mean](double q) {
        const double hit = mean > 0.0 ? mean * std::log(mean / q) : 0.0;
        return hit + (mean < 1.0 ? (1.0 - mean) * std::log((1.0 - mean) / (1.0 - q)) : 0.0);
    };
    double in = mean, out = upper ? 1.0 : 0.0;
    for (int step = 0; step < 100; ++step) {
        const double middle = 0.5 * (in + out);
        (divergence(middle) <= budget ? in : out) = middle;
    }
    return out;
}

class Auto {
  public:
    static constexpr double kEver = std::numeric_limits<double>::infinity(), kNever = -kEver;
    static constexpr double kLogHalf = -0.6931471805599453;
    // Literals that the d-tree may look at unless exactness was asked for, and how large a formula may be for it.
    static constexpr int64_t kTreeWorkPerLiteral = 4, kTreeWork = 20000, kTreeLiterals = 20000;
    // What exactness may cost where it was not asked for, about a millisecond each: operations of an elimination, steps
    // to find its order, literals that the d-tree may look at, operations of a diagram over a few variables. Formulas 0
    // to 15 of a batch may each spend this, formula i spends a share of 16 / (i + 1), so that a batch of thousands pays
    // for the first few only; below the least share of the literals nothing is tried. An answer depends on the formula
    // and its number, not on how a batch was cut.
    static constexpr double kExactOperations = 1e6, kExactPerLiteral = 100.0;
    static constexpr int64_t kExactSearch = 1 << 18, kExactTree = 100000, kExactFormulas = 16, kDiagramVars = 128;
    // Where sampling would take long, all exact methods are tried first. Operations that sampling takes for each
    // success and literal; from how many of them on the search is tried; the most that it may take; how many operations
    // of sampling one operation of those methods takes.
    static constexpr double kSamplingOperations = 1.0 / 128.0, kSearchPays = 2e7, kSearchMost = 1e9,
                            kSearchOperation = 512.0;
    // Pairwise bounds cost about as much as this many draws; for as few clauses as this they cost next to nothing.
    static constexpr int64_t kPairsPayDraws = 1500, kPairsPayClauses = 300, kPairsPerLiteral = 16, kPairs = 100000,
                             kMaxPairs = 20000000;
    // Literals that a d-tree may look at for the sake of 1 - P, where bounds have already answered for P.
    static constexpr int64_t kSpareWorkPerLiteral = 1, kSpareWork = 1000;
    // 512-bit word operations and draws that 1 - P is worth where P was asked for, and where 1 - P was (kAsked*). Where
    // these are too few, or bounds have answered for P, a few blocks of draws say at least how small 1 - P is.
    static constexpr int64_t kOwnOperations = 50000, kOwnDraws = 1 << 17, kFewBlocks = 4;
    static constexpr int64_t kAskedOperations = 2000000000, kAskedDraws = int64_t{1} << 36;
    static constexpr int kConditioned = 8;

    explicit Auto(const Ask &ask) : ask_(ask) {}

    // `key` is the stream of the formula's draws; `threads` share them; `number` is its place in a batch. With no time
    // left at all only `sparing` work is done: one pass over the literals.
    Answer run(const Formula &f, uint64_t key, int64_t number, int threads, Poll &poll, Hierarchy &hierarchy,
               bool sparing) const {
        if (f.num_clauses == 0) return exactly(kNever, 0.0, Method::trivial, "no clause");
        for (int64_t c = 0; c < f.num_clauses; ++c)
            if (f.indptr[c] == f.indptr[c + 1]) return exactly(0.0, kNever, Method::trivial, "an empty clause");
        if (sparing) return finish(at_a_glance(f), "the time limit");
        Plain plain;
        Bounds bounds;
        double units;
        constexpr const char *why = "common literals and independent parts decide it";
        const Hierarchy::Outcome outcome = hierarchy.solve(f, plain, units, bounds);
        if (outcome == Hierarchy::Outcome::plain) return rounded(plain, units, Method::simplify, why);
        if (outcome == Hierarchy::Outcome::bounds) return tight(bounds, Method::simplify, why);
        const SimplifyResult simple = simplify(f, {}, poll);
        const Formula rest = simple.unchanged ? f : simple.formula.view();
        Answer out;
        if (rest.num_clauses == 0)
            out = exactly(kNever, 0.0, Method::simplify, "simplification decides it");
        else
            out = solve(rest, key, number, threads, poll);
        put_together(simple.fold, out);
        const int64_t notes[] = {simple.impossible,    simple.duplicate, simple.absorbed, simple.fixed,
                                 simple.negated_units, simple.factored,  simple.solved};
        std::copy(std::begin(notes), std::end(notes), out.notes.begin());
        return out;
    }

  private:
    static Answer exactly(double log_hit, double log_miss, Method method, const char *why) {
        Answer out;
        out.hit = {log_hit, log_hit, log_hit, log_hit, log_hit};
        out.miss = {log_miss, log_miss, log_miss, log_miss, log_miss};
        out.method = method, out.why = why;
        return out;
    }
    // An exact answer. Its ends differ by rounding, or by less than 1e-12 of P.
    static Answer tight(const Bounds &bounds, Method method, const char *why) {
        Answer out = unknown(method);
        narrow(out, bounds);
        out.why = why;
        for (Side *side : {&out.hit, &out.miss}) {
            side->lower = side->sure_lower, side->upper = side->sure_upper;
            side->value = between(*side, false);
        }
        return out;
    }
    // An exact answer from P and 1 - P that are right to `units` roundings: the smaller one of them gives both
    // logarithms.
    static Answer rounded(const Plain &value, double units, Method method, const char *why) {
        Answer out;
        out.method = method, out.why = why;
        const bool unlikely = value.p < 0.5;
        const double small = unlikely ? value.p : value.q;
        Side &near = unlikely ? out.hit : out.miss, &far = unlikely ? out.miss : out.hit;
        near = around(std::log(small), units * kUnit);
        far = around(log_of_rest(small), 2.5 * units * kUnit * small);  // the derivative is -1 / (1 - small)
        return out;
    }
    // log(1 - x) for x in [0, 1/2]: what rounding takes from 1 - x is known exactly, so log1p, which is slow, is not
    // needed.
    static double log_of_rest(double x) {
        const double rest = 1.0 - x;
        return std::log(rest) + ((1.0 - rest) - x) / rest;
    }
    // A logarithm that is off by `slack`, and by what a library's log may err.
    static Side around(double log, double slack) {
        slack += 8.0 * kUnit * std::fabs(log);
        const double lower = log - slack, upper = std::min(log + slack, 0.0);
        return {log, lower, upper, lower, upper};
    }
    static void put_together(const Fold &fold, Answer &out) {
        if (fold.trivial()) return;
        const auto pair = [&fold](double &hit, double &miss, int direction) {
            const auto whole = fold.whole(hit, miss, direction);
            hit = whole.log_p, miss = whole.log_q;
        };
        pair(out.hit.value, out.miss.value, 0);
        pair(out.hit.lower, out.miss.upper, -1), pair(out.hit.upper, out.miss.lower, 1);
        pair(out.hit.sure_lower, out.miss.sure_upper, -1), pair(out.hit.sure_upper, out.miss.sure_lower, 1);
    }

    // --- what the ends promise ------------------------------------------------------------------------------

    bool relative(double lower, double upper) const {
        const double ratio = upper == kNever ? 1.0 : std::exp(lower - upper);
        return (1.0 - ratio) / (1.0 + ratio) <= ask_.epsilon;
    }
    // Whether the ends that hold surely keep the promise asked for.
    bool required(const Answer &a) const {
        const Side &side = ask_.complement ? a.miss : a.hit;
        if (ask_.promise == Promise::relative) return relative(side.sure_lower, side.sure_upper);
        if (ask_.promise == Promise::additive)
            return (std::exp(a.hit.sure_upper) - std::exp(a.hit.sure_lower)) / 2.0 <= ask_.epsilon;
        return ask_.promise == Promise::bounds;
    }
    static bool likely(const Answer &a) { return a.hit.sure_lower >= kLogHalf; }
    bool complement_too(const Answer &a) const {
        return ask_.promise == Promise::relative && relative(a.miss.sure_lower, a.miss.sure_upper) &&
               (ask_.complement || likely(a));
    }
    // Whether the promise is kept and there is nothing left that more work should try for.
    bool enough(const Answer &a) const {
        return required(a) && (ask_.promise != Promise::relative || ask_.complement || !likely(a) || complement_too(a));
    }

    // The answer that the ends which hold surely give: the point that errs least against both, by (u - l) / (u + l)
    // for relative (the harmonic mean), by (u - l) / 2 for additive.
    Answer finish(Answer a, const char *why) const {
        a.hit.lower = a.hit.sure_lower, a.hit.upper = a.hit.sure_upper;
        a.miss.lower = a.miss.sure_lower, a.miss.upper = a.miss.sure_upper;
        a.complement = complement_too(a);
        if (a.complement) {
            a.miss.value = middle(a.miss);
            a.hit.value = a.hit.inside(log1mexp(a.miss.value));
        } else {
            a.hit.value = middle(a.hit);
            a.miss.value = a.miss.inside(log1mexp(a.hit.value));
        }
        a.met = required(a);
        a.promise = a.met ? ask_.promise : Promise::bounds;
        a.why = why;
        return a;
    }
    double middle(const Side &side) const { return between(side, ask_.promise == Promise::additive); }
    // The mean or the harmonic mean of the ends that hold surely; near 1 it has the digits of what is missing to 1.
    static double between(const Side &side, bool mean) {
        if (side.sure_lower == side.sure_upper) return side.sure_lower;
        const double half = std::log1p(std::expm1(side.sure_lower - side.sure_upper) / 2.0);  // log((1 + l / u) / 2)
        if (mean) return side.sure_upper + half;
        return side.sure_lower > kNever ? side.sure_lower - half : side.sure_upper - std::log(2.0);
    }
    static void narrow(Answer &a, const Bounds &bounds) {
        narrow(a, bounds.lower.log_p<false>(), bounds.upper.log_p<true>(), bounds.upper.log_q<false>(),
               bounds.lower.log_q<true>());
    }
    static void narrow(Answer &a, double log_lower, double log_upper, double log_miss_lower, double log_miss_upper) {
        a.hit.sure_lower = std::max(a.hit.sure_lower, log_lower);
        a.hit.sure_upper = std::max(a.hit.sure_lower, std::min(a.hit.sure_upper, log_upper));
        a.miss.sure_lower = std::max(a.miss.sure_lower, log_miss_lower);
        a.miss.sure_upper = std::max(a.miss.sure_lower, std::min(a.miss.sure_upper, log_miss_upper));
    }
    static Answer unknown(Method method) {
        Answer out;
        out.hit.sure_lower = out.miss.sure_lower = kNever;
        out.method = method;
        return out;
    }

    // --- the steps ------------------------------------------------------------------------------------------

    // The largest clause and the sum of all: no memory, no array over the variables.
    static Answer at_a_glance(const Formula &f) {
        Wide largest, sum;
        int64_t widest = 0;
        for (int64_t c = 0; c < f.num_clauses; ++c) {
            const Wide p = product(f.literals + f.indptr[c], f.literals + f.indptr[c + 1], [&f](int32_t lit) {
                               return f.literal_prob(lit);
                           }).p();
            if (largest < p) largest = p;
            sum = sum + p;
            widest = std::max(widest, f.indptr[c + 1] - f.indptr[c]);
        }
        // Every sum and product of k factors is off by at most about k units in the last place.
        const double slack = 1e-12 + 4e-16 * static_cast<double>(f.num_clauses + widest);
        Answer out = unknown(Method::bounds);
        out.stopped = "time limit";
        const double low = std::min(0.0, largest.log()) - slack, high = std::min(0.0, sum.log() + slack);
        narrow(out, low, high, log1mexp(high), log1mexp(low));
        return out;
    }
    Answer bounded(const Formula &f, Poll &poll) const {
        const bool pay =
            ask_.promise != Promise::relative || f.num_clauses <= kPairsPayClauses || ask_.successes >= kPairsPayDraws;
        const int64_t pairs = pay && !poll.look() ? std::min(kPairsPerLiteral * f.size() + kPairs, kMaxPairs) : 0;
        Poll signals(kEver, nullptr);
        const Interval sure = certified_bounds(f, pairs, signals, poll);
        Answer out = unknown(Method::bounds);
        narrow(out, sure.log_lower, sure.log_upper, sure.log_complement_lower, sure.log_complement_upper);
        out.unate = sure.unate, out.pairs = sure.pairs;
        return out;
    }

    Answer solve(const Formula &f, uint64_t key, int64_t number, int threads, Poll &poll) const {
        // If the deadline came during simplification, the formula is still over all variables of the batch, of which
        // there may be millions: then nothing below may make an array over them.
        const bool late = poll.look();
        if (late && 8 * f.size() < f.num_vars) return finish(at_a_glance(f), "the time limit");
        const auto size = static_cast<double>(f.size());
        const double share = std::min(1.0, static_cast<double>(kExactFormulas) / (1.0 + static_cast<double>(number)));
        const double cheap = share * kExactOperations >= kExactPerLiteral * size ? share * kExactOperations : 0.0;
        Answer found = unknown(Method::exact);
        if (late) {
            found.stopped =
                "time limit";  // otherwise a small formula would be solved before the clock is looked at again
        } else if (ask_.promise == Promise::exact) {
            if (searched(f, kEver, threads, poll, found)) return settled(found, "exact was asked for");
        } else if (promises() && cheap > 0.0 && eliminated(f, cheap, share, threads, poll, found)) {
            return settled(found, "elimination takes few operations");
        }
        Answer best = bounded(f, poll);
        if (ask_.promise == Promise::exact) {
            narrow(best, found);
            best.stopped = found.stopped;
            return finish(best, "exact was asked for");
        }
        if (ask_.promise == Promise::none) return guessed(f, best, poll);
        if (ask_.promise == Promise::bounds) return finish(best, "an interval was asked for");
        if (poll.look()) return finish(best, "the time limit");
        if (cheap == 0.0 && enough(best)) return finish(best, "the certified bounds are within epsilon");
        // Beyond exactness, all that follows may be for the sake of 1 - P only, although P was asked for: then it is to
        // cost little.
        const bool spare = required(best);
        if (f.size() <= kTreeLiterals) {
            const char *why = enough(best) ? "the certified bounds are within epsilon" : "a small d-tree decides it";
            const bool exact = grown(f, cheap > 0.0 ? share : 0.0, best, poll, spare);
            if (exact && (!ask_.complement || best.miss.sure_upper - best.miss.sure_lower < 1e-9))
                return settled(best, "a small d-tree decides it");
            if (exact) return finish(best, why);
            if (cheap > 0.0 && f.num_vars <= kDiagramVars && drawn(f, share, poll, found))
                return settled(found, "a small decision diagram decides it");
            if (enough(best)) return finish(best, why);
        }
        if (enough(best)) return finish(best, "the certified bounds are within epsilon");
        const double sampling = kSamplingOperations * size *
                                static_cast<double>(ask_.promise == Promise::additive ? ask_.draws : ask_.successes);
        if (!spare && sampling >= kSearchPays) {
            if (searched(f, std::min(sampling, kSearchMost), threads, poll, found))
                return settled(found, "sampling would take longer");
            narrow(best, found);
            if (enough(best)) return finish(best, "the certified bounds are within epsilon");
        }
        try {
            if (spare && !worth_drawing(best)) return finish(best, "the certified bounds are within epsilon");
            return sampled(f, key, threads, poll, best, spare);
        } catch (const Stopped &) {  // the deadline came while the draws were planned
            return finish(best, "the time limit");
        }
    }

    // What is answered where no guarantee was asked for: an approximation, moved into the bounds.
    Answer guessed(const Formula &f, Answer best, Poll &poll) const {
        best = finish(best, "no guarantee was asked for");
        try {
            best.hit.value = best.hit.inside(conditioned(f, kConditioned, poll));
            best.miss.value = best.miss.inside(log1mexp(best.hit.value));
            best.method = Method::conditioned, best.promise = Promise::none, best.met = true;
        } catch (const Stopped &) {
            best.stopped = "time limit";
        }
        return best;
    }

    bool promises() const { return ask_.promise == Promise::relative || ask_.promise == Promise::additive; }
    static void narrow(Answer &a, const Answer &by) {
        narrow(a, by.hit.sure_lower, by.hit.sure_upper, by.miss.sure_lower, by.miss.sure_upper);
    }
    // The answer whose ends are apart by rounding only.
    Answer settled(const Answer &best, const char *why) const {
        Answer out = finish(best, why);
        out.hit.value = between(out.hit, false), out.miss.value = between(out.miss, false);
        out.promise = Promise::exact, out.met = true, out.complement = false;
        return out;
    }

    // True if elimination within so many operations decides it; a share of the usual steps may look for its order.
    bool eliminated(const Formula &f, double operations, double share, int threads, Poll &poll, Answer &out) const {
        ExactOptions options;
        options.method = ExactMethod::eliminate;
        options.max_elimination = operations;
        options.max_search = static_cast<int64_t>(share * static_cast<double>(kExactSearch));
        return tried(f, options, threads, poll, out);
    }
    // True if a decision diagram of few operations decides it: paths and other formulas with a small frontier.
    bool drawn(const Formula &f, double share, Poll &poll, Answer &out) const {
        ExactOptions options;
        options.method = ExactMethod::diagram_kinds;
        options.max_operations = share * static_cast<double>(kExactTree);
        return tried(f, options, 1, poll, out);
    }
    // True if one of the exact methods decides it, all of them together within about so many operations of elimination.
    bool searched(const Formula &f, double operations, int threads, Poll &poll, Answer &out) const {
        ExactOptions options;
        options.max_elimination = operations;
        options.max_operations = operations / kSearchOperation;
        return tried(f, options, threads, poll, out);
    }
    bool tried(const Formula &f, ExactOptions &options, int threads, Poll &poll, Answer &out) const {
        options.memory = ask_.memory, options.threads = threads;
        const ExactResult found = ExactSolver(f, options, poll).run();
        narrow(out, found.bounds);
        out.by = name_of(found.method), out.nodes = found.nodes, out.stopped = found.stopped;
        return found.solved;
    }

    // Narrows `best` by a d-tree; true if that is exact. With a share in what exactness may cost it goes on to the end.
    bool grown(const Formula &f, double share, Answer &best, Poll &poll, bool spare) const {
        DTreeOptions options;
        options.memory = ask_.memory;
        options.poll = &poll;
        const int64_t usual =
            spare ? kSpareWorkPerLiteral * f.size() + kSpareWork : kTreeWorkPerLiteral * f.size() + kTreeWork;
        options.work_budget = std::max(usual, static_cast<int64_t>(share * kExactTree));
        if (share > 0.0) {
            // With a share, the tree goes on although the bounds would be close enough.
        } else if (ask_.promise == Promise::relative) {
            options.relative_epsilon = ask_.complement ? 1.0 : ask_.epsilon;
            if (ask_.complement || likely(best)) options.complement_epsilon = ask_.epsilon;
        } else if (ask_.promise == Promise::additive) {
            options.additive_epsilon = ask_.epsilon;
        }
        const DTreeResult tree = dtree(f, options);
        best.method = Method::dtree;
        best.nodes = tree.nodes, best.stopped = tree.stopped;
        narrow(best, tree.bounds);
        return tree.exact;
    }

    // --- sampling -------------------------------------------------------------------------------------------

    struct Streams {
        uint64_t main, pilot, failures;
        explicit Streams(uint64_t key) : main(splitmix64(key)), pilot(splitmix64(key)), failures(splitmix64(key)) {}
    };
    static constexpr int64_t kUnlimited = int64_t{1} << 62;

    // Whether a few blocks of draws without a failure would narrow what bounds say of 1 - P.
    bool worth_drawing(const Answer &best) const {
        return best.miss.sure_upper > std::log(chernoff_end(0.0, kFewBlocks * LANES, ask_.delta / 3.0, true));
    }
    Answer sampled(const Formula &f, uint64_t key, int threads, Poll &poll, const Answer &best, bool spare) const {
        const bool fixed = ask_.promise == Promise::additive;
        const Streams streams(key);
        SamplePlan plan =
            make_plan(f, fixed || ask_.complement || spare ? Estimator::direct : Estimator::automatic, poll);
        if (fixed) return fixed_draws(plan, streams, threads, poll, best);
        Answer out = best;
        int64_t needed = ask_.successes, spent = 0;
        if (plan.chosen == Estimator::direct) {
            // A pilot, thrown away: how much a block costs, and whether P is close to 1.
            SampleResult pilot;
            if (!spare) pilot = sample(plan, streams.pilot, kUnlimited, LANES, threads, false, poll);
            if (!spare && !pilot.complete) return cut(plan, pilot, best);
            if (spare || ask_.complement || likely(best) || 4 * pilot.successes >= 3 * LANES) {
                // Draws until there are enough for 1 - P, or an interval from a fixed number of them, or draws for P:
                // each may go wrong with a third of delta.
                const int64_t blocks = spare ? kFewBlocks : blocks_for_failures(plan, streams, pilot, threads, poll);
                if (failing(plan, streams, blocks, threads, poll, out) || ask_.complement) return out;
                if (required(best)) return finish(best, "the certified bounds are within epsilon");
                needed = ask_.third_successes, spent = out.samples;
            }
        }
        const SampleResult result = sample(plan, streams.main, needed, kUnlimited, threads, false, poll);
        if (!result.complete) return cut(plan, result, best);
        told(plan, result, out);
        out.samples += spent;
        const double log_prob = plan.log_scale + stopping::log_estimate(needed, result.draws);
        out.met = true, out.promise = Promise::relative, out.complement = false;
        out.why = "certified bounds were too wide";
        out.hit.value = out.hit.inside(log_prob);
        out.hit.keep_within(log_prob - std::log1p(ask_.epsilon), log_prob - std::log1p(-ask_.epsilon));
        mirror(out.hit, out.miss);
        return out;
    }

    // How many blocks of draws 1 - P is worth.
    int64_t blocks_for_failures(const SamplePlan &plan, const Streams &streams, const SampleResult &pilot, int threads,
                                Poll &poll) const {
        const int64_t operations = ask_.complement ? kAskedOperations : kOwnOperations;
        const int64_t blocks = std::max(kFewBlocks, operations / std::max<int64_t>(1, pilot.operations));
        if (ask_.complement || blocks == kFewBlocks) return blocks;
        // A longer pilot tells whether they will do. It is not among the draws that count, so it may decide.
        const SampleResult longer = sample(plan, streams.pilot, kUnlimited, kFewBlocks * LANES, threads, false, poll);
        const int64_t failures = longer.draws - longer.successes;
        return ask_.third_successes * kFewBlocks > failures * blocks ? kFewBlocks : blocks;
    }
    // Counts failures. True if `out` is the answer; else it holds what the draws say of 1 - P.
    bool failing(SamplePlan &plan, const Streams &streams, int64_t blocks, int threads, Poll &poll, Answer &out) const {
        plan.failures = true;
        const SampleResult result =
            sample(plan, streams.failures, ask_.third_successes,
                   std::min(blocks * LANES, ask_.complement ? kAskedDraws : kOwnDraws), threads, false, poll);
        plan.failures = false;
        told(plan, result, out);
        out.complement = true;
        if (!result.complete) {
            out = finish(out, "the time limit");
            return true;
        }
        out.promise = Promise::relative;
        if (result.successes >= ask_.third_successes) {
            const double log_miss = stopping::log_estimate(ask_.third_successes, result.draws);
            out.miss.value = out.miss.inside(log_miss);
            out.miss.keep_within(log_miss - std::log1p(ask_.epsilon), log_miss - std::log1p(-ask_.epsilon));
            mirror(out.miss, out.hit);
            out.met = ask_.complement || out.miss.upper <= kLogHalf;
            out.why = "1 - P was sampled";
            return out.met;
        }
        // A fixed number of draws: an interval for 1 - P, and so for P.
        const auto n = static_cast<double>(result.draws);
        const double mean = static_cast<double>(result.successes) / n;
        out.miss.value = out.miss.inside(std::log(mean > 0.0 ? mean : 0.5 / n));
        out.miss.keep_within(std::log(chernoff_end(mean, n, ask_.delta / 3.0, false)),
                             std::log(chernoff_end(mean, n, ask_.delta / 3.0, true)));
        mirror(out.miss, out.hit);
        out.complement = ask_.complement;
        out.met = !ask_.complement && relative(out.hit.lower, out.hit.upper);
        if (out.met)
            out.why = "1 - P is too small to be sampled to a factor, P is not";
        else
            out.promise = Promise::bounds, out.stopped = "1 - P is too small to be sampled";
        return out.met;
    }
    Answer fixed_draws(const SamplePlan &plan, const Streams &streams, int threads, Poll &poll,
                       const Answer &best) const {
        const SampleResult result = sample(plan, streams.main, kUnlimited, ask_.draws, threads, false, poll);
        if (!result.complete) return cut(plan, result, best);
        Answer out = best;
        told(plan, result, out);
        out.met = true, out.promise = Promise::additive, out.why = "certified bounds were too wide";
        const double mean = static_cast<double>(result.successes) / static_cast<double>(result.draws);
        out.hit.value = out.hit.inside(std::log(mean));
        out.hit.keep_within(std::log(std::max(0.0, mean - ask_.epsilon)), std::log(std::min(1.0, mean + ask_.epsilon)));
        mirror(out.hit, out.miss);
        return out;
    }
    // The deadline came first: the mean so far, inside ends that hold surely.
    Answer cut(const SamplePlan &plan, const SampleResult &result, const Answer &best) const {
        Answer out = finish(best, "the time limit");
        told(plan, result, out);
        if (result.draws == 0 || out.met) return out;
        const double mean = static_cast<double>(result.successes) / static_cast<double>(result.draws);
        out.hit.value = out.hit.inside(plan.log_scale + std::log(mean));
        out.miss.value = out.miss.inside(log1mexp(out.hit.value));
        return out;
    }
    static void told(const SamplePlan &plan, const SampleResult &result, Answer &out) {
        out.method = Method::sampling;
        out.samples = result.draws, out.successes = result.successes, out.operations = result.operations;
        out.estimator = static_cast<int>(plan.chosen), out.log_scale = plan.log_scale;
    }
    // What is known of 1 - P, if this is what is known of P, and the other way round.
    static void mirror(const Side &from, Side &to) {
        to.value = to.inside(log1mexp(from.value));
        to.keep_within(log1mexp(from.upper), log1mexp(from.lower));
    }

    Ask ask_;
};

}  // namespace sharpdnf
