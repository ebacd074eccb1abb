#include "sample.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>

#include "threads.hpp"

namespace {

constexpr int MAX_GROUPS = 8;

// The first bucket of the order at which all but about a hundredth of the weight has gone by.
int heavy_buckets(const FallingOrder &falling) {
    std::vector<double> weight(FallingOrder::BUCKETS);
    for (int b = 0; b < FallingOrder::BUCKETS; ++b)
        weight[b] = (falling.start[b + 1] - falling.start[b]) * std::exp(-(b + 0.5) / FallingOrder::PER_UNIT);
    double rest = std::accumulate(weight.begin(), weight.end(), 0.0);
    const double small = 0.01 * rest;
    int bucket = 0;
    while (bucket < FallingOrder::BUCKETS && rest > small) rest -= weight[bucket++];
    return bucket;
}

struct Grouping {
    std::vector<int32_t> group_of_clause;       // -1: a group of its own
    std::vector<std::vector<int32_t>> event;    // E_g
    double scale = 0.0;                         // S', in probabilities
};

double event_prob(const Formula &f, const std::vector<int32_t> &event) {
    double p = 1.0;
    for (int32_t literal : event) p *= f.literal_prob(literal);
    return p;
}

// Keeps in `event` the literals that clause c holds too; both are sorted.
void intersect(const Formula &f, int64_t c, std::vector<int32_t> &event) {
    std::vector<int32_t> kept;
    std::set_intersection(event.begin(), event.end(), f.literals + f.indptr[c], f.literals + f.indptr[c + 1],
                          std::back_inserter(kept));
    event.swap(kept);
}

// Greedy cover: repeatedly give the literal that saves most, sum of p(C) over its clauses minus p(literal), a group.
// Clauses below `least` are too light, all together, to make a literal worth a group.
Grouping group_by_literal(const Formula &f, const std::vector<double> &prob, double total, double least, Pace &pace) {
    Grouping out;
    out.group_of_clause.assign(f.num_clauses, -1);
    std::vector<float> weight(2 * f.num_vars, 0.0f);  // they only choose: a float is enough, and half the memory
    for (int64_t c = 0; c < f.num_clauses; ++c) {
        pace.check(1);
        if (prob[c] < least) continue;
        for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) weight[f.literals[i]] += static_cast<float>(prob[c]);
        pace.check(f.indptr[c + 1] - f.indptr[c]);
    }
    double rest = total, events = 0.0;  // S' = the groups' events and the clauses that are left
    out.scale = total;
    for (int g = 0; g < MAX_GROUPS; ++g) {
        int32_t best = -1;
        double gain = 0.02 * out.scale;
        for (int32_t literal = 0; literal < 2 * f.num_vars; ++literal) {
            const double saved = weight[literal] - f.literal_prob(literal);
            if (saved > gain) gain = saved, best = literal;
        }
        // Were every later pick as good as this one, S' would still not come below that of direct Monte Carlo.
        if (best < 0 || rest - (MAX_GROUPS - g) * weight[best] > 1.0) break;
        std::vector<int32_t> event;
        bool first = true;
        for (int64_t c = 0; c < f.num_clauses; ++c) {
            if (out.group_of_clause[c] >= 0) continue;
            const auto *begin = f.literals + f.indptr[c], *end = f.literals + f.indptr[c + 1];
            pace.check(4);
            if (!std::binary_search(begin, end, best)) continue;
            out.group_of_clause[c] = g;
            if (first) event.assign(begin, end), first = false;
            else if (event.size() > 1) intersect(f, c, event);
            if (prob[c] >= least)
                for (const auto *l = begin; l != end; ++l) weight[*l] -= static_cast<float>(prob[c]);
            rest -= prob[c];
        }
        events += event_prob(f, event);
        out.scale = rest + events;
        out.event.push_back(std::move(event));
    }
    return out;
}

