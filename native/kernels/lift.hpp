// Lifting: variables that cannot be told apart become one.
//
// Two literals that occur in the same clauses only are one event, "both" (p = p1 p2). Two literals that are never
// needed together and stand with the same company, F = x G or y G or H, are one event, "either" (p = 1 - (1 - p1)(1 -
// p2)), and the clauses of one of them go; clauses that differ in one private variable are the simplest case. The
// negation of neither may occur. The rules are applied until nothing changes, so whole read-once parts become a
// variable.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <vector>

#include "formula.hpp"
#include "subformula.hpp"

namespace sharpdnf {

// What a variable of the lifted formula stands for: a literal of the original, or all / any of some others.
struct Event {
    enum Kind : uint8_t { kLiteral, kAll, kAny } kind = kLiteral;
    int32_t literal = 0;
    std::vector<int32_t> of;  // the numbers of those events
    double yes = 0.0, no = 0.0;
};

struct Lifted {
    OwnedFormula formula;
    std::vector<double> weights;  // P and 1 - P of every lifted variable, each to its own relative precision
    std::vector<Event> events;
    std::vector<int32_t> event_of;  // the event that each lifted variable stands for
    int64_t merged = 0;             // how many variables became part of another
};

// Whether the product is far from underflow, or 0 because a factor is.
inline bool safe_product(double a, double b) { return a * b > 1e-200 || a == 0.0 || b == 0.0; }

class Lifting {
  public:
    Lifting(const Formula &f, Pace &pace) : f_(f), pace_(pace) {}

    Lifted run() {
        for (int64_t v = 0; v < f_.num_vars; ++v) {
            Event event;
            event.literal = static_cast<int32_t>(2 * v);
            event.yes = f_.prob[v], event.no = 1.0 - f_.prob[v];
            out_.events.push_back(event);
        }
        event_.resize(f_.num_vars);
        for (int64_t v = 0; v < f_.num_vars; ++v) event_[v] = static_cast<int32_t>(v);
        ends_.reserve(f_.num_clauses);
        for (int64_t c = 0; c < f_.num_clauses; ++c) {
            lits_.insert(lits_.end(), f_.literals + f_.indptr[c], f_.literals + f_.indptr[c + 1]);
            ends_.push_back(static_cast<int64_t>(lits_.size()));
            pace_.check(f_.indptr[c + 1] - f_.indptr[c]);
        }
        constexpr int kRounds = 64;
        for (int round = 0; round < kRounds; ++round) {
            const int64_t before = out_.merged;
            pass(true);
            pass(false);
            if (out_.merged == before) break;
        }
        return finish();
    }

  private:
    static uint64_t weigh(int32_t lit) {
        return mix(static_cast<uint64_t>(lit) * 0x9e3779b97f4a7c15ULL + 0x2545f4914f6cdd1dULL);
    }
    static uint64_t weigh2(int32_t lit) {
        return mix(static_cast<uint64_t>(lit) * 0xc2b2ae3d27d4eb4fULL + 0x9fb21c651e98df25ULL);
    }

    struct Sign {
        uint64_t high = 0, low = 0;
        int32_t literal = -1, count = 0;
    };

    // One signature for every literal: of the clauses it stands in (together), or of their rests (interchangeable).
    void pass(bool together) {
        signs_.assign(2 * f_.num_vars, Sign{});
        int64_t first = 0;
        for (std::size_t c = 0; c < ends_.size(); ++c) {
            uint64_t high = 0, low = 0;
            if (together) {
                high = mix(c * 0x9e3779b97f4a7c15ULL + 1), low = mix(c * 0xc2b2ae3d27d4eb4fULL + 2);
            } else {
                for (int64_t i = first; i < ends_[c]; ++i) high += weigh(lits_[i]), low += weigh2(lits_[i]);
            }
            for (int64_t i = first; i < ends_[c]; ++i) {
                Sign &sign = signs_[lits_[i]];
                sign.literal = lits_[i], ++sign.count;
                sign.high += together ? high : mix(high - weigh(lits_[i]));
                sign.low += together ? low : mix(low - weigh2(lits_[i]) + 0x51ed270b);
            }
            pace_.check(ends_[c] - first);
            first = ends_[c];
        }
        std::vector<Sign> found;
        for (int32_t v = 0; v < f_.num_vars; ++v) {
            const Sign &yes = signs_[2 * v], &no = signs_[2 * v + 1];
            if ((yes.count == 0) == (no.count == 0)) continue;
            found.push_back(yes.count ? yes : no);
        }
        std::sort(found.begin(), found.end(), [](const Sign &x, const Sign &y) {
            return std::tie(x.high, x.low, x.literal) < std::tie(y.high, y.low, y.literal);
        });
        gone_.assign(f_.num_vars, 0);
        bool any = false;
        for (std::size_t i = 0; i < found.size();) {
            std::size_t j = i + 1;
            while (j < found.size() && found[j].high == found[i].high && found[j].low == found[i].low &&
                   found[j].count == found[i].count)
                ++j;
            if (j - i > 1) any |= merge(found, i, j, together);
            i = j;
        }
        if (any) sweep(together);
    }

