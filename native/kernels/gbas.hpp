// How many successes GBAS needs (Huber, arXiv 1309.5413): (k - 1)/R with R ~ Gamma(k) / p is within a factor 1 +- epsilon
// of p unless R p falls below (k - 1)/(1 + epsilon) or above (k - 1)/(1 - epsilon): two tails of the gamma law.
//
// For k below 10^6 they are summed. Above, they are bounded from above by what follows, so closely that the least k
// is missed by at most one. Put t = k tau in Q(k, x) = int_x^inf t^(k-1) e^-t dt / Gamma(k), and zeta for the root of
// zeta^2 / 2 = tau - 1 - ln tau that has the sign of tau - 1 (Temme 1979):
//
//   Q(k, x) = sqrt(k / 2 pi) / G(k) * int_eta^inf e^(-k zeta^2 / 2) f(zeta) dzeta,   f(zeta) = zeta / (tau - 1),
//
// where G(k) = Gamma(k) / (sqrt(2 pi / k) (k / e)^k) > 1, and P(k, x) is the integral up to eta < 0.
// Lemma: f(zeta) <= 1 / (1 + zeta / 3) for zeta > -3. Proof: let y = 1 + zeta + zeta^2 / 3 and
// g(zeta) = y - 1 - ln y - zeta^2 / 2. Then g(0) = 0 and g' = -zeta^3 / (9 y), so g <= 0 on both sides: y is no
// farther from 1 than tau, on the same side. QED. So f <= 1 - zeta/3 + zeta^2/9 for zeta >= 0, f <= 1 + s/3 + s^2/6
// for zeta = -s in [-1, 0], and what lies below -1 (tau < 0.31, hence f < 1.5 s) adds less than 2 e^(-k/2). Against
// the true f = 1 - zeta/3 + zeta^2/12 - ... the bounds lose a part of about (eta^2 + 1/k) / 12 of the tail.
#pragma once
#include <cmath>
#include <cstdint>

namespace gbas {

constexpr double TWO_PI = 6.283185307179586;

// u - ln(1 + u): the series where the difference would cancel.
inline double excess(double u) {
    if (std::fabs(u) > 0.01) return u - std::log1p(u);
    double sum = 0.0, power = u * u;
    for (int n = 2; n < 12; ++n, power *= -u) sum += power / n;
    return sum;
}

// log of x^a e^-x / Gamma(a) for x = a (1 + u): no large terms that cancel.
inline double log_front(double a, double u) {
    if (a < 32.0) return a * std::log(a * (1.0 + u)) - a * (1.0 + u) - std::lgamma(a);
    const double stirling = (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1260.0 * a * a)) / (a * a)) / a;
    return 0.5 * std::log(a / TWO_PI) - a * excess(u) - stirling;
}

// P(a, a (1 + u)), u <= 0: a series of positive terms.
inline double lower_tail(double a, double u) {
    const double x = a * (1.0 + u);
    double term = 1.0 / a, sum = term;
    for (double n = a + 1.0; term > sum * 1e-17; n += 1.0) sum += (term *= x / n);
    return std::exp(log_front(a, u)) * sum;
}

// Q(a, a (1 + u)), u > 0: Lentz's continued fraction.
inline double upper_tail(double a, double u) {
    constexpr double tiny = 1e-300;
    double b = a * u + 1.0, c = 1.0 / tiny, d = 1.0 / b, h = d;
    for (int64_t i = 1; i < 100000000; ++i) {
        const double an = -static_cast<double>(i) * (static_cast<double>(i) - a);
        b += 2.0;
        d = an * d + b;
        if (std::fabs(d) < tiny) d = tiny;
        c = b + an / c;
        if (std::fabs(c) < tiny) c = tiny;
        d = 1.0 / d;
        const double step = d * c;
        h *= step;
        if (std::fabs(step - 1.0) < 1e-15) break;
    }
    return std::exp(log_front(a, u)) * h;
}

// The lemma's upper bound of P(a, a (1 + u)) for -0.6 < u < 0, or of Q(a, a (1 + u)) for u > 0; a >= 10^6.
inline double tail_bound(double a, double u) {
    const double eta = std::sqrt(2.0 * excess(u));  // |eta|
    const double square = u < 0.0 ? 1.0 / 6.0 : 1.0 / 9.0, line = u < 0.0 ? 1.0 / 3.0 : -1.0 / 3.0;
    const double normal = 0.5 * std::erfc(eta * std::sqrt(a / 2.0));
    const double density = std::exp(-a * excess(u)) / std::sqrt(TWO_PI * a);
    return (normal * (1.0 + square / a) + density * (line + eta * square)) * (1.0 + 1e-12);  // its own rounding
}

// P(the estimate is off by more than epsilon), or an upper bound of it.
inline double failure(int64_t k, double epsilon) {
    const auto a = static_cast<double>(k);
    const double low = -(a * epsilon + 1.0) / (a * (1.0 + epsilon)), high = (a * epsilon - 1.0) / (a * (1.0 - epsilon));
    if (k >= 1000000) return high <= 0.0 ? 1.0 : tail_bound(a, low) + tail_bound(a, high);
    return lower_tail(a, low) + (high > 0.0 ? upper_tail(a, high) : 1.0 - lower_tail(a, high));
}

// The least k for which the estimate is within a factor 1 +- epsilon with probability 1 - delta.
inline int64_t successes(double epsilon, double delta) {
    constexpr int64_t unlimited = int64_t{1} << 62;
    int64_t low = 1, high = 2;
    while (high < unlimited && failure(high, epsilon) > delta) low = high, high *= 2;
    if (high == unlimited) return unlimited;
    while (low + 1 < high) {
        const int64_t middle = low + (high - low) / 2;
        (failure(middle, epsilon) > delta ? low : high) = middle;
    }
    return high;
}

}  // namespace gbas
