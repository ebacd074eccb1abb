#include "sample.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>

namespace {

constexpr int MAX_GROUPS = 8;

// Clauses in falling weight, by a counting sort on the quantised logarithm: any order is correct, falling is fast.
std::vector<int32_t> falling_order(const std::vector<double> &log_prob, double log_max) {
    constexpr int BUCKETS = 1024;
    const auto m = static_cast<int64_t>(log_prob.size());
    std::vector<int32_t> key(m), order(m), start(BUCKETS + 1, 0);
    for (int64_t c = 0; c < m; ++c) {
        const double fall = (log_max - log_prob[c]) * 16.0;
        key[c] = fall < BUCKETS - 1 ? static_cast<int32_t>(fall) : BUCKETS - 1;
        ++start[key[c] + 1];
    }
    std::partial_sum(start.begin(), start.end(), start.begin());
    for (int64_t c = 0; c < m; ++c) order[start[key[c]]++] = static_cast<int32_t>(c);
    return order;
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
Grouping group_by_literal(const Formula &f, const std::vector<double> &prob, double total) {
    Grouping out;
    out.group_of_clause.assign(f.num_clauses, -1);
    std::vector<double> weight(2 * f.num_vars, 0.0);
    for (int64_t c = 0; c < f.num_clauses; ++c)
        for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) weight[f.literals[i]] += prob[c];
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
            if (!std::binary_search(begin, end, best)) continue;
            out.group_of_clause[c] = g;
            if (first) event.assign(begin, end), first = false;
            else if (event.size() > 1) intersect(f, c, event);
            for (const auto *l = begin; l != end; ++l) weight[*l] -= prob[c];
            rest -= prob[c];
        }
        events += event_prob(f, event);
        out.scale = rest + events;
        out.event.push_back(std::move(event));
    }
    return out;
}

// Copies clause c with its selective literals first, so that a lane falls out of it early.
void append_clause(const Formula &f, int64_t c, SamplePlan &plan) {
    const int64_t begin = plan.indptr.back(), end = begin + f.indptr[c + 1] - f.indptr[c];
    int64_t front = begin, back = end - 1;
    for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) {
        const bool selective = f.literal_prob(f.literals[i]) < 0.3;
        plan.literals[selective ? front : back] = f.literals[i];
        front += selective, back -= !selective;
    }
    plan.indptr.push_back(end);
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

SamplePlan make_plan(const Formula &f, Estimator wanted) {
    SamplePlan plan;
    plan.prob = f.prob;
    plan.num_vars = f.num_vars;
    const int64_t m = f.num_clauses;
    std::vector<double> log_prob(m), prob(m);
    clause_log_probs(f, log_prob.data());
    const double log_max = m ? *std::max_element(log_prob.begin(), log_prob.end()) : 0.0;
    double relative_sum = 0.0;  // S / max p(C): does not underflow
    for (int64_t c = 0; c < m; ++c) {
        prob[c] = std::exp(log_prob[c] - log_max);
        relative_sum += prob[c];
    }
    const double total = std::exp(log_max) * relative_sum;

    Grouping grouping;
    grouping.scale = std::numeric_limits<double>::infinity();
    if (wanted == Estimator::automatic || wanted == Estimator::grouped) {
        if (total > 0.02) {
            std::vector<double> absolute(m);
            for (int64_t c = 0; c < m; ++c) absolute[c] = prob[c] * std::exp(log_max);
            grouping = group_by_literal(f, absolute, total);
        }
        const bool useful = !grouping.event.empty();
        if (wanted == Estimator::automatic)
            wanted = useful && grouping.scale < std::min(1.0, 0.9 * total) ? Estimator::grouped
                     : total < 1.0                                         ? Estimator::coverage
                                                                           : Estimator::direct;
        else if (!useful) wanted = Estimator::coverage;
    }
    plan.chosen = wanted;

    const auto order = falling_order(log_prob, log_max);
    plan.indptr.reserve(m + 1);
    plan.literals.resize(f.size());
    plan.indptr.push_back(0);
    if (wanted == Estimator::direct) {
        for (int32_t c : order) append_clause(f, c, plan);
        plan.group_end = {m};
        plan.event = {{}};
        plan.cumulative = {1.0};
        return plan;
    }
    std::vector<double> weight;  // P(E_g) in units of max p(C) for coverage, of 1 for grouped
    const double unit = wanted == Estimator::grouped ? 0.0 : log_max;
    if (wanted == Estimator::grouped) {
        for (int g = 0; g < static_cast<int>(grouping.event.size()); ++g) {
            for (int32_t c : order)
                if (grouping.group_of_clause[c] == g) append_clause(f, c, plan);
            plan.group_end.push_back(plan.num_clauses());
            weight.push_back(event_prob(f, grouping.event[g]));
        }
        plan.event = std::move(grouping.event);
    }
    for (int32_t c : order) {
        if (wanted == Estimator::grouped && grouping.group_of_clause[c] >= 0) continue;
        append_clause(f, c, plan);
        weight.push_back(std::exp(log_prob[c] - unit));
    }
    const double sum = std::accumulate(weight.begin(), weight.end(), 0.0);
    plan.log_scale = unit + std::log(sum);
    plan.cumulative.resize(weight.size());
    double running = 0.0;
    for (size_t g = 0; g < weight.size(); ++g) plan.cumulative[g] = (running += weight[g]) / sum;
    make_guide(plan);
    return plan;
}

