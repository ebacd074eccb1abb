// d-trees: exact probabilities by decomposition, with certified bounds at every moment.
//
// Olteanu, Huang, Koch (ICDE 2010): a formula is decomposed by independent-or, by common factors (independent-and)
// and, where neither applies, by Shannon expansion on its most frequent variable. Subformulas are hash-consed, so the
// tree is a DAG; open leaves carry bounds, and the leaf that contributes most to the gap at the root is expanded
// next. Each expansion applies one rule, and the walk keeps its own stack: depth is bounded by memory only. Bounds are
// rounded outwards (chance.hpp), those of finished nodes too: the interval of the root holds what was not computed and
// what rounding may have come to.
//
// Variables that cannot be told apart in a subformula are merged there (merge.hpp). When the memory is full, finished
// subformulas are forgotten, first those that were not met again lately.
//
// Two subformulas are taken for equal if 128-bit hashes agree: for N subformulas a false match has odds of about
// N^2 / 2^129, below 1e-22 for a hundred million of them.
#pragma once
#include <limits>
#include <unordered_map>

#include "bounds.hpp"
#include "chance.hpp"
#include "formula.hpp"
#include "merge.hpp"
#include "poll.hpp"
#include "subformula.hpp"
#include "table.hpp"
#include "wide.hpp"

namespace sharpdnf {

struct DTreeOptions {
    int64_t node_budget = std::numeric_limits<int64_t>::max();  // expansions
    int64_t work_budget = std::numeric_limits<int64_t>::max();  // literals looked at
    std::size_t memory = std::size_t{2} << 30;
    double relative_epsilon = 0.0;    // stop once upper - lower <= relative_epsilon (upper + lower)
    double additive_epsilon = 0.0;    // or upper - lower <= 2 additive_epsilon
    double complement_epsilon = 0.0;  // if not 0: 1 - P must be known to this relative error as well
    int64_t table_cost = 1 << 12, table_cost_per_literal = 64;  // word operations a truth table may take
    bool tables = true;                                         // solve subformulas of few variables by truth table
    bool compile = false;                                       // keep the whole circuit, whatever the probabilities
    Poll *poll = nullptr;                                       // asked every so many literals
};

struct DTreeResult {
    Bounds bounds = Bounds::unknown();
    bool exact = false;
    bool complement_exact = false;  // whether 1 - P has as many digits; near P = 1 the bounds of P say little of it
    int64_t nodes = 0;
    const char *stopped = "done";
};

// The finished d-tree as an arithmetic circuit, children before parents; the last node is the root.
struct Compiled {
    enum Kind : uint8_t { kFalse, kTrue, kTerm, kOr, kAnd, kShannon };
    std::vector<uint8_t> kind;
    std::vector<int32_t> a, b;  // children (Shannon: a if var is true, else b); a term is literals[a .. b)
    std::vector<int32_t> var;
    std::vector<int32_t> literals;
};

class DTree {
  public:
    // Bounds closer than kCloseEnough, relative to P, count as exact. Then 1 - P should be known to a relative
    // kComplementCloseEnough, for which the tree may do as much work again, plus kComplementWork literals.
    static constexpr double kCloseEnough = 1e-12, kComplementCloseEnough = 1e-10;
    static constexpr int64_t kComplementWork = 1 << 22;

    // Throws Stopped if there is no time even for the bounds of the whole formula.
    DTree(const Formula &f, DTreeOptions options)
        : options_(std::move(options)), bench_(f.num_vars, options_.poll), merging_(f), memo_(16) {
        nodes_.push_back({Compiled::kFalse, true});
        nodes_.push_back({Compiled::kTrue, true});
        nodes_[0].bounds = Bounds::never();
        nodes_[1].bounds = Bounds::always();
        Clauses whole;
        whole.ends.reserve(f.num_clauses);
        whole.lits.reserve(f.size());
        bool constant = false;
        for (int64_t c = 0; c < f.num_clauses; ++c) {
            constant |= f.indptr[c] == f.indptr[c + 1];
            whole.push(f.literals + f.indptr[c], f.literals + f.indptr[c + 1]);
            bench_.tick(f.indptr[c + 1] - f.indptr[c]);
        }
        if (constant) whole.make_true();
        root_ = open(whole);
    }

