// How many draws are enough: a relative promise by inverse binomial sampling, an additive one by the binomial law.
//
// Relative. Inverse binomial sampling: draw until k successes, N draws in all, and take (k - 1)/(N - 1). As p goes to
// 0, N p has the law Gamma(k), and the estimate is off by more than a factor 1 +- epsilon if N p falls below c = (k -
// 1)/(1 + epsilon) or above d = (k - 1)/(1 - epsilon): two tails of the gamma law. That inverse binomial sampling keeps
// such a relative promise for every p is known from Mendo and Hernando (A simple sequential stopping rule for Monte
// Carlo simulation, IEEE Transactions on Communications 54, 2006; improved in the same journal in 2008). The condition
// that is used here is c <= k - 3, and the proof does not rest on theirs:
//
// Too high: N - 1 < c/p. That means N <= m for the p in [c/m, c/(m - 1)); N is at least k, so only m >= k matters,
// where c/(m - 1) < 1. There P(N <= m) = P(Bin(m, p) >= k) is less than B(m) = P(Bin(m, c/(m - 1)) >= k), as it grows
// with p. B grows with m, hence is at most its limit, the Poisson tail P(Poisson(c) >= k), which is the gamma tail P(k,
// c): with p = c/(m - 1), one draw more adds C(m, k - 1) p^k (1 - p)^(m - k + 1), and the step from p to c/m takes away
// that times (m + 1) int u^(k - 1) ((1 - p u)/(1 - p))^(m - k + 1) du over 1 - 1/m <= u <= 1. With v = 1 - u the
// integrand is at most exp(-(k - 1) v) exp(v (m - k + 1) c/(m - 1 - c)) <= exp(-g v) for g = k - 1 - c, as m - k + 1 <=
// m - 1 - c, and (m + 1) int_0^(1/m) exp(-2 v) dv <= (1 + 1/m)(1 - 1/m + 2/(3 m^2)) <= 1 for m >= 2, so g >= 2 is
// enough. Too low: N - 1 > d/p. That means N > j for the p in (d/j, d/(j - 1)], where j > d. There P(N > j) = P(Bin(j,
// p) < k) is less than P(Bin(j, d/j) < k), as it falls with p. That grows with j to the gamma tail Q(k, d), if d >= k:
// what the step to d/(j + 1) takes from P(Bin >= k) must be at least what one draw more adds to it, (j + 1) int h(v) dv
// >= 1 over 0 <= v <= 1/(j + 1) for h(v) = (1 - v)^(k - 1) (1 + v d/(j - d))^(j - k + 1). h is log-concave, h(0) = 1,
// and at the other end it is (1 + 1/(j - d))^(j - k + 1) / (1 + 1/j)^j; since j - k + 1 >= j - d + 1 and (1 + 1/x)^(x +
// 1) > e > (1 + 1/j)^j that is at least 1, hence so is h in between. QED.
//
// Without the condition it is wrong: at (0.9, 0.1) the tails alone would allow k = 2, which fails with probability
// 0.27 at p just below 0.526, where N = 2 is too high. Given N, (k - 1)/(N - 1) is the mean of GBAS's (k - 1)/R
// (Huber, arXiv 1309.5413; R is a Gamma(N) draw), whose law is that of the gamma tails for every p: the same k,
// without the noise.
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
//
// Additive. The mean of N draws misses p by more than epsilon on one side if S >= a, on the other if S <= b. Between
// two neighbours among the points a/N - epsilon and b/N + epsilon neither set changes, and for N >= 1/epsilon both
// tails are convex in p there (p is at most a/N - 1/N <= (a - 1)/(N - 1), the mode of the one's derivative, and
// likewise at least b/(N - 1), that of the other's), so the worst p is where it approaches such a point: from below for
// the first kind, which S >= a needs. p -> 1 - p maps the two kinds onto each other. So the greatest failure is the
// largest, over a, of P(S >= a) + P(S < a - 2 N epsilon) at p = a/N - epsilon, which is summed. A bound saves most of
// the sums: P(S >= a)
// <= Phi(-sqrt(2 N KL((a - 1)/N, p))) (Zubkov and Serov, Theory of Probability and its Applications 57, 2013). With
// Pinsker's KL(x, p) >= 2 (x - p)^2 it also gives 2 Phi(-2 sqrt(N) (epsilon - 1/N)) for all p at once: a number of
// draws that is surely enough, and all that is asked where summing would take long.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace sharpdnf {

namespace stopping {

constexpr int64_t kUnlimited = int64_t{1} << 62;
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
    return normal * (1.0 + square / a) + density * (line + eta * square);
}

// P(the estimate is off by more than epsilon), or an upper bound of it; to 1e-9, see below.
inline double failure(int64_t k, double epsilon) {
    const auto a = static_cast<double>(k);
    const double low = -(a * epsilon + 1.0) / (a * (1.0 + epsilon)), high = (a * epsilon - 1.0) / (a * (1.0 - epsilon));
    if (k >= 1000000) return high <= 0.0 ? 1.0 : tail_bound(a, low) + tail_bound(a, high);
    return lower_tail(a, low) + (high > 0.0 ? upper_tail(a, high) : 1.0 - lower_tail(a, high));
}

