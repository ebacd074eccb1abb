// Circuits: exact probabilities by decomposition with memo, and certified bounds at every moment.
//
// A gate is an AND of references (circuit.hpp). Literals in it are taken out and put into the rest; parts that share no
// variable are independent; otherwise the first variable of a fixed order is set to true and to false. Gates that come
// out equal are one gate, so their answers are shared: this is a search for a decision diagram with independent ANDs
// and ORs. Restricting by the first variable rebuilds only the gates that read it. Open gates carry bounds; the walk
// goes where the gap at the root is largest. The result is a d-tree as of dtree.hpp.
#pragma once
#include "circuit_order.hpp"
#include "circuit_vote.hpp"
#include "dtree.hpp"

namespace sharpdnf {

struct CircuitOptions {
    int64_t work = std::numeric_limits<int64_t>::max();  // references that all orders together may look at
    std::size_t memory = std::size_t{2} << 30;
    double relative_epsilon = 0.0, additive_epsilon = 0.0;  // stop once the bounds are that close
    bool compile = false;                                   // keep the whole d-tree, whatever the probabilities
    Poll *poll = nullptr;
};

struct CircuitResult {
    Bounds bounds = Bounds::unknown();
    bool exact = false;
    int64_t nodes = 0, work = 0;
    const char *stopped = "done";
    Compiled compiled;
};

class CircuitCompiler {
  public:
    using Ref = GateStore::Ref;

    // `order` holds the variables that the output reads, first to branch on first.
    CircuitCompiler(const CircuitView &c, const std::vector<int32_t> &gates, const std::vector<int32_t> &order,
                    const std::vector<uint8_t> &falling, const CircuitOptions &options, int64_t work)
        : options_(options),
          budget_(work),
          order_(order),
          prob_(by_place(c.prob, order)),
          store_(options.memory),
          pace_(*options.poll) {
        try {
            store_.add_variables(prob_, by_place(falling.data(), order));
            const Ref root = load(c, gates);
            root_ = node_of(root);
            budget_ += store_.work;
            store_.loaded();
        } catch (const OutOfMemory &) {
            stopped_ = "memory";
        }
    }

    void run() {
        if (stopped_) return;
        try {
            while (!nodes_[root_].closed && !stopped_ && !converged()) dive();
        } catch (const OutOfMemory &) {
            stopped_ = "memory";
        }
    }

    const char *stopped() const { return stopped_; }
    bool closed() const { return root_ >= 0 && nodes_[root_].closed; }
    Bounds bounds() const { return root_ < 0 ? Bounds::unknown() : nodes_[root_].bounds; }
    int64_t nodes() const { return static_cast<int64_t>(nodes_.size()); }
    int64_t work() const { return store_.work; }

    bool converged() const {
        const Bounds &b = nodes_[root_].bounds;
        const Wide width = gap(b.lower, b.upper);
        if (options_.relative_epsilon > 0.0 && !((b.upper.p() + b.lower.p()) * options_.relative_epsilon < width))
            return true;
        return options_.additive_epsilon > 0.0 && width.value() <= 2.0 * options_.additive_epsilon;
    }

    // Children before parents, the root last. Requires closed().
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
                out.var.push_back(node.kind == Compiled::kShannon ? order_[node.var] : -1);
                if (node.kind == Compiled::kTerm) {
                    out.a.push_back(static_cast<int32_t>(out.literals.size()));
                    out.literals.push_back(2 * order_[node.var] + node.a);
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
        int32_t var, a, b;  // a term: the literal of place var, negated if a is 1; open: a is the reference
        Bounds bounds;
    };

    template <class T> static std::vector<T> by_place(const T *of_var, const std::vector<int32_t> &order) {
        std::vector<T> out;
        for (const int32_t v : order) out.push_back(of_var[v]);
        return out;
    }

    // --- the circuit into the store ---------------------------------------------------------------------------

