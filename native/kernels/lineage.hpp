// Rows of a lineage query -> clauses of formulas: the rows of one answer brought together, row numbers made literals.
//
// A lineage query gives one row for each way in which an answer comes about: the key of the answer, and the number of
// every uncertain row that was used. The rows are sorted by key, so that an answer's clauses stand together, and a row
// with the numbers 4, 1, 4 becomes the clause {2, 8}: literal 2 r says that uncertain row r is there, repeats are
// merged, and -1, which stands for no row, is left out.
//
// Rows that exclude each other (blocks of a block-independent table) are literals like any others here: this pass knows
// nothing of blocks. Afterwards sql/emit/blocks.py replaces the literal of such a row by several, over variables that
// belong to one formula. So the clauses of one key must stand together and their literals must name rows: if two keys
// shared a run of clauses, or a literal were already an encoded choice, rows of different answers would exclude each
// other, and the numbers would be wrong without a word.
//
// The work is memory traffic, so it is done in few passes over arrays that are not cleared first, by loops without
// branches that depend on the data.
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

namespace sharpdnf {

// An array that is not cleared first, in huge pages if it is large: page faults and zeros would otherwise be half of
// the time that sorting takes.
template <class T> class RawArray {
  public:
    RawArray() = default;
    explicit RawArray(std::size_t n) : size(n), data_(allocate(n * sizeof(T))) {}
    T &operator[](std::size_t i) { return data_.get()[i]; }
    T operator[](std::size_t i) const { return data_.get()[i]; }
    T *data() const { return data_.get(); }
    std::size_t size = 0;

  private:
    static T *allocate(std::size_t bytes) {
        constexpr std::size_t kHuge = std::size_t{1} << 21;
        const bool large = bytes >= kHuge;
        const std::size_t whole = large ? (bytes + kHuge - 1) / kHuge * kHuge : bytes + 1;
        void *memory = large ? std::aligned_alloc(kHuge, whole) : std::malloc(whole);
        if (!memory) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
        if (large)
            madvise(memory, whole,
                    MADV_HUGEPAGE);  // only advice to the system: without huge pages the result is the same, but slower
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
    for (int64_t first = 0; first < count && !poll.look(); first += kBlock)
        work(first, std::min(first + kBlock, count));
}

// A column of whole numbers, 64 or 32 bits wide; `null` (may be absent) marks those that are NULL: they are all alike.
struct KeyColumn {
    const int64_t *wide;
    const int32_t *narrow;
    const uint8_t *null;
    int64_t operator[](int32_t row) const { return wide ? wide[row] : narrow[row]; }
};

// Clauses over uncertain rows: row r has the literal 2 r.
struct Lineage {
    RawArray<int64_t> indptr;     // clause c has literals indptr[c] .. indptr[c + 1],
    RawArray<int32_t> literals;   // different ones in increasing order
    RawArray<int32_t> identity;   // further columns of the row at each place
    std::vector<int64_t> starts;  // where the clauses of each distinct key begin, and the number of rows
    std::vector<int32_t> first;   // the first row of each distinct key
    RawArray<int32_t> order;      // the row at each place, if asked for
};

// The order that puts the clauses of every formula into lexicographic order: a database gives them in any order, which
// draws must not depend on. Empty if they are sorted. Formula f has the clauses starts[f] to starts[f + 1] - 1.
inline std::vector<int64_t> clause_order(const int64_t *starts, int64_t formulas, const int64_t *indptr,
                                         const int32_t *literals, Poll &poll) {
    const auto before = [indptr, literals](int64_t a, int64_t b) {
        return std::lexicographical_compare(literals + indptr[a], literals + indptr[a + 1], literals + indptr[b],
                                            literals + indptr[b + 1]);
    };
    std::vector<int64_t> order(static_cast<std::size_t>(formulas > 0 ? starts[formulas] : 0));
    std::iota(order.begin(), order.end(), int64_t{0});
    bool sorted = true;
    by_blocks(formulas, poll, [&](int64_t first, int64_t last) {
        for (int64_t f = first; f < last; ++f) {
            const auto from = order.begin() + starts[f], to = order.begin() + starts[f + 1];
            if (std::is_sorted(from, to, before)) continue;
            std::sort(from, to, before);
            sorted = false;
        }
    });
    if (sorted) order.clear();
    return order;
}

// Brings rows into the order of their keys, first column first, NULLs last, equal keys as they came, and makes each a
// clause of the rows that it numbers, without the negative numbers and without repeats.
class LineageSorter {
  public:
    using Columns = std::vector<const int32_t *>;

    LineageSorter(int32_t rows, const Columns &numbers, const Columns &identity, bool with_order, Poll &poll)
        : rows_(rows), numbers_(numbers), identity_(identity), with_order_(with_order), poll_(poll) {}

    Lineage run(const std::vector<KeyColumn> &keys) {
        out_.literals = RawArray<int32_t>(rows_ * numbers_.size());
        out_.identity = RawArray<int32_t>(rows_ * identity_.size());
        if (with_order_) out_.order = RawArray<int32_t>(rows_);
        if (!scatter(keys)) sort(keys);
        if (!poll_.stopped()) close_gaps();
        return std::move(out_);
    }

  private:
    bool going(int64_t i) { return (i & 0xffff) != 0 || !poll_.look(); }
    template <class Work> void by_blocks(Work work) { sharpdnf::by_blocks(rows_, poll_, work); }
    static bool differ(const KeyColumn &key, int32_t a, int32_t b) {
        if (key.null && (key.null[a] || key.null[b])) return key.null[a] != key.null[b];
        return key[a] != key[b];
    }
    // The rows row[0 .. count) go to the places place[0 .. count).
    void write(const int32_t *place, const int32_t *row, int32_t count) {
        const std::size_t width = numbers_.size(), more = identity_.size();
        if (width == 1)
            write_numbers<1>(place, row, count);
        else if (width == 2)
            write_numbers<2>(place, row, count);
        else if (width == 3)
            write_numbers<3>(place, row, count);
        else
            write_any_numbers(place, row, count);
        for (std::size_t i = 0; i < more; ++i)
            for (int32_t j = 0; j < count; ++j) out_.identity[place[j] * more + i] = identity_[i][row[j]];
        if (with_order_)
            for (int32_t j = 0; j < count; ++j) out_.order[place[j]] = row[j];
    }
    // The numbers of each row, sorted, as literals at its place. The sort is a bubble sort of a width known to the
    // compiler, whose every step exchanges two numbers or not by arithmetic: with d = a - b, d >> 63 is all ones if
    // a < b and else 0, so `below` is d or 0, and (b + below, a - below) is (a, b) or (b, a). The numbers of a row come
    // from different tables in any order, so a branch would be mispredicted about half of the time, and that takes
    // longer than the whole sort; compilers make such a branch of std::min and std::max here. The numbers are widened
    // to 64 bits first: the difference of two 32-bit numbers may overflow, and then the exchange would go wrong.
    template <int Width> void write_numbers(const int32_t *place, const int32_t *row, int32_t count) {
        const int32_t *from[Width];
        std::copy(numbers_.begin(), numbers_.end(), from);
        int32_t *literals = out_.literals.data();
        for (int32_t j = 0; j < count; ++j) {
            int64_t number[Width];
            for (int i = 0; i < Width; ++i) number[i] = from[i][row[j]];
            for (int last = Width - 1; last > 0; --last)
                for (int i = 0; i < last; ++i) {
                    const int64_t a = number[i], b = number[i + 1], below = (a - b) & (a - b) >> 63;
                    number[i] = b + below, number[i + 1] = a - below;
                }
            for (int i = 0; i < Width; ++i)
                literals[int64_t{place[j]} * Width + i] = static_cast<int32_t>(2 * number[i]);
        }
    }
    void write_any_numbers(const int32_t *place, const int32_t *row, int32_t count) {
        for (int32_t j = 0; j < count; ++j) {
            int32_t *first = out_.literals.data() + place[j] * numbers_.size(), *last = first;
            for (const int32_t *from : numbers_) *last++ = 2 * from[row[j]];
            std::sort(first, last);
        }
    }

    // Sorts by one key column whose values lie close together, in a single counting pass; false if they do not.
    bool scatter(const std::vector<KeyColumn> &keys) {
        if (keys.size() != 1 || keys[0].null || rows_ == 0) return false;
        return keys[0].wide ? scatter(keys[0].wide) : scatter(keys[0].narrow);
    }
    template <class T> bool scatter(const T *value) {
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
        if (poll_.stopped()) return true;
        const std::size_t most = std::min<std::size_t>(buckets.size(), rows_);
        out_.starts.reserve(most + 1), out_.first.reserve(most);
        int32_t end = 0;
        for (Bucket &bucket : buckets) {
            if (bucket.end > 0) out_.starts.push_back(end), out_.first.push_back(bucket.first);
            bucket.end = end += bucket.end;
        }
        out_.starts.push_back(rows_);
        by_blocks([&, value](int32_t i, int32_t last) {
            int32_t place[kTogether], row[kTogether];
            for (int32_t some; i < last; i += some) {
                some = std::min(kTogether, last - i);
                for (int32_t j = 0; j < some; ++j) row[j] = top - i - j;
                for (int32_t j = 0; j < some; ++j) place[j] = --of[int64_t{value[row[j]]} - low].end;
                write(place, row, some);
            }
        });
        return true;
    }

    // Sorts by any key columns: the least significant one first, and every pass keeps the order of equal keys.
    void sort(const std::vector<KeyColumn> &keys) {
        from_ = RawArray<int32_t>(rows_), to_ = RawArray<int32_t>(rows_);
        std::iota(from_.data(), from_.data() + rows_, 0);
        for (auto key = keys.rbegin(); key != keys.rend(); ++key) sort_by(*key);
        if (rows_ > 0) out_.starts.push_back(0);
        for (int32_t i = 1; i < rows_ && going(i); ++i)
            for (const KeyColumn &key : keys)
                if (differ(key, from_[i - 1], from_[i])) {
                    out_.starts.push_back(i);
                    break;
                }
        for (const int64_t start : out_.starts) out_.first.push_back(from_[start]);
        out_.starts.push_back(rows_);
        by_blocks([&](int32_t i, int32_t last) {
            int32_t place[kTogether];
            for (int32_t some; i < last; i += some) {
                some = std::min(kTogether, last - i);
                std::iota(place, place + some, i);
                write(place, from_.data() + i, some);
            }
        });
    }

    // Whether no literal of these clauses has to be left out: none is negative and none stands twice. The clauses are
    // sorted, so it is enough to look at the first literal of each and at the differences of neighbours.
    static bool are_whole(const int32_t *literals, int64_t count, int64_t width) {
        const auto look = [=](auto w) {
            int32_t wrong = 0;
            for (int64_t c = 0; c < count && w > 0; ++c) wrong |= literals[c * w];
            for (int64_t i = 1; i < w; ++i)
                for (int64_t c = 0; c < count; ++c) wrong |= literals[c * w + i] - literals[c * w + i - 1] - 1;
            return wrong >= 0;
        };
        return width == 2 ? look(std::integral_constant<int64_t, 2>{}) : look(width);  // a known stride is vectorised
    }
    // Moves the clauses together over the places of literals that are left out, and says where each clause ends.
    void close_gaps() {
        out_.indptr = RawArray<int64_t>(rows_ + std::size_t{1});
        const auto width = static_cast<int64_t>(numbers_.size());
        int32_t *start = out_.literals.data(), *next = start;
        int64_t *ends = out_.indptr.data();
        *ends = 0;
        by_blocks([&](int64_t c, int64_t last) {
            for (int64_t until; c < last; c = until) {
                until = std::min<int64_t>(c + kTogether, last);
                const int32_t *from = start + c * width;
                if (are_whole(from, until - c, width)) {
                    const int64_t end = next - start + width;
                    if (next != from) std::copy(from, from + (until - c) * width, next);
                    for (int64_t i = c; i < until; ++i) ends[i + 1] = end + (i - c) * width;
                    next = start + ends[until];
                    continue;
                }
                for (; c < until; ++c) {
                    int32_t before = -1;
                    for (int64_t i = 0; i < width; ++i, ++from)
                        if (*from > before) before = *next++ = *from;
                    ends[c + 1] = next - start;
                }
            }
        });
        out_.literals.size = next - start;
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
        if (key.wide)
            sort_by_values(key.wide);
        else
            sort_by_values(key.narrow);
        if (key.null) pass(2, [&](int32_t row) { return uint64_t{key.null[row] != 0}; });
    }
    template <class T> void sort_by_values(const T *value) {
        const auto [base, range] = spread(value);
        if (poll_.stopped()) return;
        const auto offset = [value, base = base](int32_t row) {
            return static_cast<uint64_t>(int64_t{value[row]}) - base;
        };
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

    static constexpr int32_t kTogether = 1024;  // rows whose places are found before one is written to: loads and
                                                // stores that alternate would wait for each other
    int32_t rows_;
    const Columns &numbers_, &identity_;
    bool with_order_;
    Poll &poll_;
    Lineage out_;
    RawArray<int32_t> from_, to_;
    std::vector<int32_t> place_;
};

}  // namespace sharpdnf
