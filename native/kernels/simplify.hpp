// Formula -> smaller formula and how to put the answer together: P = F (1 - M (1 - mu)).
// F is the probability of the literals common to all clauses, M that no component solved here comes true, and mu the
// probability of the formula that remains. Every step is linear in the literals, or stops at a linear budget. Steps
// only read the caller's arrays until one finds something to drop: on a large formula fresh memory costs more than
// the work.
#pragma once
#include <algorithm>
#include <iterator>
#include <limits>

#include "chance.hpp"
#include "dtree.hpp"
#include "formula.hpp"
#include "poll.hpp"
#include "subformula.hpp"
#include "wide.hpp"

namespace sharpdnf {

struct SimplifyOptions {
    bool solve = true;          // solve small components (those of one clause are always folded in)
    int64_t max_literals = 64;  // the most literals of a component that is solved
    int64_t node_budget = 16;   // the most expansions of its d-tree
};

// How the whole follows from what remains: P = F ((1 - M) + M mu), and 1 - P = (1 - F) + F M (1 - mu). Both are sums of
// what is positive, so P and 1 - P are right to many digits however small they are.
struct Fold {
    double log_factor = 0.0, log_cofactor = -std::numeric_limits<double>::infinity();  // log F, log (1 - F)
    double log_miss = 0.0, log_hit = -std::numeric_limits<double>::infinity();         // log M, log (1 - M)
    double rounding = 0.0;  // the largest relative rounding error of F, 1 - F, M and 1 - M

    bool trivial() const { return std::isinf(log_cofactor) && std::isinf(log_hit); }  // P = mu

    struct Pair {
        double log_p, log_q;
    };
    // (log P, log(1 - P)) from (log mu, log(1 - mu)). `direction` -1 or 1 moves them down or up by all that rounding
    // may have added, so that they are bounds; 0 leaves them.
    Pair whole(double log_mu, double log_nu, int direction) const {
        const double p = log_factor + add(log_hit, log_miss + std::min(log_mu, 0.0));
        const double q = add(log_cofactor, log_factor + log_miss + std::min(log_nu, 0.0));
        double size = 4.0;  // how many units of rounding: each logarithm may be off by one unit of its own size
        for (const double x : {log_factor, log_cofactor, log_miss, log_hit, p, q})
            if (std::isfinite(x)) size += std::fabs(x);
        const double slack = direction * (3.0 * rounding + 4.0 * kUnit * size);
        // Only the smaller of P and 1 - P has all digits; the other one is computed from it. Where it rounds to 1, the
        // smallest double keeps a bound from touching 1.
        const auto rest = [](double log, int way) {
            const double out = log1mexp(log) + (std::isfinite(log) ? way * std::numeric_limits<double>::min() : 0.0);
            return std::min(out, 0.0);
        };
        if (p < -0.6931471805599453) return {p + slack, rest(p + slack, -direction)};
        const double moved = std::min(q - slack, 0.0);
        return {rest(moved, direction), moved};
    }

  private:
    // log(e^a + e^b).
    static double add(double a, double b) {
        const double top = std::max(a, b), rest = std::min(a, b);
        return std::isinf(rest) ? top : top + std::log1p(std::exp(rest - top));
    }
};

struct SimplifyResult {
    OwnedFormula formula;            // over the variables that occur in it
    std::vector<int32_t> variables;  // the original variable of each
    Fold fold;
    bool unchanged = false;  // then `formula` and `variables` are empty: use the original
    int64_t impossible = 0, duplicate = 0, absorbed = 0, fixed = 0, negated_units = 0, factored = 0, solved = 0;
};

class Simplifier {
  public:
    Simplifier(const Formula &f, const SimplifyOptions &options, Poll &poll)
        : f_(f), g_(f), options_(options), pace_(poll) {}

    SimplifyResult run() {
        // Few literals in a large shared variable space: never touch all of it.
        if (f_.size() * 8 < f_.num_vars) localise();
        drop_fixed();
        for (int64_t c = 0; c < g_.num_clauses && !true_; ++c) true_ = g_.indptr[c] == g_.indptr[c + 1];
        if (!true_ && g_.num_clauses > 1) {
            drop_redundant();
            drop_negated_units();
            if (!true_ && out_.negated_units) drop_redundant();  // shorter clauses may absorb more
            if (!true_ && g_.num_clauses > 1) factor();
        }
        if (true_) {  // the formula holds in every world: M = 0
            out_.fold.log_miss = -std::numeric_limits<double>::infinity(), out_.fold.log_hit = 0.0;
            adopt({});
        } else {
            fold_components();
        }
        out_.unchanged =
            all_occur_ && g_.num_clauses == f_.num_clauses && out_.fixed + out_.negated_units + out_.factored == 0;
        if (!out_.unchanged) compact();
        return std::move(out_);
    }

