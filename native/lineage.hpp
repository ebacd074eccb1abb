// Rows of a lineage query -> clauses of formulas: the rows of one answer brought together, row numbers made variables.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "poll.hpp"

// An array that is not cleared first: half of the time here would go into writing zeros.
template <class T> struct RawArray {
    std::unique_ptr<T[]> data;
    std::size_t size = 0;
    RawArray() = default;
    explicit RawArray(std::size_t n) : data(new T[n]), size(n) {}
    T &operator[](std::size_t i) { return data[i]; }
    T operator[](std::size_t i) const { return data[i]; }
};

// A column of whole numbers, 64 or 32 bits wide; `null` (may be absent) marks those that are NULL: they are all alike.
struct KeyColumn {
    const int64_t *wide;
    const int32_t *narrow;
    const uint8_t *null;
    int64_t operator[](int32_t row) const { return wide ? wide[row] : narrow[row]; }
};

// Rows sorted by their keys, first column first, NULLs last, equal keys in the order in which they came.
struct SortedRows {
    RawArray<int32_t> order;      // the row at each place
    RawArray<int32_t> table;      // the values of that row, place by place
    std::vector<int64_t> starts;  // where each distinct key begins, and the number of rows
};

class RowSorter {
  public:
    // `values` are columns that are brought into the same order.
    RowSorter(int32_t rows, const std::vector<const int32_t *> &values, Poll &poll)
        : rows_(rows), values_(values), poll_(poll) {}

    // Least significant column first: every pass is stable.
    SortedRows run(const std::vector<KeyColumn> &keys) {
        SortedRows out{RawArray<int32_t>(rows_), RawArray<int32_t>(static_cast<std::size_t>(rows_) * values_.size()), {}};
        if (keys.size() == 1 && !keys[0].null && rows_ > 0 &&
            (keys[0].wide ? scatter(keys[0].wide, out) : scatter(keys[0].narrow, out)))
            return out;
        from_ = std::move(out.order), to_ = RawArray<int32_t>(rows_);
        std::iota(from_.data.get(), from_.data.get() + rows_, 0);
        for (auto key = keys.rbegin(); key != keys.rend(); ++key) sort_by(*key);
        out.order = std::move(from_);
        start_groups(keys, out);
        for (int32_t i = 0; i < rows_ && going(i); ++i) write(out, i, out.order[i]);
        return out;
    }

  private:
    bool going(int64_t i) { return (i & 0xffff) != 0 || !poll_.look(); }
    static bool differ(const KeyColumn &key, int32_t a, int32_t b) {
        if (key.null && (key.null[a] || key.null[b])) return key.null[a] != key.null[b];
        return key[a] != key[b];
    }
    void start_groups(const std::vector<KeyColumn> &keys, SortedRows &out) {
        if (rows_ > 0) out.starts.push_back(0);
        for (int32_t i = 1; i < rows_ && going(i); ++i)
            for (const KeyColumn &key : keys)
                if (differ(key, out.order[i - 1], out.order[i])) {
                    out.starts.push_back(i);
                    break;
                }
        out.starts.push_back(rows_);
    }
    void write(SortedRows &out, int32_t place, int32_t row) const {
        int32_t *to = out.table.data.get() + static_cast<std::size_t>(place) * values_.size();
        for (const int32_t *value : values_) *to++ = value[row];
    }
    // One column whose values lie close together: a single counting pass that reads every row in order.
    template <class T> bool scatter(const T *value, SortedRows &out) {
        const auto [low, high] = std::minmax_element(value, value + rows_);
        const auto base = static_cast<uint64_t>(int64_t{*low}), range = static_cast<uint64_t>(int64_t{*high}) - base;
        if (!close(range)) return false;
        const auto offset = [=](int32_t row) { return static_cast<uint64_t>(int64_t{value[row]}) - base; };
        count(range + 1, offset);
        int32_t start = 0;
        for (std::size_t b = 0; b <= range; start = place_[++b])
            if (place_[b + 1] > start) out.starts.push_back(start);
        out.starts.push_back(rows_);
        for (int32_t row = 0; row < rows_ && going(row); ++row) {
            const int32_t place = place_[offset(row)]++;
            out.order[place] = row;
            write(out, place, row);
        }
        return true;
    }
    bool close(uint64_t range) const { return range < 4 * static_cast<uint64_t>(rows_); }

