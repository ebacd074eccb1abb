// Formulas that common literals and independent parts take apart completely, in linear time and without allocating.
//
// The lineage of a hierarchical query has this shape (Dalvi and Suciu, "Efficient query evaluation on probabilistic
// databases", VLDB 2004): F = F1 or F2 or ... over disjoint variables, each Fi = (common literals) and Fi', and so on.
// What neither rule takes apart is solved by a truth table if it is small. One formula of a batch of thousands is
// mostly of this kind, and then this pass is all it needs; `Hierarchy` keeps its scratch memory from one to the next.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "chance.hpp"
#include "formula.hpp"
#include "table.hpp"

namespace sharpdnf {

class Hierarchy {
  public:
    // Formulas beyond this size are left to the general path, which polls between its passes.
    static constexpr int64_t kMaxLiterals = 200000;

    explicit Hierarchy(int64_t num_vars) : seen_(num_vars) {}

    // A formula of at most so many literals is first tried in plain doubles: their roundings come to less than 1e-12.
    static constexpr int64_t kPlainLiterals = 256;

    enum class Outcome { stuck, plain, bounds };
    // Either P and 1 - P of f to a relative `units` of rounding, or bounds of P that are apart by rounding only, or
    // nothing. No clause of f is empty.
    Outcome solve(const Formula &f, Plain &plain, double &units, Bounds &bounds) {
        if (f.size() > kMaxLiterals) return Outcome::stuck;
        if (f.size() <= kPlainLiterals) {
            plain = whole<Plain>(f);
            units = Plain::units(f.size()) + TruthTable::kUnits * tables_;
            if (stuck_) return Outcome::stuck;
            if (plain.normal()) return Outcome::plain;
        }
        return solve(f, bounds) ? Outcome::bounds : Outcome::stuck;
    }
    // The same without the plain doubles: false if the formula does not come apart.
    bool solve(const Formula &f, Bounds &bounds) {
        if (f.size() > kMaxLiterals) return false;
        bounds = whole<Bounds>(f);
        return !stuck_;
    }

  private:
    static constexpr int kMaxDepth = 64, kTableVars = 16;
    struct Span {
        int32_t begin, end;
        int32_t width() const { return end - begin; }
    };
    struct Seen {
        uint32_t epoch = 0;
        int32_t var = 0;
    };

    template <class T> T whole(const Formula &f) {
        localise(f);
        stuck_ = false, tables_ = 0;
        return parts<T>(0, static_cast<int32_t>(f.num_clauses), 0);
    }

    // Copies the clauses over local variables, numbered as they appear. Whether a literal's variable is new cannot be
    // foretold, so there is no branch on it: the next number and its probability are written either way.
    void localise(const Formula &f) {
        if (++epoch_ == 0) std::fill(seen_.begin(), seen_.end(), Seen{}), epoch_ = 1;
        const int64_t size = f.size();
        if (static_cast<int64_t>(lits_.size()) < size) {
            lits_.resize(size), prob_.resize(size);
            parent_.resize(size), part_of_.resize(size), count_.resize(2 * size, 0);
        }
        if (static_cast<int64_t>(clauses_.size()) < f.num_clauses)
            clauses_.resize(f.num_clauses), sorted_.resize(f.num_clauses), label_.resize(f.num_clauses);
        int32_t n = 0;
        for (int64_t i = 0; i < size; ++i) {
            const int32_t lit = f.literals[i], v = lit >> 1;
            Seen &seen = seen_[v];
            const bool is_new = seen.epoch != epoch_;
            const int32_t var = is_new ? n : seen.var;
            seen = {epoch_, var};
            prob_[n] = f.prob[v];
            parent_[n] = n, part_of_[n] = -1;
            n += is_new;
            lits_[i] = 2 * var + (lit & 1);
        }
        for (int64_t c = 0; c < f.num_clauses; ++c)
            clauses_[c] = {static_cast<int32_t>(f.indptr[c]), static_cast<int32_t>(f.indptr[c + 1])};
    }
    double literal_prob(int32_t lit) const { return lit & 1 ? 1.0 - prob_[lit >> 1] : prob_[lit >> 1]; }
    void term(const int32_t *first, const int32_t *last, Bounds &out) const {
        const auto prob = [this](int32_t lit) { return literal_prob(lit); };
        out = Bounds::about(product(first, last, prob), product_units(last - first));
    }
    void term(const int32_t *first, const int32_t *last, Plain &out) const {
        out = Plain::always();
        for (const int32_t *lit = first; lit != last; ++lit)
            out = both(out, Plain{literal_prob(*lit), literal_prob(*lit ^ 1)});
    }
    template <class T> T term(const int32_t *first, const int32_t *last) const {
        T out;
        term(first, last, out);
        return out;
    }
    template <class T> T term(const Span &clause) const {
        return term<T>(lits_.data() + clause.begin, lits_.data() + clause.end);
    }
    // The OR of independent parts. Bounds are joined pair by pair, plain numbers one after the other: these are few.
    struct PlainParts {
        Plain total;
        void add(const Plain &part) { total = either(total, part); }
    };
    struct BoundedParts {
        Pairwise<Bounds> &pairs;
        static Bounds join(const Bounds &a, const Bounds &b) { return either(a, b); }
        void add(const Bounds &part) { pairs.add(part, join); }
    };
    PlainParts gathering(const Plain &, Pairwise<Bounds> &) const { return {}; }
    BoundedParts gathering(const Bounds &, Pairwise<Bounds> &pairs) const {
        pairs.clear();
        return {pairs};
    }
    static Plain total(const PlainParts &parts) { return parts.total; }
    static Bounds total(const BoundedParts &parts) { return parts.pairs.total(Bounds::never(), BoundedParts::join); }
    int32_t find(int32_t a) {
        while (parent_[a] != a) a = parent_[a] = parent_[parent_[a]];
        return a;
    }