    DTreeResult run() {
        while (!nodes_[root_].closed && !stopped_ && !converged()) advance();
        const bool in_time = !stopped_;
        if (!options_.compile && options_.relative_epsilon == 0.0 && options_.additive_epsilon == 0.0) {
            options_.work_budget = std::min(options_.work_budget, 2 * bench_.work + kComplementWork);
            while (!nodes_[root_].closed && !stopped_ && !complement_known()) advance();
        }
        const Node &root = nodes_[root_];
        DTreeResult out;
        out.bounds = root.bounds;
        out.exact = root.closed || (!options_.compile && close(kCloseEnough));
        out.complement_exact = root.closed || (out.exact && complement_known());
        out.nodes = expansions_;
        out.stopped = in_time ? "done" : stopped_;
        return out;
    }

    // Goes on after a run that its budget ended, until that many literals have been looked at, all in all.
    DTreeResult resume(int64_t work_budget) {
        options_.work_budget = work_budget;
        stopped_ = nullptr;
        return run();
    }

    // Children before parents; only what the root needs. Requires a closed root and options.compile.
    Compiled compiled() const {
        Compiled out;
        std::vector<int32_t> place(nodes_.size(), -1), stack{root_};
        while (!stack.empty()) {
            const int32_t id = stack.back();
            const Node &node = nodes_[id];
            const bool inner = node.kind >= Compiled::kOr;
            if (place[id] >= 0) {
                stack.pop_back();
            } else if (inner && (place[node.a] < 0 || place[node.b] < 0)) {
                if (place[node.a] < 0) stack.push_back(node.a);
                if (place[node.b] < 0) stack.push_back(node.b);
            } else {
                place[id] = static_cast<int32_t>(out.kind.size());
                out.kind.push_back(node.kind);
                out.var.push_back(node.var);
                if (node.kind == Compiled::kTerm) {
                    out.a.push_back(static_cast<int32_t>(out.literals.size()));
                    out.literals.insert(out.literals.end(), terms_.begin() + node.a, terms_.begin() + node.b);
                    out.b.push_back(static_cast<int32_t>(out.literals.size()));
                } else {
                    out.a.push_back(inner ? place[node.a] : 0);
                    out.b.push_back(inner ? place[node.b] : 0);
                }
                stack.pop_back();
            }
        }
        return out;
    }

  private:
    static constexpr uint8_t kOpen = 255;
    struct Node {
        uint8_t kind;
        bool closed;
        int32_t var = -1, a = 0, b = 0;  // open: a is the formula's place in store_
        Bounds bounds = Bounds::unknown();
    };
    struct Key {
        uint64_t high = 0, low = 0;
        int32_t id = -1;
        uint32_t used = 0;  // how many expansions there had been when it was last asked for
    };

    // --- the walk -------------------------------------------------------------------------------------------

    void advance() {
        dive();
        if (full_ && !make_room()) stopped_ = "memory limit";
        full_ = false;
    }

    // Follows the largest gap down from the root, then works below the leaf it finds for as many expansions as the
    // way was long, so that walking never dominates.
    void dive() {
        path_.assign(1, root_);
        int64_t left = -1;
        while (!path_.empty() && !stopped_ && !full_) {
            const int32_t id = path_.back();
            if (nodes_[id].kind == kOpen) {
                if (left < 0) left = std::max<int64_t>(32, static_cast<int64_t>(path_.size()));
                if (left == 0 && !depth_first()) break;
                left = std::max<int64_t>(left - 1, 0);
                expand(id);
                check_limits();
                continue;
            }
            refresh(nodes_[id]);
            if (nodes_[id].closed)
                path_.pop_back();
            else
                path_.push_back(wider_child(nodes_[id]));
        }
        for (; !path_.empty(); path_.pop_back())
            if (nodes_[path_.back()].kind != kOpen) refresh(nodes_[path_.back()]);
    }

    // Best-first keeps many open formulas; when they fill much of the memory, subtrees are finished one by one.
    bool depth_first() const { return options_.compile || tight_ || stored_ > options_.memory / 2; }

