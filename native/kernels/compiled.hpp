// A d-tree as an arithmetic circuit: evaluated under other probabilities, and backwards for the derivatives.
#pragma once
#include <vector>

#include "chance.hpp"
#include "dtree.hpp"
#include "wide.hpp"

namespace sharpdnf {

struct CompiledView {
    const uint8_t *kind;
    const int32_t *a, *b, *var, *literals;
    int64_t num_nodes;
};

inline double literal_prob(int32_t lit, const double *prob) {
    return (lit & 1) ? 1.0 - prob[lit >> 1] : prob[lit >> 1];
}

// P and 1 - P of a node, each to its own relative precision.
struct Value {
    Wide p, q;
    double log() const { return p < q ? p.log() : std::log1p(-q.value()); }
};

// The value of every node, children before parents.
inline void compiled_values(const CompiledView &c, const double *prob, std::vector<Value> &value) {
    value.resize(c.num_nodes);
    const auto literal = [prob](int32_t lit) { return literal_prob(lit, prob); };
    for (int64_t i = 0; i < c.num_nodes; ++i) {
        Value &out = value[i];
        const Value *const a = value.data() + c.a[i], *const b = value.data() + c.b[i];
        switch (c.kind[i]) {
            case Compiled::kFalse:
                out = {Wide(), Wide::of(1.0)};
                break;
            case Compiled::kTrue:
                out = {Wide::of(1.0), Wide()};
                break;
            case Compiled::kTerm: {
                const Chance term = product(c.literals + c.a[i], c.literals + c.b[i], literal);
                out = {term.p(), term.q()};
                break;
            }
            case Compiled::kOr:
                out = {a->p + b->p * a->q, a->q * b->q};
                break;
            case Compiled::kAnd:
                out = {a->p * b->p, a->q + b->q * a->p};
                break;
            default: {
                const double high = prob[c.var[i]], low = 1.0 - high;
                out = {a->p * high + b->p * low, a->q * high + b->q * low};
            }
        }
    }
}

// slope[v] += weight * scale * d P(root) / d prob[v]: with scale 1 / P(root) that is weight * d log P(root) / d
// prob[v].
inline void compiled_slopes(const CompiledView &c, int64_t root, const double *prob, const std::vector<Value> &value,
                            const Wide &scale, double weight, double *slope) {
    std::vector<Wide> flow(root + 1);  // scale * d P(root) / d P(node)
    std::vector<Wide> behind;
    flow[root] = scale;
    for (int64_t i = root; i >= 0; --i) {
        const Wide &here = flow[i];
        if (here.zero() || c.kind[i] < Compiled::kTerm) continue;
        const int32_t a = c.a[i], b = c.b[i];
        if (c.kind[i] == Compiled::kTerm) {
            behind.assign(1, here);  // here times the literals before j
            for (int32_t j = a; j < b; ++j) behind.push_back(behind.back() * literal_prob(c.literals[j], prob));
            Wide ahead = Wide::of(1.0);
            for (int32_t j = b - 1; j >= a; --j) {
                const double rest = (behind[j - a] * ahead).value();
                slope[c.literals[j] >> 1] += weight * ((c.literals[j] & 1) ? -rest : rest);
                ahead = ahead * literal_prob(c.literals[j], prob);
            }
        } else if (c.kind[i] == Compiled::kOr) {
            flow[a] = flow[a] + here * value[b].q;
            flow[b] = flow[b] + here * value[a].q;
        } else if (c.kind[i] == Compiled::kAnd) {
            flow[a] = flow[a] + here * value[b].p;
            flow[b] = flow[b] + here * value[a].p;
        } else {
            const double p = prob[c.var[i]];
            // The smaller numbers have more digits after the point, so near 1 the complements are subtracted.
            const Value &high = value[a], &low = value[b];
            slope[c.var[i]] += weight * (high.p < high.q ? (here * high.p).value() - (here * low.p).value()
                                                         : (here * low.q).value() - (here * high.q).value());
            flow[a] = flow[a] + here * p;
            flow[b] = flow[b] + here * (1.0 - p);
        }
    }
}

}  // namespace sharpdnf
