// Nonnegative numbers m * 2^(512 e): the precision of a double, an exponent that does not end at 1e-308.
// The exact kernels only add, multiply and take 1 - x, so relative precision survives down to 1e-100000000000.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>

namespace sharpdnf {

struct Wide {
    double m = 0.0;  // 0 or in [2^-256, 2^256)
    int64_t e = 0;

    static constexpr double kBig = 0x1p256, kSmall = 0x1p-256, kStep = 0x1p512, kInverseStep = 0x1p-512;

    static Wide of(double value) {
        Wide out{value, 0};
        out.settle();
        return out;
    }
    void settle() {
        if (m == 0.0) {
            e = 0;
            return;
        }
        while (m < kSmall) m *= kStep, --e;
        while (m >= kBig) m *= kInverseStep, ++e;
    }
    bool zero() const { return m == 0.0; }
    // 1 - x for x in [0, 1]; rounding above 1 counts as 1.
    double complement() const { return e < 0 ? 1.0 - m * kInverseStep : (m < 1.0 ? 1.0 - m : 0.0); }
    double log() const {
        return m == 0.0 ? -std::numeric_limits<double>::infinity()
                        : std::log(m) + static_cast<double>(e) * 354.891356446692;  // 512 ln 2
    }
    double value() const {
        if (e == 0) return m;
        return e == -1 ? m * kInverseStep : e == -2 ? m * kInverseStep * kInverseStep : std::exp(log());
    }
};

inline Wide operator*(const Wide &a, const Wide &b) {
    Wide out{a.m * b.m, a.e + b.e};
    if (out.m < Wide::kSmall || out.m >= Wide::kBig) out.settle();
    return out;
}
inline Wide operator*(Wide a, double b) {
    if (!(b >= Wide::kSmall && b <= 1.0)) return a * Wide::of(b);
    a.m *= b;
    if (a.m < Wide::kSmall) a.settle();
    return a;
}
inline Wide operator+(const Wide &a, const Wide &b) {
    if (a.m == 0.0) return b;
    if (b.m == 0.0) return a;
    Wide out = a;
    if (a.e == b.e)
        out.m += b.m;
    else if (a.e == b.e + 1)
        out.m += b.m * Wide::kInverseStep;
    else if (b.e == a.e + 1)
        out = Wide{b.m + a.m * Wide::kInverseStep, b.e};
    else
        return a.e > b.e ? a : b;
    if (out.m >= Wide::kBig) out.settle();
    return out;
}
inline bool operator<(const Wide &a, const Wide &b) {
    if (a.m == 0.0 || b.m == 0.0 || a.e == b.e) return a.m < b.m;
    // Of neighbouring exponents the mantissas decide.
    if (a.e + 1 == b.e) return a.m * Wide::kInverseStep < b.m;
    if (a.e == b.e + 1) return a.m < b.m * Wide::kInverseStep;
    return a.e < b.e;
}
// a - b where a >= b, else 0.
inline Wide minus(const Wide &a, const Wide &b) {
    if (b.m == 0.0) return a;
    double gap = 0.0;
    if (a.e == b.e)
        gap = a.m - b.m;
    else if (a.e == b.e + 1)
        gap = a.m - b.m * Wide::kInverseStep;
    else if (a.e > b.e)
        gap = a.m;
    Wide out{gap > 0.0 ? gap : 0.0, a.e};
    out.settle();
    return out;
}

}  // namespace sharpdnf