// Copies the clauses with their selective literals first, so that a lane falls out of them early.
void copy_clauses(const int32_t *first, const int32_t *last, SamplePlan &plan, Pace &pace) {
    constexpr int AHEAD = 8;
    const Formula &f = plan.formula;
    int64_t size = plan.indptr.back();
    for (const auto *c = first; c != last; ++c) size += f.indptr[*c + 1] - f.indptr[*c];
    plan.literals.resize(size);
    for (const auto *c = first; c != last; ++c) {
        if (last - c > AHEAD) __builtin_prefetch(f.literals + f.indptr[c[AHEAD]]);
        const int64_t begin = plan.indptr.back(), end = begin + f.indptr[*c + 1] - f.indptr[*c];
        int64_t front = begin, back = end - 1;
        for (int64_t i = f.indptr[*c]; i < f.indptr[*c + 1]; ++i) {
            const bool selective = f.literal_prob(f.literals[i]) < 0.3;
            plan.literals[selective ? front : back] = f.literals[i];
            front += selective, back -= !selective;
        }
        plan.indptr.push_back(end);
        pace.check(end - begin);
    }
}

// Shared groups first, each in falling weight, then the clauses that are groups of their own; returns P(E_g) of all.
std::vector<double> order_by_group(SamplePlan &plan, Grouping grouping, const std::vector<double> &log_prob) {
    std::vector<double> weight;
    std::vector<int32_t> by_group;
    for (int g = 0; g < static_cast<int>(grouping.event.size()); ++g) {
        for (const int32_t c : plan.order)
            if (grouping.group_of_clause[c] == g) by_group.push_back(c);
        plan.group_end.push_back(static_cast<int64_t>(by_group.size()));
        weight.push_back(event_prob(plan.formula, grouping.event[g]));
    }
    plan.event = std::move(grouping.event);
    for (const int32_t c : plan.order) {
        if (grouping.group_of_clause[c] >= 0) continue;
        by_group.push_back(c);
        weight.push_back(std::exp(log_prob[c]));
    }
    plan.order = std::move(by_group);
    return weight;
}

void make_guide(SamplePlan &plan) {
    const auto groups = static_cast<int64_t>(plan.cumulative.size());
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
    return g;
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
    const double largest = std::exp(log_max), total = largest * relative_sum;
    FallingOrder falling(log_prob, log_max);
    const int heavy = heavy_buckets(falling);

    Grouping grouping;
    grouping.scale = std::numeric_limits<double>::infinity();
    if (wanted == Estimator::automatic || wanted == Estimator::grouped) {
        if (total > 0.02) {
            std::vector<double> absolute(m);
            for (int64_t c = 0; c < m; ++c) absolute[c] = prob[c] * largest;
            const double least = largest * std::exp(-static_cast<double>(heavy) / FallingOrder::PER_UNIT);
            grouping = group_by_literal(f, absolute, total, least, pace);
        }
        const bool useful = !grouping.event.empty();
        if (wanted == Estimator::automatic)
            wanted = useful && grouping.scale < std::min(1.0, 0.9 * total) ? Estimator::grouped
                     : total < 1.0                                         ? Estimator::coverage
                                                                           : Estimator::direct;
        else if (!useful) wanted = Estimator::coverage;
    }
    plan.chosen = wanted;

    plan.order = std::move(falling.clauses);
    const int32_t *const order = plan.order.data();
    if (wanted == Estimator::direct) {
        copy_clauses(order, order + m, plan, pace);
        plan.group_end = {m};
        plan.event = {{}};
        plan.cumulative = {1.0};
        return plan;
    }
    std::vector<double> weight;  // P(E_g) in units of max p(C) for coverage, of 1 for grouped
    if (wanted == Estimator::coverage) {
        copy_clauses(order, order + falling.start[heavy], plan, pace);
        weight.reserve(m);
        for (const int32_t c : plan.order) weight.push_back(prob[c]);
        plan.log_scale = log_max;
    } else {
        weight = order_by_group(plan, std::move(grouping), log_prob);
        copy_clauses(plan.order.data(), plan.order.data() + m, plan, pace);
    }
    const double sum = std::accumulate(weight.begin(), weight.end(), 0.0);
    plan.log_scale += std::log(sum);
    plan.cumulative.resize(weight.size());
    double running = 0.0;
    for (size_t g = 0; g < weight.size(); ++g) plan.cumulative[g] = (running += weight[g]) / sum;
    make_guide(plan);
    return plan;
}