    Ref load(const CircuitView &c, const std::vector<int32_t> &gates) {
        std::vector<int32_t> place(c.num_vars, -1);
        for (size_t p = 0; p < order_.size(); ++p) place[order_[p]] = static_cast<int32_t>(p);
        std::vector<Ref> ref(gates.back() + 1, 0);
        std::vector<Ref> kids;
        for (const int32_t g : gates) {
            kids.clear();
            for (int64_t i = c.indptr[g]; i < c.indptr[g + 1]; ++i) kids.push_back(ref[c.inputs[i]]);
            pace_.check(1 + c.width(g));
            switch (c.kind[g]) {
                case gFalse:
                    ref[g] = GateStore::kFalse;
                    break;
                case gTrue:
                    ref[g] = GateStore::kTrue;
                    break;
                case gVar:
                    ref[g] = variable(place[c.arg[g]]);
                    break;
                case gNot:
                    ref[g] = kids[0] ^ 1;
                    break;
                case gAnd:
                    ref[g] = store_.conjunction(kids);
                    break;
                case gOr:
                    ref[g] = disjunction(kids);
                    break;
                default:
                    ref[g] = at_least(c.arg[g], kids);
            }
        }
        return ref[gates.back()];
    }

    // A variable that is certain is a constant, unless the d-tree is to serve other probabilities too.
    Ref variable(int32_t place) const {
        if (!options_.compile && prob_[place] >= 1.0) return GateStore::kTrue;
        if (!options_.compile && prob_[place] <= 0.0) return GateStore::kFalse;
        return GateStore::literal_at(place, true);
    }

    Ref disjunction(std::vector<Ref> &kids) {
        for (Ref &r : kids) r ^= 1;
        return store_.conjunction(kids) ^ 1;
    }

    // A sequential counter in the order of the variables: row j of column i says that at least j of the inputs from i
    // on are true, by a decision on input i, so that an input that becomes known leaves one row. The narrower of "k are
    // true" and "n - k + 1 are false" is counted. Rows of inputs that rise do so too.
    Ref at_least(int64_t k, std::vector<Ref> kids) {
        const auto n = static_cast<int64_t>(kids.size());
        if (k <= 0) return GateStore::kTrue;
        if (k > n) return GateStore::kFalse;
        if (n - k + 1 < k) {
            for (Ref &r : kids) r ^= 1;
            return at_least(n - k + 1, std::move(kids)) ^ 1;
        }
        std::stable_sort(kids.begin(), kids.end(), [&](Ref a, Ref b) { return store_.low(a) < store_.low(b); });
        std::vector<Ref> row(k + 1, GateStore::kFalse), two;
        row[0] = GateStore::kTrue;
        bool rising = true, falling = true;
        for (int64_t i = n - 1; i >= 0; --i) {
            rising &= store_.rising(kids[i]), falling &= store_.rising(kids[i] ^ 1);
            for (int64_t j = std::min(k, n - i); j > 0; --j) {
                if (i < k - j) continue;  // too few inputs before it for this row to matter
                two.assign({kids[i], row[j - 1]});
                const Ref with = store_.conjunction(two);
                two.assign({kids[i] ^ 1, row[j]});
                const Ref without = store_.conjunction(two);
                two.assign({with, without});
                row[j] = disjunction(two);
                if (rising)
                    store_.set_rising(row[j]);
                else if (falling)
                    store_.set_rising(row[j] ^ 1);
            }
            pace_.check(8 * k);
        }
        return row[k];
    }

    // --- nodes ------------------------------------------------------------------------------------------------

    int32_t new_node(uint8_t kind, int32_t var, int32_t a, int32_t b) {
        if (store_.bytes() + nodes_.size() * sizeof(Node) + node_of_ref_.size() * 4 > options_.memory)
            throw OutOfMemory{};
        nodes_.push_back({kind, false, var, a, b, Bounds::unknown()});
        return static_cast<int32_t>(nodes_.size()) - 1;
    }

    int32_t node_of(Ref r) {
        if (static_cast<int64_t>(node_of_ref_.size()) < 2 * store_.size()) node_of_ref_.resize(2 * store_.size(), -1);
        if (node_of_ref_[r] >= 0) return node_of_ref_[r];
        int32_t id;
        if (r <= 1)
            id = new_node(r == GateStore::kTrue ? Compiled::kTrue : Compiled::kFalse, -1, 0, 0);
        else if (store_.literal(r))
            id = new_node(Compiled::kTerm, store_.place(r), r & 1, 0);
        else
            id = new_node(kOpen, -1, r, 0);
        nodes_[id].closed = nodes_[id].kind != kOpen;
        nodes_[id].bounds = store_.bounds(r);
        return node_of_ref_[r] = id;
    }

