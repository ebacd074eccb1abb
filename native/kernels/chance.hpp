// Probabilities that are precise near 0 and near 1, rounded down or up: bounds that hold whatever rounding does.
//
// A chance is the smaller of P and 1 - P, to the relative precision of a double. "Or", "and" and Shannon's expansion
// only add and multiply what is positive, on either side, so nothing cancels: 1 - P has as many true digits at
// P = 1 - 1e-30 as P at 1e-30. Each operation is off by less than 5 units (of 2^-53, relative to the smaller side); the
// result is moved by 8 of them, down or up, so a bound stays a bound.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "wide.hpp"

namespace sharpdnf {

constexpr double kUnit = 0x1p-53;  // the relative rounding of one operation

// log(1 - e^x) for x <= 0.
inline double log1mexp(double x) {
    if (x >= 0.0) return -std::numeric_limits<double>::infinity();
    return x > -0.6931471805599453 ? std::log(-std::expm1(x)) : std::log1p(-std::exp(x)) + 0.0;  // not -0
}

struct Chance {
    Wide small;            // the smaller of P and 1 - P
    bool flipped = false;  // whether `small` is 1 - P

    static Chance never() { return {}; }
    static Chance always() { return {Wide(), true}; }
    Wide p() const { return flipped ? Wide::of(small.complement()) : small; }
    Wide q() const { return flipped ? small : Wide::of(small.complement()); }
    Chance operator!() const { return {small, !flipped}; }

    // The chance of two numbers that add up to 1: it keeps the smaller one.
    static Chance of(const Wide &p, const Wide &q) { return p < Wide{0.5, 0} ? Chance{p, false} : Chance{q, true}; }
    // P moved down or up by a relative `units` of the smaller side.
    template <bool Up> Chance moved(double units) const {
        return {small * Wide::of(Up != flipped ? 1.0 + units * kUnit : 1.0 - std::min(units * kUnit, 1.0)), flipped};
    }

    // log P and log(1 - P), rounded down or up.
    template <bool Up> double log_p() const {
        return flipped ? moved_log<Up>(std::log1p(-small.value()), !small.zero()) : moved_log<Up>(small.log(), true);
    }
    template <bool Up> double log_q() const { return (!*this).log_p<Up>(); }

  private:
    // With `inexact`, a logarithm of 0 may belong to a probability just below 1 that no double can tell from 1.
    template <bool Up> static double moved_log(double log, bool inexact) {
        if (!inexact || std::isinf(log)) return log;
        const double slack = std::max(8.0 * kUnit * std::fabs(log), std::numeric_limits<double>::min());
        return Up ? std::min(log + slack, 0.0) : log - slack;
    }
};

inline bool operator<(const Chance &a, const Chance &b) {
    if (a.flipped != b.flipped) return a.p() < b.p();
    return a.flipped ? b.small < a.small : a.small < b.small;
}
// P(b) - P(a) for a below b, else 0.
inline Wide gap(const Chance &a, const Chance &b) {
    if (a.flipped != b.flipped) return minus(b.p(), a.p());
    return a.flipped ? minus(a.small, b.small) : minus(b.small, a.small);
}

// One of two independent events, both of them, and a if an event of probability `high` happens, else b; `units` is what
// those two numbers may be off by already.
template <bool Up> Chance either(const Chance &a, const Chance &b) {
    const Wide miss = a.q();
    return Chance::of(a.p() + b.p() * miss, miss * b.q()).template moved<Up>(8.0);
}
template <bool Up> Chance both(const Chance &a, const Chance &b) { return !either<!Up>(!a, !b); }
template <bool Up> Chance mixed(double high, double low, const Chance &a, const Chance &b, double units = 0.0) {
    return Chance::of(a.p() * high + b.p() * low, a.q() * high + b.q() * low).template moved<Up>(8.0 + 2.0 * units);
}

// An interval that holds a probability.
struct Bounds {
    Chance lower, upper;

    static Bounds never() { return {}; }
    static Bounds always() { return {Chance::always(), Chance::always()}; }
    static Bounds unknown() { return {Chance::never(), Chance::always()}; }
    // A value whose smaller side is off by at most `units`.
    static Bounds about(const Chance &value, double units) {
        return {value.moved<false>(2.0 * units), value.moved<true>(2.0 * units)};
    }
    // The width in units of the smaller side, to see what rounding came to.
    double units() const {
        const Wide width = gap(lower, upper), &small = lower.small < upper.small ? lower.small : upper.small;
        if (width.zero()) return 0.0;
        return small.zero() ? 1.0 / kUnit : (width * Wide{1.0 / small.m, -small.e}).value() / kUnit;
    }
};
inline Bounds either(const Bounds &a, const Bounds &b) {
    return {either<false>(a.lower, b.lower), either<true>(a.upper, b.upper)};
}
inline Bounds both(const Bounds &a, const Bounds &b) {
    return {both<false>(a.lower, b.lower), both<true>(a.upper, b.upper)};
}

// P and 1 - P of a small formula as plain doubles, each to a number of roundings that is counted from the formula's
// size. It is as precise near 0 and near 1 as a Chance, for nothing is subtracted, and a few times cheaper; it may
// underflow, so what comes out below `kNormal` is not to be trusted.
struct Plain {
    double p = 0.0, q = 1.0;

    static constexpr double kNormal = 1e-280;
    // Each literal brings a rounding of its own, two to be multiplied and two to be joined with others; one to spare.
    static double units(int64_t literals) { return 6.0 * static_cast<double>(literals) + 8.0; }

    static Plain never() { return {}; }
    static Plain always() { return {1.0, 0.0}; }
    bool normal() const { return p >= kNormal && q >= kNormal; }
};
inline Plain either(const Plain &a, const Plain &b) { return {a.p + a.q * b.p, a.q * b.q}; }
inline Plain both(const Plain &a, const Plain &b) { return {a.p * b.p, a.q + a.p * b.q}; }

// The product of literals whose probabilities `prob(lit)` says, and what is missing to 1. Each literal adds three
// units.
template <class Prob> Chance product(const int32_t *first, const int32_t *last, const Prob &prob) {
    double plain = 1.0;
    for (const int32_t *lit = first; lit != last; ++lit) plain *= prob(*lit);
    if (plain >= 0.5) {
        Wide q;
        double p = 1.0;
        for (const int32_t *lit = first; lit != last; ++lit) q = q + Wide::of(prob(*lit ^ 1)) * p, p *= prob(*lit);
        return {q, true};
    }
    if (plain >= 1e-290) return {Wide::of(plain), false};
    Wide p = Wide::of(1.0);  // the double has underflowed, or is about to
    for (const int32_t *lit = first; lit != last; ++lit) p = p * prob(*lit);
    return {p, false};
}
inline double product_units(int64_t literals) { return 4.0 * static_cast<double>(literals) + 4.0; }

// Joins many values in pairs, pairs of pairs, and so on: rounding grows with the logarithm of their number.
template <class T> class Pairwise {
  public:
    void clear() { stack_.clear(), count_ = 0; }
    template <class Join> void add(T value, const Join &join) {
        for (uint64_t bits = count_++; bits & 1; bits >>= 1) {
            value = join(stack_.back(), value);
            stack_.pop_back();
        }
        stack_.push_back(value);
    }
    template <class Join> T total(T nothing, const Join &join) const {
        if (stack_.empty()) return nothing;
        T value = stack_.back();
        for (std::size_t i = stack_.size() - 1; i > 0; --i) value = join(stack_[i - 1], value);
        return value;
    }

  private:
    std::vector<T> stack_;
    uint64_t count_ = 0;
};

}  // namespace sharpdnf
