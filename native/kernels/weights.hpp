// Weights as they are declared, one per literal, and what they come to: a probability and a factor.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "text.hpp"

namespace sharpdnf {

// One double per variable, "not declared" until set. Pages that nobody writes cost nothing, so a header may
// announce many variables before the text has shown that it is large enough to mean it.
class SparseDoubles {
  public:
    void allocate(int64_t size) {
        if (data_ || size == 0) return;
        data_.reset(static_cast<uint64_t *>(std::calloc(static_cast<size_t>(size), sizeof(uint64_t))));
        if (!data_) throw std::bad_alloc();
    }
    explicit operator bool() const { return data_ != nullptr; }
    double get(int64_t i) const {
        if (!data_) return NAN;
        const uint64_t bits = data_[i] ^ kUndeclared;
        double value;
        std::memcpy(&value, &bits, sizeof value);
        return value;
    }
    void set(int64_t i, double value) {
        uint64_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        data_[i] = bits ^ kUndeclared;
    }
    // The finished probabilities replace the encoded ones, so no second array is needed.
    void settle(int64_t i, double value) { std::memcpy(&data_[i], &value, sizeof value); }
    uint64_t *release() { return data_.release(); }
    void clear() { data_.reset(); }

  private:
    static constexpr uint64_t kUndeclared = 0x7ff8000000000001ull;  // a NaN that no text can produce
    struct Free {
        void operator()(uint64_t *p) const { std::free(p); }
    };
    std::unique_ptr<uint64_t[], Free> data_;
};

// log of a product of weight sums. Powers of two are kept apart, so 2^n gives n log 2 to the last bit.
struct ScaleProduct {
    double mantissa = 1.0;  // in [1, 2)
    int64_t exponent = 0;
    void multiply(double factor) {
        int e = 0;
        mantissa = 2.0 * std::frexp(mantissa * (2.0 * std::frexp(factor, &e)), &shift);
        exponent += e - 1 + shift - 1;
    }
    double log() const { return static_cast<double>(exponent) * 0.69314718055994530942 + std::log(mantissa); }

  private:
    int shift = 0;
};

// The sum of two weights that can be held as (p, sum), or a failure.
inline double check_pair(int64_t variable, double positive, double negative) {
    const auto fail_pair = [&](const char *what) {
        throw ParseFailure{"variable " + std::to_string(variable) + ": " + what};
    };
    if (positive < 0.0 || negative < 0.0) fail_pair("1 - w would be negative: expected a weight for both literals");
    double sum = positive + negative;
    if (std::abs(sum - 1.0) <= 0x1p-52) sum = 1.0;  // as doubles 0.1 and 0.9 do not add up to 1, but are meant to
    if (!(sum > 0.0) || std::isinf(sum)) fail_pair("expected weights with a positive sum that a double can hold");
    const double p = positive / sum;
    if ((p == 0.0 && positive > 0.0) || (p == 1.0 && negative > 0.0))
        fail_pair("one weight vanishes beside the other in double precision");
    return sum;
}

}  // namespace sharpdnf
