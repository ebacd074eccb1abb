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
#include <vector>

#include "formula.hpp"
#include "poll.hpp"

namespace sharpdnf {

struct Grouping {
    struct Group {
        int32_t first, last;       // its clauses are clauses[first .. last), at least two
        int32_t event, event_end;  // its event is literals[event .. event_end)
        double weight;             // P(E_g) in units of the largest p(C)
    };
    std::vector<int32_t> clauses, literals;
    std::vector<Group> groups;                               // clauses in none of them are groups of their own
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
        cells_.resize(2 * f_.num_vars);
        Node root{0, static_cast<int32_t>(heavy), 0.0};
        for (const int32_t c : out_.clauses) budget_ += PASSES * width(c), root.sum += prob_[c];
        limit_ = limit - light;
        out_.scale = light + part(root, 0);
        return std::move(out_);
    }

  private:
    static constexpr int64_t PASSES = 12;
    static constexpr int DEPTH = 64, TRIED = 64;
    static constexpr double NO_USE = std::numeric_limits<double>::infinity();
    struct Node {
        int32_t first, last;
        double sum;  // of p(C)
        int32_t size() const { return last - first; }
    };
    // What is known of a literal within the node at hand. It only serves to choose, so a float is precise enough.
    struct Cell {
        float weight = 0.0f;  // the sum of p(C) over the clauses that hold it
        int32_t count = 0;    // how many clauses these are; later -1 - child, for the child that the literal leads to
    };

    int64_t width(int32_t c) const { return f_.indptr[c + 1] - f_.indptr[c]; }
    const int32_t *begin(int32_t c) const { return f_.literals + f_.indptr[c]; }
    const int32_t *end(int32_t c) const { return f_.literals + f_.indptr[c + 1]; }
    double first_prob(const Node &node) const { return prob_[out_.clauses[node.first]]; }
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
    double part(const Node &node, int depth) {
        // A group is of use if its clauses sum up to more than P(E). Each of them has a literal more than E, hence
        // P(E) >= p(C) / the likeliest literal. (What stands first is the largest but for the steps of the order.)
        if (node.size() < 2 || node.sum * likeliest_ < 0.9 * first_prob(node) || budget_ <= 0) return node.sum;
        std::vector<int32_t> event;
        const auto groups_before = out_.groups.size();
        const auto literals_before = static_cast<int32_t>(out_.literals.size());
        double together, apart = node.sum;
        if (node.size() == 2) {
            const int32_t a = out_.clauses[node.first], b = out_.clauses[node.first + 1];
            std::set_intersection(begin(a), end(a), begin(b), end(b), std::back_inserter(event));
            spend(width(a) + width(b));
            together = event_prob(event);
        } else {
            weigh(node);
            const int32_t c = out_.clauses[node.first];
            std::copy_if(begin(c), end(c), std::back_inserter(event),
                         [&](int32_t l) { return cells_[l].count == node.size(); });
            together = event_prob(event);
            apart = depth == 0 && hopeless(node) ? NO_USE : parted(node, event, together, depth);
        }
        if (!(together < apart)) return apart;
        out_.groups.resize(groups_before);
        out_.literals.resize(literals_before);
        out_.literals.insert(out_.literals.end(), event.begin(), event.end());
        out_.groups.push_back(
            {node.first, node.last, literals_before, static_cast<int32_t>(out_.literals.size()), together});
        return together;
    }

    void weigh(const Node &node) {
        for (int32_t i = node.first; i < node.last; ++i) {
            const int32_t c = out_.clauses[i];
            const auto p = static_cast<float>(prob_[c]);
            for (const auto *l = begin(c); l != end(c); ++l) cells_[*l].weight += p, ++cells_[*l].count;
            spend(2 * width(c));
        }
    }
    // Whether no grouping can come below the limit. Asked at the root only, where the likeliest literal is found on the
    // way. A group whose clauses sum up to W weighs at least as much as its largest clause, hence at least the sum of
    // p^2 / W over its clauses; and W is at most what the clauses of one literal sum up to.
    bool hopeless(const Node &node) {
        double squares = 0.0;
        likeliest_ = 0.0;
        for (int32_t i = node.first; i < node.last; ++i) squares += prob_[out_.clauses[i]] * prob_[out_.clauses[i]];
        float most = 0.0f;
        for (int32_t literal = 0; literal < static_cast<int32_t>(cells_.size()); ++literal) {
            if (!cells_[literal].count) continue;
            most = std::max(most, cells_[literal].weight);
            likeliest_ = std::max(likeliest_, f_.literal_prob(literal));
        }
        return limit_ < NO_USE && squares > limit_ * most;
    }

