// Rows of a lineage query -> clauses of formulas: the rows of one answer brought together, row numbers made variables.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <numeric>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "poll.hpp"

// An array that is not cleared first, in huge pages if it is large: page faults and zeros would be half of the time here.
template <class T> class RawArray {
  public:
    RawArray() = default;
    explicit RawArray(std::size_t n) : size(n), data_(allocate(n * sizeof(T))) {}
    T &operator[](std::size_t i) { return data_.get()[i]; }
    T operator[](std::size_t i) const { return data_.get()[i]; }
    T *data() const { return data_.get(); }
    T *release() { return data_.release(); }  // for std::free
    std::size_t size = 0;

  private:
    static T *allocate(std::size_t bytes) {
        constexpr std::size_t kHuge = std::size_t{1} << 21;
        const bool large = bytes >= kHuge;
        const std::size_t whole = large ? (bytes + kHuge - 1) / kHuge * kHuge : bytes + 1;
        void *memory = large ? std::aligned_alloc(kHuge, whole) : std::malloc(whole);
        if (!memory) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
        if (large) madvise(memory, whole, MADV_HUGEPAGE);  // a wish: without it all is the same, but slower
#endif
        return static_cast<T *>(memory);
    }
    struct Free {
        void operator()(T *data) const { std::free(data); }
    };
    std::unique_ptr<T, Free> data_;
};

// work(first, last) on blocks of 0 .. count, with a look at the poll between them: in an inner loop it costs a third.
template <class Work> void by_blocks(int64_t count, Poll &poll, Work work) {
    constexpr int64_t kBlock = 1 << 16;
    for (int64_t first = 0; first < count && !poll.look(); first += kBlock) work(first, std::min(first + kBlock, count));
}

// A column of whole numbers, 64 or 32 bits wide; `null` (may be absent) marks those that are NULL: they are all alike.
struct KeyColumn {
    const int64_t *wide;
    const int32_t *narrow;
    const uint8_t *null;
    int64_t operator[](int32_t row) const { return wide ? wide[row] : narrow[row]; }
};

// Rows sorted by their keys, first column first, NULLs last, equal keys in the order in which they came.
struct SortedRows {
    RawArray<int32_t> table;      // the values of the row at each place
    std::vector<int64_t> starts;  // where each distinct key begins, and the number of rows
    std::vector<int32_t> first;   // the first row of each distinct key
    RawArray<int32_t> order;      // the row at each place, if asked for
};

class RowSorter {
  public:
    // `values` are columns that are brought into the same order, which is told only `with_order`; the first `sorted` of
    // them are the rows of a clause and stand in increasing order.
    RowSorter(int32_t rows, const std::vector<const int32_t *> &values, std::size_t sorted, bool with_order, Poll &poll)
        : rows_(rows), width_(values.size()), sorted_(sorted), values_(values), with_order_(with_order), poll_(poll) {}

    // Least significant column first: every pass is stable.
    SortedRows run(const std::vector<KeyColumn> &keys) {
        SortedRows out;
        out.table = RawArray<int32_t>(static_cast<std::size_t>(rows_) * width_);
        if (with_order_) out.order = RawArray<int32_t>(rows_);
        if (keys.size() == 1 && !keys[0].null && rows_ > 0 &&
            (keys[0].wide ? scatter(keys[0].wide, out) : scatter(keys[0].narrow, out)))
            return out;
        from_ = with_order_ ? std::move(out.order) : RawArray<int32_t>(rows_), to_ = RawArray<int32_t>(rows_);
        std::iota(from_.data(), from_.data() + rows_, 0);
        for (auto key = keys.rbegin(); key != keys.rend(); ++key) sort_by(*key);
        out.order = std::move(from_);
        start_groups(keys, out);
        for (int32_t i = 0; i < rows_ && going(i); ++i) write(out, i, out.order[i]);
        return out;
    }

