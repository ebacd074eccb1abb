// Subformulas of a d-tree and the rewriting rules on them. Variables keep the numbers of the whole formula, so
// equal subformulas are equal wherever they arise.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "poll.hpp"

namespace sharpdnf {

// Clause c is lits[start(c) .. ends[c]), increasing by variable. An empty clause means true; no clause, false.
struct Clauses {
    std::vector<int32_t> ends, lits;

    int32_t count() const { return static_cast<int32_t>(ends.size()); }
    int32_t start(int32_t c) const { return c == 0 ? 0 : ends[c - 1]; }
    int32_t width(int32_t c) const { return ends[c] - start(c); }
    const int32_t *begin(int32_t c) const { return lits.data() + start(c); }
    const int32_t *end(int32_t c) const { return lits.data() + ends[c]; }
    void clear() { ends.clear(), lits.clear(); }
    void close() { ends.push_back(static_cast<int32_t>(lits.size())); }
    void push(const int32_t *first, const int32_t *last) { lits.insert(lits.end(), first, last), close(); }
    void make_true() { clear(), close(); }
    std::size_t bytes() const { return 4 * (ends.capacity() + lits.capacity()); }
};

inline uint64_t mix(uint64_t x) {  // splitmix64
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

// Scratch memory for formulas over n variables; every rule costs about one pass over the literals it is given.
class Workbench {
  public:
    // A pass throws Stopped when the poll says so, and leaves the formula it was given unchanged.
    explicit Workbench(int64_t num_vars, Poll *poll = nullptr)
        : count(2 * num_vars),
          poll_(poll),
          stamp_(num_vars, 0),
          slot_(num_vars),
          unit_(2 * num_vars, 0),
          first_(2 * num_vars) {}

    // Room for variables that are added later.
    static constexpr std::size_t kBytesPerLiteral = 16;
    void grow(std::size_t num_vars) {
        if (stamp_.size() >= num_vars) return;
        count.resize(2 * num_vars), unit_.resize(2 * num_vars, 0), first_.resize(2 * num_vars);
        stamp_.resize(num_vars, 0), slot_.resize(num_vars);
    }

    std::vector<int32_t> vars;   // the variables of the surveyed formula, in order of appearance
    std::vector<int32_t> count;  // how often each of their literals occurs
    int64_t work = 0;            // literals touched so far

    void did(int64_t literals) {
        work += literals;
        tick(literals);
    }
    void tick(int64_t literals) {
        if ((until_poll_ -= literals) > 0 || !poll_) return;
        until_poll_ = 1 << 16;
        if (poll_->look()) throw Stopped{};
    }
    // After clause c of a pass: subformulas are small and many, so only every 64th clause costs more than a test.
    void passed(const Clauses &g, int32_t c) {
        if ((c & 63) == 63) tick(g.ends[c] - g.start(c - 63));
    }
    int32_t slot(int32_t var) const { return slot_[var]; }
    int32_t occurrences(int32_t var) const { return count[2 * var] + count[2 * var + 1]; }

    void survey(const Clauses &g) {
        next_epoch(epoch_, stamp_);
        vars.clear();
        const auto size = static_cast<int64_t>(g.lits.size());
        for (int64_t i = 0, stretch = 0; i < size; did(stretch)) {
            stretch = std::min<int64_t>(size - i, 1 << 16);
            for (const int64_t end = i + stretch; i < end; ++i) {
                const int32_t lit = g.lits[i], v = lit >> 1;
                if (stamp_[v] != epoch_) {
                    stamp_[v] = epoch_;
                    slot_[v] = static_cast<int32_t>(vars.size());
                    vars.push_back(v);
                    count[2 * v] = count[2 * v + 1] = 0;
                }
                ++count[lit];
            }
        }
    }

    // Literals that stand in every clause; `rest` is what remains. Needs survey(g).
    bool factor(const Clauses &g, std::vector<int32_t> &common, Clauses &rest) {
        common.clear();
        for (const int32_t *lit = g.begin(0); lit != g.end(0); ++lit)
            if (count[*lit] == g.count()) common.push_back(*lit);
        if (common.empty()) return false;
        rest.clear();
        for (int32_t c = 0; c < g.count(); ++c) {
            if (g.width(c) == static_cast<int32_t>(common.size())) {
                rest.make_true();
                break;
            }
            for (const int32_t *lit = g.begin(c); lit != g.end(c); ++lit)
                if (count[*lit] != g.count()) rest.lits.push_back(*lit);
            rest.close();
            passed(g, c);
        }
        work += static_cast<int64_t>(g.lits.size());
        return true;
    }

    // Splits into parts that share no variable; false if there is only one. Needs survey(g).
    bool components(const Clauses &g, std::vector<Clauses> &parts) {
        parent_.resize(vars.size());
        std::iota(parent_.begin(), parent_.end(), 0);
        auto classes = static_cast<int32_t>(vars.size());
        for (int32_t c = 0; c < g.count() && classes > 1; ++c) {
            int32_t root = find(slot_[*g.begin(c) >> 1]);
            for (const int32_t *lit = g.begin(c) + 1; lit != g.end(c); ++lit) {
                const int32_t other = find(slot_[*lit >> 1]);
                if (other != root) parent_[other] = root, --classes;
            }
            passed(g, c);
        }
        work += static_cast<int64_t>(g.lits.size());
        if (classes <= 1) return false;
        part_.assign(vars.size(), -1);
        parts.clear();
        for (int32_t c = 0; c < g.count(); ++c) {
            const int32_t root = find(slot_[*g.begin(c) >> 1]);
            if (part_[root] < 0) part_[root] = static_cast<int32_t>(parts.size()), parts.emplace_back();
            parts[part_[root]].push(g.begin(c), g.end(c));
            passed(g, c);
        }
        return true;
    }

    // The most frequent variable; of several, the middle one, so that long chains are halved.
    int32_t branching_variable() {
        int32_t best = 0, ties = 0;
        for (const int32_t v : vars) {
            if (occurrences(v) > best) best = occurrences(v), ties = 0;
            ties += occurrences(v) == best;
        }
        int32_t skip = ties / 2;
        for (const int32_t v : vars)
            if (occurrences(v) == best && skip-- == 0) return v;
        return vars[0];
    }

    // Occurrence lists by literal, and a 64-bit signature of each clause. Needs survey(g).
    void index(const Clauses &g) {
        int32_t total = 0;
        for (const int32_t v : vars)
            for (const int32_t lit : {2 * v, 2 * v + 1}) first_[lit] = total, total += count[lit];
        occurs_.resize(g.lits.size());
        signature_.resize(g.ends.size());
        for (int32_t c = 0; c < g.count(); ++c) {
            uint64_t bits = 0;
            for (const int32_t *lit = g.begin(c); lit != g.end(c); ++lit) {
                bits |= uint64_t{1} << (static_cast<uint32_t>(*lit) * 2654435769u >> 26);
                occurs_[first_[*lit]++] = c;
            }
            signature_[c] = bits;
            passed(g, c);
        }
        for (const int32_t v : vars)
            for (const int32_t lit : {2 * v, 2 * v + 1}) first_[lit] -= count[lit];
        work += 2 * static_cast<int64_t>(g.lits.size());
    }

    // g with `lit` true. If g has no absorbed clause, neither has the answer (while the work stays linear):
    // only the clauses that lost `lit` can absorb others, never one another. Needs index(g).
    void cofactor(const Clauses &g, int32_t lit, Clauses &out) {
        out.clear();
        gone_.assign(g.ends.size(), 0);
        for (int32_t i = 0; i < count[lit ^ 1]; ++i) gone_[occurs_[first_[lit ^ 1] + i]] = 1;
        bool units = false;
        int64_t budget = 128 * static_cast<int64_t>(g.lits.size()) +
                         256;  // large, because formulas of paths are solved mostly by absorption
        for (int32_t i = 0; i < count[lit]; ++i) {
            const int32_t c = occurs_[first_[lit] + i];
            if (g.width(c) == 1) return out.make_true();
            units |= g.width(c) == 2;
            const int64_t before = budget;
            if (budget > 0) absorb(g, c, lit, budget);
            did((before - budget) / 4);
        }
        for (int32_t i = 0; i < count[lit]; ++i) gone_[occurs_[first_[lit] + i]] = 2;
        for (int32_t c = 0; c < g.count(); ++c) {
            passed(g, c);
            if (gone_[c] == 1) continue;
            if (gone_[c] == 0) {
                out.push(g.begin(c), g.end(c));
                continue;
            }
            for (const int32_t *l = g.begin(c); l != g.end(c); ++l)
                if (*l != lit) out.lits.push_back(*l);
            out.close();
        }
        work += static_cast<int64_t>(g.lits.size());
        if (units) reduce_units(out);
    }

    // l or (not l and D) is l or D: drops the negations of one-literal clauses, and the clauses those absorb.
    void reduce_units(Clauses &g) {
        next_epoch(unit_epoch_, unit_);
        bool again = true;
        for (int round = 0; again && round < 8; ++round) {
            again = false;
            for (int32_t c = 0; c < g.count(); ++c)
                if (g.width(c) == 1) unit_[*g.begin(c)] = unit_epoch_;
            swap_.clear();
            for (int32_t c = 0; c < g.count(); ++c) {
                passed(g, c);
                const auto start = swap_.lits.size();
                bool absorbed = false;
                for (const int32_t *lit = g.begin(c); lit != g.end(c) && !absorbed; ++lit) {
                    if (unit_[*lit ^ 1] == unit_epoch_) continue;
                    absorbed = unit_[*lit] == unit_epoch_ && g.width(c) > 1;
                    swap_.lits.push_back(*lit);
                }
                const auto width = swap_.lits.size() - start;
                if (width == 0) return g.make_true();
                if (!absorbed && width == 1 && unit_[swap_.lits[start]] != unit_epoch_)
                    unit_[swap_.lits[start]] = unit_epoch_, again = true;
                if (absorbed)
                    swap_.lits.resize(start);
                else
                    swap_.close();
            }
            std::swap(g, swap_);
            work += static_cast<int64_t>(g.lits.size());
        }
        drop_repeated_units(g);
    }

    // f = f1 and f2 and ... over disjoint variables, each fi the clauses' projections: the AND step of read-once
    // factorisation (Golumbic, Mintz, Rotics 2006). Variables that never meet in a clause must share a factor, so
    // the candidates are the components of the complement of the co-occurrence graph; the split is right exactly if
    // the clauses are all combinations of their projections, which is checked. Needs index(g).
    bool product(const Clauses &g, std::vector<Clauses> &parts) {
        const auto k = static_cast<int32_t>(vars.size());
        if (g.count() < 4 || !may_be_product(g)) return false;
        int64_t budget = 16 * static_cast<int64_t>(g.lits.size()) + 256;
        part_.assign(k, -1);
        unseen_.resize(k);
        std::iota(unseen_.begin(), unseen_.end(), 0);
        near_.assign(k, 0);
        int32_t num_parts = 0, round = 0;
        while (!unseen_.empty()) {
            queue_.assign(1, unseen_.back());
            unseen_.pop_back();
            for (std::size_t head = 0; head < queue_.size() && !unseen_.empty(); ++head) {
                ++round;
                const int32_t v = vars[queue_[head]];
                for (const int32_t lit : {2 * v, 2 * v + 1})
                    for (int32_t i = 0; i < count[lit]; ++i) {
                        const int32_t c = occurs_[first_[lit] + i];
                        budget -= g.width(c);
                        tick(g.width(c));
                        for (const int32_t *l = g.begin(c); l != g.end(c); ++l) near_[slot_[*l >> 1]] = round;
                    }
                budget -= static_cast<int64_t>(unseen_.size());
                if (budget < 0) return false;
                std::size_t left = 0;
                for (const int32_t s : unseen_) {
                    if (near_[s] == round)
                        unseen_[left++] = s;
                    else
                        queue_.push_back(s);
                }
                unseen_.resize(left);
            }
            for (const int32_t s : queue_) part_[s] = num_parts;
            ++num_parts;
        }
        return num_parts > 1 && plausible_product(g, num_parts) && check_product(g, num_parts, parts);
    }

  private:
    // Variables of different factors meet in some clause, so two of them together have all variables as neighbours.
    bool may_be_product(const Clauses &g) const {
        int64_t first = 0, second = 0, width = 0;
        for (const int32_t v : vars) {
            const int64_t n = occurrences(v);
            if (n > first)
                second = first, first = n;
            else
                second = std::max(second, n);
        }
        for (int32_t c = 0; c < g.count(); ++c) width = std::max<int64_t>(width, g.width(c));
        return (first + second) * width >= static_cast<int64_t>(vars.size());
    }

    // Counts distinct projections by hash: each factor has at least two clauses, and the numbers multiply to m.
    bool plausible_product(const Clauses &g, int32_t num_parts) {
        const int32_t m = g.count();
        if (num_parts > 30 || (int64_t{1} << num_parts) > m) return false;
        int64_t combinations = 1;
        for (int32_t part = 0; part < num_parts; ++part) {
            hash_.assign(m, 0);
            for (int32_t c = 0; c < m; ++c) {
                for (const int32_t *l = g.begin(c); l != g.end(c); ++l)
                    if (part_[slot_[*l >> 1]] == part) hash_[c] += mix(static_cast<uint64_t>(*l) + 1);
                if (hash_[c] == 0) return false;  // the clause has no literal of this factor, so the split is wrong
                passed(g, c);
            }
            std::sort(hash_.begin(), hash_.end());
            combinations *= std::unique(hash_.begin(), hash_.end()) - hash_.begin();
            work += static_cast<int64_t>(g.lits.size()) + m;
            if (combinations > m || m % combinations != 0) return false;
        }
        return combinations == m;
    }

    bool check_product(const Clauses &g, int32_t num_parts, std::vector<Clauses> &parts) {
        const int32_t m = g.count();
        parts.assign(num_parts, {});
        rank_.assign(m, 0);
        order_.resize(m);
        id_.resize(m);
        int64_t combinations = 1;
        for (int32_t part = 0; part < num_parts; ++part) {
            swap_.clear();
            for (int32_t c = 0; c < m; ++c) {
                for (const int32_t *l = g.begin(c); l != g.end(c); ++l)
                    if (part_[slot_[*l >> 1]] == part) swap_.lits.push_back(*l);
                swap_.close();
                passed(g, c);
            }
            std::iota(order_.begin(), order_.end(), 0);
            const auto less = [this](int32_t a, int32_t b) {
                return std::lexicographical_compare(swap_.begin(a), swap_.end(a), swap_.begin(b), swap_.end(b));
            };
            std::sort(order_.begin(), order_.end(), less);
            for (int32_t i = 0; i < m; ++i) {
                const int32_t c = order_[i];
                if (i == 0 || less(order_[i - 1], c)) parts[part].push(swap_.begin(c), swap_.end(c));
                id_[c] = parts[part].count() - 1;
            }
            for (int32_t c = 0; c < m; ++c) rank_[c] = rank_[c] * parts[part].count() + id_[c];
            combinations *= parts[part].count();
            work += static_cast<int64_t>(g.lits.size());
            if (combinations > m) return false;
        }
        std::sort(rank_.begin(), rank_.end());
        return combinations == m && std::adjacent_find(rank_.begin(), rank_.end()) == rank_.end();
    }

    // Marks the clauses that clause c without `lit` absorbs.
    void absorb(const Clauses &g, int32_t c, int32_t lit, int64_t &budget) {
        int32_t rare = -1;
        for (const int32_t *l = g.begin(c); l != g.end(c); ++l)
            if (*l != lit && (rare < 0 || count[*l] < count[rare])) rare = *l;
        for (int32_t i = 0; i < count[rare]; ++i) {
            const int32_t other = occurs_[first_[rare] + i];
            --budget;
            if (other == c || gone_[other] || g.width(other) + 1 < g.width(c)) continue;
            const uint64_t lost = uint64_t{1} << (static_cast<uint32_t>(lit) * 2654435769u >> 26);
            if (signature_[c] & ~lost & ~signature_[other]) continue;
            budget -= g.width(other);
            const int32_t *a = g.begin(c), *b = g.begin(other);
            bool holds_lit = false;
            while (a != g.end(c) && b != g.end(other)) {
                if (*a == lit)
                    ++a;
                else if (*a == *b)
                    ++a, ++b;
                else if (*b < *a)
                    holds_lit |= *b++ == lit;
                else
                    break;
            }
            if (a != g.end(c) && *a == lit) ++a;
            for (; b != g.end(other); ++b) holds_lit |= *b == lit;
            if (a == g.end(c) && !holds_lit) gone_[other] = 1;
        }
    }

    void drop_repeated_units(Clauses &g) {
        next_epoch(unit_epoch_, unit_);
        swap_.clear();
        for (int32_t c = 0; c < g.count(); ++c) {
            if (g.width(c) == 1) {
                if (unit_[*g.begin(c)] == unit_epoch_) continue;
                unit_[*g.begin(c)] = unit_epoch_;
            }
            swap_.push(g.begin(c), g.end(c));
        }
        std::swap(g, swap_);
    }

    int32_t find(int32_t a) {
        while (parent_[a] != a) a = parent_[a] = parent_[parent_[a]];
        return a;
    }

    // Stamps of earlier epochs are told apart by their number; when the numbers have gone round, all are wiped. They
    // start close to the end, so that this happens in every longer run and not once in 2^32 passes.
    static constexpr uint32_t kFirstEpoch = 0xffffff00u;
    static void next_epoch(uint32_t &epoch, std::vector<uint32_t> &stamps) {
        if (++epoch != 0) return;
        std::fill(stamps.begin(), stamps.end(), 0u);
        epoch = 1;
    }

    Poll *poll_;
    int64_t until_poll_ = 1 << 16;
    uint32_t epoch_ = kFirstEpoch, unit_epoch_ = kFirstEpoch;
    std::vector<uint32_t> stamp_;
    std::vector<int32_t> slot_;
    std::vector<uint32_t> unit_;
    std::vector<int32_t> first_, occurs_, parent_, part_, unseen_, near_, queue_, order_, id_;
    std::vector<int64_t> rank_;
    std::vector<uint64_t> signature_, hash_;
    std::vector<uint8_t> gone_;
    Clauses swap_;
};

}  // namespace sharpdnf
