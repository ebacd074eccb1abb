// The parts of the paper's network that are not matrix products: message sums, and half of a layer-norm LSTM.
//
// Messages are summed along the edges of the formula; of the LSTM cell it is the elementwise half, forward and
// backward. Plain loops over rows that stay in the first cache.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "formula.hpp"

namespace sharpdnf {

// The rows are float32 and long, so fused multiply-add pays here, unlike in the integer kernels.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__) && \
    !defined(SHARPDNF_NO_CLONES)
#define SHARPDNF_FLOAT_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SHARPDNF_FLOAT_CLONES
#endif

constexpr int64_t COLUMN_BLOCK = 64;  // columns summed at a time: the accumulators fit the registers of AVX2
typedef float Lanes __attribute__((vector_size(32), aligned(4), may_alias));
constexpr float NORM_EPSILON = 1e-5f;

// out[r] = sum of x[indices[e]] over the edges e of row r; rows of `width` floats.
SHARPDNF_FLOAT_CLONES
inline void aggregate_rows(const int64_t *indptr, const int32_t *indices, const float *x, int64_t num_rows,
                           int64_t width, float *out) {
    for (int64_t row = 0; row < num_rows; ++row) {
        const int64_t first = indptr[row], last = indptr[row + 1];
        int64_t start = 0;
        for (; start + COLUMN_BLOCK <= width; start += COLUMN_BLOCK) {
            Lanes sum[COLUMN_BLOCK / 8] = {};
            for (int64_t e = first; e < last; ++e) {
                const Lanes *source = reinterpret_cast<const Lanes *>(x + indices[e] * width + start);
                for (int64_t j = 0; j < COLUMN_BLOCK / 8; ++j) sum[j] += source[j];
            }
            std::memcpy(out + row * width + start, sum, sizeof sum);
        }
        for (int64_t j = start; j < width; ++j) {
            float sum = 0.0f;
            for (int64_t e = first; e < last; ++e) sum += x[indices[e] * width + j];
            out[row * width + j] = sum;
        }
    }
}

// The same edges by column: counting sort, so each column lists its rows in order.
inline void transpose_edges(const int64_t *indptr, const int32_t *indices, int64_t num_rows, int64_t num_columns,
                            int64_t *column_indptr, int32_t *rows) {
    std::fill(column_indptr, column_indptr + num_columns + 1, 0);
    for (int64_t e = 0; e < indptr[num_rows]; ++e) ++column_indptr[indices[e] + 1];
    for (int64_t c = 0; c < num_columns; ++c) column_indptr[c + 1] += column_indptr[c];
    std::vector<int64_t> next(column_indptr, column_indptr + num_columns);
    for (int64_t row = 0; row < num_rows; ++row)
        for (int64_t e = indptr[row]; e < indptr[row + 1]; ++e) rows[next[indices[e]]++] = static_cast<int32_t>(row);
}

// exp to about 2 units in the last place, in operations that vectorise (Cody-Waite reduction, degree-6 polynomial).
SHARPDNF_INLINE float fast_exp(float x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 87.0f ? 87.0f : x;
    const float shifted = x * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: the sum's low bits are the rounded integer
    const float n = shifted - 12582912.0f;
    float r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    int32_t bits;
    std::memcpy(&bits, &shifted, 4);
    bits = static_cast<int32_t>(static_cast<uint32_t>(bits + 127) << 23);
    float scale;
    std::memcpy(&scale, &bits, 4);
    return p * scale;
}
SHARPDNF_INLINE float fast_sigmoid(float x) { return 1.0f / (1.0f + fast_exp(-x)); }
SHARPDNF_INLINE float fast_tanh(float x) { return 1.0f - 2.0f / (1.0f + fast_exp(2.0f * x)); }

// (x - mean) / sd of one row; returns 1 / sd.
SHARPDNF_INLINE float standardise(const float *x, int64_t width, float *out) {
    float sum = 0.0f, square = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < width; ++j) sum += x[j];
    const float mean = sum / static_cast<float>(width);
#pragma omp simd reduction(+ : square)
    for (int64_t j = 0; j < width; ++j) square += (x[j] - mean) * (x[j] - mean);
    const float scale = 1.0f / std::sqrt(square / static_cast<float>(width) + NORM_EPSILON);
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) out[j] = (x[j] - mean) * scale;
    return scale;
}

// d(x) from d(y) for y = standardise(x) * gain + shift, where `d` holds d(y) on the way in; adds to the parameters'.
SHARPDNF_INLINE void standardise_backward(const float *hat, float scale, const float *gain, int64_t width,
                                          const float *dy, float *dx, float *dgain, float *dshift) {
    float sum = 0.0f, dot = 0.0f;
#pragma omp simd reduction(+ : sum, dot)
    for (int64_t j = 0; j < width; ++j) {
        dgain[j] += dy[j] * hat[j];
        dshift[j] += dy[j];
        const float d = dy[j] * gain[j];
        sum += d;
        dot += d * hat[j];
    }
    sum /= static_cast<float>(width);
    dot /= static_cast<float>(width);
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) dx[j] = scale * (dy[j] * gain[j] - sum - hat[j] * dot);
}