    int32_t wider_child(const Node &node) const {
        const Node &a = nodes_[node.a], &b = nodes_[node.b];
        if (a.closed || b.closed) return a.closed ? node.b : node.a;
        if (options_.compile || tight_) return node.a;
        Wide gap_a = gap(a.bounds.lower, a.bounds.upper), gap_b = gap(b.bounds.lower, b.bounds.upper);
        if (node.kind == Compiled::kShannon) {
            gap_a = gap_a * merging_.prob[2 * node.var];
            gap_b = gap_b * merging_.prob[2 * node.var + 1];
        } else if (node.kind == Compiled::kOr) {
            gap_a = gap_a * b.bounds.lower.q();
            gap_b = gap_b * a.bounds.lower.q();
        } else {
            gap_a = gap_a * b.bounds.upper.p();
            gap_b = gap_b * a.bounds.upper.p();
        }
        return gap_a < gap_b ? node.b : node.a;
    }

    void refresh(Node &node) {
        if (node.closed || node.kind < Compiled::kOr) return;
        const Node &a = nodes_[node.a], &b = nodes_[node.b];
        node.closed = a.closed && b.closed;
        if (options_.compile) return;  // only the circuit is wanted, so bounds are not read
        Bounds found;
        if (node.kind == Compiled::kShannon) {
            const double high = merging_.prob[2 * node.var], low = merging_.prob[2 * node.var + 1];
            const double units = merging_.units(node.var);
            found.lower = mixed<false>(high, low, a.bounds.lower, b.bounds.lower, units);
            found.upper = mixed<true>(high, low, a.bounds.upper, b.bounds.upper, units);
        } else {
            found = node.kind == Compiled::kOr ? either(a.bounds, b.bounds) : both(a.bounds, b.bounds);
        }
        if (node.bounds.lower < found.lower)
            node.bounds.lower = found.lower;  // a leaf's bounds may beat its children's
        if (found.upper < node.bounds.upper) node.bounds.upper = found.upper;
    }

    // Whether the bounds are within a relative error of P, from their middle.
    bool close(double relative) const {
        const Bounds &root = nodes_[root_].bounds;
        return !((root.upper.p() + root.lower.p()) * Wide::of(relative / 2) < gap(root.lower, root.upper));
    }
    bool complement_close(double relative) const {
        const Bounds &root = nodes_[root_].bounds;
        return !((root.upper.q() + root.lower.q()) * Wide::of(relative) < gap(root.lower, root.upper));
    }
    bool complement_known() const {
        const Bounds &root = nodes_[root_].bounds;
        const Wide most = root.lower.q();
        return !(most * kComplementCloseEnough < gap(root.lower, root.upper));
    }

    bool converged() const {
        if (options_.compile) return false;
        if (options_.complement_epsilon > 0.0 && !complement_close(options_.complement_epsilon))
            return close(kCloseEnough);
        if (close(std::max(2.0 * options_.relative_epsilon, kCloseEnough))) return true;
        // A gap too small for a double (1e-400) reads as 0 here, so it is compared only if an additive error is
        // allowed.
        const Bounds &root = nodes_[root_].bounds;
        return options_.additive_epsilon > 0.0 &&
               gap(root.lower, root.upper).value() <= 2.0 * options_.additive_epsilon;
    }

    void check_limits() {
        if (++expansions_ >= options_.node_budget) stopped_ = "node budget";
        if (bench_.work >= options_.work_budget) stopped_ = "work budget";
        full_ = bytes() > options_.memory;
    }
    std::size_t bytes() const {
        return stored_ + nodes_.capacity() * sizeof(Node) + memo_.size() * sizeof(Key) + merging_.bytes();
    }

    // --- memory -------------------------------------------------------------------------------------------------

