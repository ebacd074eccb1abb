// Minimal cut sets of a circuit without negation, as a zero-suppressed decision diagram.
//
// The diagrams are Minato's (1993); the operations that keep families minimal are Rauzy's (Reliability Engineering and
// System Safety 40, 1993).
//
// A node (level, lo, hi) stands for the sets of lo, and those of hi with the variable of that level added; 0 is no set,
// 1 the empty set alone. Every family is minimal: none of its sets contains another. Operations run on a stack of their
// own, so that the depth of a family is bounded by memory only.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "circuit.hpp"
#include "poll.hpp"

namespace sharpdnf {

class CutSets {
  public:
    static constexpr int32_t kAny = std::numeric_limits<int32_t>::max();  // no limit on the size of a set
    struct Full {};                                                       // thrown at the limit of nodes
    static constexpr size_t kMostCached = size_t{1} << 23;                // results that are remembered: 168 MB

    CutSets(std::vector<double> log_prob, int32_t order, double log_cutoff, int64_t max_nodes, Poll &poll)
        : log_prob_(std::move(log_prob)), order_(order), log_cutoff_(log_cutoff), max_nodes_(max_nodes), pace_(poll) {
        for (int32_t t = 0; t < 2; ++t) add({kAny, t, t, t ? 0 : kAny, 0, t ? 0.0 : -infinity(), t ? 0.0 : infinity()});
        unique_.assign(1 << 12, -1);
        cache_.assign(2 * unique_.size(), {});
    }

    struct Node {
        int32_t level, lo, hi, least, most;  // sizes of the smallest and of the largest set
        double best, worst;                  // log probabilities of the likeliest and of the least likely set
    };
    const Node &operator[](int32_t f) const { return nodes_[f]; }
    int64_t size() const { return static_cast<int64_t>(nodes_.size()); }

    // The cut sets of a gate: level_of_var says where a variable stands in the diagram.
    int32_t of_circuit(const CircuitView &c, int32_t output, const int32_t *level_of_var) {
        std::vector<uint8_t> needed(c.num_gates, 0);
        needed[output] = 1;
        for (int64_t g = output; g >= 0; --g)
            if (needed[g])
                for (int64_t i = c.indptr[g]; i < c.indptr[g + 1]; ++i) needed[c.inputs[i]] = 1;
        std::vector<int32_t> family(c.num_gates, 0);
        for (int64_t g = 0; g <= output; ++g)
            if (needed[g]) family[g] = likely(of_gate(c, g, family, level_of_var));
        return family[output];
    }

  private:
    enum Op : int32_t { kUnion = 1, kProduct, kWithout, kTruncate };
    struct Frame {
        Op op;
        int32_t stage, f, g, k, a, b;
    };
    struct Entry {
        int32_t op = 0, f = 0, g = 0, k = 0, result = 0;
    };
    static double infinity() { return std::numeric_limits<double>::infinity(); }

    int32_t of_gate(const CircuitView &c, int64_t g, const std::vector<int32_t> &family, const int32_t *level_of_var) {
        std::vector<int32_t> in;
        for (int64_t i = c.indptr[g]; i < c.indptr[g + 1]; ++i) in.push_back(family[c.inputs[i]]);
        // From the bottom of the diagram upwards: then independent inputs are put together in constant time.
        std::sort(in.begin(), in.end(), [&](int32_t x, int32_t y) {
            return nodes_[x].level != nodes_[y].level ? nodes_[x].level > nodes_[y].level : x < y;
        });
        const uint8_t kind = c.kind[g];
        if (kind == gVar) return order_ < 1 ? 0 : node(level_of_var[c.arg[g]], 0, 1);
        if (kind == gAnd) {
            int32_t out = 1;
            for (const int32_t f : in) out = likely(run(kProduct, f, out, order_));
            return out;
        }
        if (kind == gOr) {
            int32_t out = 0;
            for (const int32_t f : in) out = run(kUnion, f, out, 0);
            return out;
        }
        if (kind == gAtLeast) {
            std::vector<int32_t> of(std::max(c.arg[g], 0) + 1, 0);  // of[j]: at least j of the inputs so far
            of[0] = 1;
            for (const int32_t f : in)
                for (size_t j = of.size() - 1; j >= 1; --j)
                    of[j] = run(kUnion, of[j], likely(run(kProduct, f, of[j - 1], order_)), 0);
            return of.back();
        }
        if (kind == gNot) throw std::invalid_argument("a negation has no cut sets");
        return kind == gTrue ? 1 : 0;
    }