  private:
    static constexpr int kAhead = 32;  // how many clauses ahead memory is prefetched that will be read at random

    const int32_t *begin(int64_t c) const { return g_.literals + g_.indptr[c]; }
    const int32_t *end(int64_t c) const { return g_.literals + g_.indptr[c + 1]; }
    int64_t width(int64_t c) const { return g_.indptr[c + 1] - g_.indptr[c]; }

    // From now on the clauses are `changed`.
    void adopt(OwnedFormula &&changed) {
        changed.prob.swap(own_.prob);
        own_ = std::move(changed);
        g_.indptr = own_.indptr.data(), g_.literals = own_.literals.data();
        g_.num_clauses = static_cast<int64_t>(own_.indptr.size()) - 1;
    }
    // Keeps the clauses whose flag is 0.
    void keep(const std::vector<uint8_t> &drop) {
        OwnedFormula kept;
        kept.literals.reserve(g_.size());
        for (int64_t c = 0; c < g_.num_clauses; ++c) {
            if (drop[c]) continue;
            kept.literals.insert(kept.literals.end(), begin(c), end(c));
            kept.indptr.push_back(static_cast<int64_t>(kept.literals.size()));
            pace_.check(width(c));
        }
        adopt(std::move(kept));
    }

    // Numbers the variables that occur from 0, in the original order.
    void localise() {
        vars_.reserve(f_.size());
        for (int64_t i = 0; i < f_.size(); ++i) vars_.push_back(f_.literals[i] >> 1);
        std::sort(vars_.begin(), vars_.end());
        vars_.erase(std::unique(vars_.begin(), vars_.end()), vars_.end());
        OwnedFormula local;
        local.indptr.assign(f_.indptr, f_.indptr + f_.num_clauses + 1);
        for (int64_t i = 0; i < f_.size(); ++i) {
            const auto place = std::lower_bound(vars_.begin(), vars_.end(), f_.literals[i] >> 1) - vars_.begin();
            local.literals.push_back(2 * static_cast<int32_t>(place) + (f_.literals[i] & 1));
        }
        adopt(std::move(local));
        for (const int32_t v : vars_) own_.prob.push_back(f_.prob[v]);
        g_.prob = own_.prob.data();
        g_.num_vars = static_cast<int64_t>(vars_.size());
    }

    // Drops the literals that are surely true and the clauses that are surely false.
    void drop_fixed() {
        std::vector<uint8_t> fixed;  // per variable: 1 if it is fixed, 2 once it is counted in the statistics
        for (int64_t v = 0; v < g_.num_vars; ++v) {
            if (g_.prob[v] != 0.0 && g_.prob[v] != 1.0) continue;
            if (fixed.empty()) fixed.resize(g_.num_vars, 0);
            fixed[v] = 1;
        }
        if (fixed.empty()) return;
        OwnedFormula left;
        left.literals.reserve(g_.size());
        for (int64_t c = 0; c < g_.num_clauses; ++c) {
            const auto start = left.literals.size();
            bool impossible = false;
            for (const int32_t *lit = begin(c); lit != end(c); ++lit) {
                uint8_t &flag = fixed[*lit >> 1];
                if (flag == 0) {
                    left.literals.push_back(*lit);
                    continue;
                }
                out_.fixed += flag == 1, flag = 2;
                impossible |= g_.literal_prob(*lit) == 0.0;
            }
            pace_.check(width(c));
            out_.impossible += impossible;
            if (impossible)
                left.literals.resize(start);
            else
                left.indptr.push_back(static_cast<int64_t>(left.literals.size()));
        }
        if (out_.fixed) adopt(std::move(left));
    }

    void drop_redundant() {
        drop_duplicates();
        drop_absorbed();
    }

