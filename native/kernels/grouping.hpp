// Groups of clauses for grouped coverage (sample.hpp): a partition with a small S' = sum of P(E_g).
//
// A node is a set of clauses; its event is the conjunction of all literals that they share. The node parts its clauses
// by one literal each that is not in the event: the one that saves most in this node, or else the heaviest. Those that
// take the same literal are a child, whose event is longer. From the leaves up
//   S'(node) = min(P(event of the node), sum of S' of the children),   S'(clause) = p(C).
// So conjunctions are found without looking at pairs, nested ones too. Everything is in units of the largest p(C): only
// ratios count, whatever the scale. The work is linear in the literals: a node beyond the budget is not parted.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <vector>

#include "formula.hpp"
#include "poll.hpp"

struct Grouping {
    struct Group {
        int32_t first, last;       // of `clauses`: at least two
        int32_t event, event_end;  // of `literals`
        double weight;             // P(E_g) in units of the largest p(C)
    };
    std::vector<int32_t> clauses, literals;
    std::vector<Group> groups;  // clauses in none of them are groups of their own
    double scale = std::numeric_limits<double>::infinity();  // S' in these units
};

class Grouper {
  public:
    // `prob` is p(C) in units of exp(log_unit).
    Grouper(const Formula &f, const std::vector<double> &prob, double log_unit, Pace &pace)
        : f_(f), prob_(prob), log_unit_(log_unit), pace_(pace) {}

    // Groups among the first `heavy` clauses of `order`; all the others sum up to `light`. An S' that is not below
    // `limit` is of no use, and not looked for.
    Grouping run(const std::vector<int32_t> &order, int64_t heavy, double light, double limit) {
        if (heavy < 2) return {};
        out_.clauses.assign(order.begin(), order.begin() + heavy);
        weight_.assign(2 * f_.num_vars, 0.0f);
        slot_.assign(2 * f_.num_vars, -1);
        key_.resize(heavy), scattered_.resize(heavy);
        limit_ = limit - light;
        Node root{0, static_cast<int32_t>(heavy), 0.0};
        for (const int32_t c : out_.clauses) budget_ += PASSES * width(c), root.sum += prob_[c];
        out_.scale = light + part(root, 0, 0);
        return std::move(out_);
    }

  private:
    static constexpr int64_t PASSES = 12;
    static constexpr int DEPTH = 64, TRIED = 64;
    struct Node {
        int32_t first, last;
        double sum;  // of p(C)
    };

    int64_t width(int32_t c) const { return f_.indptr[c + 1] - f_.indptr[c]; }
    const int32_t *begin(int32_t c) const { return f_.literals + f_.indptr[c]; }
    const int32_t *end(int32_t c) const { return f_.literals + f_.indptr[c + 1]; }

    // The literals that all clauses of the node hold; it is known that there are `least` of them.
    std::vector<int32_t> shared(const Node &node, std::size_t least) {
        const int32_t *clause = out_.clauses.data() + node.first;
        std::vector<int32_t> event(begin(*clause), end(*clause)), kept;
        while (++clause != out_.clauses.data() + node.last && event.size() > least) {
            kept.clear();
            std::set_intersection(event.begin(), event.end(), begin(*clause), end(*clause), std::back_inserter(kept));
            event.swap(kept);
            spend(width(*clause));
        }
        return event;
    }
    double event_prob(const std::vector<int32_t> &event) const {
        LogProduct product;
        for (const int32_t literal : event) product.multiply(f_.literal_prob(literal));
        return std::exp(product.log() - log_unit_);
    }
    void spend(int64_t literals) {
        budget_ -= literals;
        pace_.check(literals);
    }

    // S' of the node; its groups are appended to the output.
    double part(const Node &node, std::size_t least, int depth) {
        if (node.last - node.first == 1) return node.sum;
        const std::vector<int32_t> event = shared(node, least);
        const double together = event_prob(event);
        const auto groups_before = out_.groups.size();
        const auto literals_before = static_cast<int32_t>(out_.literals.size());
        const double apart = depth < DEPTH && budget_ > 0 ? parted(node, event, together, depth) : node.sum;
        if (!(together < apart)) return apart;
        out_.groups.resize(groups_before);
        out_.literals.resize(literals_before);
        out_.literals.insert(out_.literals.end(), event.begin(), event.end());
        out_.groups.push_back({node.first, node.last, literals_before, static_cast<int32_t>(out_.literals.size()), together});
        return together;
    }