    // Two nodes joined; the new node is closed if both are.
    int32_t join(uint8_t kind, int32_t var, int32_t a, int32_t b) {
        const int32_t id = new_node(kind, var, a, b);
        update(id);
        return id;
    }

    // Bounds from the children; those of an open gate stay where they are better.
    void update(int32_t id) {
        Node &node = nodes_[id];
        const Node &a = nodes_[node.a], &b = nodes_[node.b];
        node.closed = a.closed && b.closed;
        if (options_.compile) return;  // only the d-tree is wanted, so bounds are not read
        Bounds now;
        if (node.kind == Compiled::kShannon) {
            const double high = prob_[node.var], low = 1.0 - high;
            now = {mixed<false>(high, low, a.bounds.lower, b.bounds.lower),
                   mixed<true>(high, low, a.bounds.upper, b.bounds.upper)};
        } else {
            now = node.kind == Compiled::kAnd ? both(a.bounds, b.bounds) : either(a.bounds, b.bounds);
        }
        node.bounds = tighter(node.bounds, now);
    }

    // --- the walk ---------------------------------------------------------------------------------------------

    // From the root to the open gate that matters most, then as many expansions below it as the way was long.
    void dive() {
        std::vector<int32_t> path{root_};
        while (nodes_[path.back()].kind != kOpen) {
            const int32_t id = path.back();
            update(id);
            if (nodes_[id].closed) {
                path.pop_back();
                if (path.empty()) return;
                continue;
            }
            path.push_back(heavier(nodes_[id]));
        }
        below(path.back(), static_cast<int64_t>(path.size()) + 32);
        for (size_t i = path.size(); i-- > 0;)
            if (nodes_[path[i]].kind != kOpen) update(path[i]);
    }

    // The child whose gap adds more to that of its parent; never a closed one.
    int32_t heavier(const Node &node) const {
        const Node &a = nodes_[node.a], &b = nodes_[node.b];
        if (a.closed || b.closed) return a.closed ? node.b : node.a;
        if (options_.compile) return node.a;
        Wide from_a = gap(a.bounds.lower, a.bounds.upper), from_b = gap(b.bounds.lower, b.bounds.upper);
        if (node.kind == Compiled::kShannon)
            from_a = from_a * prob_[node.var], from_b = from_b * (1.0 - prob_[node.var]);
        else if (node.kind == Compiled::kAnd)
            from_a = from_a * b.bounds.upper.p(), from_b = from_b * a.bounds.upper.p();
        else
            from_a = from_a * b.bounds.lower.q(), from_b = from_b * a.bounds.lower.q();
        return from_a < from_b ? node.b : node.a;
    }

    // Depth first below an open node, for that many expansions.
    void below(int32_t start, int64_t expansions) {
        std::vector<int32_t> stack{start};
        while (!stack.empty()) {
            const int32_t id = stack.back();
            if (nodes_[id].kind == kOpen) {
                if (expansions-- <= 0 || out_of_budget()) break;
                expand(id);
            }
            Node &node = nodes_[id];
            if (!node.closed && node.kind < kOpen) {
                const bool first = !nodes_[node.a].closed;
                if (first || !nodes_[node.b].closed) {
                    stack.push_back(first ? node.a : node.b);
                    continue;
                }
                update(id);
            }
            stack.pop_back();
        }
        for (size_t i = stack.size(); i-- > 0;)
            if (nodes_[stack[i]].kind != kOpen) update(stack[i]);
    }

    bool out_of_budget() {
        if (store_.work > budget_)
            stopped_ = "work";
        else if (pace_.stop(std::max<int64_t>(1, store_.work - polled_) * 2))
            stopped_ = "time";
        polled_ = store_.work;
        return stopped_ != nullptr;
    }