SHARPDNF_CLONES void run_block(const SamplePlan &plan, SampleScratch &scratch, uint64_t seed, uint64_t block,
                               LaneWord &result) {
    uint64_t mixed = seed ^ (block * 0xd1342543de82ef95ULL);
    LaneRandom random(splitmix64(mixed));
    if (++scratch.now == 0) {  // the stamps have gone round once in 2^32 blocks
        std::fill(scratch.stamp.begin(), scratch.stamp.end(), 0u);
        scratch.now = 1;
    }
    const uint32_t now = scratch.now;
    LaneWord *const words = scratch.words.data();
    uint32_t *const stamp = scratch.stamp.data();
    int64_t operations = 0;
    const auto word_of = [&](int32_t literal) -> LaneWord & {
        const int32_t v = literal >> 1;
        if (stamp[v] != now) {
            stamp[v] = now;
            words[v].bits = bernoulli(random, plan.prob[v]);
            operations += 10;
        }
        return words[v];
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
                    for (int64_t i = plan.indptr[c]; i < plan.indptr[c + 1]; ++i) force(plan.literals[i], lane);
                }
            }
        }
    }

    LaneWord success, waiting;
    Lanes active = everywhere;
    const auto holds = [&](int64_t c, Lanes among) -> Lanes {
        for (int64_t i = plan.indptr[c]; i < plan.indptr[c + 1]; ++i) {
            const int32_t literal = plan.literals[i];
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
        for (; c < own_clause && any(active); ++c) active &= ~holds(c, active);
        waiting.bits = active;
        for (; next < singles && single_clause[by_clause[next]] == own_clause; ++next) {
            const int lane = single[by_clause[next]];
            if (waiting.lane(lane)) success.set(lane);
            waiting.clear(lane);
        }
        active = waiting.bits;
    }
    scratch.operations += operations;
    result = success;
}

