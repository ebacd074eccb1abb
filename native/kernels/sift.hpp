// An order of the variables made better by sifting (Rudell 1993).
//
// The clauses are one decision diagram with three branches at a node: those that hold x, those that hold its negation,
// and those without x; common ends are stored once. Its size says how many kinds of open clauses an order leaves, all
// levels together. Every variable in turn moves through all places and stays where the diagram is smallest. Moving by
// one place changes the nodes of two levels only, so that a diagram of thousands of nodes is sifted in milliseconds.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "formula.hpp"
#include "poll.hpp"
#include "subformula.hpp"

namespace sharpdnf {

class Sifting {
  public:
    // `order` lists every variable that occurs, each once.
    Sifting(const Formula &f, std::vector<int32_t> order, Pace &pace) : order_(std::move(order)), pace_(pace) {
        level_.assign(f.num_vars, -1);
        for (std::size_t i = 0; i < order_.size(); ++i) level_[order_[i]] = static_cast<int32_t>(i);
        levels_.resize(order_.size());
        nodes_.resize(2);
        for (int32_t end = 0; end < 2; ++end) nodes_[end].var = -1;
        build(f);
    }

    int64_t size() const { return size_; }
    int64_t work() const { return work_; }

    // Sifts until a pass over the variables saves less than a fiftieth, or the steps are used up.
    std::vector<int32_t> run(int64_t max_work) {
        for (int64_t before = 2 * size_ + 2; size_ + before / 50 < before && work_ < max_work;) {
            before = size_;
            std::vector<int32_t> widest = order_;
            std::stable_sort(widest.begin(), widest.end(),
                             [&](int32_t x, int32_t y) { return levels_[level_[x]].count > levels_[level_[y]].count; });
            for (const int32_t v : widest) {
                sift(v);
                if (work_ >= max_work) break;
            }
        }
        return order_;
    }

  private:
    struct Node {
        int32_t var = -1;               // -1 if it is free or an end
        int32_t branch[3] = {0, 0, 0};  // with the variable, with its negation, without either
        int32_t readers = 0;            // branches that lead here
        int32_t next = -1;              // in the chain of its hash
    };
    struct Level {
        std::vector<int32_t> chains = std::vector<int32_t>(16, -1);
        int32_t count = 0;
    };

    static uint64_t hash(const int32_t *branch) {
        const auto a = static_cast<uint64_t>(static_cast<uint32_t>(branch[0])),
                   b = static_cast<uint64_t>(static_cast<uint32_t>(branch[1])),
                   c = static_cast<uint64_t>(static_cast<uint32_t>(branch[2]));
        return mix((a << 32 | b) + mix(c + 0x9e3779b97f4a7c15ULL));
    }
    int32_t level_of(int32_t node) const { return nodes_[node].var < 0 ? kLast : level_[nodes_[node].var]; }
    void did(int64_t work) {
        work_ += work;
        pace_.check(work);
    }

    // Clauses sorted by the order, those with a common beginning one after the other, from the last node to the first.
    void build(const Formula &f) {
        std::vector<std::vector<int32_t>> clauses(f.num_clauses);
        for (int64_t c = 0; c < f.num_clauses; ++c) {
            for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i)
                clauses[c].push_back(2 * level_[f.literals[i] >> 1] + (f.literals[i] & 1));
            std::sort(clauses[c].begin(), clauses[c].end());
            did(4 * (f.indptr[c + 1] - f.indptr[c]));
        }
        std::sort(clauses.begin(), clauses.end());
        root_ = made(clauses, 0, clauses.size(), 0);
        ++nodes_[root_].readers;
    }
    // As deep as the longest clause.
    int32_t made(const std::vector<std::vector<int32_t>> &clauses, std::size_t first, std::size_t last,
                 std::size_t depth) {
        if (first < last && clauses[first].size() == depth) {
            // A clause that ends here goes together with longer ones only if it absorbs them.
            return kEmptyClause;
        }
        int32_t out = kNone;
        for (std::size_t end = last; end > first;) {
            const int32_t level = clauses[end - 1][depth] / 2;
            int32_t branch[3] = {kNone, kNone, out};
            for (int sign = 1; sign >= 0; --sign) {
                std::size_t begin = end;
                while (begin > first && clauses[begin - 1][depth] == 2 * level + sign) --begin;
                if (begin < end) branch[sign] = made(clauses, begin, end, depth + 1);
                end = begin;
            }
            out = find(order_[level], branch);
        }
        return out;
    }

