// Rare failures of a network: how likely is it that the terminals are not connected, even if that is 1e-12?
//
// The creation process (Elperin, Gertsbakh, Lomonosov 1991): an element that is up with probability 1 - exp(-rate)
// comes up at a time of law Exp(rate); the network fails if its terminals are not connected at time 1. Only elements
// between different components matter, so the components merge as a Markov chain: with L(s) the sum of the rates
// between the components of partition s, s lasts a time of law Exp(L(s)), independent of what comes next.
//
// A 0/1 draw with a certain scale. Let a partition into j + 1 components that separates terminals have L >= mu_j, for
// rates mu_j = c + a (j - 1) of a line. Then the process that stays in stage j for t_j ~ Exp(mu_j) is never faster, and
// B = P(t_N + ... + t_1 > 1) >= P(failure). So: draw the t_j given that their sum exceeds 1, run the components, give
// each partition the time t_j mu_j / L, of law Exp(L), and call it a success if these still exceed 1. Then P(success) =
// P(failure) / B exactly, and the stopping rules of 0/1 draws apply. Most draws end early: as soon as what is left of
// the slow times cannot reach 1.
//
// The line makes B and the draws simple: x = exp(-a), alpha = c / a, and y = exp(-a sum t_j) is Beta(alpha, N), so
// B = I_x(alpha, N); given the sum, the ends of the other stages are N - 1 independent exponentials of rate a cut off
// there.
//
// Lower bounds mu: every partition cuts terminals, so L is at least the minimum cut c (any flow proves one). A packing
// of spanning trees of total weight w crosses j + 1 components at least j times each, so L >= w j (Tutte,
// Nash-Williams). And each component with a terminal has a cut of its own, in which an element counts at most once for
// each of its ends. For all terminals and links of two ends this alone gives B <= n (n - 1) / 2 P(failure): so many
// draws a success at most.
//
// An element joins two nodes (a link) or more (a node that can fail joins the ends of its links).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "poll.hpp"
#include "random.hpp"
#include "threads.hpp"

namespace sharpdnf {

namespace creation {

constexpr double kMostRejected = 3.0;  // a draw of the slow times is accepted with at least exp of minus this
constexpr double kSafe = 1.0 - 1e-9;   // lower bounds are moved down by more than their rounding

struct Graph {
    int64_t num_nodes = 0, num_elements = 0;
    const int64_t *start = nullptr;  // where the ends of each element begin in `end`
    const int32_t *end = nullptr;
    const double *rate = nullptr;  // positive and finite
    const uint8_t *terminal = nullptr;
};

struct Components {
    std::vector<int32_t> parent;
    explicit Components(int64_t n) : parent(n) { clear(); }
    void clear() { std::iota(parent.begin(), parent.end(), 0); }
    int32_t find(int32_t v) {
        while (parent[v] != v) v = parent[v] = parent[parent[v]];
        return v;
    }
};

// Maximum flow (Dinic 1970) between two terminals at a time; an element of more than two ends is a node of its own.
class Flow {
  public:
    explicit Flow(const Graph &g) : n_(g.num_nodes), head_(g.num_nodes, -1) {
        double most = 0.0;
        for (int64_t e = 0; e < g.num_elements; ++e) most += g.rate[e];
        for (int64_t e = 0; e < g.num_elements; ++e) {
            const int32_t *first = g.end + g.start[e], *last = g.end + g.start[e + 1];
            if (last - first == 2) {
                add(first[0], first[1], g.rate[e], g.rate[e]);
                continue;
            }
            const auto in = static_cast<int32_t>(head_.size());
            head_.insert(head_.end(), 2, -1);
            add(in, in + 1, g.rate[e], 0.0);
            for (const int32_t *v = first; v != last; ++v) add(*v, in, most, 0.0), add(in + 1, *v, most, 0.0);
        }
        tiny_ = most * 1e-14;
        initial_ = room_;
    }
    // A flow from s to t of at most `enough`: a lower bound on their minimum cut.
    double between(int32_t s, int32_t t, double enough, Pace &pace) {
        room_ = initial_;
        double flow = 0.0;
        while (flow < enough && levels(s, t, pace)) {
            at_ = head_;
            for (double pushed; flow < enough && (pushed = augment(s, t, enough - flow, pace)) > 0.0;) flow += pushed;
        }
        return flow;
    }

