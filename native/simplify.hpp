// Formula -> smaller formula and how to put the answer together: P = F (1 - M (1 - mu)).
// F is the probability of the literals common to all clauses, M that no component solved here comes true, and mu the
// probability of the formula that remains. Every step is linear in the literals, or stops at a linear budget.
#pragma once
#include <functional>
#include <limits>

#include "dtree.hpp"
#include "formula.hpp"
#include "subformula.hpp"
#include "wide.hpp"

struct SimplifyOptions {
    bool solve = true;             // solve small components (those of one clause are always folded in)
    int64_t max_literals = 64;     // of a component to be solved
    int64_t node_budget = 16;      // d-tree expansions for it
    std::function<void()> poll{};  // called between passes; may throw
};

struct SimplifyResult {
    OwnedFormula formula;            // over the variables that occur in it
    std::vector<int32_t> variables;  // the original variable of each
    double log_factor = 0.0;         // log F
    double log_miss = 0.0;           // log M
    double log_hit = -std::numeric_limits<double>::infinity();  // log (1 - M), right however small
    bool unchanged = false;          // then `formula` and `variables` are empty: use the original
    int64_t impossible = 0, duplicate = 0, absorbed = 0, fixed = 0, negated_units = 0, factored = 0, solved = 0;
};

class Simplifier {
  public:
    Simplifier(const Formula &f, const SimplifyOptions &options) : f_(f), options_(options) {}

    SimplifyResult run() {
        const bool all_occur = localise();
        poll();
        Workbench bench(static_cast<int64_t>(vars_.size()));
        bool decided = g_.count() == 0 || holds_empty_;
        if (holds_empty_) g_.make_true();
        if (!decided && g_.count() > 1) {
            drop_redundant(bench);
            decided = drop_negated_units(bench);
            if (!decided && out_.negated_units) drop_redundant(bench);  // shorter clauses may absorb more
            poll();
            decided = decided || factor(bench);
        }
        if (decided) {  // true: nothing is missed
            if (g_.count() == 1) out_.log_miss = -std::numeric_limits<double>::infinity(), out_.log_hit = 0.0;
            g_.clear();
        } else {
            poll();
            fold_components();
        }
        poll();
        out_.unchanged = all_occur && g_.count() == f_.num_clauses && out_.fixed + out_.negated_units + out_.factored == 0;
        if (!out_.unchanged) compact();
        return std::move(out_);
    }

  private:
    void poll() const {
        if (options_.poll) options_.poll();
    }

