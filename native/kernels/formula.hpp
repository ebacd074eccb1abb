// The formula as the kernels see it, and what every kernel needs of it: normal form and clause probabilities.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "poll.hpp"

namespace sharpdnf {

// Function multiversioning: one portable source, the loader picks the widest vectors the machine has.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__) && \
    !defined(SHARPDNF_NO_CLONES)
#define SHARPDNF_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SHARPDNF_CLONES
#endif
#define SHARPDNF_INLINE inline __attribute__((always_inline))

// Clause c holds literals[indptr[c] .. indptr[c+1]), strictly increasing by variable.
// Literal 2v is variable v, 2v+1 its negation; prob[v] is the probability that v is true.
struct Formula {
    const int64_t *indptr;
    const int32_t *literals;
    const double *prob;
    int64_t num_clauses;
    int64_t num_vars;

    // p or 1 - p, without a branch: signs are random, so a branch would be mispredicted half of the time.
    SHARPDNF_INLINE double literal_prob(int32_t literal) const {
        const double p = prob[literal >> 1], negated = literal & 1;
        return negated + (1.0 - 2.0 * negated) * p;
    }
    int64_t size() const { return indptr[num_clauses]; }
};

// A formula that owns its arrays.
struct OwnedFormula {
    std::vector<int64_t> indptr{0};
    std::vector<int32_t> literals;
    std::vector<double> prob;

    Formula view() const {
        return {indptr.data(), literals.data(), prob.data(), static_cast<int64_t>(indptr.size()) - 1,
                static_cast<int64_t>(prob.size())};
    }
};

// log of a product of probabilities, safe far below the smallest double.
struct LogProduct {
    static constexpr double kSmall = 1e-150;  // the product of two numbers that are no smaller is a normal double
    double mantissa = 1.0, log_scale = 0.0;
    SHARPDNF_INLINE void multiply(double p) {
        if (p < kSmall) {
            log_scale += std::log(p);  // -inf when a factor was 0
            return;
        }
        mantissa *= p;
        if (mantissa < kSmall) rescale();
    }
    void rescale() {
        log_scale += std::log(mantissa);
        mantissa = 1.0;
    }
    double log() const { return log_scale + std::log(mantissa); }
};

// p(C) for every clause: the one pass over the literals against which the engines are measured.
inline void clause_probs(const Formula &f, double *out, Pace &pace) {
    for (int64_t c = 0; c < f.num_clauses; ++c) {
        double p = 1.0;
        for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) p *= f.literal_prob(f.literals[i]);
        out[c] = p;
        pace.check(f.indptr[c + 1] - f.indptr[c]);
    }
}

// log p(C) for every clause, right far below the smallest double.
inline void clause_log_probs(const Formula &f, double *out, Pace &pace) {
    for (int64_t c = 0; c < f.num_clauses; ++c) {
        pace.check(f.indptr[c + 1] - f.indptr[c]);
        double p = 1.0;
        for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) p *= f.literal_prob(f.literals[i]);
        if (p >= 1e-290) {
            out[c] = std::log(p);
            continue;
        }
        LogProduct product;  // the double has underflowed, or is about to
        for (int64_t i = f.indptr[c]; i < f.indptr[c + 1]; ++i) product.multiply(f.literal_prob(f.literals[i]));
        out[c] = product.log();
    }
}

// Clauses by falling probability, in steps of a sixteenth of the logarithm: a counting sort. Its
// users need the heavy clauses first, not an exact order.
struct FallingOrder {
    static constexpr int BUCKETS = 1024, PER_UNIT = 16;
    std::vector<int32_t> clauses;
    std::vector<int32_t> start = std::vector<int32_t>(BUCKETS + 1, 0);  // of each bucket in `clauses`

    FallingOrder(const std::vector<double> &log_prob, double log_max) : clauses(log_prob.size()) {
        const auto m = static_cast<int64_t>(log_prob.size());
        std::vector<int16_t> key(m);
        for (int64_t c = 0; c < m; ++c) {
            const double fall = (log_max - log_prob[c]) * PER_UNIT;
            key[c] = fall < BUCKETS - 1 ? static_cast<int16_t>(fall) : BUCKETS - 1;
            ++start[key[c] + 1];
        }
        std::partial_sum(start.begin(), start.end(), start.begin());
        std::vector<int32_t> next = start;
        for (int64_t c = 0; c < m; ++c) clauses[next[key[c]]++] = static_cast<int32_t>(c);
    }
};

struct Normalised {
    std::vector<int64_t> indptr;
    std::vector<int32_t> literals;
    int64_t repeated_literals = 0;
    int64_t impossible_clauses = 0;
};

// Sorts each clause by variable, merges repeated literals, drops clauses that hold a literal and its negation.
inline Normalised normalise(const int64_t *indptr, const int32_t *literals, int64_t num_clauses, Pace &pace) {
    Normalised out;
    out.indptr.reserve(num_clauses + 1);
    out.indptr.push_back(0);
    out.literals.reserve(indptr[num_clauses]);
    for (int64_t c = 0; c < num_clauses; ++c) {
        pace.check(4 * (indptr[c + 1] - indptr[c]));
        const auto start = static_cast<int64_t>(out.literals.size());
        bool sorted = true;
        for (int64_t i = indptr[c]; i < indptr[c + 1]; ++i) {
            if (i > indptr[c] && (literals[i] >> 1) <= (literals[i - 1] >> 1)) sorted = false;
            out.literals.push_back(literals[i]);
        }
        if (!sorted) {
            auto first = out.literals.begin() + start;
            std::sort(first, out.literals.end());
            const auto kept = std::unique(first, out.literals.end());
            out.repeated_literals += out.literals.end() - kept;
            out.literals.erase(kept, out.literals.end());
            bool impossible = false;
            for (auto i = start + 1; i < static_cast<int64_t>(out.literals.size()); ++i)
                impossible |= (out.literals[i] >> 1) == (out.literals[i - 1] >> 1);
            if (impossible) {
                ++out.impossible_clauses;
                out.literals.resize(start);
                continue;
            }
        }
        out.indptr.push_back(static_cast<int64_t>(out.literals.size()));
    }
    return out;
}

}  // namespace sharpdnf