    // P of the clauses first .. last: split into parts that share no variable, P = 1 - (1 - P1) (1 - P2) ...
    template <class T> T parts(int32_t first, int32_t last, int depth) {
        if (last - first == 1) return term<T>(clauses_[first]);
        for (int32_t c = first; depth > 0 && c < last; ++c)  // at depth 0 `localise` has already done this
            for (int32_t i = clauses_[c].begin; i < clauses_[c].end; ++i) {
                const int32_t v = lits_[i] >> 1;
                parent_[v] = v, part_of_[v] = -1;
            }
        for (int32_t c = first; c < last; ++c) {
            int32_t root = find(lits_[clauses_[c].begin] >> 1);
            for (int32_t i = clauses_[c].begin + 1; i < clauses_[c].end; ++i) {
                const int32_t other = find(lits_[i] >> 1);
                if (other != root) parent_[other] = root;
            }
        }
        const std::size_t base = ends_.size();  // ends_[base ..): first the parts' sizes, then where they end
        for (int32_t c = first; c < last; ++c) {
            const int32_t root = find(lits_[clauses_[c].begin] >> 1);
            if (part_of_[root] < 0) part_of_[root] = static_cast<int32_t>(ends_.size() - base), ends_.push_back(0);
            label_[c] = part_of_[root];
            ++ends_[base + label_[c]];
        }
        if (ends_.size() == base + 1) {
            ends_.resize(base);
            return connected<T>(first, last, depth);
        }
        gather(first, last, base);
        auto hit = gathering(T(), hit_[depth]);
        int32_t start = first;
        for (std::size_t part = base, count = ends_.size(); part < count && !stuck_; ++part) {
            const int32_t end = ends_[part];
            hit.add(end - start == 1 ? term<T>(clauses_[start]) : connected<T>(start, end, depth));
            start = end;
        }
        ends_.resize(base);
        return total(hit);
    }
    // Brings the clauses of each part together and turns sizes into ends.
    void gather(int32_t first, int32_t last, std::size_t base) {
        int32_t total = first;
        for (std::size_t part = base; part < ends_.size(); ++part)
            total += ends_[part], ends_[part] = total - ends_[part];
        for (int32_t c = first; c < last; ++c) sorted_[ends_[base + label_[c]]++] = clauses_[c];
        std::copy(sorted_.begin() + first, sorted_.begin() + last, clauses_.begin() + first);
    }