    // Copies the clauses over local variables 0..k-1 (in the original order), without the literals that are surely
    // true and the clauses that are surely false. True if every variable of the formula occurs.
    bool localise() {
        const int64_t size = f_.size();
        if (size * 8 < f_.num_vars) {  // few literals in a large shared variable space: never touch all of it
            vars_.reserve(size);
            for (int64_t i = 0; i < size; ++i) vars_.push_back(f_.literals[i] >> 1);
            std::sort(vars_.begin(), vars_.end());
            vars_.erase(std::unique(vars_.begin(), vars_.end()), vars_.end());
        } else {
            std::vector<uint8_t> occurs(f_.num_vars, 0);
            for (int64_t i = 0; i < size; ++i) occurs[f_.literals[i] >> 1] = 1;
            local_.resize(f_.num_vars);
            for (int64_t v = 0; v < f_.num_vars; ++v) {
                local_[v] = static_cast<int32_t>(vars_.size());
                if (occurs[v]) vars_.push_back(static_cast<int32_t>(v));
            }
        }
        literal_prob_.resize(2 * vars_.size());
        for (std::size_t v = 0; v < vars_.size(); ++v) {
            const double p = f_.prob[vars_[v]];
            literal_prob_[2 * v] = p, literal_prob_[2 * v + 1] = 1.0 - p;
            out_.fixed += p == 0.0 || p == 1.0;
        }
        g_.ends.reserve(f_.num_clauses);
        g_.lits.reserve(size);
        if (out_.fixed == 0) copy_plain();
        else copy_fixed();
        return static_cast<int64_t>(vars_.size()) == f_.num_vars;
    }
    int32_t local(int32_t lit) const {
        if (!local_.empty()) return 2 * local_[lit >> 1] + (lit & 1);
        return 2 * static_cast<int32_t>(std::lower_bound(vars_.begin(), vars_.end(), lit >> 1) - vars_.begin()) + (lit & 1);
    }
    void copy_plain() {
        g_.lits.resize(f_.size());
        for (int64_t i = 0; i < f_.size(); ++i) g_.lits[i] = local(f_.literals[i]);
        for (int64_t c = 0; c < f_.num_clauses; ++c) {
            holds_empty_ |= f_.indptr[c] == f_.indptr[c + 1];
            g_.ends.push_back(static_cast<int32_t>(f_.indptr[c + 1]));
        }
    }
    void copy_fixed() {
        for (int64_t c = 0; c < f_.num_clauses; ++c) {
            const auto start = g_.lits.size();
            bool impossible = false;
            for (int64_t i = f_.indptr[c]; i < f_.indptr[c + 1] && !impossible; ++i) {
                const int32_t lit = local(f_.literals[i]);
                impossible = literal_prob_[lit] == 0.0;
                if (literal_prob_[lit] != 1.0) g_.lits.push_back(lit);
            }
            if (impossible) {
                g_.lits.resize(start);
                ++out_.impossible;
                continue;
            }
            holds_empty_ |= g_.lits.size() == start;
            g_.close();
        }
    }

    // Keeps the clauses whose flag is 0.
    void keep(const std::vector<uint8_t> &drop) {
        int32_t kept = 0, size = 0, start = 0;
        for (int32_t c = 0; c < g_.count(); ++c) {
            const int32_t end = g_.ends[c];
            if (!drop[c]) {
                if (size != start) std::copy(g_.lits.begin() + start, g_.lits.begin() + end, g_.lits.begin() + size);
                size += end - start;
                g_.ends[kept++] = size;
            }
            start = end;
        }
        g_.ends.resize(kept);
        g_.lits.resize(size);
    }

    void drop_redundant(Workbench &bench) {
        drop_duplicates();
        poll();
        bench.survey(g_);
        drop_absorbed(bench);
        poll();
    }

    void drop_duplicates() {
        const int32_t m = g_.count();
        const int64_t before = out_.duplicate;
        std::size_t capacity = 16;
        while (capacity < 2 * static_cast<std::size_t>(m)) capacity *= 2;
        std::vector<int32_t> table(capacity, -1);
        std::vector<uint32_t> hash(m);
        std::vector<uint8_t> drop(m, 0);
        int32_t start = 0;
        for (int32_t c = 0; c < m; ++c) {
            uint64_t h = 0x9e3779b97f4a7c15ULL;
            for (int32_t i = start; i < g_.ends[c]; ++i) {
                h = (h ^ static_cast<uint32_t>(g_.lits[i])) * 0x9fb21c651e98df25ULL;
                h ^= h >> 32;
            }
            hash[c] = static_cast<uint32_t>(h);
            std::size_t at = h & (capacity - 1);
            for (; table[at] >= 0; at = (at + 1) & (capacity - 1)) {
                const int32_t d = table[at];
                if (hash[d] == hash[c] && g_.width(d) == g_.ends[c] - start &&
                    std::equal(g_.begin(c), g_.end(c), g_.begin(d))) {
                    drop[c] = 1;
                    break;
                }
            }
            if (!drop[c]) table[at] = c;
            out_.duplicate += drop[c];
            start = g_.ends[c];
        }
        if (out_.duplicate > before) keep(drop);
    }