    void drop_duplicates() {
        const auto m = static_cast<int32_t>(g_.num_clauses);
        const int64_t before = out_.duplicate;
        std::vector<uint32_t> hash(m);
        for (int32_t c = 0; c < m; ++c) {
            uint64_t h = 0;  // a sum, so that the products of a clause need not wait for one another
            for (const int32_t *lit = begin(c); lit != end(c); ++lit) {
                const uint64_t z = (static_cast<uint64_t>(*lit) + 0x9e3779b97f4a7c15ULL) * 0x9fb21c651e98df25ULL;
                h += z ^ (z >> 29);
            }
            hash[c] = static_cast<uint32_t>(mix(h));
            pace_.check(width(c));
        }
        uint32_t capacity = 16;
        while (capacity < 2 * static_cast<uint32_t>(m)) capacity *= 2;
        std::vector<int32_t> table(capacity, -1);
        std::vector<uint8_t> drop(m, 0);
        for (int32_t c = 0; c < m; ++c) {
            if (c + kAhead < m) __builtin_prefetch(&table[hash[c + kAhead] & (capacity - 1)]);
            uint32_t at = hash[c] & (capacity - 1);
            for (; table[at] >= 0; at = (at + 1) & (capacity - 1)) {
                const int32_t d = table[at];
                if ((drop[c] = hash[d] == hash[c] && std::equal(begin(c), end(c), begin(d), end(d)))) break;
            }
            if (!drop[c]) table[at] = c;
            out_.duplicate += drop[c];
            pace_.check(1);
        }
        if (out_.duplicate > before) keep(drop);
    }

    // Each clause waits at its rarest literal; a clause looks at those waiting at its own literals for one that it
    // holds completely. Clauses of one width cannot absorb one another.
    void drop_absorbed() {
        const auto m = static_cast<int32_t>(g_.num_clauses);
        int64_t narrow = width(0), wide = narrow;
        for (int32_t c = 1; c < m; ++c) narrow = std::min(narrow, width(c)), wide = std::max(wide, width(c));
        if (narrow == wide) return;
        std::vector<int32_t> count(2 * g_.num_vars, 0);
        for (int32_t c = 0; c < m; ++c) {
            for (const int32_t *lit = begin(c); lit != end(c); ++lit) ++count[*lit];
            pace_.check(width(c));
        }
        std::vector<int32_t> head(2 * g_.num_vars, -1), next(m);
        std::vector<uint64_t> signature(m);
        for (int32_t c = 0; c < m; ++c) {
            int32_t rare = *begin(c);
            uint64_t bits = 0;
            for (const int32_t *lit = begin(c); lit != end(c); ++lit) {
                bits |= uint64_t{1} << (static_cast<uint32_t>(*lit) * 2654435769u >> 26);
                if (count[*lit] < count[rare]) rare = *lit;
            }
            signature[c] = bits;
            pace_.check(width(c));
            if (width(c) == wide) continue;  // the widest absorb nothing
            next[c] = head[rare];
            head[rare] = c;
        }
        std::vector<uint8_t> drop(m, 0);
        const int64_t before = out_.absorbed;
        int64_t budget = 8 * g_.size() + 1024;
        for (int32_t c = 0; c < m && budget > 0; ++c) {
            pace_.check(width(c));
            if (width(c) == narrow) continue;
            for (const int32_t *lit = begin(c); lit != end(c) && !drop[c]; ++lit)
                for (int32_t d = head[*lit]; d >= 0 && !drop[c]; d = next[d]) {
                    --budget;
                    if (width(d) >= width(c) || (signature[d] & ~signature[c])) continue;
                    budget -= width(c);
                    drop[c] = std::includes(begin(c), end(c), begin(d), end(d));
                }
            out_.absorbed += drop[c];
        }
        if (out_.absorbed > before) keep(drop);
    }

    void drop_negated_units() {
        bool units = false;
        for (int64_t c = 0; c < g_.num_clauses && !units; ++c) units = width(c) == 1;
        if (!units) return;
        Clauses clauses;
        clauses.lits.assign(g_.literals, g_.literals + g_.size());
        clauses.ends.assign(g_.indptr + 1, g_.indptr + g_.num_clauses + 1);
        Workbench(g_.num_vars).reduce_units(clauses);
        out_.negated_units = g_.size() - static_cast<int64_t>(clauses.lits.size());
        true_ = clauses.count() == 1 && clauses.width(0) == 0;
        OwnedFormula left;
        left.indptr.insert(left.indptr.end(), clauses.ends.begin(), clauses.ends.end());
        left.literals = std::move(clauses.lits);
        adopt(std::move(left));
    }