    // P of several clauses that hang together: the literals of all of them, times the rest.
    template <class T> T connected(int32_t first, int32_t last, int depth) {
        const int32_t m = last - first;
        for (int32_t c = first; c < last; ++c)
            for (int32_t i = clauses_[c].begin; i < clauses_[c].end; ++i) ++count_[lits_[i]];
        common_.clear();
        for (int32_t i = clauses_[first].begin; i < clauses_[first].end; ++i)
            if (count_[lits_[i]] == m) common_.push_back(lits_[i]);
        if (common_.empty() || depth >= kMaxDepth) {
            forget(first, last);
            return stuck<T>(first, last);
        }
        const T p = term<T>(common_.data(), common_.data() + common_.size());
        bool holds = false, units = true;
        for (int32_t c = first; c < last; ++c) {
            int32_t kept = clauses_[c].begin;
            for (int32_t i = kept; i < clauses_[c].end; ++i) {
                const int32_t lit = lits_[i];
                if (count_[lit] == m) continue;
                count_[lit] = 0;  // cleared for the next step; 0 is not m either, so further occurrences stay too
                lits_[kept++] = lit;
            }
            clauses_[c].end = kept;
            holds |= clauses_[c].width() == 0;
            units &= clauses_[c].width() == 1;
        }
        for (const int32_t lit : common_) count_[lit] = 0;
        if (holds) return p;
        return both(p, units ? any_of<T>(first, last) : parts<T>(first, last, depth + 1));
    }
    void forget(int32_t first, int32_t last) {
        for (int32_t c = first; c < last; ++c)
            for (int32_t i = clauses_[c].begin; i < clauses_[c].end; ++i) count_[lits_[i]] = 0;
    }
    // Clauses of one literal each, which may be repeated.
    template <class T> T any_of(int32_t first, int32_t last) {
        auto any = gathering(T(), any_);
        bool holds = false;
        for (int32_t c = first; c < last; ++c) {
            const int32_t lit = lits_[clauses_[c].begin];
            if (count_[lit]) continue;
            count_[lit] = 1;
            holds |= count_[lit ^ 1] != 0;
            any.add(term<T>(&lit, &lit + 1));
        }
        forget(first, last);
        return holds ? T::always() : total(any);
    }

    // No rule applies: a truth table, if it is cheap. Frequent variables go to the high positions.
    template <class T> T stuck(int32_t first, int32_t last) {
        stuck_ = true;
        vars_.clear();
        int64_t size = 0;
        bool few = true;
        for (int32_t c = first; c < last && few; ++c) {
            size += clauses_[c].width();
            for (int32_t i = clauses_[c].begin; i < clauses_[c].end; ++i) {
                const int32_t v = lits_[i] >> 1;
                if (count_[2 * v]++ == 0) vars_.push_back(v);
            }
            few = vars_.size() <= kTableVars;
        }
        T p;
        if (few) stuck_ = !tabulate(first, last, 1024 + 16 * size, p);
        for (const int32_t v : vars_) count_[2 * v] = 0;
        return p;
    }
    template <class T> bool tabulate(int32_t first, int32_t last, int64_t budget, T &p) {
        std::sort(vars_.begin(), vars_.end(), [this](int32_t x, int32_t y) {
            return count_[2 * x] != count_[2 * y] ? count_[2 * x] < count_[2 * y] : x < y;
        });
        const int k = static_cast<int>(vars_.size());
        double prob[kTableVars];
        double smallest = 1.0;  // the least probability of an assignment that has one
        for (int j = 0; j < k; ++j) {
            part_of_[vars_[j]] = j, prob[j] = prob_[vars_[j]];
            const double least = std::min(prob[j], 1.0 - prob[j]);
            if (least > 0.0) smallest *= least;
        }
        if (smallest < 1e-280) return false;
        const auto masks = [this](const Span &clause, uint32_t &care, uint32_t &want) {
            care = want = 0;
            for (int32_t i = clause.begin; i < clause.end; ++i) {
                const uint32_t bit = 1u << part_of_[lits_[i] >> 1];
                care |= bit;
                if (!(lits_[i] & 1)) want |= bit;
            }
        };
        uint32_t care, want;
        budget -= int64_t{1} << (k > 3 ? k - 3 : 0);
        for (int32_t c = first; c < last && budget >= 0; ++c)
            masks(clauses_[c], care, want), budget -= TruthTable::clause_cost(k, care);
        if (budget < 0) return false;
        table_.reset(k);
        for (int32_t c = first; c < last; ++c) masks(clauses_[c], care, want), table_.add_clause(care, want);
        ++tables_;
        evaluate(prob, p);
        return true;
    }

    void evaluate(const double *prob, Plain &p) { p = table_.plain(prob); }
    void evaluate(const double *prob, Bounds &p) { p = table_.bounds(prob); }

    std::vector<Seen> seen_;  // the local number of every variable of the batch, valid if the epoch is this formula's
    uint32_t epoch_ = 0;
    std::vector<double> prob_;
    std::vector<int32_t> lits_, parent_, part_of_, ends_, common_, vars_;
    std::vector<int32_t> count_;  // how often each local literal occurs; 0 between the steps
    std::vector<Span> clauses_, sorted_;
    std::vector<int32_t> label_;                 // the part of every clause
    Pairwise<Bounds> hit_[kMaxDepth + 1], any_;  // one for every depth of the recursion
    TruthTable table_;
    bool stuck_ = false;
    int tables_ = 0;
};

}  // namespace sharpdnf
