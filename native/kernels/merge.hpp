// Lifting inside a d-tree: literals of a subformula that cannot be told apart become one variable there.
//
// The rules are those of lift.hpp. Literals that stand in the same clauses become "all of them", literals that stand
// with the same company become "any of them", until nothing changes. A merged variable gets a number of its own beyond
// those of the formula, the same wherever the same literals are merged, so equal subformulas stay equal. The variables
// that it stands for occur nowhere else in the subformula, so it is independent of the others there.
#pragma once
#include <algorithm>
#include <cstdint>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "formula.hpp"
#include "lift.hpp"
#include "subformula.hpp"

namespace sharpdnf {

class Merging {
  public:
    std::vector<double> prob;  // of every literal; a merged one's P and 1 - P are each as precise as a double is

    explicit Merging(const Formula &f) : num_vars_(static_cast<int32_t>(f.num_vars)) {
        prob.reserve(2 * f.num_vars), weights_.reserve(2 * f.num_vars);
        for (int32_t v = 0; v < num_vars_; ++v) add_variable(f.prob[v], 1.0 - f.prob[v]);
    }

    // By how many roundings a merged variable's probabilities may be off; 0 for an original one.
    double units(int32_t v) const { return merged(v) ? parts_[v - num_vars_].units : 0.0; }
    double units(const int32_t *first, const int32_t *last) const {
        double total = 0.0;
        if (!parts_.empty())
            for (const int32_t *lit = first; lit != last; ++lit) total += units(*lit >> 1);
        return total;
    }
    std::size_t bytes() const {
        return prob.capacity() * (sizeof(double) + sizeof(Weight) + Workbench::kBytesPerLiteral) +
               parts_.capacity() * sizeof(Parts) + 4 * literals_.capacity() + 48 * known_.size();
    }
    // Sums make it blind to the order of the literals.
    struct Weight {
        uint64_t w[2];
    };
    Weight weigh(const int32_t *first, const int32_t *last) const {
        Weight sum{{0, 0}};
        for (const int32_t *lit = first; lit != last; ++lit)
            sum.w[0] += weights_[*lit].w[0], sum.w[1] += weights_[*lit].w[1];
        return sum;
    }

    // Merges what can be merged in g, which is surveyed, and again afterwards. Throws Stopped.
    void run(Clauses &g, Workbench &bench) {
        constexpr int kRounds = 64;
        for (int round = 0; round < kRounds && g.count() > 1; ++round) {
            sign(g, bench, 0);
            const bool all = repeated(bench, true);
            if (!all && !repeated(bench, false)) return;
            sign(g, bench, 1);
            if (!merge(g, bench, all)) return;
            bench.survey(g);
        }
    }

  private:
    struct Parts {
        bool all;
        int32_t first, last;  // its literals, none of them merged in the same way
        double units;
    };
    struct Sign {  // hashes of the clauses that a variable stands in, and of what stands there beside it
        uint64_t place[2], company[2];
    };
    struct Cell {
        uint64_t sign = 0;
        uint32_t epoch = 0;
    };
    enum Fate : int32_t { kStays = -1, kGoes = -2 };

    bool merged(int32_t v) const { return v >= num_vars_; }

    int32_t add_variable(double yes, double no) {
        const auto v = static_cast<int32_t>(prob.size() / 2);
        prob.push_back(yes), prob.push_back(no);
        for (int32_t lit = 2 * v; lit <= 2 * v + 1; ++lit) {
            const auto l = static_cast<uint64_t>(lit) + 1;
            weights_.push_back(
                {{mix(l * 0x9e3779b97f4a7c15ULL), mix(l * 0xc2b2ae3d27d4eb4fULL + 0x165667b19e3779f9ULL)}});
        }
        return v;
    }

    // Half of the 128 bits are enough to see that nothing can be merged, which is the rule.
    void sign(const Clauses &g, Workbench &bench, int half) {
        if (half == 0) signs_.assign(bench.vars.size(), Sign{});
        for (int32_t c = 0; c < g.count(); ++c) {
            uint64_t sum = 0;
            int32_t most = 1;
            for (const int32_t *lit = g.begin(c); lit != g.end(c); ++lit) {
                sum += weights_[*lit].w[half];
                most = std::max(most, bench.occurrences(*lit >> 1));
            }
            if (most == 1) {  // the clause is a part by itself, for which nothing has to be merged
                for (const int32_t *lit = g.begin(c); lit != g.end(c); ++lit) {
                    Sign &sign = signs_[bench.slot(*lit >> 1)];
                    sign.place[half] = sign.company[half] = weights_[*lit].w[half];
                }
                continue;
            }
            const uint64_t whole = mix(sum + 0x2545f4914f6cdd1dULL);
            for (const int32_t *lit = g.begin(c); lit != g.end(c); ++lit) {
                Sign &sign = signs_[bench.slot(*lit >> 1)];
                sign.place[half] += whole, sign.company[half] += mix(sum - weights_[*lit].w[half]);
            }
            bench.passed(g, c);
        }
        bench.did(static_cast<int64_t>(g.lits.size()));
    }
    static uint64_t half_of(const Sign &sign, bool all, int half) {
        return all ? sign.place[half] : sign.company[half];
    }
    // Only one sign of the variable may occur.
    static bool pure(const Workbench &bench, int32_t v) { return !bench.count[2 * v] || !bench.count[2 * v + 1]; }