    // The node with these branches. Nothing reads it yet.
    int32_t find(int32_t var, const int32_t *branch) {
        if (branch[0] == kNone && branch[1] == kNone) return branch[2];
        Level &level = levels_[level_[var]];
        std::size_t at = hash(branch) & (level.chains.size() - 1);
        for (int32_t node = level.chains[at]; node >= 0; node = nodes_[node].next)
            if (std::equal(branch, branch + 3, nodes_[node].branch)) return node;
        int32_t node;
        if (free_.empty()) {
            node = static_cast<int32_t>(nodes_.size());
            nodes_.emplace_back();
        } else {
            node = free_.back();
            free_.pop_back();
        }
        nodes_[node].var = var;
        std::copy(branch, branch + 3, nodes_[node].branch);
        nodes_[node].readers = 0;
        for (int i = 0; i < 3; ++i) ++nodes_[branch[i]].readers;
        hang(node, level);
        ++size_;
        return node;
    }
    void hang(int32_t node, Level &level) {
        if (++level.count > static_cast<int32_t>(level.chains.size())) {
            std::vector<int32_t> old(level.chains.size() * 2, -1);
            old.swap(level.chains);
            for (int32_t head : old)
                while (head >= 0) {
                    const int32_t next = nodes_[head].next;
                    link(head, level);
                    head = next;
                }
        }
        link(node, level);
    }
    void link(int32_t node, Level &level) {
        const std::size_t at = hash(nodes_[node].branch) & (level.chains.size() - 1);
        nodes_[node].next = level.chains[at];
        level.chains[at] = node;
    }
    void unhang(int32_t node) {
        Level &level = levels_[level_[nodes_[node].var]];
        int32_t *at = &level.chains[hash(nodes_[node].branch) & (level.chains.size() - 1)];
        while (*at != node) at = &nodes_[*at].next;
        *at = nodes_[node].next;
        --level.count;
    }
    void release(int32_t node) {
        if (--nodes_[node].readers > 0 || nodes_[node].var < 0) return;
        dead_.push_back(node);
        while (!dead_.empty()) {
            const int32_t gone = dead_.back();
            dead_.pop_back();
            unhang(gone);
            --size_;
            for (const int32_t below : nodes_[gone].branch)
                if (--nodes_[below].readers == 0 && nodes_[below].var >= 0) dead_.push_back(below);
            nodes_[gone].var = -1;
            free_.push_back(gone);
        }
    }

    // Exchanges the variables x of level `at` and y below it. Nodes of x that lead to y become nodes of y, in place, so
    // that what reads them need not know.
    void swap(int32_t at) {
        const int32_t x = order_[at], y = order_[at + 1];
        moved_.clear();
        for (const int32_t head : levels_[at].chains)
            for (int32_t node = head; node >= 0; node = nodes_[node].next)
                for (const int32_t below : nodes_[node].branch)
                    if (nodes_[below].var == y) {
                        moved_.push_back(node);
                        break;
                    }
        did(static_cast<int64_t>(levels_[at].count) + 8 * static_cast<int64_t>(moved_.size()) + 4);
        for (const int32_t node : moved_) unhang(node);
        std::swap(levels_[at], levels_[at + 1]);
        order_[at] = y, order_[at + 1] = x;
        level_[y] = at, level_[x] = at + 1;
        for (const int32_t node : moved_) {
            int32_t below[3], parts[3][3], branch[3];
            std::copy(nodes_[node].branch, nodes_[node].branch + 3, below);
            for (int i = 0; i < 3; ++i) {
                const bool reads = nodes_[below[i]].var == y;
                for (int j = 0; j < 3; ++j)
                    parts[j][i] = reads ? nodes_[below[i]].branch[j] : j == 2 ? below[i] : kNone;
            }
            for (int j = 0; j < 3; ++j) {
                branch[j] = find(x, parts[j]);
                ++nodes_[branch[j]].readers;
            }
            nodes_[node].var = y;
            std::copy(branch, branch + 3, nodes_[node].branch);
            hang(node, levels_[at]);
            for (const int32_t old : below) release(old);
        }
    }

    // Moves v to the nearer end first, then to the other one, then back to its best place. Gives up in one direction
    // where the diagram has grown by half.
    void sift(int32_t v) {
        const auto last = static_cast<int32_t>(order_.size()) - 1;
        int32_t best = level_[v];
        int64_t least = size_;
        const bool down_first = level_[v] > last / 2;
        for (int turn = 0; turn < 2; ++turn) {
            const bool down = (turn == 0) == down_first;
            while (down ? level_[v] < last : level_[v] > 0) {
                swap(down ? level_[v] : level_[v] - 1);
                if (size_ < least) least = size_, best = level_[v];
                if (size_ > least + least / 2 + 16) break;
            }
            // Where it stopped short, the way back leads through the start anyway.
        }
        while (level_[v] < best) swap(level_[v]);
        while (level_[v] > best) swap(level_[v] - 1);
    }

    static constexpr int32_t kNone = 0, kEmptyClause = 1;
    static constexpr int32_t kLast = std::numeric_limits<int32_t>::max();
    std::vector<int32_t> order_, level_;
    Pace &pace_;
    std::vector<Level> levels_;
    std::vector<Node> nodes_;
    std::vector<int32_t> free_, dead_, moved_;
    int32_t root_ = 0;
    int64_t size_ = 0, work_ = 0;
};

}  // namespace sharpdnf
