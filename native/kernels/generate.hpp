// Kernels of the generators: the paper's slot allocation and placement, uniform clauses, simple paths.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace sharpdnf {

namespace generate {

// xoshiro256** (Blackman, Vigna), seeded by splitmix64: one 64-bit seed decides the whole formula.
class Rng {
  public:
    explicit Rng(uint64_t seed) {
        for (auto &word : state_) {
            seed += 0x9e3779b97f4a7c15ULL;
            uint64_t z = seed;
            z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
            z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
            word = z ^ (z >> 31);
        }
    }
    uint64_t next() {
        const uint64_t out = rotl(state_[1] * 5, 7) * 9, t = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= t;
        state_[3] = rotl(state_[3], 45);
        return out;
    }
    // Uniform in [0, bound), without bias (Lemire 2019): the few words that would bring it are redrawn.
    int64_t below(int64_t bound) {
        const auto b = static_cast<uint64_t>(bound);
        Wide product = static_cast<Wide>(next()) * b;
        if (static_cast<uint64_t>(product) < b) {
            const uint64_t surplus = (0 - b) % b;
            while (static_cast<uint64_t>(product) < surplus) product = static_cast<Wide>(next()) * b;
        }
        return static_cast<int64_t>(product >> 64);
    }

  private:
    __extension__ using Wide = unsigned __int128;
    static uint64_t rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
    uint64_t state_[4];
};

// Adds a uniform composition of `slots` into `boxes` parts >= 1 to `out`, by selection sampling of the boxes - 1
// separators among the slots - 1 gaps. False as soon as a box passes `cap`: hopeless draws are cheap.
inline bool compose(Rng &rng, int64_t slots, int64_t boxes, int64_t shift, int64_t cap, int64_t *out) {
    int64_t gaps = slots - 1, separators = boxes - 1, box = 0, size = 1;
    for (; gaps > 0; --gaps) {
        if (rng.below(gaps) < separators) {
            out[box] += size - shift;
            if (out[box] > cap) return false;
            --separators, ++box, size = 1;
        } else if (out[box] + ++size - shift > cap) {
            return false;
        }
    }
    out[box] += size - shift;
    return out[box] <= cap;
}

// Where the variables go: `variable` holds the clauses' variables one clause after the other.
struct Placement {
    std::vector<int32_t> variable;
    int64_t tries = 0;
    bool done = false;
};

// Slots still open, one entry per slot: a clause is drawn in proportion to its empty slots.
class WeightedSlots {
  public:
    WeightedSlots(const int64_t *width, int64_t m) : taken_(m, -1) {
        for (int64_t c = 0; c < m; ++c) slots_.insert(slots_.end(), width[c], static_cast<int32_t>(c));
    }
    // Draws `count` different clauses for variable v; false if fewer than that have room.
    template <class Put> bool draw(Rng &rng, int32_t v, int64_t count, Put put) {
        auto open = static_cast<int64_t>(slots_.size());
        chosen_.clear();
        while (count > 0) {
            if (open == 0) return false;
            const int64_t j = rng.below(open--);
            std::swap(slots_[j], slots_[open]);
            const int32_t c = slots_[open];
            if (taken_[c] == v) continue;  // another slot of a clause that has this variable already
            taken_[c] = v;
            chosen_.push_back(open);
            put(c);
            --count;
        }
        // From the last position to the first, so that the slot moved into a gap is never one of the chosen.
        for (const int64_t slot : chosen_) {
            slots_[slot] = slots_.back();
            slots_.pop_back();
        }
        return true;
    }

  private:
    std::vector<int32_t> slots_, taken_;
    std::vector<int64_t> chosen_;
};

// Clauses by number of empty slots: the emptiest go first, ties at random.
class StrictSlots {
  public:
    StrictSlots(const int64_t *width, int64_t m) : by_free_(1 + (m ? *std::max_element(width, width + m) : 0)) {
        for (int64_t c = 0; c < m; ++c) by_free_[width[c]].push_back(static_cast<int32_t>(c));
    }
    template <class Put> bool draw(Rng &rng, int32_t, int64_t count, Put put) {
        std::vector<std::pair<size_t, int32_t>> moved;
        for (size_t free = by_free_.size() - 1; free > 0 && count > 0; --free) {
            auto &level = by_free_[free];
            for (; count > 0 && !level.empty(); --count) {
                std::swap(level[rng.below(static_cast<int64_t>(level.size()))], level.back());
                moved.emplace_back(free - 1, level.back());
                put(level.back());
                level.pop_back();
            }
        }
        for (const auto &[free, c] : moved) by_free_[free].push_back(c);
        return count == 0;
    }

  private:
    std::vector<std::vector<int32_t>> by_free_;
};

// Variables in falling order of allocation, each into different clauses.
template <class Slots>
bool place(Rng &rng, Slots slots, const std::vector<int64_t> &allocation, const std::vector<int64_t> &start,
           std::vector<int32_t> &variable, Pace &pace) {
    std::vector<int32_t> order(allocation.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return allocation[a] > allocation[b]; });
    std::vector<int64_t> fill(start.begin(), start.end() - 1);
    for (const int32_t v : order) {
        if (!slots.draw(rng, v, allocation[v], [&](int32_t c) { variable[fill[c]++] = v; })) return false;
        pace.check(allocation[v]);
    }
    return true;
}

