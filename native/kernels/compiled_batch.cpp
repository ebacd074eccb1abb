// The inner loops of compiled_batch.hpp: sixteen rows at a time, one copy for each kind of vectors.
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

// The backward pass over the nodes from last - 1 down to first.
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
                    // Two values near 1 differ by the difference of their complements, which have more digits.
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

// Memory for sixteen rows: hit[16 i + r] and miss[16 i + r] are P and 1 - P of node i in row r, literal[16 l + r] the
// probability of literal l, slope[16 v + r] what is asked of variable v.
struct RowBlock {
    std::vector<double> hit, miss, flow, literal, slope, behind;

    RowBlock(const CompiledView &c, const BatchRequest &asked)
        : hit(kRows * c.num_nodes), miss(kRows * c.num_nodes), literal(2 * kRows * asked.num_vars) {
        if (asked.slopes == Slopes::none) return;
        int32_t widest = 0;
        for (int64_t i = 0; i < c.num_nodes; ++i)
            if (c.kind[i] == Compiled::kTerm) widest = std::max(widest, c.b[i] - c.a[i]);
        flow.resize(kRows * c.num_nodes), slope.resize(kRows * asked.num_vars);
        behind.resize(kRows * (static_cast<std::size_t>(widest) + 1));
    }

    // Rows first to first + count - 1; the last one fills what is left of the sixteen.
    void read(const BatchRequest &asked, int64_t first, int count) {
        for (int r = 0; r < kRows; ++r) {
            const double *row = asked.probs + asked.num_vars * (first + std::min(r, count - 1));
            for (int64_t v = 0; v < asked.num_vars; ++v) {
                literal[2 * kRows * v + r] = row[v];
                literal[2 * kRows * v + kRows + r] = 1.0 - row[v];
            }
        }
    }
};

// Values forwards and slopes backwards, without what outputs below kRoomy add. False if it is to stop.
bool run_block(const CompiledView &c, const BatchRequest &asked, int64_t first_row, int count, RowBlock &block,
               Poll &poll, bool looks) {
    constexpr int64_t kStretch = 1 << 14;  // nodes between two looks at the clock
    const auto stop = [&] { return looks ? poll.look() : poll.stopped(); };
    for (int64_t first = 0; first < c.num_nodes; first += kStretch) {
        if (stop()) return false;
        forwards(c, first, std::min(c.num_nodes, first + kStretch), block.hit.data(), block.miss.data(),
                 block.literal.data());
    }
    if (asked.slopes == Slopes::none) return true;
    std::fill(block.flow.begin(), block.flow.end(), 0.0), std::fill(block.slope.begin(), block.slope.end(), 0.0);
    for (int r = 0; r < count; ++r)
        for (int64_t o = 0; o < asked.outputs; ++o) {
            const int64_t place = kRows * static_cast<int64_t>(asked.output[o]) + r;
            if (!(block.hit[place] >= kRoomy)) continue;
            const double weight = asked.weight[asked.outputs * (first_row + r) + o];
            block.flow[place] += asked.slopes == Slopes::of_prob ? weight : weight / block.hit[place];
        }
    for (int64_t last = c.num_nodes; last > 0; last -= kStretch) {
        if (stop()) return false;
        backwards(c, std::max<int64_t>(0, last - kStretch), last, block.hit.data(), block.miss.data(),
                  block.literal.data(), block.flow.data(), block.slope.data(), block.behind.data());
    }
    return true;
}

// What the outputs of one row below kRoomy are and add, with a wider exponent.
void wide_row(const CompiledView &c, const BatchRequest &asked, int64_t row, const RowBlock &block, int r,
              double *log_prob, double *slope) {
    const double *const prob = asked.probs + asked.num_vars * row;
    std::vector<Value> value;
    for (int64_t o = 0; o < asked.outputs; ++o) {
        const int64_t root = asked.output[o];
        if (block.hit[kRows * root + r] >= kRoomy) continue;
        if (value.empty()) compiled_values(c, prob, value);
        const Wide p = value[root].p;
        log_prob[o] = std::min(value[root].log(), 0.0);
        const bool of_log = asked.slopes == Slopes::of_log;
        if (asked.slopes == Slopes::none || (of_log && p.zero())) continue;
        const Wide scale = of_log ? Wide::of(1.0) * Wide{1.0 / p.m, -p.e} : Wide::of(1.0);
        compiled_slopes(c, root, prob, value, scale, asked.weight[asked.outputs * row + o], slope);
    }
}

}  // namespace

void compiled_batch(const CompiledView &c, const BatchRequest &asked, int threads, Poll &poll, double *log_prob,
                    double *slope) {
    std::atomic<int64_t> next{0};
    const auto work = [&](int thread) {
        RowBlock block(c, asked);
        for (int64_t first; (first = next.fetch_add(kRows)) < asked.rows;) {
            const auto count = static_cast<int>(std::min<int64_t>(kRows, asked.rows - first));
            block.read(asked, first, count);
            if (!run_block(c, asked, first, count, block, poll, thread == 0)) return;
            for (int r = 0; r < count; ++r) {
                const int64_t row = first + r;
                double *const logs = log_prob + asked.outputs * row;
                double *const out = slope ? slope + asked.num_vars * row : nullptr;
                for (int64_t v = 0; out && v < asked.num_vars; ++v) out[v] = block.slope[kRows * v + r];
                bool roomy = true;
                for (int64_t o = 0; o < asked.outputs; ++o) {
                    const int64_t place = kRows * static_cast<int64_t>(asked.output[o]) + r;
                    const double hit = block.hit[place], miss = block.miss[place];
                    roomy &= hit >= kRoomy;
                    logs[o] = std::min(hit < miss ? std::log(hit) : std::log1p(-miss), 0.0);
                }
                if (!roomy) wide_row(c, asked, row, block, r, logs, out);
            }
        }
    };
    constexpr int64_t kShared = 1 << 17;  // nodes times rows from which threads pay
    const int64_t helpers =
        c.num_nodes * asked.rows < kShared ? 0 : std::min<int64_t>(threads, (asked.rows + kRows - 1) / kRows) - 1;
    run_on_threads(static_cast<int>(std::max<int64_t>(helpers, 0)), work);
    if (poll.stopped()) throw Stopped{};
}

}  // namespace sharpdnf
