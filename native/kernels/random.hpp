// Random bits, 512 at a time: eight sfc64 streams side by side, one per 64-bit word.
#pragma once
#include <cstdint>
#include <cstring>

#include "formula.hpp"

namespace sharpdnf {

constexpr int WORDS = 8;
constexpr int LANES = 64 * WORDS;
typedef uint64_t Quad __attribute__((vector_size(32)));

// Eight words as two vectors of the width most machines have: compilers lower a 64-byte vector through the stack.
struct alignas(64) Lanes {
    Quad low, high;

    static SHARPDNF_INLINE Lanes all(uint64_t word) { return {Quad{} + word, Quad{} + word}; }
    static SHARPDNF_INLINE Lanes none() { return {Quad{}, Quad{}}; }
    SHARPDNF_INLINE Lanes operator~() const { return {~low, ~high}; }
    SHARPDNF_INLINE Lanes operator&(const Lanes &x) const { return {low & x.low, high & x.high}; }
    SHARPDNF_INLINE Lanes operator|(const Lanes &x) const { return {low | x.low, high | x.high}; }
    SHARPDNF_INLINE Lanes operator^(const Lanes &x) const { return {low ^ x.low, high ^ x.high}; }
    SHARPDNF_INLINE Lanes operator+(const Lanes &x) const { return {low + x.low, high + x.high}; }
    SHARPDNF_INLINE Lanes operator<<(int n) const { return {low << n, high << n}; }
    SHARPDNF_INLINE Lanes operator>>(int n) const { return {low >> n, high >> n}; }
    SHARPDNF_INLINE Lanes &operator&=(const Lanes &x) { return *this = *this & x; }
    SHARPDNF_INLINE Lanes &operator|=(const Lanes &x) { return *this = *this | x; }
};

SHARPDNF_INLINE bool any(const Lanes &x) {
    const Quad both = x.low | x.high;
    return ((both[0] | both[1]) | (both[2] | both[3])) != 0;
}

// Lanes in memory: containers hold these, and single lanes are read and written through `word`.
struct LaneWord {
    Lanes bits = Lanes::none();
    uint64_t *word() { return reinterpret_cast<uint64_t *>(&bits); }
    const uint64_t *word() const { return reinterpret_cast<const uint64_t *>(&bits); }
    bool lane(int i) const { return (word()[i >> 6] >> (i & 63)) & 1; }
    void set(int i) { word()[i >> 6] |= 1ULL << (i & 63); }
    void clear(int i) { word()[i >> 6] &= ~(1ULL << (i & 63)); }
    int64_t ones() const {
        int64_t total = 0;
        for (int w = 0; w < WORDS; ++w) total += __builtin_popcountll(word()[w]);
        return total;
    }
};

inline uint64_t splitmix64(uint64_t &state) {
    uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

// sfc64 (Chris Doty-Humphrey, PractRand), the scalar generator of the lazy samplers.
struct Random {
    uint64_t a, b, c, counter = 1;
    explicit Random(uint64_t seed) {
        a = splitmix64(seed), b = splitmix64(seed), c = splitmix64(seed);
        for (int i = 0; i < 12; ++i) next();
    }
    SHARPDNF_INLINE uint64_t next() {
        const uint64_t out = a + b + counter++;
        a = b ^ (b >> 11);
        b = c + (c << 3);
        c = ((c << 24) | (c >> 40)) + out;
        return out;
    }
    // Uniform on [0, 1) with 53 bits.
    SHARPDNF_INLINE double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
    // Uniform on {0, .., n-1} (Lemire's multiply-shift of 64 bits: the bias is below 2^-32 for n < 2^32).
    SHARPDNF_INLINE uint64_t below(uint64_t n) {
        return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * n) >> 64);
    }
};

struct LaneRandom {
    Lanes a, b, c, counter;
    explicit LaneRandom(uint64_t seed) {
        uint64_t start[3][WORDS];
        for (int w = 0; w < WORDS; ++w)
            for (auto &words : start) words[w] = splitmix64(seed);
        std::memcpy(&a, start[0], sizeof a);
        std::memcpy(&b, start[1], sizeof b);
        std::memcpy(&c, start[2], sizeof c);
        counter = Lanes::all(1);
    }
    SHARPDNF_INLINE Lanes next() {
        const Lanes out = a + b + counter;
        counter = counter + Lanes::all(1);
        a = b ^ (b >> 11);
        b = c + (c << 3);
        c = ((c << 24) | (c >> 40)) + out;
        return out;
    }
};

// One Bernoulli(p) bit for each lane of `undecided`, 0 elsewhere: compares a uniform number with p, most significant
// bit first, until every lane is decided. Doubling and subtracting 1 are exact, so the bits of p are too, however small
// it is.
SHARPDNF_INLINE Lanes bernoulli(LaneRandom &random, double p, Lanes undecided) {
    Lanes result = Lanes::none();
    if (p >= 1.0) return undecided;
    while (p > 0.0) {
        const Lanes bits = random.next();
        p += p;
        if (p >= 1.0) {
            p -= 1.0;
            result |= undecided & ~bits;
            undecided &= bits;
        } else {
            undecided &= ~bits;
        }
        if (!any(undecided)) break;
    }
    return result;
}
SHARPDNF_INLINE Lanes bernoulli(LaneRandom &random, double p) { return bernoulli(random, p, ~Lanes::none()); }

}  // namespace sharpdnf
