// The inner loops of compiled_batch.hpp: sixteen rows at a time, one copy for each kind of vectors.
#include "compiled_batch.hpp"

#include <atomic>

#include "threads.hpp"

namespace sharpdnf {

namespace {

constexpr double kRoomy = 1e-100;  // above it a row of doubles is as good as the wide one

// One pass over the nodes first to last - 1, kLanes rows side by side.
template <int kLanes>
[[gnu::always_inline]] inline void forwards(const CompiledView &c, int64_t first, int64_t last, double *hit,
                                            double *miss, const double *literal) {
    for (int64_t i = first; i < last; ++i) {
        double *__restrict p = hit + kLanes * i, *__restrict q = miss + kLanes * i;
        const int64_t a = kLanes * static_cast<int64_t>(c.a[i]), b = kLanes * static_cast<int64_t>(c.b[i]);
        const double *pa = hit + a, *qa = miss + a, *pb = hit + b, *qb = miss + b;
        switch (c.kind[i]) {
            case Compiled::kFalse:
                for (int r = 0; r < kLanes; ++r) p[r] = 0.0, q[r] = 1.0;
                break;
            case Compiled::kTrue:
                for (int r = 0; r < kLanes; ++r) p[r] = 1.0, q[r] = 0.0;
                break;
            case Compiled::kTerm:
                for (int r = 0; r < kLanes; ++r) p[r] = 1.0, q[r] = 0.0;
                for (int32_t j = c.a[i]; j < c.b[i]; ++j) {
                    const double *yes = literal + kLanes * static_cast<int64_t>(c.literals[j]);
                    const double *no = literal + kLanes * static_cast<int64_t>(c.literals[j] ^ 1);
                    for (int r = 0; r < kLanes; ++r) q[r] += p[r] * no[r], p[r] *= yes[r];
                }
                break;
            case Compiled::kOr:
                for (int r = 0; r < kLanes; ++r) p[r] = pa[r] + pb[r] * qa[r];
                for (int r = 0; r < kLanes; ++r) q[r] = qa[r] * qb[r];
                break;
            case Compiled::kAnd:
                for (int r = 0; r < kLanes; ++r) p[r] = pa[r] * pb[r];
                for (int r = 0; r < kLanes; ++r) q[r] = qa[r] + qb[r] * pa[r];
                break;
            default: {
                const double *yes = literal + 2 * kLanes * static_cast<int64_t>(c.var[i]), *no = yes + kLanes;
                for (int r = 0; r < kLanes; ++r) p[r] = yes[r] * pa[r] + no[r] * pb[r];
                for (int r = 0; r < kLanes; ++r) q[r] = yes[r] * qa[r] + no[r] * qb[r];
            }
        }
    }
}

// The backward pass over the nodes from last - 1 down to first.
template <int kLanes>
[[gnu::always_inline]] inline void backwards(const CompiledView &c, int64_t first, int64_t last, const double *hit,
                                             const double *miss, const double *literal, double *flow, double *slope,
                                             double *behind) {
    for (int64_t i = last - 1; i >= first; --i) {
        const double *__restrict here = flow + kLanes * i;
        const int64_t a = kLanes * static_cast<int64_t>(c.a[i]), b = kLanes * static_cast<int64_t>(c.b[i]);
        switch (c.kind[i]) {
            case Compiled::kFalse:
            case Compiled::kTrue:
                break;
            case Compiled::kTerm: {
                const int32_t start = c.a[i], width = c.b[i] - start;
                for (int r = 0; r < kLanes; ++r) behind[r] = here[r];  // here times the literals before j
                for (int32_t j = 0; j + 1 < width; ++j) {
                    const double *yes = literal + kLanes * static_cast<int64_t>(c.literals[start + j]);
                    for (int r = 0; r < kLanes; ++r) behind[kLanes * (j + 1) + r] = behind[kLanes * j + r] * yes[r];
                }
                double ahead[kLanes];
                for (int r = 0; r < kLanes; ++r) ahead[r] = 1.0;
                for (int32_t j = width - 1; j >= 0; --j) {
                    const int32_t lit = c.literals[start + j];
                    const double *yes = literal + kLanes * static_cast<int64_t>(lit), sign = lit & 1 ? -1.0 : 1.0;
                    double *out = slope + kLanes * static_cast<int64_t>(lit >> 1);
                    for (int r = 0; r < kLanes; ++r) out[r] += sign * behind[kLanes * j + r] * ahead[r];
                    for (int r = 0; r < kLanes; ++r) ahead[r] *= yes[r];
                }
                break;
            }
            case Compiled::kOr:
            case Compiled::kAnd: {
                const double *side = c.kind[i] == Compiled::kOr ? miss : hit;
                for (int r = 0; r < kLanes; ++r) flow[a + r] += here[r] * side[b + r];
                for (int r = 0; r < kLanes; ++r) flow[b + r] += here[r] * side[a + r];
                break;
            }
            default: {
                const double *yes = literal + 2 * kLanes * static_cast<int64_t>(c.var[i]), *no = yes + kLanes;
                double *out = slope + kLanes * static_cast<int64_t>(c.var[i]);
                for (int r = 0; r < kLanes; ++r) {
                    // Two values near 1 differ by the difference of their complements, which have more digits.
                    const double up =
                        hit[a + r] > 0.5 && hit[b + r] > 0.5 ? miss[b + r] - miss[a + r] : hit[a + r] - hit[b + r];
                    out[r] += here[r] * up;
                }
                for (int r = 0; r < kLanes; ++r) flow[a + r] += here[r] * yes[r];
                for (int r = 0; r < kLanes; ++r) flow[b + r] += here[r] * no[r];
            }
        }
    }
}

// The copies that run: sixteen rows side by side, and one row, for which fifteen idle lanes would be most of the work.
// Both have one for each kind of vectors, so that a row rounds alike alone and among others.
#define SHARPDNF_PASSES(name, lanes)                                                                              \
    SHARPDNF_CLONES void forwards_##name(const CompiledView &c, int64_t first, int64_t last, double *hit,         \
                                         double *miss, const double *literal) {                                   \
        forwards<lanes>(c, first, last, hit, miss, literal);                                                      \
    }                                                                                                             \
    SHARPDNF_CLONES void backwards_##name(const CompiledView &c, int64_t first, int64_t last, const double *hit,  \
                                          const double *miss, const double *literal, double *flow, double *slope, \
                                          double *behind) {                                                       \
        backwards<lanes>(c, first, last, hit, miss, literal, flow, slope, behind);                                \
    }
