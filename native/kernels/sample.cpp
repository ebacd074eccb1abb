// The inner loops of sample.hpp: a block of 512 draws, from choosing a group to counting the successes.
#include "sample.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "grouping.hpp"
#include "rounds.hpp"

namespace sharpdnf {

namespace {

// The first bucket of the order at which the weight that is left is about `small`, or a hundredth of all. The weights
// are in units of the largest.
int heavy_buckets(const FallingOrder &falling, double small) {
    std::vector<double> weight(FallingOrder::BUCKETS);
    for (int b = 0; b < FallingOrder::BUCKETS; ++b)
        weight[b] = (falling.start[b + 1] - falling.start[b]) * std::exp(-(b + 0.5) / FallingOrder::PER_UNIT);
    double rest = std::accumulate(weight.begin(), weight.end(), 0.0);
    small = std::min(small, 0.01 * rest);
    int bucket = 0;
    while (bucket < FallingOrder::BUCKETS && rest > small) rest -= weight[bucket++];
    return bucket;
}

// Appends literals with the selective ones first, so that lanes fall out of them early.
void append_literals(const Formula &f, Span from, std::vector<int64_t> &ptr, std::vector<int32_t> &literals,
                     Pace &pace) {
    const int64_t begin = ptr.back(), end = begin + (from.last - from.first);
    if (static_cast<int64_t>(literals.size()) < end) literals.resize(end);
    int64_t front = begin, back = end - 1;
    for (const int32_t literal : from) {
        const bool selective = f.literal_prob(literal) < 0.3;
        literals[selective ? front : back] = literal;
        front += selective, back -= !selective;
    }
    ptr.push_back(end);
    pace.check(end - begin);
}
void append_clauses(const Formula &f, const int32_t *first, const int32_t *last, std::vector<int64_t> &ptr,
                    std::vector<int32_t> &literals, Pace &pace) {
    constexpr int AHEAD = 8;
    int64_t size = ptr.back();
    for (const auto *c = first; c != last; ++c) size += f.indptr[*c + 1] - f.indptr[*c];
    literals.resize(size);
    ptr.reserve(ptr.size() + (last - first));
    for (const auto *c = first; c != last; ++c) {
        if (last - c > AHEAD) __builtin_prefetch(f.literals + f.indptr[c[AHEAD]]);
        append_literals(f, {f.literals + f.indptr[*c], f.literals + f.indptr[*c + 1]}, ptr, literals, pace);
    }
}

// Light clauses are left out of the search for groups as long as they are light beside what it finds.
Grouping best_grouping(const Formula &f, const std::vector<double> &prob, double log_max, const FallingOrder &falling,
                       double sum, double limit, Pace &pace) {
    int64_t heavy = falling.start[heavy_buckets(falling, 0.01 * limit)];
    for (;;) {
        double light = sum;
        for (int64_t i = 0; i < heavy; ++i) light -= prob[falling.clauses[i]];
        Grouping found = Grouper(f, prob, log_max, pace).run(falling.clauses, heavy, std::max(light, 0.0), limit);
        if (heavy == f.num_clauses || found.groups.empty() || light < 0.05 * found.scale) return found;
        heavy = f.num_clauses;
    }
}

// Lays out shared groups and single clauses in falling weight; returns the weights. `falling` are all clauses in
// falling probability, of which the first `heavy` are copied.
std::vector<double> lay_out_groups(SamplePlan &plan, Grouping &grouping, const std::vector<int32_t> &falling,
                                   int64_t heavy, const std::vector<double> &prob, Pace &pace) {
    const Formula &f = plan.formula;
    std::vector<uint8_t> taken(f.num_clauses, 0);
    for (const auto &group : grouping.groups)
        for (int32_t i = group.first; i < group.last; ++i) taken[grouping.clauses[i]] = 1;
    std::stable_sort(grouping.groups.begin(), grouping.groups.end(),
                     [](const auto &a, const auto &b) { return a.weight > b.weight; });
    std::vector<double> weight;
    std::vector<int32_t> rest;
    plan.clause_ptr.assign(1, 0);
    const auto lay_group = [&](const Grouping::Group &group) {
        const int32_t *const event = grouping.literals.data() + group.event, *const end = grouping.literals.data() +
                                                                                          group.event_end;
        append_literals(f, {event, end}, plan.event_ptr, plan.event_literals, pace);
        for (int32_t i = group.first; i < group.last; ++i) {
            const int32_t c = grouping.clauses[i];
            rest.clear();
            std::set_difference(f.literals + f.indptr[c], f.literals + f.indptr[c + 1], event, end,
                                std::back_inserter(rest));
            append_literals(f, {rest.data(), rest.data() + rest.size()}, plan.rest_ptr, plan.rest_literals, pace);
        }
        plan.order.push_back(-1);
        plan.clause_ptr.push_back(static_cast<int64_t>(plan.rest_ptr.size()) - 1);
        weight.push_back(group.weight);
    };
    auto next = grouping.groups.begin();
    for (int64_t i = 0; i < f.num_clauses; ++i) {
        const int32_t c = falling[i];
        if (taken[c]) continue;
        for (; next != grouping.groups.end() && (next->weight >= prob[c] || i >= heavy); ++next) lay_group(*next);
        plan.order.push_back(c);
        weight.push_back(prob[c]);
        if (i >= heavy) continue;
        append_literals(f, {f.literals + f.indptr[c], f.literals + f.indptr[c + 1]}, plan.event_ptr,
                        plan.event_literals, pace);
        plan.clause_ptr.push_back(plan.clause_ptr.back());
    }
    for (; next != grouping.groups.end(); ++next) lay_group(*next);
    return weight;
}

// Prepares how lanes draw a group, from the weights of all groups.
void make_draw(SamplePlan &plan, const std::vector<double> &weight) {
    plan.groups = static_cast<int64_t>(weight.size());
    std::vector<double> following(std::min(plan.groups, SamplePlan::MAX_PEELED + 1), 0.0);
    double sum = 0.0;
    for (int64_t g = plan.groups - 1; g >= 0; --g) {
        sum += weight[g];
        if (g < static_cast<int64_t>(following.size())) following[g] = sum;
    }
    plan.log_scale += std::log(sum);
    // A group takes about as long to peel as eight lanes take to draw theirs.
    constexpr double WORTH = 8.0 / LANES;
    const bool few = plan.groups <= SamplePlan::MAX_PEELED;
    for (int64_t g = 0; g < std::min(plan.groups, SamplePlan::MAX_PEELED); ++g) {
        if (!few && weight[g] < WORTH * sum) break;
        plan.share.push_back(g + 1 == plan.groups ? 1.0 : weight[g] / following[g]);
    }
    const int64_t from = plan.peeled(), groups = plan.groups - from;
    if (groups == 0) return;
    plan.cumulative.resize(groups);
    double running = 0.0;
    for (int64_t g = 0; g < groups; ++g) plan.cumulative[g] = (running += weight[from + g]) / following[from];
    plan.guide.resize(groups + 1);
    int64_t g = 0;
    for (int64_t bucket = 0; bucket <= groups; ++bucket) {
        const double at = static_cast<double>(bucket) / static_cast<double>(groups);
        while (g + 1 < groups && plan.cumulative[g] <= at) ++g;
        plan.guide[bucket] = static_cast<int32_t>(g);
    }
}

// The group of a uniform u in [0, 1): one look in the guide, then on average less than one step.
SHARPDNF_INLINE int64_t pick_group(const SamplePlan &plan, double u) {
    const auto groups = static_cast<int64_t>(plan.cumulative.size());
    int64_t g = plan.guide[static_cast<int64_t>(u * static_cast<double>(groups))];
    while (g + 1 < groups && plan.cumulative[g] <= u) ++g;
    return plan.peeled() + g;
}

// A group and one of its lanes in one number: the group above the nine bits of the lane.
constexpr int LANE_BITS = 9;
static_assert(1 << LANE_BITS == LANES);

// Each of the lanes in `left` draws one of the groups that are not peeled. Returns how many picks were written. Bit b
// of all eight words is decided by the same call of the generator, which gives a number for each word.
SHARPDNF_INLINE int draw_picks(const SamplePlan &plan, const LaneWord &left, LaneRandom &random, uint64_t *picks) {
    int count = 0;
    for (int bit = 0; bit < 64; ++bit) {
        bool wanted = false;
        for (int w = 0; w < WORDS; ++w) wanted |= left.word()[w] >> bit & 1;
        if (!wanted) continue;
        LaneWord bits;
        bits.bits = random.next();
        for (int w = 0; w < WORDS; ++w) {
            if (!(left.word()[w] >> bit & 1)) continue;
            const double u = static_cast<double>(bits.word()[w] >> 11) * 0x1.0p-53;
            picks[count++] =
                static_cast<uint64_t>(pick_group(plan, u)) << LANE_BITS | static_cast<uint64_t>(64 * w + bit);
        }
    }
    return count;
}

// Sorts picks by their group: a radix sort of eight bits a pass, as many passes as the largest group needs. It moves
// every pick to a place that was counted beforehand and compares none, so there is no branch to be mispredicted, as
// would be every second one of a comparison sort on groups that are random. Returns the sorted picks, which stand in
// `picks` or in `other`. A pass keeps the order of equal digits; if it did not, later passes would undo earlier ones.
SHARPDNF_INLINE const uint64_t *sort_picks(uint64_t *picks, uint64_t *other, int count) {
    uint64_t most = 0;
    for (int i = 0; i < count; ++i) most = std::max(most, picks[i] >> LANE_BITS);
    for (int digit = 0; most >> digit; digit += 8) {
        const int shift = LANE_BITS + digit;
        int start[257] = {0};
        for (int i = 0; i < count; ++i) ++start[(picks[i] >> shift & 255) + 1];
        for (int b = 0; b < 256; ++b) start[b + 1] += start[b];
        for (int i = 0; i < count; ++i) other[start[picks[i] >> shift & 255]++] = picks[i];
        std::swap(picks, other);
    }
    return picks;
}

// Every lane draws its group. Returns how many groups were drawn: they stand in the scratch, in rising order. The
// heaviest groups are peeled: each takes its share of the lanes that are left, all of them at once. What lanes remain
// draw one by one.
SHARPDNF_INLINE int draw_groups(const SamplePlan &plan, SampleScratch &scratch, LaneRandom &random) {
    int drawn = 0;
    LaneWord left;
    left.bits = ~Lanes::none();
    for (int64_t g = 0; g < plan.peeled(); ++g) {
        const Lanes own = bernoulli(random, plan.share[g], left.bits);
        if (!any(own)) continue;
        scratch.drawn_group[drawn] = static_cast<int32_t>(g);
        scratch.drawn_lanes[drawn++].bits = own;
        left.bits &= ~own;
        if (!any(left.bits)) return drawn;
    }
    uint64_t picks[LANES], other[LANES];
    const int count = draw_picks(plan, left, random, picks);
    const uint64_t *const sorted = sort_picks(picks, other, count);
    for (int i = 0; i < count; ++i) {
        const auto g = static_cast<int32_t>(sorted[i] >> LANE_BITS);
        if (i == 0 || g != scratch.drawn_group[drawn - 1]) {
            scratch.drawn_group[drawn] = g;
            scratch.drawn_lanes[drawn++].bits = Lanes::none();
        }
        scratch.drawn_lanes[drawn - 1].set(static_cast<int>(sorted[i] & (LANES - 1)));
    }
    return drawn;
}

// Which estimator draws: the one with the least scale S', all of which are known before a draw, in units of the largest
// p(C). `one` is the scale of direct draws, `sum` that of single clauses. Groups take longer to draw from, so they are
// chosen only if their scale is below nine tenths of `sum`.
Estimator choose(Estimator wanted, const Grouping &grouping, double one, double sum) {
    const bool useful = !grouping.groups.empty();
    if (wanted == Estimator::grouped && !useful) return Estimator::coverage;
    if (wanted != Estimator::automatic) return wanted;
    if (useful && grouping.scale < std::min(one, 0.9 * sum)) return Estimator::grouped;
    return sum < one ? Estimator::coverage : Estimator::direct;
}

}  // namespace

SamplePlan make_plan(const Formula &f, Estimator wanted, Poll &poll) {
    Pace pace(poll);
    SamplePlan plan;
    plan.formula = f;
    const int64_t m = f.num_clauses;
    std::vector<double> log_prob(m), prob(m);
    clause_log_probs(f, log_prob.data(), pace);
    const double log_max = m ? *std::max_element(log_prob.begin(), log_prob.end()) : 0.0;
    double relative_sum = 0.0;  // S / max p(C): does not underflow
    for (int64_t c = 0; c < m; ++c) {
        prob[c] = std::exp(log_prob[c] - log_max);
        relative_sum += prob[c];
    }
    FallingOrder falling(log_prob, log_max);
    const double one = std::exp(-log_max);  // S' of direct draws in these units
    const int64_t heavy = falling.start[heavy_buckets(falling, INFINITY)];

    Grouping grouping;
    if (relative_sum > 0.0 && (wanted == Estimator::automatic || wanted == Estimator::grouped)) {
        const double limit = wanted == Estimator::automatic ? std::min(one, 0.9 * relative_sum) : INFINITY;
        grouping = best_grouping(f, prob, log_max, falling, relative_sum, limit, pace);
    }
    wanted = choose(wanted, grouping, one, relative_sum);
    plan.chosen = wanted;

    if (wanted == Estimator::direct) {
        append_clauses(f, falling.clauses.data(), falling.clauses.data() + m, plan.rest_ptr, plan.rest_literals, pace);
        plan.groups = 1;
        plan.event_ptr.push_back(0);
        plan.clause_ptr = {0, m};
        plan.share = {1.0};
        return plan;
    }
    std::vector<double> weight;  // P(E_g) in units of max p(C)
    if (wanted == Estimator::coverage) {
        append_clauses(f, falling.clauses.data(), falling.clauses.data() + heavy, plan.event_ptr, plan.event_literals,
                       pace);
        plan.order = std::move(falling.clauses);
        weight.reserve(m);
        for (const int32_t c : plan.order) weight.push_back(prob[c]);
    } else {
        weight = lay_out_groups(plan, grouping, falling.clauses, heavy, prob, pace);
    }
    plan.log_scale = log_max;
    make_draw(plan, weight);
    return plan;
}

namespace {

// One block: 512 draws side by side, one in each lane. A variable has a word of 512 bits, its value in every draw, and
// a clause is the AND of its literals' words, so one operation does the work of 512.
//
// Words are made lazily: a variable is drawn when a literal first asks for it, because most lanes are decided long
// before the last clause is looked at. That is sound since variables are independent: when one is drawn does not
// matter, only that it is drawn once a block. The order of the draws is part of the answer, though: whoever changes
// which variable is asked for first changes the draws of every seed, though not their distribution.
//
// Each lane draws a group and an assignment given the group's event (condition), then the groups are gone through in
// their order to see in which group's clauses the assignment first holds (judge). A lane is a success if that is its
// own group. Conditioning must come first for all lanes: judge reads words that condition has changed.
struct Block {
    const SamplePlan &plan;
    SampleScratch &scratch;
    LaneRandom random;
    Pace &pace;
    int64_t operations = 0;