// The condition under which the gamma tails bound the failure for every p; d >= k follows from it.
inline bool proved(int64_t k, double epsilon) {
    return static_cast<double>(k - 1) * epsilon >= 2.0 * (1.0 + epsilon) * (1.0 + 1e-12);
}

// The least k for which the estimate is proved to be within a factor 1 +- epsilon with probability 1 - delta. The
// margin is for the rounding of the tails: their exponents are below 750 with a relative error of 1e-13 at most,
// their sums have thousands of terms.
inline int64_t successes(double epsilon, double delta) {
    const auto enough = [&](int64_t k) { return proved(k, epsilon) && failure(k, epsilon) * (1.0 + 1e-9) <= delta; };
    int64_t low = 2, high = 3;
    while (high < kUnlimited / 2 && !enough(high)) low = high, high *= 2;
    if (high >= kUnlimited / 2) return kUnlimited;
    while (low + 1 < high) {
        const int64_t middle = low + (high - low) / 2;
        (enough(middle) ? high : low) = middle;
    }
    return high;
}

// log((k - 1)/(N - 1)), the estimate from N draws of which k succeeded, the last among them.
inline double log_estimate(int64_t k, int64_t draws) {
    return std::log(static_cast<double>(k - 1) / static_cast<double>(draws - 1));
}

// P(S >= a) for N draws, a above N p: a series of falling terms, right to 1e-9 for N up to 20,000.
inline double binomial_tail(int64_t n, int64_t a, double p) {
    if (a > n || p <= 0.0) return 0.0;
    const auto N = static_cast<double>(n), A = static_cast<double>(a);
    double term = std::exp(std::lgamma(N + 1.0) - std::lgamma(A + 1.0) - std::lgamma(N - A + 1.0) + A * std::log(p) +
                           (N - A) * std::log1p(-p));
    double sum = 0.0;
    for (double s = A; term > sum * 1e-17 && s <= N; s += 1.0) {
        sum += term;
        term *= (N - s) / (s + 1.0) * (p / (1.0 - p));
    }
    return sum;
}

// Zubkov and Serov's upper bound of P(S >= a).
inline double binomial_tail_bound(int64_t n, int64_t a, double p) {
    const double N = static_cast<double>(n), x = (static_cast<double>(a) - 1.0) / N;
    if (p <= 0.0 || a > n) return 0.0;
    if (x <= p) return 1.0;
    const double divergence = x * std::log(x / p) + (x < 1.0 ? (1.0 - x) * std::log((1.0 - x) / (1.0 - p)) : 0.0);
    return 0.5 * std::erfc(std::sqrt(N * divergence)) * (1.0 + 1e-9);
}

// Whether the mean of N >= 1/epsilon draws is within epsilon with probability 1 - delta, whatever p is.
inline bool enough_draws(int64_t n, double epsilon, double delta) {
    const double N = static_cast<double>(n), twice = 2.0 * N * epsilon;
    // 2 N epsilon rounded down, exactly: where it was rounded up to an integer, the remainder tells.
    const auto reach = static_cast<int64_t>(std::floor(twice)) -
                       (twice == std::floor(twice) && std::fma(2.0 * N, epsilon, -twice) < 0.0 ? 1 : 0);
    const auto kept = [&](int64_t a) {
        const double p = static_cast<double>(a) / N - epsilon;
        if (p <= 0.0) return true;                  // no p above 0 is near this point, so none fails there
        const int64_t below = n - (a - reach) + 1;  // S < a - 2 N epsilon is N - S >= below
        if (binomial_tail_bound(n, a, p) + binomial_tail_bound(n, below, 1.0 - p) <= delta) return true;
        return (binomial_tail(n, a, p) + binomial_tail(n, below, 1.0 - p)) * (1.0 + 1e-8) <= delta;
    };
    // From the middle outwards: the failure is largest near p = 1/2, so a number that is not enough is seen early.
    const auto middle = static_cast<int64_t>(N * (1.0 + epsilon) / 2.0);
    for (int64_t d = 0; d <= n; ++d)
        if ((middle - d >= 0 && !kept(middle - d)) || (middle + d <= n && !kept(middle + d))) return false;
    return true;
}

// A number of draws whose mean is within epsilon with probability 1 - delta. It starts from one that is surely enough;
// up to 20,000 it is the least between half of that (or 1/epsilon) and that.
inline int64_t additive_draws(double epsilon, double delta) {
    const auto surely = [&](int64_t n) {
        const double N = static_cast<double>(n), miss = epsilon - 1.0 / N;
        return miss > 0.0 && std::erfc(std::sqrt(2.0 * N) * miss) * (1.0 + 1e-9) <= delta;
    };
    int64_t low = 0, high = 1;
    while (high < kUnlimited && !surely(high)) low = high, high *= 2;
    if (high >= kUnlimited) return kUnlimited;
    while (low + 1 < high) {
        const int64_t middle = low + (high - low) / 2;
        (surely(middle) ? high : low) = middle;
    }
    if (high > 20000) return high;
    const auto first = std::max(static_cast<int64_t>(std::ceil(1.0 / epsilon)), high / 2);
    for (int64_t n = first; n < high; ++n)
        if (enough_draws(n, epsilon, delta)) return n;
    return high;
}

}  // namespace stopping

}  // namespace sharpdnf
