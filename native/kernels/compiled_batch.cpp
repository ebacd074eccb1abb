#include "compiled_batch.hpp"

#include <atomic>

#include "threads.hpp"

namespace sharpdnf {

namespace {

constexpr double kRoomy = 1e-100;  // above it a row of doubles is as good as the wide one

SHARPDNF_CLONES void forwards(const CompiledView &c, int64_t first, int64_t last, double *hit, double *miss,
                              const double *literal) {
    for (int64_t i = first; i < last; ++i) {
        double *__restrict p = hit + kRows * i, *__restrict q = miss + kRows * i;
        const int64_t a = kRows * static_cast<int64_t>(c.a[i]), b = kRows * static_cast<int64_t>(c.b[i]);
        const double *pa = hit + a, *qa = miss + a, *pb = hit + b, *qb = miss + b;
        switch (c.kind[i]) {
            case Compiled::kFalse:
                for (int r = 0; r < kRows; ++r) p[r] = 0.0, q[r] = 1.0;
                break;
            case Compiled::kTrue:
                for (int r = 0; r < kRows; ++r) p[r] = 1.0, q[r] = 0.0;
                break;
            case Compiled::kTerm:
                for (int r = 0; r < kRows; ++r) p[r] = 1.0, q[r] = 0.0;
                for (int32_t j = c.a[i]; j < c.b[i]; ++j) {
                    const double *yes = literal + kRows * static_cast<int64_t>(c.literals[j]);
                    const double *no = literal + kRows * static_cast<int64_t>(c.literals[j] ^ 1);
                    for (int r = 0; r < kRows; ++r) q[r] += p[r] * no[r], p[r] *= yes[r];
                }
                break;
            case Compiled::kOr:
                for (int r = 0; r < kRows; ++r) p[r] = pa[r] + pb[r] * qa[r];
                for (int r = 0; r < kRows; ++r) q[r] = qa[r] * qb[r];
                break;
            case Compiled::kAnd:
                for (int r = 0; r < kRows; ++r) p[r] = pa[r] * pb[r];
                for (int r = 0; r < kRows; ++r) q[r] = qa[r] + qb[r] * pa[r];
                break;
            default: {
                const double *yes = literal + 2 * kRows * static_cast<int64_t>(c.var[i]), *no = yes + kRows;
                for (int r = 0; r < kRows; ++r) p[r] = yes[r] * pa[r] + no[r] * pb[r];
                for (int r = 0; r < kRows; ++r) q[r] = yes[r] * qa[r] + no[r] * qb[r];
            }
        }
    }
}

// From node last - 1 down to first.
SHARPDNF_CLONES void backwards(const CompiledView &c, int64_t first, int64_t last, const double *hit,
                               const double *miss, const double *literal, double *flow, double *slope, double *behind) {
    for (int64_t i = last - 1; i >= first; --i) {
        const double *__restrict here = flow + kRows * i;
        const int64_t a = kRows * static_cast<int64_t>(c.a[i]), b = kRows * static_cast<int64_t>(c.b[i]);
        switch (c.kind[i]) {
            case Compiled::kFalse:
            case Compiled::kTrue:
                break;
            case Compiled::kTerm: {
                const int32_t start = c.a[i], width = c.b[i] - start;
                for (int r = 0; r < kRows; ++r) behind[r] = here[r];  // here times the literals before j
                for (int32_t j = 0; j + 1 < width; ++j) {
                    const double *yes = literal + kRows * static_cast<int64_t>(c.literals[start + j]);
                    for (int r = 0; r < kRows; ++r) behind[kRows * (j + 1) + r] = behind[kRows * j + r] * yes[r];
                }
                double ahead[kRows];
                for (int r = 0; r < kRows; ++r) ahead[r] = 1.0;
                for (int32_t j = width - 1; j >= 0; --j) {
                    const int32_t lit = c.literals[start + j];
                    const double *yes = literal + kRows * static_cast<int64_t>(lit), sign = lit & 1 ? -1.0 : 1.0;
                    double *out = slope + kRows * static_cast<int64_t>(lit >> 1);
                    for (int r = 0; r < kRows; ++r) out[r] += sign * behind[kRows * j + r] * ahead[r];
                    for (int r = 0; r < kRows; ++r) ahead[r] *= yes[r];
                }
                break;
            }
            case Compiled::kOr:
            case Compiled::kAnd: {
                const double *side = c.kind[i] == Compiled::kOr ? miss : hit;
                for (int r = 0; r < kRows; ++r) flow[a + r] += here[r] * side[b + r];
                for (int r = 0; r < kRows; ++r) flow[b + r] += here[r] * side[a + r];
                break;
            }
            default: {
                const double *yes = literal + 2 * kRows * static_cast<int64_t>(c.var[i]), *no = yes + kRows;
                double *out = slope + kRows * static_cast<int64_t>(c.var[i]);
                for (int r = 0; r < kRows; ++r) {
                    // Of two values near 1 the difference is that of what they miss.
                    const double up =
                        hit[a + r] > 0.5 && hit[b + r] > 0.5 ? miss[b + r] - miss[a + r] : hit[a + r] - hit[b + r];
                    out[r] += here[r] * up;
                }
                for (int r = 0; r < kRows; ++r) flow[a + r] += here[r] * yes[r];
                for (int r = 0; r < kRows; ++r) flow[b + r] += here[r] * no[r];
            }
        }
    }
}

}  // namespace

bool compiled_block(const CompiledView &c, Slopes slopes, RowBlock &block, Poll &poll, bool looks) {
    constexpr int64_t kStretch = 1 << 14;  // nodes between two looks at the clock
    const auto stop = [&] { return looks ? poll.look() : poll.stopped(); };
    for (int64_t first = 0; first < c.num_nodes; first += kStretch) {
        if (stop()) return false;
        forwards(c, first, std::min(c.num_nodes, first + kStretch), block.hit.data(), block.miss.data(),
                 block.literal.data());
    }
    if (slopes == Slopes::none) return true;
    std::fill(block.flow.begin(), block.flow.end(), 0.0), std::fill(block.slope.begin(), block.slope.end(), 0.0);
    const int64_t root = kRows * (c.num_nodes - 1);
    for (int r = 0; r < kRows; ++r)
        block.flow[root + r] = slopes == Slopes::of_prob       ? 1.0
                               : block.hit[root + r] >= kRoomy ? 1.0 / block.hit[root + r]
                                                               : 0.0;
    for (int64_t last = c.num_nodes; last > 0; last -= kStretch) {
        if (stop()) return false;
        backwards(c, std::max<int64_t>(0, last - kStretch), last, block.hit.data(), block.miss.data(),
                  block.literal.data(), block.flow.data(), block.slope.data(), block.behind.data());
    }
    return true;
}

// One row with a wider exponent.
static void wide_row(const CompiledView &c, const double *prob, int64_t num_vars, Slopes slopes, double *log_prob,
                     double *slope) {
    std::vector<Value> value;
    compiled_values(c, prob, value);
    const Wide root = value.back().p;
    *log_prob = std::min(value.back().log(), 0.0);
    if (slopes == Slopes::none) return;
    std::fill(slope, slope + num_vars, 0.0);
    if (slopes == Slopes::of_prob || !root.zero())
        compiled_slopes(c, prob, value,
                        slopes == Slopes::of_log ? Wide::of(1.0) * Wide{1.0 / root.m, -root.e} : Wide::of(1.0),
                        num_vars, slope);
}

void compiled_batch(const CompiledView &c, const double *probs, int64_t rows, int64_t num_vars, Slopes slopes,
                    int threads, Poll &poll, double *log_prob, double *slope) {
    int32_t widest = 0;
    for (int64_t i = 0; i < c.num_nodes; ++i)
        if (c.kind[i] == Compiled::kTerm) widest = std::max(widest, c.b[i] - c.a[i]);
    std::atomic<int64_t> next{0};
    const auto work = [&](int thread) {
        RowBlock block;
        block.hit.resize(kRows * c.num_nodes), block.miss.resize(kRows * c.num_nodes);
        block.literal.resize(2 * kRows * num_vars);
        if (slopes != Slopes::none) {
            block.flow.resize(kRows * c.num_nodes), block.slope.resize(kRows * num_vars);
            block.behind.resize(kRows * (static_cast<std::size_t>(widest) + 1));
        }
        for (int64_t first; (first = next.fetch_add(kRows)) < rows;) {
            const auto count = static_cast<int>(std::min<int64_t>(kRows, rows - first));
            for (int r = 0; r < kRows; ++r) {
                const double *row = probs + num_vars * (first + std::min(r, count - 1));
                for (int64_t v = 0; v < num_vars; ++v) {
                    block.literal[2 * kRows * v + r] = row[v];
                    block.literal[2 * kRows * v + kRows + r] = 1.0 - row[v];
                }
            }
            if (!compiled_block(c, slopes, block, poll, thread == 0)) return;
            const double *hit = block.hit.data() + kRows * (c.num_nodes - 1),
                         *miss = block.miss.data() + kRows * (c.num_nodes - 1);
            for (int r = 0; r < count; ++r) {
                double *out = slope ? slope + num_vars * (first + r) : nullptr;
                if (!(hit[r] >= kRoomy)) {
                    wide_row(c, probs + num_vars * (first + r), num_vars, slopes, log_prob + first + r, out);
                    continue;
                }
                log_prob[first + r] = std::min(hit[r] < miss[r] ? std::log(hit[r]) : std::log1p(-miss[r]), 0.0);
                for (int64_t v = 0; out && v < num_vars; ++v) out[v] = block.slope[kRows * v + r];
            }
        }
    };
    constexpr int64_t kShared = 1 << 17;  // nodes times rows from which threads pay
    const int64_t helpers =
        c.num_nodes * rows < kShared ? 0 : std::min<int64_t>(threads, (rows + kRows - 1) / kRows) - 1;
    run_on_threads(static_cast<int>(std::max<int64_t>(helpers, 0)), work);
    if (poll.stopped()) throw Stopped{};
}

}  // namespace sharpdnf