SHARPDNF_CLONES bool run_block(const SamplePlan &plan, SampleScratch &scratch, uint64_t seed, uint64_t block,
                               LaneWord &result, Poll &poll) {
    Pace pace(poll);
    uint64_t mixed = seed ^ (block * 0xd1342543de82ef95ULL);
    LaneRandom random(splitmix64(mixed));
    scratch.next_block();
    const double *const prob = plan.formula.prob;
    int64_t operations = 0;
    const auto word_of = [&](int32_t literal) -> LaneWord & {
        const int32_t v = literal >> 1;
        return scratch.word(v, [&]() __attribute__((always_inline)) {
            operations += 10;
            return bernoulli(random, prob[v]);
        });
    };
    const auto force = [&](int32_t literal, int lane) {
        if (literal & 1) word_of(literal).clear(lane);
        else word_of(literal).set(lane);
    };

    // Each lane draws its group and is conditioned on the group's event.
    const int64_t shared = plan.shared();
    const Lanes everywhere = ~Lanes::none();
    LaneWord own[MAX_GROUPS];               // lanes of each shared group
    int32_t single[LANES];                   // lanes of singletons: (clause, lane), sorted by clause below
    int64_t single_clause[LANES];
    int singles = 0;
    if (plan.cumulative.size() == 1 && plan.event.size() == 1 && plan.event[0].empty()) {
        own[0].bits = everywhere;
    } else {
        for (int chunk = 0; chunk < LANES / WORDS; ++chunk) {
            LaneWord bits;
            bits.bits = random.next();
            for (int w = 0; w < WORDS; ++w) {
                const int lane = chunk * WORDS + w;
                const int64_t g = pick_group(plan, static_cast<double>(bits.word()[w] >> 11) * 0x1.0p-53);
                if (g < shared) {
                    own[g].set(lane);
                    for (int32_t literal : plan.event[g]) force(literal, lane);
                } else {
                    const int64_t c = (shared ? plan.group_end[shared - 1] : 0) + (g - shared);
                    single[singles] = lane;
                    single_clause[singles++] = c;
                    const Span clause = plan.clause(c);
                    for (const int32_t literal : clause) force(literal, lane);
                    if (pace.stop(8 * (clause.last - clause.first))) return false;
                }
            }
        }
    }

    LaneWord success, waiting;
    Lanes active = everywhere;
    const auto holds = [&](int64_t c, Lanes among) -> Lanes {
        for (const int32_t literal : plan.clause(c)) {
            const Lanes word = word_of(literal).bits;
            ++operations;
            among &= word ^ Lanes::all(-static_cast<uint64_t>(literal & 1));
            if (!any(among)) break;
        }
        return among;
    };
    // Shared groups: a clause that holds is a success for the group's own lanes, a failure for later ones.
    int64_t c = 0;
    for (int64_t g = 0; g < shared && any(active); ++g) {
        for (; c < plan.group_end[g] && any(active); ++c) {
            if (pace.stop(8)) return false;
            const Lanes hit = holds(c, active);
            success.bits |= hit & own[g].bits;
            active &= ~hit;
        }
        c = plan.group_end[g];
        active &= ~own[g].bits;
    }
    // Singletons: a lane succeeds when its own clause comes up and nothing before it held.
    int by_clause[LANES];
    for (int i = 0; i < singles; ++i) by_clause[i] = i;
    std::sort(by_clause, by_clause + singles, [&](int x, int y) {
        return single_clause[x] != single_clause[y] ? single_clause[x] < single_clause[y] : single[x] < single[y];
    });
    int next = 0;
    while (next < singles && any(active)) {
        const int64_t own_clause = single_clause[by_clause[next]];
        for (; c < own_clause && any(active); ++c) {
            if (pace.stop(8)) return false;
            active &= ~holds(c, active);
        }
        waiting.bits = active;
        for (; next < singles && single_clause[by_clause[next]] == own_clause; ++next) {
            const int lane = single[by_clause[next]];
            if (waiting.lane(lane)) success.set(lane);
            waiting.clear(lane);
        }
        active = waiting.bits;
    }
    scratch.operations += operations;
    if (plan.failures) success.bits = ~success.bits;
    result = success;
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

// Draws and successes of one block, up to the wanted success.
void tally(const LaneWord &success, int64_t wanted, int64_t max_draws, SampleResult &out) {
    for (int w = 0; w < WORDS && !out.complete; ++w) {
        const int64_t ones = __builtin_popcountll(success.word()[w]);
        if (out.successes + ones < wanted && out.draws + 64 <= max_draws) {
            out.successes += ones;
            out.draws += 64;
            out.complete = out.draws == max_draws;
            continue;
        }
        for (int bit = 0; bit < 64 && !out.complete; ++bit) {
            ++out.draws;
            out.successes += (success.word()[w] >> bit) & 1;
            out.complete = out.successes >= wanted || out.draws == max_draws;
        }
    }
}

}  // namespace