// The appendix of Abboud et al.: `privileged_slots` slots composed over the first P variables (empty shares
// allowed), the rest over all (at least one each), no variable more often than there are clauses; then placement.
// A failed allocation or placement is redrawn as a whole, so that the law is the conditional one.
inline Placement paper(const std::vector<int64_t> &width, int64_t num_vars, int64_t num_privileged,
                       int64_t privileged_slots, bool strict, uint64_t seed, int64_t max_tries, Pace &pace) {
    const auto m = static_cast<int64_t>(width.size());
    std::vector<int64_t> start(m + 1, 0), allocation(num_vars);
    std::partial_sum(width.begin(), width.end(), start.begin() + 1);
    const int64_t slots = start[m];
    Rng rng(seed);
    Placement out;
    out.variable.resize(slots);
    while (!out.done && out.tries < max_tries) {
        ++out.tries;
        pace.check(1 + num_vars);
        std::fill(allocation.begin(), allocation.end(), 0);
        if (privileged_slots > 0 &&
            !compose(rng, privileged_slots + num_privileged, num_privileged, 1, m - 1, allocation.data()))
            continue;
        if (!compose(rng, slots - privileged_slots, num_vars, 0, m, allocation.data())) continue;
        out.done = strict ? place(rng, StrictSlots(width.data(), m), allocation, start, out.variable, pace)
                          : place(rng, WeightedSlots(width.data(), m), allocation, start, out.variable, pace);
    }
    return out;
}

// Every clause a uniform set of `width` variables, by Floyd's sampling of a set.
inline std::vector<int32_t> uniform(const std::vector<int64_t> &width, int64_t num_vars, uint64_t seed, Pace &pace) {
    Rng rng(seed);
    std::vector<int32_t> out;
    std::vector<int64_t> drawn_by(num_vars, -1);
    for (int64_t c = 0; c < static_cast<int64_t>(width.size()); ++c) {
        for (int64_t top = num_vars - width[c]; top < num_vars; ++top) {
            int64_t v = rng.below(top + 1);
            if (drawn_by[v] == c) v = top;
            drawn_by[v] = c;
            out.push_back(static_cast<int32_t>(v));
        }
        pace.check(width[c]);
    }
    return out;
}

struct Paths {
    std::vector<int64_t> indptr{0};
    std::vector<int32_t> edges;
    bool complete = true;
};

// All simple paths from s to t as lists of edges. A step is only taken where t can still be reached, so the time
// between two paths is polynomial; stops with complete = false at `limit` paths.
class PathFinder {
  public:
    PathFinder(int64_t nodes, const int64_t *from, const int64_t *to, int64_t edges, bool directed)
        : neighbours_(nodes), visited_(nodes, 0), seen_(nodes, 0) {
        for (int64_t e = 0; e < edges; ++e) {
            neighbours_[from[e]].emplace_back(to[e], static_cast<int32_t>(e));
            if (!directed && from[e] != to[e]) neighbours_[to[e]].emplace_back(from[e], static_cast<int32_t>(e));
        }
    }
    Paths find(int64_t source, int64_t target, int64_t limit, Pace &pace) {
        Paths out;
        std::vector<std::pair<int64_t, size_t>> stack{{source, 0}};
        std::vector<int32_t> path;
        visited_[source] = 1;
        while (!stack.empty()) {
            const int64_t u = stack.back().first;
            if (u == target || stack.back().second == neighbours_[u].size()) {
                if (u == target) {
                    if (static_cast<int64_t>(out.indptr.size()) > limit) {
                        out.complete = false;
                        return out;
                    }
                    out.edges.insert(out.edges.end(), path.begin(), path.end());
                    out.indptr.push_back(static_cast<int64_t>(out.edges.size()));
                }
                visited_[u] = 0;
                stack.pop_back();
                if (!path.empty()) path.pop_back();
                continue;
            }
            const auto [w, edge] = neighbours_[u][stack.back().second++];
            if (visited_[w] || !reaches(w, target, pace)) continue;
            visited_[w] = 1;
            path.push_back(edge);
            stack.emplace_back(w, 0);
        }
        return out;
    }

  private:
    bool reaches(int64_t from, int64_t target, Pace &pace) {
        ++round_;
        queue_.assign(1, from);
        seen_[from] = round_;
        bool found = false;
        for (size_t i = 0; i < queue_.size() && !found; ++i) {
            found = queue_[i] == target;
            for (const auto &[w, edge] : neighbours_[queue_[i]]) {
                if (visited_[w] || seen_[w] == round_) continue;
                seen_[w] = round_;
                queue_.push_back(w);
            }
        }
        pace.check(static_cast<int64_t>(queue_.size()));
        return found;
    }
    std::vector<std::vector<std::pair<int64_t, int32_t>>> neighbours_;
    std::vector<char> visited_;
    std::vector<int64_t> seen_, queue_;
    int64_t round_ = 0;
};

}  // namespace generate

}  // namespace sharpdnf