    // One step on an open node, which becomes an inner one. A negated AND is the OR of negations, so its node is the
    // same with OR for AND.
    void expand(int32_t id) {
        const Ref r = nodes_[id].a;
        const int32_t gate = r >> 1;
        const int32_t flip = r & 1;
        std::vector<Ref> literals, rest(store_.begin(gate), store_.end(gate));
        const auto split = std::stable_partition(rest.begin(), rest.end(), [&](Ref k) { return store_.literal(k); });
        literals.assign(rest.begin(), split);
        rest.erase(rest.begin(), split);
        const uint8_t all = flip ? Compiled::kOr : Compiled::kAnd;
        if (!literals.empty()) {
            std::vector<int32_t> chain;
            if (!rest.empty()) {
                const Ref remaining = rest.size() == 1 ? rest[0] : store_.conjunction(rest);
                for (const Ref l : literals) store_.assign(store_.place(l), !GateStore::negated(l));
                chain.push_back(node_of(store_.restricted(remaining) ^ flip));
            }
            for (const Ref l : literals) chain.push_back(node_of(l ^ flip));
            become(id, all, chain);
            return;
        }
        std::vector<int32_t> part;
        const int32_t parts = store_.parts(rest, part);
        if (parts > 1) {
            std::vector<int32_t> chain;
            std::vector<std::vector<Ref>> kids(parts);
            for (size_t i = 0; i < rest.size(); ++i) kids[part[i]].push_back(rest[i]);
            for (auto &own : kids)
                chain.push_back(node_of((own.size() == 1 ? own[0] : store_.conjunction(own)) ^ flip));
            become(id, all, chain);
            return;
        }
        const int32_t place = branch(rest, 2 * gate);
        store_.assign(place, true);
        const int32_t a = node_of(store_.restricted(r));
        store_.assign(place, false);
        const int32_t b = node_of(store_.restricted(r));
        nodes_[id].kind = Compiled::kShannon, nodes_[id].var = place, nodes_[id].a = a, nodes_[id].b = b;
        update(id);
    }

    // The node becomes the chain of these; they are at least two.
    void become(int32_t id, uint8_t kind, const std::vector<int32_t> &chain) {
        int32_t last = chain[0];
        for (size_t i = 1; i + 1 < chain.size(); ++i) last = join(kind, -1, last, chain[i]);
        nodes_[id].kind = kind, nodes_[id].a = last, nodes_[id].b = chain.size() > 1 ? chain.back() : last;
        update(id);
    }

    // The variable to branch on: the first of the order; but two ANDs under an OR that hold a variable with both signs
    // are a decision on it already.
    int32_t branch(const std::vector<Ref> &rest, Ref whole) const {
        if (rest.size() == 2 && (rest[0] & 1) && (rest[1] & 1)) {
            const int32_t x = rest[0] >> 1, y = rest[1] >> 1;
            const Ref *i = store_.begin(x), *j = store_.begin(y);
            while (i != store_.end(x) && j != store_.end(y) && store_.literal(*i) && store_.literal(*j)) {
                if ((*i ^ 1) == *j) return store_.place(*i);
                if (*i < *j)
                    ++i;
                else
                    ++j;
            }
        }
        return store_.low(whole);
    }

    CircuitOptions options_;
    int64_t budget_, polled_ = 0;
    std::vector<int32_t> order_;
    std::vector<double> prob_;
    GateStore store_;
    Pace pace_;
    std::vector<Node> nodes_;
    std::vector<int32_t> node_of_ref_;
    int32_t root_ = -1;
    const char *stopped_ = nullptr;
};

// Which variables are read with a negative sign only, once negations are pushed to the variables.
inline std::vector<uint8_t> falling_variables(const CircuitView &c, const std::vector<int32_t> &gates) {
    std::vector<uint8_t> sign(gates.back() + 1, 0), of_var(c.num_vars, 0);  // bit 0: plain, bit 1: negated
    sign[gates.back()] = 1;
    for (auto g = gates.rbegin(); g != gates.rend(); ++g) {
        uint8_t s = sign[*g];
        if (c.kind[*g] == gVar) of_var[c.arg[*g]] |= s;
        if (c.kind[*g] == gNot) s = static_cast<uint8_t>((s >> 1) | ((s & 1) << 1));
        for (int64_t i = c.indptr[*g]; i < c.indptr[*g + 1]; ++i) sign[c.inputs[i]] |= s;
    }
    for (auto &s : of_var) s = s == 2;
    return of_var;
}

// "At least k" of literals has a closed form. True if the output is one and its table fits into the limits.
inline bool solve_vote(const CircuitView &c, int32_t output, const CircuitOptions &options, Pace &pace,
                       CircuitResult &out) {
    const Vote vote(c, output);
    constexpr int64_t kNodeBytes = 32;
    if (!vote.found() || vote.entries() > options.work ||
        vote.entries() > static_cast<int64_t>(options.memory / kNodeBytes))
        return false;
    out.nodes = out.work = vote.entries();
    out.stopped = "time";  // what the caller reads if the deadline ends the lines below
    if (options.compile)
        out.compiled = vote.compiled(pace);
    else
        out.bounds = vote.bounds(pace);
    out.exact = true, out.stopped = "done";
    return true;
}

// How many references the gates take in a store, at least: no budget of work below that can succeed.
inline int64_t stored_size(const CircuitView &c, const std::vector<int32_t> &gates) {
    int64_t size = 0;
    for (const int32_t g : gates) {
        size += 1 + c.width(g);
        if (c.kind[g] == gAtLeast) {  // its counter has a row for each that is needed
            const int64_t rows = std::min<int64_t>(c.arg[g], c.width(g) - c.arg[g] + 1);
            if (rows > 1) size += c.width(g) * rows;
        }
    }
    return size;
}

// The orders to try, each made when it is first asked for. One that equals an earlier one, that could not be made or
// whose compiler has used up the memory is given up.
class CircuitOrders {
  public:
    static constexpr int kCount = 5;