    // Whether two variables may be merged, as far as half of their signs tells.
    bool repeated(const Workbench &bench, bool all) {
        std::size_t size = 64;
        while (size < 2 * bench.vars.size()) size *= 2;
        if (cells_.size() < size) cells_.assign(size, Cell{}), epoch_ = 0;
        if (++epoch_ == 0) cells_.assign(cells_.size(), Cell{}), epoch_ = 1;
        for (std::size_t slot = 0; slot < bench.vars.size(); ++slot) {
            if (!pure(bench, bench.vars[slot])) continue;
            const uint64_t sign = half_of(signs_[slot], all, 0);
            std::size_t i = sign & (size - 1);
            for (; cells_[i].epoch == epoch_; i = (i + 1) & (size - 1))
                if (cells_[i].sign == sign) return true;
            cells_[i] = {sign, epoch_};
        }
        return false;
    }

    // False if the whole signs say that nothing can be merged.
    bool merge(Clauses &g, Workbench &bench, bool all) {
        order_.clear();
        for (std::size_t slot = 0; slot < bench.vars.size(); ++slot)
            if (pure(bench, bench.vars[slot])) order_.push_back(static_cast<int32_t>(slot));
        const auto key = [&](int32_t slot) {
            return std::make_tuple(half_of(signs_[slot], all, 0), half_of(signs_[slot], all, 1),
                                   bench.occurrences(bench.vars[slot]));
        };
        std::sort(order_.begin(), order_.end(), [&](int32_t x, int32_t y) {
            return std::make_pair(key(x), bench.vars[x]) < std::make_pair(key(y), bench.vars[y]);
        });
        fate_.assign(bench.vars.size(), kStays);
        bool any = false;
        for (std::size_t i = 0, j; i < order_.size(); i = j) {
            for (j = i + 1; j < order_.size() && key(order_[j]) == key(order_[i]);) ++j;
            if (j - i > 1) any |= merge_group(bench, i, j, all);
        }
        if (any) rewrite(g, bench, all);
        return any;
    }
    bool merge_group(Workbench &bench, std::size_t first, std::size_t last, bool all) {
        group_.clear();
        for (std::size_t i = first; i < last; ++i) {
            const int32_t v = bench.vars[order_[i]];
            const int32_t lit = bench.count[2 * v] ? 2 * v : 2 * v + 1;
            if (merged(v) && parts_[v - num_vars_].all == all) {
                const Parts &parts = parts_[v - num_vars_];
                group_.insert(group_.end(), literals_.begin() + parts.first, literals_.begin() + parts.last);
            } else {
                group_.push_back(lit);
            }
        }
        std::sort(group_.begin(), group_.end());
        const int32_t v = find(all);
        if (v < 0) return false;
        fate_[order_[first]] = 2 * v;
        for (std::size_t i = first + 1; i < last; ++i) fate_[order_[i]] = kGoes;
        bench.grow(prob.size() / 2);
        return true;
    }
    // The variable that stands for all or any of group_; -1 if its probability is so small that products underflow.
    int32_t find(bool all) {
        Weight sum = weigh(group_.data(), group_.data() + group_.size());
        const uint64_t high = mix(sum.w[0] + (all ? 1 : 0)), low = mix(sum.w[1] + (all ? 1 : 0));
        const auto [found, fresh] = known_.try_emplace(high, Named{low, -1});
        if (!fresh) return found->second.low == low ? found->second.variable : -1;
        double yes = all ? 1.0 : 0.0, no = all ? 0.0 : 1.0, roundings = 0.0;
        for (const int32_t lit : group_) {
            const double p = prob[lit], q = prob[lit ^ 1];
            if (!(all ? safe_product(yes, p) : safe_product(no, q))) return -1;
            const double other = all ? no + yes * q : yes + no * p;
            yes = all ? yes * p : other, no = all ? other : no * q;
            roundings += 4.0 + units(lit >> 1);
        }
        if (!safe_product(yes, 1.0) || !safe_product(no, 1.0)) return -1;
        const auto start = static_cast<int32_t>(literals_.size());
        literals_.insert(literals_.end(), group_.begin(), group_.end());
        parts_.push_back({all, start, static_cast<int32_t>(literals_.size()), roundings});
        return found->second.variable = add_variable(yes, no);
    }

    void rewrite(Clauses &g, Workbench &bench, bool all) {
        next_.clear();
        for (int32_t c = 0; c < g.count(); ++c) {
            const auto start = next_.lits.size();
            bool drop = false, changed = false;
            for (const int32_t *lit = g.begin(c); lit != g.end(c); ++lit) {
                const int32_t fate = fate_[bench.slot(*lit >> 1)];
                drop |= fate == kGoes && !all;
                changed |= fate >= 0;
                if (fate != kGoes) next_.lits.push_back(fate == kStays ? *lit : fate);
            }
            if (drop) {
                next_.lits.resize(start);
                continue;
            }
            if (changed) std::sort(next_.lits.begin() + static_cast<std::ptrdiff_t>(start), next_.lits.end());
            next_.close();
        }
        std::swap(g, next_);
    }

    int32_t num_vars_;
    std::vector<Weight> weights_;
    std::vector<Parts> parts_;
    std::vector<int32_t> literals_, order_, fate_, group_;
    struct Named {
        uint64_t low;
        int32_t variable;
    };
    std::unordered_map<uint64_t, Named> known_;  // by a hash of the literals
    std::vector<Sign> signs_;
    std::vector<Cell> cells_;
    uint32_t epoch_ = 0;
    Clauses next_;
};

}  // namespace sharpdnf