SampleResult sample(const SamplePlan &plan, uint64_t seed, int64_t successes, int64_t max_draws, int threads,
                    bool marginals, Poll &poll) {
    SampleResult out;
    if (marginals) out.true_count.assign(plan.formula.num_vars, 0), out.seen.assign(plan.formula.num_vars, 0);
    threads = std::max(1, std::min(threads, 64));
    std::vector<SampleScratch> scratch;
    std::vector<SampleResult> partial(threads);
    scratch.reserve(threads);
    scratch.emplace_back(plan.formula.num_vars);
    std::vector<LaneWord> results;
    while (!out.complete && !poll.stopped()) {
        // As many blocks as the tally so far says are still needed: a number that depends on the draws alone.
        const double rate = (out.successes + 0.5) / (out.draws + 1.0);
        const double draws_left = std::min(std::max(1.0, (successes - out.successes) / rate),
                                           static_cast<double>(max_draws - out.draws));
        const int64_t blocks = std::max<int64_t>(1, std::min<int64_t>(out.blocks ? 64 : 1, std::llround(std::ceil(draws_left / LANES))));
        results.assign(blocks, LaneWord{});
        std::atomic<int64_t> next{0};
        std::atomic<bool> left_out{false};
        const auto work = [&](int t) {
            Poll helper(poll, 0);
            Poll &own = t == 0 ? poll : helper;
            for (int64_t b; (b = next.fetch_add(1)) < blocks;) {
                const auto number = static_cast<uint64_t>(out.blocks + b);
                if (own.look() || !run_block(plan, scratch[t], seed, number, results[b], own)) {
                    left_out.store(true);  // block b was claimed and not run
                    return;
                }
                if (marginals) tally_marginals(scratch[t], results[b], t == 0 ? out : partial[t]);
            }
        };
        // A thread costs about 50 microseconds to start: worth it only for a few times that much work each.
        const int64_t per_block = out.blocks ? out.operations / out.blocks : 0;
        const int helpers = static_cast<int>(std::min<int64_t>(threads - 1, per_block * blocks / 100000));
        while (static_cast<int>(scratch.size()) < helpers + 1) scratch.emplace_back(plan.formula.num_vars);
        if (marginals)
            for (int t = 1; t <= helpers; ++t) partial[t].true_count.resize(plan.formula.num_vars, 0), partial[t].seen.resize(plan.formula.num_vars, 0);
        run_on_threads(helpers, work);
        if (left_out.load()) break;  // a round with gaps is not tallied
        for (int64_t b = 0; b < blocks && !out.complete; ++b) tally(results[b], successes, max_draws, out);
        out.blocks += blocks;
        out.operations = 0;
        for (const auto &s : scratch) out.operations += s.operations;
        poll.look();
    }
    for (auto &part : partial) {
        out.marginal_successes += part.marginal_successes;
        for (size_t v = 0; v < part.true_count.size(); ++v)
            out.true_count[v] += part.true_count[v], out.seen[v] += part.seen[v];
    }
    return out;
}