SHARPDNF_PASSES(many, kRows)
SHARPDNF_PASSES(one, 1)
#undef SHARPDNF_PASSES

// Memory for `lanes` rows, sixteen or one: hit[lanes i + r] and miss[lanes i + r] are P and 1 - P of node i in row r,
// literal[lanes l + r] the probability of literal l, slope[lanes v + r] what is asked of variable v.
struct RowBlock {
    const int lanes;
    std::vector<double> hit, miss, flow, literal, slope, behind;

    RowBlock(const CompiledView &c, const BatchRequest &asked)
        : lanes(asked.rows == 1 ? 1 : kRows),
          hit(lanes * c.num_nodes),
          miss(lanes * c.num_nodes),
          literal(2 * lanes * asked.num_vars) {
        if (asked.slopes == Slopes::none) return;
        int32_t widest = 0;
        for (int64_t i = 0; i < c.num_nodes; ++i)
            if (c.kind[i] == Compiled::kTerm) widest = std::max(widest, c.b[i] - c.a[i]);
        flow.resize(lanes * c.num_nodes), slope.resize(lanes * asked.num_vars);
        behind.resize(lanes * (static_cast<std::size_t>(widest) + 1));
    }

    // Rows first to first + count - 1; the last one fills what is left of the lanes.
    void read(const BatchRequest &asked, int64_t first, int count) {
        for (int r = 0; r < lanes; ++r) {
            const double *row = asked.probs + asked.num_vars * (first + std::min(r, count - 1));
            for (int64_t v = 0; v < asked.num_vars; ++v) {
                literal[2 * lanes * v + r] = row[v];
                literal[2 * lanes * v + lanes + r] = 1.0 - row[v];
            }
        }
    }
};

// Values forwards and slopes backwards, without what outputs below kRoomy add. False if it is to stop.
bool run_block(const CompiledView &c, const BatchRequest &asked, int64_t first_row, int count, RowBlock &block,
               Poll &poll, bool looks) {
    constexpr int64_t kStretch = 1 << 14;  // nodes between two looks at the clock
    const auto up = block.lanes == 1 ? forwards_one : forwards_many;
    const auto down = block.lanes == 1 ? backwards_one : backwards_many;
    const auto stop = [&] { return looks ? poll.look() : poll.stopped(); };
    for (int64_t first = 0; first < c.num_nodes; first += kStretch) {
        if (stop()) return false;
        up(c, first, std::min(c.num_nodes, first + kStretch), block.hit.data(), block.miss.data(),
           block.literal.data());
    }
    if (asked.slopes == Slopes::none) return true;
    std::fill(block.flow.begin(), block.flow.end(), 0.0), std::fill(block.slope.begin(), block.slope.end(), 0.0);
    for (int r = 0; r < count; ++r)
        for (int64_t o = 0; o < asked.outputs; ++o) {
            const int64_t place = block.lanes * static_cast<int64_t>(asked.output[o]) + r;
            if (!(block.hit[place] >= kRoomy)) continue;
            const double weight = asked.weight[asked.outputs * (first_row + r) + o];
            block.flow[place] += asked.slopes == Slopes::of_prob ? weight : weight / block.hit[place];
        }
    for (int64_t last = c.num_nodes; last > 0; last -= kStretch) {
        if (stop()) return false;
        down(c, std::max<int64_t>(0, last - kStretch), last, block.hit.data(), block.miss.data(), block.literal.data(),
             block.flow.data(), block.slope.data(), block.behind.data());
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
        if (block.hit[block.lanes * root + r] >= kRoomy) continue;
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
                for (int64_t v = 0; out && v < asked.num_vars; ++v) out[v] = block.slope[block.lanes * v + r];
                bool roomy = true;
                for (int64_t o = 0; o < asked.outputs; ++o) {
                    const int64_t place = block.lanes * static_cast<int64_t>(asked.output[o]) + r;
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