    int32_t add(const Node &made) {
        if (size() >= max_nodes_) throw Full{};
        nodes_.push_back(made);
        return static_cast<int32_t>(nodes_.size()) - 1;
    }

    static uint64_t mix(uint64_t x) {
        x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15ull;
        x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ull;
        return x ^ (x >> 32);
    }
    static uint64_t pair(int32_t a, int32_t b) {
        return static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32 | static_cast<uint32_t>(b);
    }

    int32_t node(int32_t level, int32_t lo, int32_t hi) {
        if (hi == 0) return lo;
        size_t at = find(level, lo, hi);
        if (unique_[at] >= 0) return unique_[at];
        const Node l = nodes_[lo], h = nodes_[hi];
        const double p = log_prob_[level];
        const int32_t made = add({level, lo, hi, std::min(l.least, h.least + 1), std::max(l.most, h.most + 1),
                                  std::max(l.best, h.best + p), std::min(l.worst, h.worst + p)});
        unique_[at] = made;
        if (nodes_.size() * 2 > unique_.size()) grow();
        return made;
    }
    size_t find(int32_t level, int32_t lo, int32_t hi) const {
        const size_t mask = unique_.size() - 1;
        size_t at = mix(mix(pair(lo, hi)) + static_cast<uint64_t>(level)) & mask;
        for (; unique_[at] >= 0; at = (at + 1) & mask) {
            const Node &n = nodes_[unique_[at]];
            if (n.level == level && n.lo == lo && n.hi == hi) break;
        }
        return at;
    }
    void grow() {
        unique_.assign(unique_.size() * 2, -1);
        for (int32_t f = 2; f < size(); ++f) unique_[find(nodes_[f].level, nodes_[f].lo, nodes_[f].hi)] = f;
        cache_.assign(std::min(2 * unique_.size(), kMostCached), {});
    }

    Entry &slot(Op op, int32_t f, int32_t g, int32_t k) {
        return cache_[mix(mix(pair(f, g)) + pair(k, op)) & (cache_.size() - 1)];
    }
    void remember(const Frame &t, int32_t result) { slot(t.op, t.f, t.g, t.k) = {t.op, t.f, t.g, t.k, result}; }

    // What needs no recursion, or is in the cache; -1 if neither. Brings the frame into the form that the cache knows.
    int32_t at_once(Frame &t) {
        int32_t &f = t.f, &g = t.g;
        switch (t.op) {
            case kUnion:
                if (f == 0 || f == g) return g;
                if (g == 0) return f;
                if (f == 1 || g == 1) return 1;
                break;
            case kProduct:
                if (f == 0 || g == 0 || std::max(nodes_[f].least, nodes_[g].least) > t.k) return 0;
                if (nodes_[f].most + static_cast<int64_t>(nodes_[g].most) <= t.k) t.k = kAny;
                if (f == 1 || f == g)
                    t = {kTruncate, 0, g, 0, t.k, 0, 0};
                else if (g == 1)
                    t = {kTruncate, 0, f, 0, t.k, 0, 0};
                break;
            case kWithout:
                while (g > 1 && nodes_[g].level < nodes_[f].level) g = nodes_[g].lo;
                if (f == 0 || g == 1 || f == g) return 0;
                if (g == 0 || f == 1 || nodes_[g].least > nodes_[f].most) return f;
                break;
            case kTruncate:
                break;
        }
        if (t.op == kTruncate) {
            if (nodes_[f].most <= t.k) return f;
            if (nodes_[f].least > t.k) return 0;
        } else if (t.op != kWithout && nodes_[g].level < nodes_[f].level) {
            std::swap(f, g);
        } else if (t.op != kWithout && nodes_[g].level == nodes_[f].level && g < f) {
            std::swap(f, g);
        }
        const Entry &e = slot(t.op, f, g, t.k);
        return e.op == t.op && e.f == f && e.g == g && e.k == t.k ? e.result : -1;
    }

    // Carries out one operation. The top of the stack is asked again with the result of what it asked for.
    int32_t run(Op op, int32_t f, int32_t g, int32_t k) {
        stack_.clear();
        int32_t result = 0;
        call(op, f, g, k, result);
        while (!stack_.empty()) {
            pace_.check(1);
            step(result);
        }
        return result;
    }

