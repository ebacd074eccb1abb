// Truth tables for formulas of few variables: one bit per assignment, 64 assignments a word.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "chance.hpp"

// The table of a formula over `num_vars` positions. Position j is bit j of the assignment's number; the first six
// live inside a word. A clause is two masks: the positions it reads, and the values it wants there.
class TruthTable {
  public:
    static constexpr int kMaxVars = 24;

    void reset(int num_vars) {
        num_vars_ = num_vars;
        words_.assign(std::size_t{1} << (num_vars > 6 ? num_vars - 6 : 0), 0);
    }
    // Words a clause writes: 2^(high positions it leaves free).
    static int64_t clause_cost(int num_vars, uint32_t care) {
        const int high = num_vars > 6 ? num_vars - 6 : 0;
        return int64_t{1} << (high - __builtin_popcount(care >> 6));
    }
    void add_clause(uint32_t care, uint32_t want) {
        static constexpr std::array<uint64_t, 6> kTrue = {0xAAAAAAAAAAAAAAAAULL, 0xCCCCCCCCCCCCCCCCULL,
                                                          0xF0F0F0F0F0F0F0F0ULL, 0xFF00FF00FF00FF00ULL,
                                                          0xFFFF0000FFFF0000ULL, 0xFFFFFFFF00000000ULL};
        uint64_t mask = ~uint64_t{0};
        for (int j = 0; j < 6; ++j)
            if (care >> j & 1) mask &= (want >> j & 1) ? kTrue[j] : ~kTrue[j];
        const auto all = static_cast<uint32_t>(words_.size() - 1);
        const uint32_t free = all & ~(care >> 6), base = (want >> 6) & all;
        uint32_t subset = 0;
        do {  // every subset of the free high positions
            words_[base | subset] |= mask;
            subset = (subset - free) & free;
        } while (subset != 0);
    }
    bool bit(uint32_t assignment) const { return words_[assignment >> 6] >> (assignment & 63) & 1; }

    // P(table), prob[j] the probability of position j: the smaller of P and 1 - P is summed. The caller makes sure that
    // no assignment's probability underflows.
    Bounds bounds(const double *prob) {
        const double p = sum(prob, 0);
        const Chance value = p < 0.5 ? Chance{Wide::of(p), false} : Chance{Wide::of(sum(prob, ~uint64_t{0})), true};
        // Two products of three and sums of eight in a word, and three operations for every position beyond it.
        return Bounds::about(value, 32.0 + 3.0 * kMaxVars);
    }

  private:
    // The probability of the assignments whose bit differs from that of `flip`.
    double sum(const double *prob, uint64_t flip) {
        double low[256], weight[8];
        std::array<double, 6> p;
        for (int j = 0; j < 6; ++j) p[j] = j < num_vars_ ? prob[j] : 0.5;
        for (int cell = 0; cell < 8; ++cell) {
            weight[cell] = 1.0;
            for (int j = 0; j < 3; ++j) weight[cell] *= (cell >> j & 1) ? p[j] : 1.0 - p[j];
        }
        low[0] = 0.0;
        for (int byte = 1; byte < 256; ++byte)
            low[byte] = low[byte & (byte - 1)] + weight[__builtin_ctz(static_cast<unsigned>(byte))];
        for (int cell = 0; cell < 8; ++cell) {
            weight[cell] = 1.0;
            for (int j = 0; j < 3; ++j) weight[cell] *= (cell >> j & 1) ? p[3 + j] : 1.0 - p[3 + j];
        }
        values_.resize(words_.size());
        for (std::size_t i = 0; i < words_.size(); ++i) {
            const uint64_t word = words_[i] ^ flip;
            double sum = 0.0;
            for (int byte = 0; byte < 8; ++byte) sum += weight[byte] * low[word >> (8 * byte) & 255];
            values_[i] = sum;
        }
        std::size_t size = words_.size();
        for (int j = 6; j < num_vars_; ++j) {
            size >>= 1;
            const double high = prob[j], rest = 1.0 - prob[j];
            for (std::size_t i = 0; i < size; ++i) values_[i] = values_[2 * i] * rest + values_[2 * i + 1] * high;
        }
        return values_[0];
    }

    int num_vars_ = 0;
    std::vector<uint64_t> words_;
    std::vector<double> values_;
};