  private:
    void add(int32_t u, int32_t v, double forth, double back) {
        to_.push_back(v), room_.push_back(forth), next_.push_back(head_[u]),
            head_[u] = static_cast<int32_t>(to_.size()) - 1;
        to_.push_back(u), room_.push_back(back), next_.push_back(head_[v]),
            head_[v] = static_cast<int32_t>(to_.size()) - 1;
    }
    bool levels(int32_t s, int32_t t, Pace &pace) {
        level_.assign(head_.size(), -1);
        queue_.assign(1, s);
        level_[s] = 0;
        for (std::size_t i = 0; i < queue_.size() && level_[t] < 0; ++i)
            for (int32_t k = head_[queue_[i]]; k >= 0; k = next_[k]) {
                if (room_[k] > tiny_ && level_[to_[k]] < 0)
                    level_[to_[k]] = level_[queue_[i]] + 1, queue_.push_back(to_[k]);
                pace.check(1);
            }
        return level_[t] >= 0;
    }
    // One augmenting path, without recursion; 0 if there is none left at these levels.
    double augment(int32_t s, int32_t t, double most, Pace &pace) {
        path_.clear();
        int32_t v = s;
        while (v != t) {
            pace.check(1);
            int32_t &k = at_[v];
            while (k >= 0 && !(room_[k] > tiny_ && level_[to_[k]] == level_[v] + 1)) k = next_[k];
            if (k >= 0) {
                path_.push_back(k);
                v = to_[k];
            } else if (v == s) {
                return 0.0;
            } else {
                v = to_[path_.back() ^ 1];
                path_.pop_back();
                at_[v] = next_[at_[v]];
            }
        }
        for (const int32_t k : path_) most = std::min(most, room_[k]);
        for (const int32_t k : path_) room_[k] -= most, room_[k ^ 1] += most;
        return most;
    }
    int64_t n_;
    double tiny_ = 0.0;
    std::vector<int32_t> head_, at_, level_, queue_, path_, to_, next_;
    std::vector<double> room_, initial_;
};

// A lower bound on the least sum of rates whose elements separate terminals.
inline double minimum_cut(const Graph &g, Pace &pace) {
    Flow flow(g);
    int32_t first = -1;
    double least = std::numeric_limits<double>::infinity();
    for (int64_t v = 0; v < g.num_nodes; ++v) {
        if (!g.terminal[v]) continue;
        if (first >= 0) least = std::min(least, flow.between(first, static_cast<int32_t>(v), least, pace));
        if (first < 0) first = static_cast<int32_t>(v);
    }
    return least * kSafe;
}

// The weight of a packing of spanning trees within the rates: again and again the tree of the links loaded least.
inline double tree_packing(const Graph &g, Pace &pace) {
    // An element of several ends is a chain of links that share its rate: a partition that a tree crosses in some of
    // them is cut by the element.
    struct Link {
        int32_t u, v, element;
    };
    std::vector<Link> links;
    std::vector<double> load(g.num_elements, 0.0);
    for (int64_t e = 0; e < g.num_elements; ++e)
        for (int64_t i = g.start[e]; i + 1 < g.start[e + 1]; ++i)
            links.push_back({g.end[i], g.end[i + 1], static_cast<int32_t>(e)});
    const auto size = static_cast<int64_t>(links.size());
    const int64_t trees = std::clamp<int64_t>(4000000 / std::max<int64_t>(size, 1), 16, 256);
    std::vector<int32_t> order(size);
    std::iota(order.begin(), order.end(), 0);
    Components found(g.num_nodes);
    double most = 0.0;
    for (int64_t tree = 0; tree < trees; ++tree) {
        // What a link would be loaded with, so that thin links are spared from the first tree on.
        std::sort(order.begin(), order.end(), [&](int32_t x, int32_t y) {
            const int32_t e = links[x].element, f = links[y].element;
            const double a = load[e] + 1.0 / g.rate[e], b = load[f] + 1.0 / g.rate[f];
            return a != b ? a < b : x < y;
        });
        found.clear();
        int64_t joined = 1;
        for (const int32_t i : order) {
            const int32_t u = found.find(links[i].u), v = found.find(links[i].v);
            if (u == v) continue;
            found.parent[u] = v;
            most = std::max(most, load[links[i].element] += 1.0 / g.rate[links[i].element]);
            if (++joined == g.num_nodes) break;
        }
        if (joined < g.num_nodes) return 0.0;
        pace.check(8 * size);
    }
    return static_cast<double>(trees) / most * kSafe;
}

// log I_x(alpha, n), the regularised incomplete beta function, by a series of positive terms.
inline double log_beta_law(double x, double alpha, double n) {
    double term = 1.0, sum = 1.0;
    for (double i = 0.0; i < 1e7; i += 1.0) {
        const double ratio = (alpha + n + i) / (alpha + 1.0 + i) * x;
        sum += term *= ratio;
        if (ratio < 1.0 && term * ratio / (1.0 - ratio) < 1e-15 * sum) break;
    }
    const double log_beta = std::lgamma(alpha) + std::lgamma(n) - std::lgamma(alpha + n);
    return std::min(0.0, alpha * std::log(x) + n * std::log1p(-x) - std::log(alpha) - log_beta + std::log(sum));
}

struct Scale {
    double cut = 0.0, trees = 0.0;
    double base = 0.0, step = 0.0;  // mu_j = base + step (j - 1)
    double log_scale = 0.0;         // log B
};

// The line below the lower bounds with the least B among some slopes.
inline Scale find_scale(const Graph &g, Pace &pace) {
    Scale out;
    out.cut = minimum_cut(g, pace);
    out.trees = tree_packing(g, pace);
    int64_t most_ends = 2, free = 0;
    for (int64_t e = 0; e < g.num_elements; ++e) most_ends = std::max(most_ends, g.start[e + 1] - g.start[e]);
    for (int64_t v = 0; v < g.num_nodes; ++v) free += !g.terminal[v];
    const int64_t stages = g.num_nodes - 1;
    std::vector<double> slopes{out.cut / 2.0 * kSafe, out.trees, 2.0 * out.trees - out.cut};
    for (double s = out.cut / 64.0; s <= 2.0 * out.cut; s *= 1.1) slopes.push_back(s);
    for (const double step : slopes) {
        double base = out.cut;
        for (int64_t j = 1; j <= stages; ++j) {
            const auto J = static_cast<double>(j);
            const double own = out.cut * static_cast<double>(j + 1 - free) / static_cast<double>(most_ends);
            base = std::min(base, std::max({out.cut, out.trees * J, own}) - step * (J - 1.0));
        }
        pace.check(stages);
        // With small steps hardly a draw would be accepted, and B would be too large to be of use.
        if (step <= 0.0 || base <= 0.0 || static_cast<double>(stages) * std::exp(-step) > kMostRejected) continue;
        const double log_scale = log_beta_law(std::exp(-step), base / step, static_cast<double>(stages));
        if (log_scale < out.log_scale) out.base = base, out.step = step, out.log_scale = log_scale;
    }
    return out;
}

// What one thread needs to make one draw after another.
class Run {
  public:
    Run(const Graph &g, const Scale &scale)
        : g_(g),
          base_(scale.base),
          step_(scale.step),
          x_(std::exp(-scale.step)),
          alpha_(scale.base / scale.step),
          components_(g.num_nodes),
          size_(g.num_nodes),
          next_(g.num_nodes),
          last_(g.num_nodes),
          holds_(g.num_nodes),
          inside_(g.num_elements),
          around_start_(g.num_nodes + 1, 0) {
        for (int64_t v = 0; v < g.num_nodes; ++v) terminals_ += g.terminal[v];
        for (int64_t i = 0; i < g.start[g.num_elements]; ++i) ++around_start_[g.end[i] + 1];
        for (int64_t v = 0; v < g.num_nodes; ++v) around_start_[v + 1] += around_start_[v];
        around_.resize(around_start_[g.num_nodes]);
        std::vector<int64_t> fill(around_start_.begin(), around_start_.end() - 1);
        for (int64_t e = 0; e < g.num_elements; ++e)
            for (int64_t i = g.start[e]; i < g.start[e + 1]; ++i) around_[fill[g.end[i]]++] = static_cast<int32_t>(e);
        for (int64_t e = 0; e < g.num_elements; ++e) {
            all_.element.push_back(static_cast<int32_t>(e));
            all_.until.push_back(g.rate[e] + (e ? all_.until.back() : 0.0));
        }
    }
    int64_t looks = 0;  // elements looked at