    bool merge(const std::vector<Sign> &found, std::size_t first, std::size_t last, bool together) {
        Event event;
        event.kind = together ? Event::kAll : Event::kAny;
        event.yes = together ? 1.0 : 0.0, event.no = together ? 0.0 : 1.0;
        for (std::size_t i = first; i < last; ++i) {
            const int32_t part = event_of(found[i].literal);
            const double yes = out_.events[part].yes, no = out_.events[part].no;
            const double new_yes = together ? event.yes * yes : event.yes + event.no * yes;
            const double new_no = together ? event.no + event.yes * no : event.no * no;
            if (!(together ? safe_product(event.yes, yes) : safe_product(event.no, no))) continue;
            if (!safe_product(new_yes, 1.0) || !safe_product(new_no, 1.0)) continue;
            event.yes = new_yes, event.no = new_no;
            event.of.push_back(part);
            if (event.of.size() == 1)
                first = i;
            else
                gone_[found[i].literal >> 1] = 1;
        }
        if (event.of.size() < 2) return false;
        out_.merged += static_cast<int64_t>(event.of.size()) - 1;
        const int32_t kept = found[first].literal;
        negated_kept(kept);
        event_[kept >> 1] = static_cast<int32_t>(out_.events.size());
        out_.events.push_back(std::move(event));
        return true;
    }
    // The event of a literal: that of its variable, or its opposite.
    int32_t event_of(int32_t lit) {
        const int32_t event = event_[lit >> 1];
        if (!(lit & 1)) return event;
        Event opposite;  // only originals occur negated: a merged one stands for a positive literal
        opposite.literal = out_.events[event].literal ^ 1;
        opposite.yes = out_.events[event].no, opposite.no = out_.events[event].yes;
        out_.events.push_back(opposite);
        return static_cast<int32_t>(out_.events.size()) - 1;
    }
    // A merged event occurs as a positive literal from now on.
    void negated_kept(int32_t lit) {
        if (lit & 1) flip_.push_back(lit >> 1);
    }

    // Drops the literals that went (together), or the clauses that hold one (interchangeable).
    void sweep(bool together) {
        std::vector<uint8_t> flip(f_.num_vars, 0);
        for (const int32_t v : flip_) flip[v] = 1;
        flip_.clear();
        int64_t first = 0, kept = 0;
        std::size_t clauses = 0;
        for (std::size_t c = 0; c < ends_.size(); ++c) {
            const int64_t start = kept, last = ends_[c];
            bool drop = false;
            for (int64_t i = first; i < last; ++i) {
                const int32_t v = lits_[i] >> 1;
                if (gone_[v]) {
                    drop |= !together;
                    continue;
                }
                lits_[kept++] = flip[v] ? 2 * v : lits_[i];
            }
            if (drop)
                kept = start;
            else
                ends_[clauses++] = kept;
            pace_.check(last - first);
            first = last;
        }
        ends_.resize(clauses);
        lits_.resize(kept);
    }

    Lifted finish() {
        std::vector<int32_t> number(f_.num_vars, -1);
        out_.formula.indptr.clear();
        out_.formula.indptr.push_back(0);
        for (const int32_t lit : lits_) number[lit >> 1] = 0;
        for (int32_t v = 0; v < f_.num_vars; ++v) {
            if (number[v] < 0) continue;
            number[v] = static_cast<int32_t>(out_.event_of.size());
            out_.event_of.push_back(event_[v]);
            const Event &event = out_.events[event_[v]];
            out_.formula.prob.push_back(event.yes);
            out_.weights.push_back(event.yes), out_.weights.push_back(event.no);
        }
        for (const int32_t lit : lits_) out_.formula.literals.push_back(2 * number[lit >> 1] + (lit & 1));
        for (const int64_t end : ends_) out_.formula.indptr.push_back(end);
        return std::move(out_);
    }

    const Formula &f_;
    Pace &pace_;
    std::vector<int64_t> ends_;
    std::vector<int32_t> lits_;
    std::vector<int32_t> event_;  // the event of every variable that is left
    std::vector<Sign> signs_;
    std::vector<uint8_t> gone_;
    std::vector<int32_t> flip_;
    Lifted out_;
};

}  // namespace sharpdnf