    // Answers at once, or puts the operation on the stack.
    bool call(Op op, int32_t f, int32_t g, int32_t k, int32_t &result) {
        Frame t{op, 0, f, g, k, 0, 0};
        const int32_t known = at_once(t);
        if (known >= 0) {
            result = known;
            return true;
        }
        stack_.push_back(t);
        return false;
    }

    // Goes on with the top of the stack as far as answers are at hand.
    void step(int32_t &result) {
        const size_t top = stack_.size() - 1;
        for (;;) {
            const Frame t = stack_[top];
            const Node f = nodes_[t.f];
            const bool both = t.op != kTruncate && nodes_[t.g].level == f.level;
            const int32_t g0 = both ? nodes_[t.g].lo : t.g, g1 = both ? nodes_[t.g].hi : 0;
            const int32_t less = t.k == kAny ? kAny : t.k - 1;
            int32_t next = t.stage + 1;
            bool known = true;
            if (t.stage == kFinish) {
                const int32_t made = node(f.level, t.a, result);
                remember(t, made);
                stack_.pop_back();
                result = made;
                return;
            }
            if (t.stage == 0) {
                known = call(t.op, f.lo, t.op == kTruncate ? 0 : g0, t.k, result);
            } else if (t.stage == 1) {
                stack_[top].a = result;
                switch (t.op) {
                    case kUnion:
                        next = 4;
                        if (both)
                            known = call(kUnion, f.hi, g1, 0, result);
                        else
                            result = f.hi;
                        break;
                    case kProduct:
                        next = both ? 2 : 4;
                        known = both ? call(kUnion, g0, g1, 0, result) : call(kProduct, f.hi, t.g, less, result);
                        break;
                    case kWithout:
                        next = both ? 2 : kFinish;
                        known = call(kWithout, f.hi, both ? g1 : t.g, 0, result);
                        break;
                    case kTruncate:
                        next = kFinish;
                        known = call(kTruncate, f.hi, 0, less, result);
                        break;
                }
            } else if (t.op == kWithout) {
                next = kFinish;
                known = call(kWithout, result, g0, 0, result);
            } else if (t.stage == 2) {
                known = call(kProduct, f.hi, result, less, result);
            } else if (t.stage == 3) {
                stack_[top].b = result;
                next = 5;
                known = call(kProduct, f.lo, g1, less, result);
            } else if (t.stage == 5) {
                next = 4;
                known = call(kUnion, t.b, result, 0, result);
            } else {
                next = kFinish;
                known = call(kWithout, result, t.a, 0, result);
            }
            stack_[top].stage = next;
            if (!known) return;
        }
    }
    static constexpr int32_t kFinish = 9;

    // Without the sets whose probability is below the cut-off: what contains one of them is still less likely.
    int32_t likely(int32_t f) {
        if (log_cutoff_ == -infinity()) return f;
        struct Visit {
            int32_t f;
            double t;
            int32_t stage, lo;
        };
        std::map<std::pair<int32_t, double>, int32_t> known;
        std::vector<Visit> stack{{f, log_cutoff_, 0, 0}};
        int32_t result = 0;
        while (!stack.empty()) {
            pace_.check(1);
            Visit &v = stack.back();
            const Node n = nodes_[v.f];
            if (v.stage == 0) {
                const double slack =
                    1e-9;  // the caller multiplies the probabilities and drops what is still below the cut-off
                const auto found = known.find({v.f, v.t});
                if (n.worst >= v.t - slack)
                    result = v.f;
                else if (n.best < v.t - slack)
                    result = 0;
                else if (found != known.end())
                    result = found->second;
                else {
                    v.stage = 1;
                    const Visit child{n.lo, v.t, 0, 0};
                    stack.push_back(child);
                    continue;
                }
                stack.pop_back();
            } else if (v.stage == 1) {
                v.lo = result, v.stage = 2;
                const Visit child{n.hi, v.t - log_prob_[n.level], 0, 0};
                stack.push_back(child);
            } else {
                const int32_t made = node(n.level, v.lo, result);
                known[{v.f, v.t}] = made;
                stack.pop_back();
                result = made;
            }
        }
        return result;
    }

    std::vector<double> log_prob_;  // of the variable at each level
    int32_t order_;
    double log_cutoff_;
    int64_t max_nodes_;
    Pace pace_;
    std::vector<Node> nodes_;
    std::vector<int32_t> unique_;
    std::vector<Entry> cache_;
    std::vector<Frame> stack_;
};

}  // namespace sharpdnf
