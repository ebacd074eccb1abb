// Words and numbers of the text formats, and clauses -> text.
#pragma once
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace sharpdnf {

// Thrown by the parser with what is wrong in the text; Parser::line says where.
struct ParseFailure {
    std::string message;
};

struct Token {
    const char *first, *last;
    bool is(const char *word) const {
        const auto length = static_cast<size_t>(last - first);
        return std::strlen(word) == length && std::memcmp(first, word, length) == 0;
    }
    // A word of the text as error messages quote it: cut short, and readable whatever its bytes are.
    std::string quoted() const {
        std::string out = "'";
        for (const char *p = first; p < last && p < first + 40; ++p) {
            const auto byte = static_cast<unsigned char>(*p);
            if (byte >= 32 && byte < 127) {
                out += *p;
            } else {
                const char *hex = "0123456789abcdef";
                out += std::string("\\x") + hex[byte >> 4] + hex[byte & 15];
            }
        }
        return out + (last - first > 40 ? "...'" : "'");
    }
};

// digits[.digits][e[+-]digits], nothing else: no sign, no hexadecimal, no inf or nan. NaN if it is not that, or if
// a double cannot hold it (a weight that silently became 0 or infinite would be a wrong count).
inline double parse_decimal(const char *p, const char *end) {
    const char *first = p;
    int64_t digits = 0;
    for (; p < end && *p >= '0' && *p <= '9'; ++p) ++digits;
    if (p < end && *p == '.')
        for (++p; p < end && *p >= '0' && *p <= '9'; ++p) ++digits;
    if (digits == 0) return NAN;
    if (p < end && (*p == 'e' || *p == 'E')) {
        ++p;
        if (p < end && (*p == '+' || *p == '-')) ++p;
        if (p == end) return NAN;
        for (; p < end; ++p)
            if (*p < '0' || *p > '9') return NAN;
    }
    if (p != end) return NAN;
    double value = 0.0;
#if defined(__cpp_lib_to_chars)
    const auto result = std::from_chars(first, end, value);
    return result.ec == std::errc() && result.ptr == end ? value : NAN;
#else
    const std::string text(first, end);
    value = std::strtod(text.c_str(), nullptr);
    const bool nonzero = text.find_first_of("123456789") < std::min(text.find_first_of("eE"), text.size());
    return std::isinf(value) || (value == 0.0 && nonzero) ? NAN : value;
#endif
}

// A decimal or a fraction of two decimals; NaN if it is neither.
inline double parse_number(const Token &token) {
    const auto *slash = static_cast<const char *>(std::memchr(token.first, '/', token.last - token.first));
    if (slash == nullptr) return parse_decimal(token.first, token.last);
    const double a = parse_decimal(token.first, slash), b = parse_decimal(slash + 1, token.last);
    const double quotient = a / b;
    return !(b > 0.0) || std::isinf(quotient) || (quotient == 0.0 && a != 0.0) ? NAN : quotient;
}

// Digits with an optional minus; false if it is not that or does not fit.
inline bool parse_integer(const Token &token, int64_t &out) {
    const auto result = std::from_chars(token.first, token.last, out);
    return result.ec == std::errc() && result.ptr == token.last;
}

// Reads the 1 to 7 digits at p, of which 8 bytes must be there, without a branch per digit; returns how many there
// are, 0 if none or more than 7.
inline int leading_number(const char *p, uint64_t &value) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && defined(__GNUC__)
    uint64_t bytes;
    std::memcpy(&bytes, p, sizeof bytes);
    bytes ^= 0x3030303030303030ull;  // digits become 0..9
    const uint64_t other = (bytes | (bytes + 0x7676767676767676ull)) & 0x8080808080808080ull;
    if (other == 0) return 0;
    const int digits = __builtin_ctzll(other) >> 3;
    if (digits == 0) return 0;
    bytes <<= 64 - 8 * digits;  // leading zeros, most significant digit in the lowest byte
    bytes = (bytes * 10 + (bytes >> 8)) & 0x00ff00ff00ff00ffull;
    bytes = (bytes * 100 + (bytes >> 16)) & 0x0000ffff0000ffffull;
    value = (bytes * 10000 + (bytes >> 32)) & 0xffffffffull;
    return digits;
#else
    (void)p, (void)value;
    return 0;
#endif
}
// Clauses [first, last) as lines of signed 1-based literals, each ending in 0; `negate` flips every literal, which
// turns the DNF's clauses into those of the CNF of its negation.
inline std::string format_clauses(const int64_t *indptr, const int32_t *literals, int64_t first, int64_t last,
                                  bool negate) {
    std::string out;
    out.reserve(static_cast<size_t>(8 * (indptr[last] - indptr[first]) + 3 * (last - first)));
    char number[16];
    for (int64_t c = first; c < last; ++c) {
        for (int64_t i = indptr[c]; i < indptr[c + 1]; ++i) {
            const int32_t variable = (literals[i] >> 1) + 1;
            const bool negative = (literals[i] & 1) != (negate ? 1 : 0);
            char *end = std::to_chars(number, number + sizeof number, negative ? -variable : variable).ptr;
            *end++ = ' ';
            out.append(number, end);
        }
        out += "0\n";
    }
    return out;
}

}  // namespace sharpdnf