namespace {

void tally_marginals(const SampleScratch &scratch, const LaneWord &success, SampleResult &out) {
    const int64_t total = success.ones();
    if (!total) return;
    out.marginal_successes += total;
    for (size_t v = 0; v < scratch.words.size(); ++v) {
        if (scratch.stamp[v] != scratch.now) continue;
        LaneWord hits;
        hits.bits = scratch.words[v].bits & success.bits;
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
    if (marginals) out.true_count.assign(plan.num_vars, 0), out.seen.assign(plan.num_vars, 0);
    threads = std::max(1, std::min(threads, 64));
    std::vector<SampleScratch> scratch;
    std::vector<SampleResult> partial(threads);
    scratch.reserve(threads);
    scratch.emplace_back(plan.num_vars);
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
            for (int64_t b; (b = next.fetch_add(1)) < blocks;) {
                if (t == 0 ? poll.look() : poll.stopped()) {
                    left_out.store(true);  // block b was claimed and not run
                    return;
                }
                run_block(plan, scratch[t], seed, static_cast<uint64_t>(out.blocks + b), results[b]);
                if (marginals) tally_marginals(scratch[t], results[b], t == 0 ? out : partial[t]);
            }
        };
        // A thread costs about 50 microseconds to start: worth it only for a few times that much work each.
        const int64_t per_block = out.blocks ? out.operations / out.blocks : 0;
        const int helpers = static_cast<int>(std::min<int64_t>(threads - 1, per_block * blocks / 100000));
        while (static_cast<int>(scratch.size()) < helpers + 1) scratch.emplace_back(plan.num_vars);
        if (marginals)
            for (int t = 1; t <= helpers; ++t) partial[t].true_count.resize(plan.num_vars, 0), partial[t].seen.resize(plan.num_vars, 0);
        std::vector<std::thread> pool;
        for (int t = 1; t <= helpers; ++t) pool.emplace_back(work, t);
        work(0);
        for (auto &thread : pool) thread.join();
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

namespace {

// P(k, x) or Q(k, x), the regularised incomplete gamma functions, whichever is the smaller tail at x.
double gamma_tail(double a, double x, bool upper) {
    const double log_front = a * std::log(x) - x - std::lgamma(a);
    if (!upper) {  // series for P(a, x), x < a
        double term = 1.0 / a, sum = term;
        for (double n = a + 1.0; term > sum * 1e-17; n += 1.0) sum += (term *= x / n);
        return std::exp(log_front) * sum;
    }
    constexpr double tiny = 1e-300;  // Lentz's continued fraction for Q(a, x), x > a
    double b = x + 1.0 - a, c = 1.0 / tiny, d = 1.0 / b, h = d;
    for (int64_t i = 1; i < 100000000; ++i) {
        const double an = -static_cast<double>(i) * (static_cast<double>(i) - a);
        b += 2.0;
        d = an * d + b;
        if (std::fabs(d) < tiny) d = tiny;
        c = b + an / c;
        if (std::fabs(c) < tiny) c = tiny;
        d = 1.0 / d;
        const double step = d * c;
        h *= step;
        if (std::fabs(step - 1.0) < 1e-15) break;
    }
    return std::exp(log_front) * h;
}

// P(|(k-1)/R * R_mean - 1| > epsilon) for R ~ Gamma(k): the exact failure probability of GBAS.
double gbas_failure(int64_t k, double epsilon) {
    const double a = static_cast<double>(k);
    const double low = (a - 1.0) / (1.0 + epsilon), high = (a - 1.0) / (1.0 - epsilon);
    const double over = gamma_tail(a, low, false);
    const double under = high > a ? gamma_tail(a, high, true) : 1.0 - gamma_tail(a, high, false);
    return over + under;
}

// An upper bound of the same, at once: P(R <= x k) and P(R >= x k) are at most exp(-k (x - 1 - ln x)) (Chernoff).
double gbas_failure_bound(int64_t k, double epsilon) {
    const double a = static_cast<double>(k);
    if (a * epsilon <= 1.0) return 1.0;
    const auto tail = [&](double u) {  // u = x - 1; the series where the difference would cancel
        return std::exp(-a * (std::fabs(u) < 1e-5 ? u * u * (0.5 - u / 3.0) : u - std::log1p(u)));
    };
    return tail(-(a * epsilon + 1.0) / (a * (1.0 + epsilon))) + tail((a * epsilon - 1.0) / (a * (1.0 - epsilon)));
}

}  // namespace

int64_t gbas_successes(double epsilon, double delta) {
    // Below, the exact tail takes seconds to sum and then asks for 10^10 successes: the bound asks for a few more.
    const auto failure = epsilon < 1e-5 ? gbas_failure_bound : gbas_failure;
    constexpr int64_t unlimited = int64_t{1} << 62;
    int64_t low = 1, high = 2;
    while (high < unlimited && failure(high, epsilon) > delta) low = high, high *= 2;
    if (high == unlimited) return unlimited;
    while (low + 1 < high) {
        const int64_t middle = low + (high - low) / 2;
        (failure(middle, epsilon) > delta ? low : high) = middle;
    }
    return high;
}