    // Takes out the literals that stand in every clause; a clause of nothing else makes the rest true.
    void factor() {
        std::vector<int32_t> common(begin(0), end(0));
        for (int64_t c = 1; c < g_.num_clauses && !common.empty(); ++c) {
            const auto missing = [&](int32_t lit) { return !std::binary_search(begin(c), end(c), lit); };
            common.erase(std::remove_if(common.begin(), common.end(), missing), common.end());
            pace_.check(width(c));
        }
        if (common.empty()) return;
        const Bounds p = term(common.data(), common.data() + common.size());
        out_.fold.log_factor = middle(p.lower.log_p<false>(), p.upper.log_p<true>());
        out_.fold.log_cofactor = middle(p.upper.log_q<false>(), p.lower.log_q<true>());
        out_.fold.rounding += p.units() * kUnit;
        out_.factored = static_cast<int64_t>(common.size());
        OwnedFormula left;
        left.literals.reserve(g_.size() - g_.num_clauses * out_.factored);
        for (int64_t c = 0; c < g_.num_clauses && !true_; ++c) {
            std::set_difference(begin(c), end(c), common.begin(), common.end(), std::back_inserter(left.literals));
            true_ = left.indptr.back() == static_cast<int64_t>(left.literals.size());
            left.indptr.push_back(static_cast<int64_t>(left.literals.size()));
            pace_.check(width(c));
        }
        adopt(std::move(left));
    }

    // Union-find over the variables; components of one clause, and small ones, go into M.
    void fold_components() {
        std::vector<int32_t> parent(g_.num_vars, -1);
        const auto find = [&parent](int32_t a) {
            while (parent[a] != a) a = parent[a] = parent[parent[a]];
            return a;
        };
        int64_t occurring = 0, components = 0;
        const auto meet = [&](int32_t v) {
            if (parent[v] >= 0) return find(v);
            ++occurring, ++components;
            return parent[v] = v;
        };
        const int32_t *const last = end(g_.num_clauses - 1);
        for (int64_t c = 0; c < g_.num_clauses; ++c) {
            int32_t root = meet(*begin(c) >> 1);
            for (const int32_t *lit = begin(c) + 1; lit != end(c); ++lit) {
                if (last - lit > kAhead) __builtin_prefetch(&parent[lit[kAhead] >> 1]);
                const int32_t other = meet(*lit >> 1);
                if (other == root) continue;
                --components;
                if (other < root)
                    parent[root] = other, root = other;
                else
                    parent[other] = root;
            }
            pace_.check(width(c));
        }
        all_occur_ = occurring == f_.num_vars;
        if (components == 1 && g_.num_clauses > 1 && !(options_.solve && g_.size() <= options_.max_literals)) return;
        std::vector<int64_t> size(g_.num_vars, 0), members(g_.num_vars, 0);
        for (int64_t c = 0; c < g_.num_clauses; ++c) {
            const int32_t root = find(*begin(c) >> 1);
            size[root] += width(c), ++members[root];
        }
        std::vector<std::pair<int32_t, int32_t>> of_component;  // (component, clause) of those to be solved
        for (int64_t c = 0; c < g_.num_clauses; ++c) {
            const int32_t root = find(*begin(c) >> 1);
            if (members[root] == 1 || (options_.solve && size[root] <= options_.max_literals))
                of_component.emplace_back(root, static_cast<int32_t>(c));
        }
        if (!of_component.empty()) fold(of_component);
    }

    void fold(std::vector<std::pair<int32_t, int32_t>> &of_component) {
        std::sort(of_component.begin(), of_component.end());
        std::vector<uint8_t> drop(g_.num_clauses, 0);
        Pairwise<Bounds> hits;
        const auto join = [](const Bounds &a, const Bounds &b) { return either(a, b); };
        for (std::size_t first = 0, last = 0; first < of_component.size(); first = last) {
            while (last < of_component.size() && of_component[last].first == of_component[first].first) ++last;
            pace_.check(1 << 10);
            Bounds mu;
            if (!solve(of_component, first, last, mu)) continue;
            for (std::size_t i = first; i < last; ++i) drop[of_component[i].second] = 1;
            hits.add(mu, join);
            ++out_.solved;
        }
        const Bounds hit = hits.total(Bounds::never(), join);
        out_.fold.log_hit = middle(hit.lower.log_p<false>(), hit.upper.log_p<true>());
        out_.fold.log_miss = middle(hit.upper.log_q<false>(), hit.lower.log_q<true>());
        out_.fold.rounding += hit.units() * kUnit;
        if (out_.solved) keep(drop);
    }

