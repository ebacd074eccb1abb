// Values of the exact methods (`Elimination`, `Shannon`): nodes of a circuit, or P and 1 - P side by side.
#pragma once
#include <vector>

#include "dtree.hpp"
#include "lift.hpp"
#include "wide.hpp"

namespace sharpdnf {

// Builds a `Compiled` with every node once: equal nodes are found again, what is constant is folded. Node 0 is false,
// node 1 true.
class NodeBuilder {
  public:
    using Value = int32_t;

    // With `lifted`, variables are those of the lifted formula, and the nodes speak of the original's.
    explicit NodeBuilder(std::size_t memory, const Lifted *lifted = nullptr)
        : memory_(memory), lifted_(lifted), table_(1 << 10, -1) {
        nodes_.push_back({Compiled::kFalse, -1, 0, 0});
        nodes_.push_back({Compiled::kTrue, -1, 0, 0});
    }
    static constexpr Value nothing() { return 0; }
    static constexpr Value truth() { return 1; }
    static bool is_true(Value a) { return a == 1; }

    Value meet(Value a, Value b) {
        if (a == 1 || b == 1) return 1;
        if (a == 0 || a == b) return b;
        if (b == 0) return a;
        return find({Compiled::kOr, -1, std::min(a, b), std::max(a, b)});
    }
    Value mix(int32_t v, Value high, Value low) {
        return lifted_ ? decide(lifted_->event_of[v], high, low) : shannon(v, high, low);
    }
    Value term(const int32_t *first, const int32_t *last) {
        if (lifted_ || last - first == 1) {
            Value out = truth();
            for (const int32_t *lit = last; lit-- != first;)
                out = *lit & 1 ? mix(*lit >> 1, 0, out) : mix(*lit >> 1, out, 0);
            return out;
        }
        const auto start = static_cast<int32_t>(literals_.size());
        literals_.insert(literals_.end(), first, last);
        nodes_.push_back({Compiled::kTerm, -1, start, static_cast<int32_t>(literals_.size())});
        return static_cast<Value>(nodes_.size()) - 1;
    }
    std::size_t bytes() const { return 16 * nodes_.capacity() + 4 * table_.capacity() + 4 * literals_.capacity(); }
    bool full() const { return bytes() > memory_ || nodes_.size() > (std::size_t{1} << 30); }

    // What the root needs, children before parents.
    Compiled compiled(Value root) const {
        std::vector<int32_t> place(nodes_.size(), -1);
        place[root] = 0;
        for (int32_t i = root; i >= 0; --i)  // children have smaller numbers
            if (place[i] >= 0 && nodes_[i].kind >= Compiled::kOr) place[nodes_[i].a] = place[nodes_[i].b] = 0;
        Compiled out;
        for (int32_t i = 0; i <= root; ++i) {
            if (place[i] < 0) continue;
            const Node &node = nodes_[i];
            place[i] = static_cast<int32_t>(out.kind.size());
            out.kind.push_back(node.kind);
            out.var.push_back(node.var);
            if (node.kind == Compiled::kTerm) {
                out.a.push_back(static_cast<int32_t>(out.literals.size()));
                out.literals.insert(out.literals.end(), literals_.begin() + node.a, literals_.begin() + node.b);
                out.b.push_back(static_cast<int32_t>(out.literals.size()));
            } else {
                const bool inner = node.kind >= Compiled::kOr;
                out.a.push_back(inner ? place[node.a] : 0);
                out.b.push_back(inner ? place[node.b] : 0);
            }
        }
        return out;
    }

  private:
    struct Node {
        uint8_t kind;
        int32_t var, a, b;
        bool operator==(const Node &o) const { return kind == o.kind && var == o.var && a == o.a && b == o.b; }
    };
    Value shannon(int32_t v, Value high, Value low) {
        return high == low ? high : find({Compiled::kShannon, v, high, low});
    }
    // The node that is `high` where the event happens and `low` elsewhere. "All of" is decided by the first part that
    // fails, "any of" by the first that holds.
    Value decide(int32_t id, Value high, Value low) {
        const Event &event = lifted_->events[id];
        if (event.kind == Event::kLiteral)
            return event.literal & 1 ? shannon(event.literal >> 1, low, high) : shannon(event.literal >> 1, high, low);
        Value out = event.kind == Event::kAll ? high : low;
        for (std::size_t i = event.of.size(); i-- > 0;)
            out = event.kind == Event::kAll ? decide(event.of[i], out, low) : decide(event.of[i], high, out);
        return out;
    }
    static uint64_t hash(const Node &n) {
        return mix64(mix64(static_cast<uint64_t>(static_cast<uint32_t>(n.a)) << 32 | static_cast<uint32_t>(n.b)) +
                     (static_cast<uint64_t>(static_cast<uint32_t>(n.var)) << 3 | n.kind));
    }
    static uint64_t mix64(uint64_t x) { return sharpdnf::mix(x + 0x9e3779b97f4a7c15ULL); }
    Value find(const Node &node) {
        std::size_t i = hash(node) & (table_.size() - 1);
        for (; table_[i] >= 0; i = (i + 1) & (table_.size() - 1))
            if (nodes_[table_[i]] == node) return table_[i];
        const auto id = static_cast<Value>(nodes_.size());
        table_[i] = id;
        nodes_.push_back(node);
        if (++entries_ * 2 > table_.size()) grow();
        if ((entries_ & 0xfff) == 0 && full()) throw Stopped{};
        return id;
    }
    void grow() {
        std::vector<int32_t> old(table_.size() * 2, -1);
        old.swap(table_);
        for (const int32_t id : old) {
            if (id < 0) continue;
            std::size_t i = hash(nodes_[id]) & (table_.size() - 1);
            while (table_[i] >= 0) i = (i + 1) & (table_.size() - 1);
            table_[i] = id;
        }
    }

    std::size_t memory_, entries_ = 0;
    const Lifted *lifted_;
    std::vector<Node> nodes_;
    std::vector<int32_t> table_, literals_;
};

// P and 1 - P of an event, each with the relative precision of a double: nothing but sums and products of positives.
struct TwoProbs {
    Wide holds, fails;
};
class BothProbs {
  public:
    using Value = TwoProbs;

    // weights[2v] is P(v), weights[2v+1] is 1 - P(v).
    explicit BothProbs(const double *weights) : weights_(weights) {}
    static Value nothing() { return {Wide(), Wide::of(1.0)}; }
    static Value truth() { return {Wide::of(1.0), Wide()}; }
    static bool is_true(const Value &a) { return a.fails.zero(); }
    static Value meet(const Value &a, const Value &b) { return {a.holds + a.fails * b.holds, a.fails * b.fails}; }
    Value mix(int32_t v, const Value &high, const Value &low) const {
        const double yes = weights_[2 * v], no = weights_[2 * v + 1];
        return {high.holds * yes + low.holds * no, high.fails * yes + low.fails * no};
    }
    // 1 - l1 l2 ... is (1 - l1) + l1 (1 - l2) + ...
    Value term(const int32_t *first, const int32_t *last) const {
        Value out = truth();
        for (const int32_t *lit = first; lit != last; ++lit) {
            out.fails = out.fails + out.holds * weights_[*lit ^ 1];
            out.holds = out.holds * weights_[*lit];
        }
        return out;
    }
    std::size_t bytes() const { return 0; }
    bool full() const { return false; }

  private:
    const double *weights_;
};

}  // namespace sharpdnf