    // The sum of the children's S', or a lower bound of it that shows it to be of no use.
    double parted(const Node &node, const std::vector<int32_t> &event, double together, int depth) {
        choose_literals(node, event, together);
        std::vector<Node> children = bucket(node);
        // A child's S' is at least its largest clause, which stands first but for the steps of the order.
        double least = 0.0, apart = 0.0;
        for (const Node &child : children) least += 0.9 * prob_[out_.clauses[child.first]];
        if (least > together) return least;
        if (depth == 0 && least >= limit_) return std::numeric_limits<double>::infinity();
        // Where there is most to save is tried first: if nothing comes of it there, the others are left alone.
        const auto several = std::partition(children.begin(), children.end(), [](const Node &n) { return n.last - n.first > 1; });
        for (auto child = several; child != children.end(); ++child) apart += child->sum;
        const auto hope = [this](const Node &n) { return n.sum - prob_[out_.clauses[n.first]]; };
        const auto first = children.begin();
        if (several - first > TRIED)
            std::nth_element(first, first + TRIED, several, [&](const Node &a, const Node &b) { return hope(a) > hope(b); });
        double hoped = 0.0, saved = 0.0;
        for (auto child = first; child != several; ++child) {
            if (child - first >= TRIED && saved < 0.1 * hoped) {
                apart += child->sum;
                continue;
            }
            const double scale = part(*child, event.size() + 1, depth + 1);
            apart += scale, saved += child->sum - scale, hoped += hope(*child);
        }
        return apart;
    }

    // key_: the literal by which each clause of the node goes to a child, -1 for none.
    void choose_literals(const Node &node, const std::vector<int32_t> &event, double together) {
        for (int32_t i = node.first; i < node.last; ++i) {
            const int32_t c = out_.clauses[i];
            const auto p = static_cast<float>(prob_[c]);
            for (const auto *l = begin(c); l != end(c); ++l) weight_[*l] += p;
            spend(2 * width(c));
        }
        for (const int32_t literal : event) weight_[literal] = 0.0f;
        for (int32_t i = node.first; i < node.last; ++i) {
            const int32_t c = out_.clauses[i];
            int32_t best = -1;
            double most = 0.0;
            for (const auto *l = begin(c); l != end(c); ++l) {
                const double weight = weight_[*l];
                if (weight <= 0.0) continue;
                const double saved = weight - together * f_.literal_prob(*l);
                const double score = saved > 0.0 ? node.sum + saved : weight;
                if (score > most) most = score, best = *l;
            }
            key_[i] = best;
        }
        for (int32_t i = node.first; i < node.last; ++i)
            for (const auto *l = begin(out_.clauses[i]); l != end(out_.clauses[i]); ++l) weight_[*l] = 0.0f;
    }

    // Puts the clauses that have the same key together, in the order in which they stood.
    std::vector<Node> bucket(const Node &node) {
        std::vector<Node> children;
        for (int32_t i = node.first; i < node.last; ++i) {
            int32_t child = key_[i] < 0 ? -1 : slot_[key_[i]];
            if (child < 0) {
                child = static_cast<int32_t>(children.size());
                if (key_[i] >= 0) slot_[key_[i]] = child;
                children.push_back({0, 0, 0.0});
            }
            ++children[child].last;
            children[child].sum += prob_[out_.clauses[i]];
            scattered_[i] = child;
        }
        int32_t start = node.first;
        for (Node &child : children) {
            const int32_t size = child.last;
            child.first = child.last = start;
            start += size;
        }
        for (int32_t i = node.first; i < node.last; ++i) {
            if (key_[i] >= 0) slot_[key_[i]] = -1;
            key_[i] = out_.clauses[i];
        }
        for (int32_t i = node.first; i < node.last; ++i) out_.clauses[children[scattered_[i]].last++] = key_[i];
        return children;
    }

    const Formula &f_;
    const std::vector<double> &prob_;
    const double log_unit_;
    double limit_ = 0.0;
    Pace &pace_;
    int64_t budget_ = 0;
    Grouping out_;
    std::vector<float> weight_;  // of each literal in the node at hand; they only choose, so a float is enough
    std::vector<int32_t> slot_, key_, scattered_;
};