    SHARPDNF_INLINE LaneWord &word_of(int32_t literal) {
        const int32_t v = literal >> 1;
        return scratch.word(v, [&]() __attribute__((always_inline)) {
            operations += 10;
            return bernoulli(random, plan.formula.prob[v]);
        });
    }

    // Those of the lanes in which all literals hold.
    SHARPDNF_INLINE Lanes among_those(Span literals, Lanes among) {
        for (const int32_t literal : literals) {
            const Lanes word = word_of(literal).bits;
            ++operations;
            among &= word ^ Lanes::all(-static_cast<uint64_t>(literal & 1));
            if (!any(among)) break;
        }
        return among;
    }

    // Sets the literals of each drawn group's event in its own lanes. False if it was told to stop.
    SHARPDNF_INLINE bool condition(int drawn) {
        for (int i = 0; i < drawn; ++i) {
            const Span event = plan.event(scratch.drawn_group[i]);
            const Lanes own = scratch.drawn_lanes[i].bits;
            for (const int32_t literal : event) {
                LaneWord &word = word_of(literal);
                word.bits = literal & 1 ? word.bits & ~own : word.bits | own;
            }
            if (pace.stop(8 * (event.last - event.first))) return false;
        }
        return true;
    }

    // A clause that holds is a success for the lanes of its own group and a failure for those of later groups. Lanes
    // whose group has gone by are no longer active, so this ends with the last group drawn. False if it was told to
    // stop.
    SHARPDNF_INLINE bool judge(int drawn, Lanes &success) {
        Lanes active = ~Lanes::none();
        success = Lanes::none();
        int next = 0;
        for (int64_t g = 0; next < drawn && any(active); ++g) {
            if (pace.stop(8)) return false;
            const bool has_lanes = scratch.drawn_group[next] == g;
            const Lanes own = has_lanes ? scratch.drawn_lanes[next].bits : Lanes::none();
            next += has_lanes;
            Lanes among = among_those(plan.event(g), active);
            if (plan.single(g)) {
                success |= among & own;
                active &= ~(among | own);
                continue;
            }
            for (int64_t c = plan.clause_ptr[g]; c < plan.clause_ptr[g + 1] && any(among); ++c) {
                if (pace.stop(8)) return false;
                const Lanes hit = among_those(plan.rest(c), among);
                success |= hit & own;
                among &= ~hit;
                active &= ~hit;
            }
            active &= ~own;
        }
        return true;
    }
};

}  // namespace

SHARPDNF_CLONES bool run_block(const SamplePlan &plan, SampleScratch &scratch, uint64_t seed, uint64_t block,
                               LaneWord &result, Poll &poll) {
    Pace pace(poll);
    uint64_t mixed = seed ^ (block * 0xd1342543de82ef95ULL);
    Block run{plan, scratch, LaneRandom(splitmix64(mixed)), pace};
    scratch.next_block();
    Lanes success;
    const int drawn = draw_groups(plan, scratch, run.random);
    if (!run.condition(drawn) || !run.judge(drawn, success)) return false;
    scratch.operations += run.operations;
    result.bits = plan.failures ? ~success : success;
    return true;
}

namespace {

void tally_marginals(const SampleScratch &scratch, const LaneWord &success, SampleResult &out) {
    const int64_t total = success.ones();
    if (!total) return;
    out.marginal_successes += total;
    for (int32_t v = 0; v < static_cast<int32_t>(out.seen.size()); ++v) {
        if (!scratch.drawn(v)) continue;
        LaneWord hits;
        hits.bits = scratch.word(v).bits & success.bits;
        out.true_count[v] += hits.ones();
        out.seen[v] += total;
    }
}

// What the threads after the first have counted is added to what the first has.
void add_marginals(const std::vector<SampleResult> &parts, SampleResult &out) {
    for (const auto &part : parts) {
        out.marginal_successes += part.marginal_successes;
        for (size_t v = 0; v < part.true_count.size(); ++v)
            out.true_count[v] += part.true_count[v], out.seen[v] += part.seen[v];
    }
}

}  // namespace

SampleResult sample(const SamplePlan &plan, uint64_t seed, int64_t successes, int64_t max_draws, int threads,
                    bool marginals, Poll &poll) {
    const int64_t n = plan.formula.num_vars;
    SampleResult out;
    if (marginals) out.true_count.assign(n, 0), out.seen.assign(n, 0);
    threads = std::max(1, std::min(threads, 64));
    std::vector<SampleScratch> scratch;
    std::vector<SampleResult> partial(threads);
    scratch.reserve(threads);
    scratch.emplace_back(n);
    std::vector<LaneWord> results;
    while (!out.complete && !poll.stopped()) {
        const double needed = blocks_needed(out.draws, out.successes, successes, max_draws);
        const auto blocks = static_cast<int64_t>(std::max(1.0, std::min(needed, out.blocks ? 64.0 : 1.0)));
        results.assign(blocks, LaneWord{});
        // A thread costs about 50 microseconds to start: worth it only for a few times that much work each.
        const int64_t per_block = out.blocks ? out.operations / out.blocks : 0;
        const int helpers = static_cast<int>(std::min<int64_t>(threads - 1, per_block * blocks / 100000));
        while (static_cast<int>(scratch.size()) < helpers + 1) scratch.emplace_back(n);
        if (marginals)
            for (int t = 1; t <= helpers; ++t) partial[t].true_count.resize(n, 0), partial[t].seen.resize(n, 0);
        const auto run = [&](int t, int64_t b, Poll &own) {
            if (!run_block(plan, scratch[t], seed, static_cast<uint64_t>(out.blocks + b), results[b], own))
                return false;
            if (marginals) tally_marginals(scratch[t], results[b], t == 0 ? out : partial[t]);
            return true;
        };
        if (!run_round(blocks, helpers, poll, run)) break;
        for (int64_t b = 0; b < blocks && !out.complete; ++b)
            tally(results[b], successes, max_draws, out.draws, out.successes, out.complete);
        out.blocks += blocks;
        out.operations = 0;
        for (const auto &s : scratch) out.operations += s.operations;
        poll.look();
    }
    add_marginals(partial, out);
    return out;
}

}  // namespace sharpdnf