    bool solve(const std::vector<std::pair<int32_t, int32_t>> &list, std::size_t first, std::size_t last, Bounds &mu) {
        if (last - first == 1) {
            mu = term(begin(list[first].second), end(list[first].second));
            return true;
        }
        part_.indptr.assign(1, 0);
        part_.literals.clear(), part_.prob.clear(), part_vars_.clear();
        for (std::size_t i = first; i < last; ++i)
            for (const int32_t *lit = begin(list[i].second); lit != end(list[i].second); ++lit)
                part_vars_.push_back(*lit >> 1);
        std::sort(part_vars_.begin(), part_vars_.end());
        part_vars_.erase(std::unique(part_vars_.begin(), part_vars_.end()), part_vars_.end());
        for (const int32_t v : part_vars_) part_.prob.push_back(g_.prob[v]);
        for (std::size_t i = first; i < last; ++i) {
            for (const int32_t *lit = begin(list[i].second); lit != end(list[i].second); ++lit) {
                const auto place =
                    std::lower_bound(part_vars_.begin(), part_vars_.end(), *lit >> 1) - part_vars_.begin();
                part_.literals.push_back(2 * static_cast<int32_t>(place) + (*lit & 1));
            }
            part_.indptr.push_back(static_cast<int64_t>(part_.literals.size()));
        }
        DTreeOptions options;
        options.node_budget = options_.node_budget;
        options.table_cost = 256, options.table_cost_per_literal = 16;
        DTree tree(part_.view(), options);
        const DTreeResult result = tree.run();
        mu = result.bounds;
        return result.exact && result.complement_exact;  // else the engine that comes after knows 1 - P better
    }
    Bounds term(const int32_t *first, const int32_t *last) const {
        return Bounds::about(product(first, last, [this](int32_t lit) { return g_.literal_prob(lit); }),
                             product_units(last - first));
    }
    // The mean of two logarithms that differ by rounding only; low may be minus infinity.
    static double middle(double low, double high) { return std::isinf(low) ? high : low + (high - low) / 2.0; }

    // Numbers the remaining variables from 0, in their original order.
    void compact() {
        std::vector<int32_t> place(g_.num_vars, -1);
        for (int64_t i = 0; i < g_.size(); ++i) place[g_.literals[i] >> 1] = 0;
        for (int64_t v = 0; v < g_.num_vars; ++v) {
            if (place[v] < 0) continue;
            place[v] = static_cast<int32_t>(out_.variables.size());
            out_.variables.push_back(vars_.empty() ? static_cast<int32_t>(v) : vars_[v]);
            out_.formula.prob.push_back(g_.prob[v]);
        }
        out_.formula.indptr.assign(g_.indptr, g_.indptr + g_.num_clauses + 1);
        out_.formula.literals.resize(g_.size());
        for (int64_t c = 0; c < g_.num_clauses; ++c) {
            for (int64_t i = g_.indptr[c]; i < g_.indptr[c + 1]; ++i)
                out_.formula.literals[i] = 2 * place[g_.literals[i] >> 1] + (g_.literals[i] & 1);
            pace_.check(width(c));
        }
    }

    const Formula &f_;
    Formula g_;         // the clauses as they stand: the caller's arrays until a step changes something
    OwnedFormula own_;  // the clauses once a step has changed them
    const SimplifyOptions &options_;
    Pace pace_;
    SimplifyResult out_;
    bool true_ = false, all_occur_ = false;
    std::vector<int32_t> vars_;  // the original variable of each local one, where they were renumbered
    std::vector<int32_t> part_vars_;
    OwnedFormula part_;
};

// If the deadline comes, the formula stays as it is, which is a right answer too.
inline SimplifyResult simplify(const Formula &f, const SimplifyOptions &options, Poll &poll) {
    try {
        return Simplifier(f, options, poll).run();
    } catch (const Stopped &) {
        SimplifyResult out;
        out.unchanged = true;
        return out;
    }
}

}  // namespace sharpdnf