    // Forgets what lies below finished nodes, and finished nodes that nothing has asked for lately; if that is too
    // little, all that the unfinished part does not need. They may have to be solved again, and again: so it gives up
    // after kPatience times the work that it took to fill the memory first, or if a quarter of it cannot be freed.
    bool make_room() {
        constexpr int64_t kPatience = 64;
        if (options_.compile) return false;  // all of it is part of the answer
        if (filled_ == 0) filled_ = bench_.work;
        if (bench_.work / kPatience > filled_) return false;
        const auto now = static_cast<uint32_t>(expansions_);
        forget(now - (now - made_room_) / 2);
        if (bytes() > options_.memory / 2) forget(now + 1);
        tight_ |= bytes() > options_.memory / 4;
        made_room_ = now;
        return bytes() <= options_.memory / 4 * 3;
    }
    void forget(uint32_t since) {
        std::vector<int32_t> place(nodes_.size(), -1), stack{0, 1, root_};
        while (!stack.empty()) {
            const int32_t id = stack.back();
            stack.pop_back();
            if (place[id] >= 0) continue;
            place[id] = 0;
            if (!nodes_[id].closed && nodes_[id].kind != kOpen)
                stack.push_back(nodes_[id].a), stack.push_back(nodes_[id].b);
        }
        for (const Key &key : memo_)
            if (key.id >= 0 && nodes_[key.id].closed && key.used >= since) place[key.id] = 0;
        int32_t kept = 0;
        for (std::size_t id = 0; id < nodes_.size(); ++id) {
            if (place[id] >= 0)
                place[id] = kept++;
            else if (nodes_[id].kind == kOpen)
                release(nodes_[id].a);
        }
        for (std::size_t id = 0; id < nodes_.size(); ++id) {
            if (place[id] < 0) continue;
            Node node = nodes_[id];
            if (node.closed && node.kind >= Compiled::kOr) node.kind = Compiled::kTerm;
            if (node.kind >= Compiled::kOr && node.kind != kOpen) node.a = place[node.a], node.b = place[node.b];
            nodes_[place[id]] = node;
        }
        nodes_.resize(kept);
        nodes_.shrink_to_fit();
        root_ = place[root_];
        std::vector<Key> old(16);
        old.swap(memo_);
        remembered_ = 0;
        for (const Key &key : old) {
            if (key.id < 0 || place[key.id] < 0) continue;
            if (++remembered_ * 2 > memo_.size()) grow();
            find(key).id = place[key.id];
        }
    }
    void release(int32_t place) {
        stored_ -= store_[place].bytes();
        store_[place] = Clauses();
        free_.push_back(place);
    }

    // --- expansion: one rule each ---------------------------------------------------------------------------

    // If the deadline comes half-way through a large formula, the node stays open and keeps its bounds.
    void expand(int32_t id) {
        const int32_t place = nodes_[id].a;
        Clauses g;
        std::swap(g, store_[place]);
        try {
            apply_rule(id, g);
            free_.push_back(place);
            stored_ -= g.bytes();
        } catch (const Stopped &) {
            std::swap(g, store_[place]);
            stopped_ = "time limit";
        }
    }

    void apply_rule(int32_t id, const Clauses &g) {
        bench_.survey(g);
        if (bench_.factor(g, common_, scratch_)) {
            const int32_t term = add_term(common_.data(), common_.data() + common_.size());
            return become(id, Compiled::kAnd, -1, term, open(scratch_));
        }
        if (bench_.components(g, parts_)) return join(id, Compiled::kOr);
        bench_.index(g);
        if (bench_.product(g, parts_)) return join(id, Compiled::kAnd);
        const int32_t v = bench_.branching_variable();
        Clauses low;
        bench_.cofactor(g, 2 * v, scratch_);
        bench_.cofactor(g, 2 * v + 1, low);
        const int32_t a = open(scratch_);
        become(id, Compiled::kShannon, v, a, open(low));
    }

    // A balanced binary tree over the parts, so that one part's change is felt in logarithmic time.
    void join(int32_t id, uint8_t kind) {
        std::vector<Clauses> parts;
        std::swap(parts, parts_);
        std::vector<int32_t> level;
        for (Clauses &part : parts) {
            level.push_back(open(part));
            part = Clauses();
        }
        while (level.size() > 2) {
            std::vector<int32_t> next;
            for (std::size_t i = 0; i + 1 < level.size(); i += 2) {
                nodes_.push_back({kOpen, false});
                next.push_back(static_cast<int32_t>(nodes_.size()) - 1);
                become(next.back(), kind, -1, level[i], level[i + 1]);
            }
            if (level.size() % 2) next.push_back(level.back());
            level.swap(next);
        }
        become(id, kind, -1, level[0], level[1]);
    }

    void become(int32_t id, uint8_t kind, int32_t var, int32_t a, int32_t b) {
        Node &node = nodes_[id];
        node.kind = kind, node.var = var, node.a = a, node.b = b;
        refresh(node);
    }

    int32_t add(uint8_t kind, bool closed, int32_t a, int32_t b, const Bounds &bounds) {
        nodes_.push_back({kind, closed, -1, a, b, bounds});
        return static_cast<int32_t>(nodes_.size()) - 1;
    }

    int32_t add_term(const int32_t *first, const int32_t *last) {
        const auto start = static_cast<int32_t>(terms_.size());
        if (options_.compile) terms_.insert(terms_.end(), first, last);
        return add(Compiled::kTerm, true, start, static_cast<int32_t>(terms_.size()), term(first, last));
    }