    bool success(Random &random) {
        begin();
        const auto stages = static_cast<double>(g_.num_nodes - 1);
        double y;
        do y = x_ * std::pow(1.0 - random.uniform(), 1.0 / alpha_);
        while (random.uniform() >= std::exp((stages - 1.0) * std::log1p(-y)));
        const double end = -std::log(y) / step_;  // when the last of the slow stages ends: after time 1
        double w = 0.0, slow = 0.0, spent = 0.0;
        int64_t stage = g_.num_nodes - 1;
        while (true) {
            // The slow stages that this partition stands for: an element of several ends may skip some.
            const int64_t here = static_cast<int64_t>(count_) - 1;
            double lasted = 0.0;
            for (; stage >= here; --stage) {
                const double before = slow;
                if (stage > 1) {
                    w += (1.0 - y - w) * -std::expm1(std::log(1.0 - random.uniform()) / static_cast<double>(stage - 1));
                    slow = std::min(-std::log1p(-w) / step_, end);
                } else {
                    slow = end;
                }
                lasted = slow - before;
            }
            spent += lasted * std::min(1.0, (base_ + step_ * static_cast<double>(here - 1)) / total_);
            if (spent > 1.0) return true;
            if (spent + (end - slow) <= 1.0) return false;
            merge(random);
            if (connected_) return false;
        }
    }