// One row of the cell, gates in the order input, forget, candidate, output:
//   c' = LN(c * sigmoid(LN f) + sigmoid(LN i) * tanh(LN g)),  h = tanh(c') * sigmoid(LN o).
struct CellRow {
    float *hat;   // [5k] standardised gates and new cell
    float *act;   // [4k] activated gates
    float *cell;  // [k] c'
    float *tanh_cell;
    float scale[5];

    SHARPDNF_INLINE void compute(const float *gates, const float *old_cell, const float *gain, const float *shift,
                                 int64_t k) {
        for (int q = 0; q < 4; ++q) scale[q] = standardise(gates + q * k, k, hat + q * k);
#pragma omp simd
        for (int64_t j = 0; j < 2 * k; ++j) act[j] = fast_sigmoid(hat[j] * gain[j] + shift[j]);
#pragma omp simd
        for (int64_t j = 2 * k; j < 3 * k; ++j) act[j] = fast_tanh(hat[j] * gain[j] + shift[j]);
#pragma omp simd
        for (int64_t j = 3 * k; j < 4 * k; ++j) act[j] = fast_sigmoid(hat[j] * gain[j] + shift[j]);
#pragma omp simd
        for (int64_t j = 0; j < k; ++j) cell[j] = old_cell[j] * act[k + j] + act[j] * act[2 * k + j];
        scale[4] = standardise(cell, k, hat + 4 * k);
#pragma omp simd
        for (int64_t j = 0; j < k; ++j) {
            cell[j] = hat[4 * k + j] * gain[4 * k + j] + shift[4 * k + j];
            tanh_cell[j] = fast_tanh(cell[j]);
        }
    }
};

SHARPDNF_FLOAT_CLONES
inline void lstm_forward_rows(const float *gates, const float *old_cell, const float *gain, const float *shift,
                              int64_t rows, int64_t k, float *state, float *new_cell) {
    std::vector<float> scratch(11 * k);
    CellRow row{scratch.data(), scratch.data() + 5 * k, scratch.data() + 9 * k, scratch.data() + 10 * k, {}};
    for (int64_t r = 0; r < rows; ++r) {
        row.compute(gates + r * 4 * k, old_cell + r * k, gain, shift, k);
        float *h = state + r * k;
        const float *output = row.act + 3 * k;
#pragma omp simd
        for (int64_t j = 0; j < k; ++j) h[j] = row.tanh_cell[j] * output[j];
        std::memcpy(new_cell + r * k, row.cell, k * sizeof(float));
    }
}

// Gradients of the gates and of the old cell; dgain and dshift [5k] are added to. The row is computed again: cheaper
// than keeping eleven arrays of it.
SHARPDNF_FLOAT_CLONES
inline void lstm_backward_rows(const float *gates, const float *old_cell, const float *gain, const float *shift,
                               const float *dstate, const float *dnew_cell, int64_t rows, int64_t k, float *dgates,
                               float *dold_cell, float *dgain, float *dshift) {
    std::vector<float> scratch(17 * k);
    CellRow row{scratch.data(), scratch.data() + 5 * k, scratch.data() + 9 * k, scratch.data() + 10 * k, {}};
    float *dy = scratch.data() + 11 * k, *dcell = scratch.data() + 15 * k, *dsum = scratch.data() + 16 * k;
    for (int64_t r = 0; r < rows; ++r) {
        row.compute(gates + r * 4 * k, old_cell + r * k, gain, shift, k);
        const float *dh = dstate + r * k, *dc = dnew_cell + r * k, *c = old_cell + r * k;
        const float *in = row.act, *forget = row.act + k, *candidate = row.act + 2 * k, *output = row.act + 3 * k;
        float *dold = dold_cell + r * k;
#pragma omp simd
        for (int64_t j = 0; j < k; ++j) {
            const float t = row.tanh_cell[j];
            dcell[j] = dc[j] + dh[j] * output[j] * (1.0f - t * t);
            dy[3 * k + j] = dh[j] * t * output[j] * (1.0f - output[j]);
        }
        standardise_backward(row.hat + 4 * k, row.scale[4], gain + 4 * k, k, dcell, dsum, dgain + 4 * k,
                             dshift + 4 * k);
#pragma omp simd
        for (int64_t j = 0; j < k; ++j) {
            const float d = dsum[j];
            dold[j] = d * forget[j];
            dy[j] = d * candidate[j] * in[j] * (1.0f - in[j]);
            dy[k + j] = d * c[j] * forget[j] * (1.0f - forget[j]);
            dy[2 * k + j] = d * in[j] * (1.0f - candidate[j] * candidate[j]);
        }
        for (int q = 0; q < 4; ++q)
            standardise_backward(row.hat + q * k, row.scale[q], gain + q * k, k, dy + q * k, dgates + r * 4 * k + q * k,
                                 dgain + q * k, dshift + q * k);
    }
}

}  // namespace sharpdnf