    Bounds term(const int32_t *first, const int32_t *last) const {
        const auto prob = [this](int32_t lit) { return merging_.prob[lit]; };
        return Bounds::about(product(first, last, prob), product_units(last - first) + merging_.units(first, last));
    }

    // The node of a subformula: a constant, a term, a solved table, one met before, or a new open leaf.
    // Variables of it that cannot be told apart are merged, and g is what that leaves; in a circuit, where each
    // decision on a merged variable would take as many nodes as it has parts, they stay as they are.
    int32_t open(Clauses &g) {
        if (g.count() == 0) return 0;
        for (int32_t c = 0; c < g.count(); ++c)
            if (g.width(c) == 0) return 1;
        if (g.count() == 1) return add_term(g.begin(0), g.end(0));
        bench_.survey(g);
        if (!options_.compile) merging_.run(g, bench_);
        if (g.count() == 1) return add_term(g.begin(0), g.end(0));
        int32_t solved = -1;
        const std::size_t few = !options_.tables ? 0 : options_.compile ? 14 : 20;
        if (bench_.vars.size() <= few && tabulate(g, solved)) return solved;
        Key &entry = find(hash(g));
        entry.used = static_cast<uint32_t>(expansions_);
        if (entry.id >= 0) return entry.id;
        const Bounds bounds = options_.compile ? Bounds::unknown() : leaf_bounds(g);
        int32_t place = static_cast<int32_t>(store_.size());
        if (free_.empty())
            store_.emplace_back();
        else
            place = free_.back(), free_.pop_back();
        store_[place].ends.assign(g.ends.begin(), g.ends.end());
        store_[place].lits.assign(g.lits.begin(), g.lits.end());
        stored_ += store_[place].bytes();
        entry.id = add(kOpen, false, place, 0, bounds);
        const int32_t id = entry.id;
        if (++remembered_ * 2 > memo_.size()) grow();
        return id;
    }

    // Few variables: the truth table costs less than decomposing. Frequent variables go to the high positions,
    // where a clause that reads one halves the words it writes.
    bool tabulate(const Clauses &g, int32_t &solved) {
        std::vector<int32_t> &order = order_;
        order.assign(bench_.vars.begin(), bench_.vars.end());
        std::sort(order.begin(), order.end(), [this](int32_t x, int32_t y) {
            const int32_t nx = bench_.occurrences(x), ny = bench_.occurrences(y);
            return nx != ny ? nx < ny : x > y;
        });
        const int k = static_cast<int>(order.size());
        double smallest = 1.0, prob[TruthTable::kMaxVars], miss[TruthTable::kMaxVars], units = 0.0;
        uint32_t position[TruthTable::kMaxVars];
        for (int j = 0; j < k; ++j) {
            position[bench_.slot(order[j])] = static_cast<uint32_t>(j);
            prob[j] = merging_.prob[2 * order[j]], miss[j] = merging_.prob[2 * order[j] + 1];
            units += merging_.units(order[j]);
            const double p = std::min(prob[j], miss[j]);
            if (p > 0.0) smallest *= p;
        }
        if (!options_.compile && smallest < 1e-280) return false;
        masks_.clear();
        int64_t cost = int64_t{1} << (k > 3 ? k - 3 : 0);
        for (int32_t c = 0; c < g.count(); ++c) {
            uint32_t care = 0, want = 0;
            for (const int32_t *lit = g.begin(c); lit != g.end(c); ++lit) {
                const uint32_t bit = 1u << position[bench_.slot(*lit >> 1)];
                care |= bit;
                if (!(*lit & 1)) want |= bit;
            }
            cost += TruthTable::clause_cost(k, care);
            masks_.push_back({care, want});
        }
        if (!options_.compile &&
            cost > options_.table_cost + options_.table_cost_per_literal * static_cast<int64_t>(g.lits.size()))
            return false;
        table_.reset(k);
        for (const auto &[care, want] : masks_) table_.add_clause(care, want);
        bench_.did(cost / 4);
        if (options_.compile) {
            solved = add_diagram(k);
        } else {
            solved = add(Compiled::kTerm, true, 0, 0, table_.bounds(prob, miss, units));
        }
        return true;
    }