    // Each clause waits at its rarest literal; a clause looks at those waiting at its own literals for one that it
    // holds completely. Clauses of one width cannot absorb one another.
    void drop_absorbed(const Workbench &bench) {
        const int32_t m = g_.count();
        int32_t narrow = g_.width(0), wide = narrow;
        for (int32_t c = 1; c < m; ++c) narrow = std::min(narrow, g_.width(c)), wide = std::max(wide, g_.width(c));
        if (narrow == wide) return;
        std::vector<int32_t> head(2 * vars_.size(), -1), next(m);
        std::vector<uint64_t> signature(m);
        for (int32_t c = 0; c < m; ++c) {
            int32_t rare = *g_.begin(c);
            uint64_t bits = 0;
            for (const int32_t *lit = g_.begin(c); lit != g_.end(c); ++lit) {
                bits |= uint64_t{1} << (static_cast<uint32_t>(*lit) * 2654435769u >> 26);
                if (bench.count[*lit] < bench.count[rare]) rare = *lit;
            }
            signature[c] = bits;
            if (g_.width(c) == wide) continue;  // the widest absorb nothing
            next[c] = head[rare];
            head[rare] = c;
        }
        std::vector<uint8_t> drop(m, 0);
        const int64_t before = out_.absorbed;
        int64_t budget = 8 * static_cast<int64_t>(g_.lits.size()) + 1024;
        for (int32_t c = 0; c < m && budget > 0; ++c) {
            if (g_.width(c) == narrow) continue;
            for (const int32_t *lit = g_.begin(c); lit != g_.end(c) && !drop[c]; ++lit)
                for (int32_t d = head[*lit]; d >= 0 && !drop[c]; d = next[d]) {
                    --budget;
                    if (g_.width(d) >= g_.width(c) || (signature[d] & ~signature[c])) continue;
                    budget -= g_.width(c);
                    drop[c] = std::includes(g_.begin(c), g_.end(c), g_.begin(d), g_.end(d));
                }
            out_.absorbed += drop[c];
        }
        if (out_.absorbed > before) keep(drop);
    }

    // True if the formula turns out to be true.
    bool drop_negated_units(Workbench &bench) {
        bool units = false;
        for (int32_t c = 0; c < g_.count() && !units; ++c) units = g_.width(c) == 1;
        if (!units) return false;
        const auto size = static_cast<int64_t>(g_.lits.size());
        bench.reduce_units(g_);
        out_.negated_units = size - static_cast<int64_t>(g_.lits.size());
        return g_.count() == 1 && g_.width(0) == 0;
    }

    // True if a clause was nothing but common literals.
    bool factor(Workbench &bench) {
        if (g_.count() < 2) return false;
        bench.survey(g_);
        std::vector<int32_t> common;
        Clauses rest;
        if (!bench.factor(g_, common, rest)) return false;
        Wide p = Wide::of(1.0);
        for (const int32_t lit : common) p = p * literal_prob_[lit];
        out_.log_factor = p.log();
        out_.factored = static_cast<int64_t>(common.size());
        std::swap(g_, rest);
        return g_.width(g_.count() - 1) == 0;
    }

    // Union-find over the variables; components of one clause, and small ones, go into M.
    void fold_components() {
        std::vector<int32_t> parent(vars_.size());
        std::iota(parent.begin(), parent.end(), 0);
        const auto find = [&parent](int32_t a) {
            while (parent[a] != a) a = parent[a] = parent[parent[a]];
            return a;
        };
        int32_t start = 0;
        for (const int32_t end : g_.ends) {
            int32_t root = find(g_.lits[start] >> 1);
            for (int32_t i = start + 1; i < end; ++i) {
                const int32_t other = find(g_.lits[i] >> 1);
                if (other == root) continue;
                if (other < root) parent[root] = other, root = other;
                else parent[other] = root;
            }
            start = end;
        }
        std::vector<int32_t> size(vars_.size(), 0), members(vars_.size(), 0);
        for (int32_t c = 0; c < g_.count(); ++c) {
            const int32_t root = find(*g_.begin(c) >> 1);
            size[root] += g_.width(c), ++members[root];
        }
        const auto chosen = [&](int32_t root) {
            return members[root] == 1 || (options_.solve && size[root] <= options_.max_literals);
        };
        std::vector<std::pair<int32_t, int32_t>> of_component;  // (component, clause) of those to be solved
        for (int32_t c = 0; c < g_.count(); ++c) {
            const int32_t root = find(*g_.begin(c) >> 1);
            if (chosen(root)) of_component.emplace_back(root, c);
        }
        if (of_component.empty()) return;
        std::sort(of_component.begin(), of_component.end());
        std::vector<uint8_t> drop(g_.count(), 0);
        Wide hit;
        for (std::size_t first = 0, last = 0; first < of_component.size(); first = last) {
            while (last < of_component.size() && of_component[last].first == of_component[first].first) ++last;
            Wide mu;
            if (!solve(of_component, first, last, mu)) continue;
            for (std::size_t i = first; i < last; ++i) drop[of_component[i].second] = 1;
            hit = either(hit, mu);
            out_.log_miss += std::log1p(-std::min(mu.value(), 1.0));
            ++out_.solved;
        }
        out_.log_hit = std::min(hit.log(), 0.0);
        if (out_.solved) keep(drop);
    }