    CircuitOrders(const CircuitView &c, int32_t output, const std::vector<int32_t> &gates, int64_t size, Pace &pace)
        : c_(c), output_(output), gates_(gates), size_(size), pace_(pace) {}

    // The order of that number, or null if it is given up. Numbers are asked for one after the other; making an order
    // adds to `work` about what it costs.
    const std::vector<int32_t> *find(int which, int64_t &work) {
        if (static_cast<int>(made_.size()) <= which) {
            made_.push_back(make(which));
            work += size_ * (which == 1 ? 40 : 2);
            const auto last = made_.end() - 1;
            if (std::find(made_.begin(), last, *last) != last || (last->empty() && which > 0)) give_up(which);
        }
        return given_up_[which] ? nullptr : &made_[which];
    }
    void give_up(int which) { given_up_[which] = true; }

  private:
    std::vector<int32_t> make(int which) const {
        switch (which) {
            case 0:
                return walk_order(c_, output_, false);
            case 1:
                return force_order(c_, gates_, walk_order(c_, output_, false), pace_);
            case 2:
                return walk_order(c_, output_, true);
            case 3:
                return separator_order(c_, gates_, pace_);
            default:
                return frequency_order(c_, gates_, walk_order(c_, output_, false));
        }
    }

    const CircuitView &c_;
    int32_t output_;
    const std::vector<int32_t> &gates_;
    int64_t size_;
    Pace &pace_;
    std::vector<std::vector<int32_t>> made_;
    bool given_up_[kCount] = {};
};

// Tries the orders in turns with growing budgets of work, so that the best of them decides at a few times its own cost;
// bounds of all of them hold, so the best of these are kept.
inline void solve_circuit(const CircuitView &c, int32_t output, const CircuitOptions &options, CircuitResult &out) {
    Pace pace(*options.poll);
    if (solve_vote(c, output, options, pace, out)) return;
    const std::vector<int32_t> gates = needed_gates(c, output);
    const int64_t size = stored_size(c, gates);
    if (size > options.work) {
        out.stopped = "work";
        return;
    }
    CircuitOrders orders(c, output, gates, size, pace);
    const std::vector<uint8_t> falling = falling_variables(c, gates);
    for (int64_t budget = 16 * size + 20000;; budget = budget > (int64_t{1} << 58) ? budget : 6 * budget) {
        bool tried = false;
        for (int which = 0; which < CircuitOrders::kCount; ++which) {
            const std::vector<int32_t> *order = orders.find(which, out.work);
            if (!order) continue;
            if (out.work >= options.work) {
                out.stopped = "work";
                return;
            }
            CircuitCompiler compiler(c, gates, *order, falling, options, std::min(budget, options.work - out.work));
            compiler.run();
            tried = true;
            out.work += compiler.work();
            out.nodes = std::max(out.nodes, compiler.nodes());
            out.bounds = tighter(out.bounds, compiler.bounds());
            if (compiler.closed()) {
                out.exact = true;
                out.nodes = compiler.nodes(), out.stopped = "done";
                if (options.compile) out.compiled = compiler.compiled();
                return;
            }
            const char *why = compiler.stopped();
            out.stopped = why ? why : "done";
            if (!why) return;  // the bounds are close enough
            if (why[0] == 't') return;
            if (why[0] == 'm') orders.give_up(which);
        }
        if (!tried) return;
    }
}

}  // namespace sharpdnf
