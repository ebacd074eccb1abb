// Truth tables for formulas of few variables: one bit per assignment, 64 assignments a word.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "chance.hpp"

namespace sharpdnf {

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

    // P and 1 - P, prob[j] the probability of position j. Both are sums of what is positive, or 1 minus the smaller
    // one, so both are right to `kUnits` roundings. The caller makes sure that no assignment's probability underflows.
    static constexpr double kUnits = 34.0 + 3.0 * kMaxVars;
    Plain plain(const double *prob) {
        double miss[kMaxVars];
        for (int j = 0; j < num_vars_; ++j) miss[j] = 1.0 - prob[j];
        return plain(prob, miss);
    }
    // With 1 - P of every position given, where taking it from P would lose digits.
    Plain plain(const double *prob, const double *miss) {
        const Plain sums = num_vars_ <= 6 ? one_word(prob, miss) : words(prob, miss);
        return sums.p < 0.5 ? Plain{sums.p, 1.0 - sums.p} : Plain{1.0 - sums.q, sums.q};
    }
    // The same as an interval.
    Bounds bounds(const double *prob) { return about(plain(prob), kUnits); }
    // `units` are the roundings that the probabilities themselves may be off by, all of them together.
    Bounds bounds(const double *prob, const double *miss, double units) {
        return about(plain(prob, miss), kUnits + units);
    }

  private:
    static Bounds about(const Plain &sums, double units) {
        return Bounds::about(sums.p < 0.5 ? Chance{Wide::of(sums.p), false} : Chance{Wide::of(sums.q), true}, units);
    }
    // The probabilities of the 2^count assignments of positions first, first + 1, ...; one that is not there is 1/2.
    void weigh(const double *prob, const double *miss, int first, int count, double *weight) const {
        weight[0] = 1.0;
        for (int j = 0; j < count; ++j) {
            const bool there = first + j < num_vars_;
            const double high = there ? prob[first + j] : 0.5, low = there ? miss[first + j] : 0.5;
            for (int cell = 0; cell < 1 << j; ++cell) weight[cell | 1 << j] = weight[cell] * high, weight[cell] *= low;
        }
    }
    // In nibbles: the first two positions are looked up in a table, and the four others weigh the nibbles. At most
    // 7 + 6 + 1 + 15 roundings.
    Plain one_word(const double *prob, const double *miss) const {
        double low[16], cells[4], weight[16];
        const int high = num_vars_ > 2 ? num_vars_ - 2 : 0;
        weigh(prob, miss, 0, 2, cells), weigh(prob, miss, 2, high, weight);
        low[0] = 0.0;
        for (int cell = 0; cell < 4; ++cell)
            for (int below = 0; below < 1 << cell; ++below) low[1 << cell | below] = low[below] + cells[cell];
        Plain out{0.0, 0.0};
        for (int i = 0; i < 1 << high; ++i) {
            const auto nibble = static_cast<unsigned>(words_[0] >> (4 * i) & 15);
            out.p += weight[i] * low[nibble], out.q += weight[i] * low[15 - nibble];
        }
        return out;
    }
    // Bytes: two products of three and sums of eight in a word, and three roundings for every position beyond it. Only
    // the smaller of P and 1 - P is of use: the other one is left at 0 where that is known.
    Plain words(const double *prob, const double *miss) {
        double low[256], weight[8];
        weigh(prob, miss, 0, 3, weight);
        low[0] = 0.0;
        for (int byte = 1; byte < 256; ++byte)
            low[byte] = low[byte & (byte - 1)] + weight[__builtin_ctz(static_cast<unsigned>(byte))];
        weigh(prob, miss, 3, 3, weight);
        const double p = sum(prob, miss, low, weight, 0);
        return {p, p < 0.5 ? 0.0 : sum(prob, miss, low, weight, ~uint64_t{0})};
    }
    // The probability of the assignments whose bit differs from that of `flip`.
    double sum(const double *prob, const double *miss, const double *low, const double *weight, uint64_t flip) {
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
            const double high = prob[j], rest = miss[j];
            for (std::size_t i = 0; i < size; ++i) values_[i] = values_[2 * i] * rest + values_[2 * i + 1] * high;
        }
        return values_[0];
    }

    int num_vars_ = 0;
    std::vector<uint64_t> words_;
    std::vector<double> values_;
};

}  // namespace sharpdnf