    bool solve(const std::vector<std::pair<int32_t, int32_t>> &list, std::size_t first, std::size_t last, Wide &mu) {
        if (last - first == 1) {
            mu = Wide::of(1.0);
            const int32_t c = list[first].second;
            for (const int32_t *lit = g_.begin(c); lit != g_.end(c); ++lit) mu = mu * literal_prob_[*lit];
            return true;
        }
        part_.indptr.assign(1, 0);
        part_.literals.clear(), part_.prob.clear(), part_vars_.clear();
        for (std::size_t i = first; i < last; ++i)
            for (const int32_t *lit = g_.begin(list[i].second); lit != g_.end(list[i].second); ++lit)
                part_vars_.push_back(*lit >> 1);
        std::sort(part_vars_.begin(), part_vars_.end());
        part_vars_.erase(std::unique(part_vars_.begin(), part_vars_.end()), part_vars_.end());
        for (const int32_t v : part_vars_) part_.prob.push_back(literal_prob_[2 * v]);
        for (std::size_t i = first; i < last; ++i) {
            for (const int32_t *lit = g_.begin(list[i].second); lit != g_.end(list[i].second); ++lit) {
                const auto place = std::lower_bound(part_vars_.begin(), part_vars_.end(), *lit >> 1) - part_vars_.begin();
                part_.literals.push_back(2 * static_cast<int32_t>(place) + (*lit & 1));
            }
            part_.indptr.push_back(static_cast<int64_t>(part_.literals.size()));
        }
        DTreeOptions options;
        options.node_budget = options_.node_budget;
        options.table_cost = 256, options.table_cost_per_literal = 16;
        DTree tree(part_.view(), options);
        const DTreeResult result = tree.run();
        mu = tree.lower();
        return result.exact;
    }

    // Numbers the remaining variables in their original order.
    void compact() {
        std::vector<int32_t> place(vars_.size(), -1);
        for (const int32_t lit : g_.lits) place[lit >> 1] = 0;
        for (std::size_t v = 0; v < vars_.size(); ++v) {
            if (place[v] < 0) continue;
            place[v] = static_cast<int32_t>(out_.variables.size());
            out_.variables.push_back(vars_[v]);
            out_.formula.prob.push_back(literal_prob_[2 * v]);
        }
        out_.formula.indptr.insert(out_.formula.indptr.end(), g_.ends.begin(), g_.ends.end());
        for (int32_t &lit : g_.lits) lit = 2 * place[lit >> 1] + (lit & 1);
        out_.formula.literals = std::move(g_.lits);
    }

    const Formula &f_;
    const SimplifyOptions &options_;
    SimplifyResult out_;
    Clauses g_;
    bool holds_empty_ = false;
    std::vector<int32_t> vars_, local_, part_vars_;
    std::vector<double> literal_prob_;
    OwnedFormula part_;
};

inline SimplifyResult simplify(const Formula &f, const SimplifyOptions &options) { return Simplifier(f, options).run(); }