  private:
    bool going(int64_t i) { return (i & 0xffff) != 0 || !poll_.look(); }
    template <class Work> void by_blocks(Work work) { ::by_blocks(rows_, poll_, work); }
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
        for (const int64_t start : out.starts) out.first.push_back(out.order[start]);
        out.starts.push_back(rows_);
    }
    void write(SortedRows &out, int32_t place, int32_t row) const {
        int32_t *to = out.table.data() + static_cast<std::size_t>(place) * width_;
        if (width_ == 2 && sorted_ == 2) {  // the usual join; of std::min and max compilers make a branch
            const int64_t a = values_[0][row], b = values_[1][row], below = (a - b) & (a - b) >> 63;
            to[0] = static_cast<int32_t>(b + below), to[1] = static_cast<int32_t>(a - below);
            return;
        }
        for (std::size_t i = 0; i < width_; ++i) to[i] = values_[i][row];
        for (std::size_t i = 1; i < sorted_; ++i)
            for (std::size_t j = i; j > 0 && to[j - 1] > to[j]; --j) std::swap(to[j - 1], to[j]);
    }
    // One column whose values lie close together: a single counting pass.
    template <class T> bool scatter(const T *value, SortedRows &out) {
        const auto [base, range] = spread(value);
        if (poll_.stopped()) return true;
        if (!close(range)) return false;
        struct Bucket {
            int32_t end, first;  // where its rows end, all but those already in place; the first of them
        };
        std::vector<Bucket> buckets(range + 1, Bucket{0, 0});
        Bucket *of = buckets.data();
        const auto low = static_cast<int64_t>(base);
        const int32_t top = rows_ - 1;
        by_blocks([=](int32_t i, int32_t last) {
            for (; i < last; ++i) {  // from the last row to the first, which stays in `first`
                Bucket &bucket = of[int64_t{value[top - i]} - low];
                ++bucket.end, bucket.first = top - i;
            }
        });
        int32_t end = 0;
        for (Bucket &bucket : buckets) {
            if (bucket.end > 0) out.starts.push_back(end), out.first.push_back(bucket.first);
            bucket.end = end += bucket.end;
        }
        out.starts.push_back(rows_);
        by_blocks([&, value](int32_t i, int32_t last) {
            for (; i < last; ++i) {
                const int32_t place = --of[int64_t{value[top - i]} - low].end;
                if (with_order_) out.order[place] = top - i;
                write(out, place, top - i);
            }
        });
        return true;
    }
    // (the least value, the largest minus it), unless told to stop; plain loops, which compilers vectorise.
    template <class T> std::pair<uint64_t, uint64_t> spread(const T *value) {
        T low = value[0], high = value[0];
        by_blocks([&, value](int32_t row, int32_t last) {
            T least = low, most = high;
            for (; row < last; ++row) least = std::min(least, value[row]), most = std::max(most, value[row]);
            low = least, high = most;
        });
        const auto base = static_cast<uint64_t>(int64_t{low});
        return {base, static_cast<uint64_t>(int64_t{high}) - base};
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
        const auto [base, range] = spread(value);
        if (poll_.stopped()) return;
        const auto offset = [value, base = base](int32_t row) { return static_cast<uint64_t>(int64_t{value[row]}) - base; };
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
        by_blocks([&, from = from_.data(), to = to_.data(), place = place_.data()](int32_t i, int32_t last) {
            for (; i < last; ++i) to[place[digit(from[i])]++] = from[i];
        });
        if (!poll_.stopped()) std::swap(from_, to_);  // else `from_` still holds every row once
    }

    int32_t rows_;
    std::size_t width_, sorted_;
    const std::vector<const int32_t *> &values_;
    bool with_order_;
    Poll &poll_;
    RawArray<int32_t> from_, to_;
    std::vector<int32_t> place_;
};

struct LineageClauses {
    RawArray<int64_t> indptr;
    RawArray<int32_t> literals;  // the first indptr[clauses] of them
    bool all_rows;                    // variable v is row v,
    std::vector<int64_t> row_of_var;  // else this
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

// Whether the rows of clauses first .. last are there, different and in increasing order, so that all keep their place.
inline bool are_plain(const int32_t *rows, int64_t first, int64_t last, int64_t width) {
    int32_t wrong = 0;
    if (width > 0)
        for (int64_t c = first; c < last; ++c) wrong |= rows[c * width];
    for (int64_t i = 1; i < width; ++i)
        for (int64_t c = first; c < last; ++c) wrong |= rows[c * width + i] - rows[c * width + i - 1] - 1;
    return wrong >= 0;
}

template <class LiteralOf>
void write_clauses(const int32_t *rows, int64_t clauses, int64_t width, LiteralOf literal, LineageClauses &out, Poll &poll) {
    int32_t *next = out.literals.data(), *start = next;
    int64_t *ends = out.indptr.data();
    *ends = 0;
    by_blocks(clauses, poll, [&](int64_t c, int64_t last) {
        if (are_plain(rows, c, last, width)) {
            const int64_t before = next - start - c * width;
            for (int64_t i = c * width; i < last * width; ++i) start[before + i] = literal(rows[i]);
            for (; c < last; ++c) ends[c + 1] = before + (c + 1) * width;
            next = start + ends[last];
            return;
        }
        for (const int32_t *row = rows + c * width; c < last; ++c, row += width) {
            int32_t *first = next;
            for (int64_t i = 0; i < width; ++i)
                if (row[i] >= 0) next = insert_literal(first, next, literal(row[i]));
            ends[c + 1] = next - start;
        }
    });
    out.literals.size = next - start;
}

// Clause c is the conjunction of the rows rows[c * width ...] without the negative entries and without repeats. Rows
// become variables in the order of their numbers, so sorting the rows sorts the literals: all rows if the clauses are
// many, which spares looking each one up, else those that occur.
inline LineageClauses lineage_clauses(const int32_t *rows, int64_t clauses, int64_t width, int64_t num_rows, Poll &poll) {
    LineageClauses out{RawArray<int64_t>(clauses + 1), RawArray<int32_t>(clauses * width), num_rows <= clauses, {}};
    if (out.all_rows) {
        write_clauses(rows, clauses, width, [](int32_t row) { return 2 * row; }, out, poll);
        return out;
    }
    std::vector<int32_t> literal(num_rows, -1);
    by_blocks(clauses * width, poll, [&](int64_t i, int64_t last) {
        for (; i < last; ++i)
            if (rows[i] >= 0) literal[rows[i]] = 0;
    });
    by_blocks(num_rows, poll, [&](int64_t r, int64_t last) {
        for (; r < last; ++r)
            if (literal[r] == 0) literal[r] = 2 * static_cast<int32_t>(out.row_of_var.size()), out.row_of_var.push_back(r);
    });
    write_clauses(rows, clauses, width, [&](int32_t row) { return literal[row]; }, out, poll);
    return out;
}