  private:
    struct Pool {
        std::vector<int32_t> element;
        std::vector<double> until;  // sums of rates
    };
    void begin() {
        components_.clear();
        std::fill(size_.begin(), size_.end(), 1);
        std::fill(next_.begin(), next_.end(), -1);
        std::iota(last_.begin(), last_.end(), 0);
        std::fill(inside_.begin(), inside_.end(), 0);
        for (int64_t v = 0; v < g_.num_nodes; ++v) holds_[v] = g_.terminal[v];
        pool_ = &all_;
        total_ = all_.until.back();
        count_ = g_.num_nodes;
        connected_ = terminals_ <= 1;
        looks += g_.num_nodes / 8;
    }
    // The next element to come up between two components.
    int32_t choose(Random &random) {
        if (total_ < 0.25 * pool_->until.back()) {
            left_.element.clear(), left_.until.clear();
            double sum = 0.0;
            for (const int32_t e : pool_->element)
                if (!inside_[e]) left_.element.push_back(e), left_.until.push_back(sum += g_.rate[e]);
            looks += static_cast<int64_t>(pool_->element.size());
            std::swap(own_, left_);
            pool_ = &own_;
            total_ = sum;  // summed again from the parts, because many subtractions leave rounding errors
        }
        while (true) {
            const double u = random.uniform() * pool_->until.back();
            auto place = static_cast<std::size_t>(std::upper_bound(pool_->until.begin(), pool_->until.end(), u) -
                                                  pool_->until.begin());
            place = std::min(place, pool_->element.size() - 1);
            ++looks;
            if (!inside_[pool_->element[place]]) return pool_->element[place];
        }
    }
    void merge(Random &random) {
        const int32_t e = choose(random);
        for (int64_t i = g_.start[e] + 1; i < g_.start[e + 1]; ++i) join(g_.end[g_.start[e]], g_.end[i]);
    }
    void join(int32_t u, int32_t v) {
        u = components_.find(u), v = components_.find(v);
        if (u == v) return;
        if (size_[u] < size_[v]) std::swap(u, v);
        components_.parent[v] = u;
        size_[u] += size_[v], holds_[u] += holds_[v], --count_;
        connected_ |= holds_[u] == terminals_;
        // Elements of the smaller side that have all their ends in one component now.
        for (int32_t x = v; x >= 0; x = next_[x])
            for (int64_t i = around_start_[x]; i < around_start_[x + 1]; ++i) {
                const int32_t e = around_[i];
                if (inside_[e]) continue;
                bool within = true;
                for (int64_t k = g_.start[e]; k < g_.start[e + 1] && within; ++k)
                    within = components_.find(g_.end[k]) == u;
                if (within) inside_[e] = 1, total_ -= g_.rate[e];
                ++looks;
            }
        next_[last_[u]] = v, last_[u] = last_[v];
    }
    const Graph &g_;
    double base_, step_, x_, alpha_, total_ = 0.0;
    int64_t count_ = 0;
    int32_t terminals_ = 0;
    bool connected_ = false;
    Components components_;
    std::vector<int32_t> size_, next_, last_,
        holds_;                 // of components: nodes as a list, and how many terminals they hold
    std::vector<char> inside_;  // of elements: whether all ends are in one component
    std::vector<int64_t> around_start_;
    std::vector<int32_t> around_;
    Pool all_, own_, left_;
    const Pool *pool_ = nullptr;
};

struct Result {
    int64_t draws = 0, successes = 0, looks = 0;
    bool complete = false;
};

// Draws until so many successes, or `max_draws`; blocks of draws are tallied in order, so threads change nothing.
inline Result sample(const Graph &g, const Scale &scale, uint64_t seed, int64_t successes, int64_t max_draws,
                     int threads, Poll &poll) {
    constexpr int kBlock = 256;
    Result out;
    std::vector<Run> runs(std::max(1, threads), Run(g, scale));
    struct Block {
        char success[kBlock];
    };
    std::vector<Block> found;
    const auto work = [&](int thread, int place, uint64_t block, Poll &own) {
        uint64_t mixed = seed ^ (block * 0xd1342543de82ef95ULL);
        Random random(splitmix64(mixed));
        Pace pace(own);
        for (char &one : found[place].success) {
            const int64_t before = runs[thread].looks;
            one = runs[thread].success(random);
            if (pace.stop(8 * (runs[thread].looks - before) + 64)) return false;
        }
        return true;
    };
    const auto tally = [&](int place) {
        for (const char one : found[place].success) {
            ++out.draws;
            out.successes += one;
            out.complete = (successes > 0 && out.successes == successes) || out.draws == max_draws;
            if (out.complete) return true;
        }
        return false;
    };
    found.resize(4 * runs.size());
    in_order(static_cast<int>(runs.size()), static_cast<int>(found.size()), work, tally, poll);
    for (const Run &run : runs) out.looks += run.looks;
    return out;
}

}  // namespace creation

}  // namespace sharpdnf
