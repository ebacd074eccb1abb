// "At least k" of inputs that are literals of different variables, in closed form: the Poisson binomial distribution.
//
// Row j before input i is "at least j of the inputs from i on"; it is a decision on input i between rows j - 1 and j
// behind it, so the whole is a table of k (n - k + 1) entries, and as a decision diagram has that many nodes.
#pragma once
#include "circuit_order.hpp"
#include "dtree.hpp"

namespace sharpdnf {

class Vote {
  public:
    Vote(const CircuitView &c, int32_t output) : prob_(c.prob) {
        while (c.kind[output] == gNot) output = c.inputs[c.indptr[output]], negated_ = !negated_;
        if (c.kind[output] != gAtLeast) return;
        std::vector<uint8_t> seen(c.num_vars, 0);
        for (int64_t i = c.indptr[output]; i < c.indptr[output + 1]; ++i) {
            int32_t g = c.inputs[i], sign = 0;
            while (c.kind[g] == gNot) g = c.inputs[c.indptr[g]], sign ^= 1;
            if (c.kind[g] != gVar || seen[c.arg[g]]++) return;
            literals_.push_back(2 * c.arg[g] + sign);
        }
        if (c.arg[output] >= 1 && c.arg[output] <= size()) needed_ = c.arg[output];
    }

    bool found() const { return needed_ > 0; }
    int64_t entries() const { return needed_ * (size() - needed_ + 1); }

    Bounds bounds(Pace &pace) const {
        const auto mix = [this](int32_t lit, const Bounds &with, const Bounds &without) {
            const double yes = prob_[lit >> 1], no = 1.0 - yes;
            const Bounds &high = lit & 1 ? without : with, &low = lit & 1 ? with : without;
            return Bounds{mixed<false>(yes, no, high.lower, low.lower), mixed<true>(yes, no, high.upper, low.upper)};
        };
        const Bounds out = rows(!Bounds::never(), Bounds::never(), mix, pace);
        return negated_ ? !out : out;
    }

    Compiled compiled(Pace &pace) const {
        Compiled out;
        const auto add = [&out](uint8_t kind, int32_t var, int32_t a, int32_t b) {
            out.kind.push_back(kind), out.var.push_back(var), out.a.push_back(a), out.b.push_back(b);
            return static_cast<int32_t>(out.kind.size()) - 1;
        };
        const int32_t never = add(negated_ ? Compiled::kTrue : Compiled::kFalse, -1, 0, 0);
        const int32_t always = add(negated_ ? Compiled::kFalse : Compiled::kTrue, -1, 0, 0);
        const auto decide = [&add](int32_t lit, int32_t with, int32_t without) {
            return add(Compiled::kShannon, lit >> 1, lit & 1 ? without : with, lit & 1 ? with : without);
        };
        rows(always, never, decide, pace);
        return out;
    }

  private:
    int64_t size() const { return static_cast<int64_t>(literals_.size()); }

    template <class Entry, class Decide> Entry rows(Entry always, Entry never, Decide decide, Pace &pace) const {
        const int64_t n = size(), k = needed_;
        std::vector<Entry> row(k + 1, never);
        row[0] = always;
        for (int64_t i = n - 1; i >= 0; --i) {
            // Before input i stand i others, so rows below k - i are never asked for.
            for (int64_t j = std::min(k, n - i); j >= std::max<int64_t>(1, k - i); --j)
                row[j] = decide(literals_[i], row[j - 1], row[j]);
            pace.check(16 * k);
        }
        return row[k];
    }

    const double *prob_;
    bool negated_ = false;
    int64_t needed_ = 0;
    std::vector<int32_t> literals_;
};

}  // namespace sharpdnf