    // The sum of the children's S', or infinity if it is seen to be of no use.
    double parted(const Node &node, const std::vector<int32_t> &event, double together, int depth) {
        double apart = 0.0;  // begins with the sum of the clauses that are alone
        std::vector<Node> children = bucket(node, event, together, apart);
        if (depth == DEPTH) return node.sum;
        // A child's S' is at least its largest clause.
        double least = 0.9 * apart;
        for (const Node &child : children) least += 0.9 * first_prob(child);
        if (least > together || (depth == 0 && least >= limit_)) return NO_USE;
        // The child that can save most is tried first: if even that one saves nothing, the others are not tried.
        const auto hope = [this](const Node &n) { return n.sum - first_prob(n); };
        if (children.size() > TRIED)
            std::nth_element(children.begin(), children.begin() + TRIED, children.end(),
                             [&](const Node &a, const Node &b) { return hope(a) > hope(b); });
        double hoped = 0.0, saved = 0.0;
        for (std::size_t i = 0; i < children.size(); ++i) {
            if (i >= TRIED && saved < 0.1 * hoped) {
                apart += children[i].sum;
                continue;
            }
            hoped += hope(children[i]);
            const double scale = part(children[i], depth + 1);
            apart += scale, saved += children[i].sum - scale;
        }
        return apart;
    }

    // The literal by which clause c goes to a child, -1 if it shares none with others but those of the event.
    int32_t best_literal(int32_t c, const Node &node, double together) const {
        int32_t best = -1;
        double most = 0.0;
        for (const auto *l = begin(c); l != end(c); ++l) {
            const Cell &cell = cells_[*l];
            if (cell.count == 1 || cell.weight <= 0.0f) continue;
            const double weight = cell.weight, saved = weight - together * f_.literal_prob(*l);
            const double score = saved > 0.0 ? node.sum + saved : weight;
            if (score > most) most = score, best = *l;
        }
        return best;
    }

    // Puts the clauses of each child together, in the order in which they stood, and those that are alone behind them;
    // these are summed up in `alone`. The cells are clear again.
    std::vector<Node> bucket(const Node &node, const std::vector<int32_t> &event, double together, double &alone) {
        for (const int32_t literal : event) cells_[literal].weight = 0.0f;
        std::vector<Node> children;
        const int32_t size = node.size();
        std::vector<int32_t> child_of(size),
            before(out_.clauses.begin() + node.first, out_.clauses.begin() + node.last);
        for (int32_t i = 0; i < size; ++i) child_of[i] = best_literal(before[i], node, together);
        for (int32_t i = 0; i < size; ++i) {
            const double p = prob_[before[i]];
            if (child_of[i] < 0) {
                alone += p;
                continue;
            }
            int32_t &slot = cells_[child_of[i]].count;
            if (slot > 0) {
                slot = -1 - static_cast<int32_t>(children.size());
                children.push_back({0, 0, 0.0});
            }
            child_of[i] = -1 - slot;
            ++children[child_of[i]].last;
            children[child_of[i]].sum += p;
        }
        int32_t start = node.first;
        for (Node &child : children) {
            const int32_t clauses = child.last;
            child.first = child.last = start;
            start += clauses;
        }
        for (int32_t i = 0; i < size; ++i)
            out_.clauses[child_of[i] < 0 ? start++ : children[child_of[i]].last++] = before[i];
        if (size > f_.num_vars)
            std::fill(cells_.begin(), cells_.end(), Cell{});
        else
            for (const int32_t c : before)
                for (const auto *l = begin(c); l != end(c); ++l) cells_[*l] = Cell{};
        return children;
    }

    const Formula &f_;
    const std::vector<double> &prob_;
    const double log_unit_;
    double limit_ = 0.0, likeliest_ = 1.0;
    Pace &pace_;
    int64_t budget_ = 0;
    Grouping out_;
    std::vector<Cell> cells_;
};

}  // namespace sharpdnf