    // The table as a reduced ordered decision diagram of Shannon nodes.
    int32_t add_diagram(int k) {
        std::vector<int32_t> cells(std::size_t{1} << k);
        for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = table_.bit(static_cast<uint32_t>(i));
        for (int j = 0; j < k; ++j) {
            const auto v = static_cast<uint64_t>(order_[j]);
            for (std::size_t i = 0; i < cells.size() / 2; ++i) {
                const int32_t low = cells[2 * i], high = cells[2 * i + 1];
                if (low == high) {
                    cells[i] = low;
                    continue;
                }
                const uint64_t children = static_cast<uint64_t>(high) << 32 | static_cast<uint32_t>(low);
                const auto [found, fresh] = diagram_.try_emplace({v, children}, 0);
                if (fresh) {
                    nodes_.push_back({kOpen, false});
                    found->second = static_cast<int32_t>(nodes_.size()) - 1;
                    become(found->second, Compiled::kShannon, order_[j], high, low);
                }
                cells[i] = found->second;
            }
            cells.resize(cells.size() / 2);
        }
        return cells[0];
    }

    Bounds leaf_bounds(const Clauses &g) {
        sums_.reset(bench_.vars.size());
        for (int32_t c = 0; c < g.count(); ++c) {
            const Bounds p = term(g.begin(c), g.end(c));
            sums_.add(p);
            sums_.choose(p, g.begin(c), g.end(c), [this](int32_t var) { return bench_.slot(var); });
            bench_.passed(g, c);
        }
        bool unate = true;
        for (const int32_t v : bench_.vars) unate &= !bench_.count[2 * v] || !bench_.count[2 * v + 1];
        return {sums_.lower(), sums_.upper(unate)};
    }

    // --- the memo -------------------------------------------------------------------------------------------

    // Sums make the hash blind to the order of literals and clauses.
    Key hash(const Clauses &g) {
        Key key;
        for (int32_t c = 0; c < g.count(); ++c) {
            const Merging::Weight clause = merging_.weigh(g.begin(c), g.end(c));
            const uint64_t high = clause.w[0] + 0x9e3779b97f4a7c15ULL, low = clause.w[1] + 0xd1b54a32d192ed03ULL;
            key.high += mix(high ^ (low >> 1));
            key.low += mix(low + 0x27d4eb2f165667c5ULL * high);
            bench_.passed(g, c);
        }
        return key;
    }
    Key &find(const Key &key) {
        std::size_t i = key.low & (memo_.size() - 1);
        while (memo_[i].id >= 0 && (memo_[i].low != key.low || memo_[i].high != key.high))
            i = (i + 1) & (memo_.size() - 1);
        if (memo_[i].id < 0) memo_[i] = {key.high, key.low, -1, key.used};
        return memo_[i];
    }
    void grow() {
        std::vector<Key> old(memo_.size() * 2);
        old.swap(memo_);
        for (const Key &key : old)
            if (key.id >= 0) find(key).id = key.id;
    }

    struct PairHash {
        std::size_t operator()(const std::pair<uint64_t, uint64_t> &key) const {
            return mix(key.first * 0x9e3779b97f4a7c15ULL + key.second);
        }
    };

    DTreeOptions options_;
    Workbench bench_;
    Merging merging_;
    std::vector<Node> nodes_;
    std::vector<int32_t> terms_;
    std::vector<Clauses> store_;
    std::vector<int32_t> free_, path_, common_, order_;
    std::vector<Key> memo_;
    std::unordered_map<std::pair<uint64_t, uint64_t>, int32_t, PairHash> diagram_;
    std::vector<std::pair<uint32_t, uint32_t>> masks_;
    std::vector<Clauses> parts_;
    Clauses scratch_;
    TruthTable table_;
    IntervalSums sums_;
    std::size_t stored_ = 0, remembered_ = 0;
    int64_t expansions_ = 0, filled_ = 0;  // filled_: the work that was done when the memory was full first
    uint32_t made_room_ = 0;               // how many expansions there had been then
    bool full_ = false, tight_ = false;
    int32_t root_ = 0;
    const char *stopped_ = nullptr;
};

inline DTreeResult dtree(const Formula &f, const DTreeOptions &options) {
    try {
        return DTree(f, options).run();
    } catch (const Stopped &) {  // there was no time for any bound, so all that is known is 0 <= P <= 1
        DTreeResult out;
        out.stopped = "time limit";
        return out;
    }
}

}  // namespace sharpdnf