    // Radix passes over the digits in which the column's values differ; one counting pass if they lie close together.
    void sort_by(const KeyColumn &key) {
        if (rows_ == 0) return;
        if (key.wide) sort_by_values(key.wide);
        else sort_by_values(key.narrow);
        if (key.null) pass(2, [&](int32_t row) { return uint64_t{key.null[row] != 0}; });
    }
    template <class T> void sort_by_values(const T *value) {
        const auto [low, high] = std::minmax_element(value, value + rows_);
        const auto base = static_cast<uint64_t>(int64_t{*low}), range = static_cast<uint64_t>(int64_t{*high}) - base;
        const auto offset = [=](int32_t row) { return static_cast<uint64_t>(int64_t{value[row]}) - base; };
        if (close(range)) return pass(range + 1, offset);
        constexpr int kBits = 11;
        for (int shift = 0; shift < 64 && (range >> shift) != 0; shift += kBits)
            pass(std::size_t{1} << kBits, [&](int32_t row) { return offset(row) >> shift & ((1u << kBits) - 1); });
    }
    // place_[b] becomes where bucket b begins.
    template <class Digit> void count(std::size_t buckets, Digit digit) {
        place_.assign(buckets + 1, 0);
        for (int32_t row = 0; row < rows_ && going(row); ++row) ++place_[digit(row) + 1];
        for (std::size_t b = 1; b <= buckets; ++b) place_[b] += place_[b - 1];
    }
    template <class Digit> void pass(std::size_t buckets, Digit digit) {
        count(buckets, digit);
        if (poll_.stopped()) return;
        for (int32_t i = 0; i < rows_; ++i) to_[place_[digit(from_[i])]++] = from_[i];
        std::swap(from_, to_);
    }

    int32_t rows_;
    const std::vector<const int32_t *> &values_;
    Poll &poll_;
    RawArray<int32_t> from_, to_;
    std::vector<int32_t> place_;
};

struct LineageClauses {
    RawArray<int64_t> indptr;
    RawArray<int32_t> literals;  // the first indptr[clauses] of them
    std::vector<int64_t> row_of_var;
};

// Adds a literal to the increasing literals first .. last, unless it is there; the new end.
inline int32_t *insert_literal(int32_t *first, int32_t *last, int32_t lit) {
    int32_t *place = last;
    while (place != first && place[-1] > lit) --place;
    if (place != first && place[-1] == lit) return last;
    std::copy_backward(place, last, last + 1);
    *place = lit;
    return last + 1;
}

// Clause c is the conjunction of the rows rows[c * width ...] without the negative entries and without repeats. Rows
// that occur become variables in the order of their numbers, so sorting the rows sorts the literals.
inline LineageClauses lineage_clauses(const int32_t *rows, int64_t clauses, int64_t width, int64_t num_rows, Poll &poll) {
    LineageClauses out{RawArray<int64_t>(clauses + 1), RawArray<int32_t>(clauses * width), {}};
    std::vector<int32_t> literal(num_rows, -1);
    for (int64_t i = 0; i < clauses * width; ++i)
        if (rows[i] >= 0) literal[rows[i]] = 0;
    for (int64_t r = 0; r < num_rows; ++r)
        if (literal[r] == 0) literal[r] = 2 * static_cast<int32_t>(out.row_of_var.size()), out.row_of_var.push_back(r);
    int32_t *to = out.literals.data.get(), *start = to;
    out.indptr[0] = 0;
    for (int64_t c = 0; c < clauses; ++c) {
        if ((c & 0xffff) == 0 && poll.look()) break;
        const int32_t *row = rows + c * width, *end = row + width;
        if (width == 2 && row[0] >= 0 && row[1] >= 0) {  // the usual join, without a branch to mispredict
            const int32_t a = literal[row[0]], b = literal[row[1]];
            to[0] = std::min(a, b), to[1] = std::max(a, b);
            to += 1 + (a != b);
        } else {
            int32_t *first = to;
            for (; row != end; ++row)
                if (*row >= 0) to = insert_literal(first, to, literal[*row]);
        }
        out.indptr[c + 1] = to - start;
    }
    out.literals.size = to - start;
    return out;
}
