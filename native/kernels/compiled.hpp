// A d-tree as an arithmetic circuit: evaluated under other probabilities, and backwards for the derivatives.
#pragma once
#include <vector>

#include "dtree.hpp"
#include "wide.hpp"

struct CompiledView {
    const uint8_t *kind;
    const int32_t *a, *b, *var, *literals;
    int64_t num_nodes;
};

inline double literal_prob(int32_t lit, const double *prob) {
    return (lit & 1) ? 1.0 - prob[lit >> 1] : prob[lit >> 1];
}

// P of every node, children before parents.
inline void compiled_values(const CompiledView &c, const double *prob, std::vector<Wide> &value) {
    value.resize(c.num_nodes);
    for (int64_t i = 0; i < c.num_nodes; ++i) {
        Wide &out = value[i];
        switch (c.kind[i]) {
        case Compiled::kFalse: out = Wide(); break;
        case Compiled::kTrue: out = Wide::of(1.0); break;
        case Compiled::kTerm:
            out = Wide::of(1.0);
            for (int32_t j = c.a[i]; j < c.b[i]; ++j) out = out * literal_prob(c.literals[j], prob);
            break;
        case Compiled::kOr: out = either(value[c.a[i]], value[c.b[i]]); break;
        case Compiled::kAnd: out = value[c.a[i]] * value[c.b[i]]; break;
        default: {
            const double p = prob[c.var[i]];
            out = value[c.a[i]] * p + value[c.b[i]] * (1.0 - p);
        }
        }
    }
}

// slope[v] = scale * d P(root) / d prob[v]: with scale 1 / P(root) that is d log P(root) / d prob[v].
inline void compiled_slopes(const CompiledView &c, const double *prob, const std::vector<Wide> &value, const Wide &scale,
                           int64_t num_vars, double *slope) {
    std::fill(slope, slope + num_vars, 0.0);
    std::vector<Wide> flow(c.num_nodes);  // scale * d P(root) / d P(node)
    std::vector<Wide> behind;
    flow[c.num_nodes - 1] = scale;
    for (int64_t i = c.num_nodes - 1; i >= 0; --i) {
        const Wide &here = flow[i];
        if (here.zero() || c.kind[i] < Compiled::kTerm) continue;
        const int32_t a = c.a[i], b = c.b[i];
        if (c.kind[i] == Compiled::kTerm) {
            behind.assign(1, here);  // here times the literals before j
            for (int32_t j = a; j < b; ++j) behind.push_back(behind.back() * literal_prob(c.literals[j], prob));
            Wide ahead = Wide::of(1.0);
            for (int32_t j = b - 1; j >= a; --j) {
                const double rest = (behind[j - a] * ahead).value();
                slope[c.literals[j] >> 1] += (c.literals[j] & 1) ? -rest : rest;
                ahead = ahead * literal_prob(c.literals[j], prob);
            }
        } else if (c.kind[i] == Compiled::kOr) {
            flow[a] = flow[a] + here * value[b].complement();
            flow[b] = flow[b] + here * value[a].complement();
        } else if (c.kind[i] == Compiled::kAnd) {
            flow[a] = flow[a] + here * value[b];
            flow[b] = flow[b] + here * value[a];
        } else {
            const double p = prob[c.var[i]];
            slope[c.var[i]] += (here * value[a]).value() - (here * value[b]).value();
            flow[a] = flow[a] + here * p;
            flow[b] = flow[b] + here * (1.0 - p);
        }
    }
}
