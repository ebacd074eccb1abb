// The border between numpy and the kernels: read-only views in, owning arrays out, every index checked once.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "formula.hpp"

namespace sharpdnf {

namespace nb = nanobind;

template <class T> using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Out = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

// Hands a vector's memory to numpy without copying it.
template <class T> Out<T> to_numpy(std::vector<T> &&values) {
    auto *owned = new std::vector<T>(std::move(values));
    nb::capsule owner(owned, [](void *p) noexcept { delete static_cast<std::vector<T> *>(p); });
    return Out<T>(owned->data(), {owned->size()}, owner);
}

// True when Ctrl-C (or another signal whose handler raises) came: the caller then throws python_error.
inline bool signal_pending() {
    nb::gil_scoped_acquire gil;
    return PyErr_CheckSignals() != 0;
}

// Runs a kernel without the GIL for at most that many seconds: false if it threw Stopped at the deadline. Ctrl-C is
// raised here, whether the kernel threw or came back with what it had.
template <class Kernel> bool interruptible(Kernel kernel, double seconds = std::numeric_limits<double>::infinity()) {
    bool done = true;
    {
        nb::gil_scoped_release release;
        Poll poll(seconds, signal_pending);
        try {
            kernel(poll);
        } catch (const Stopped &) {
            done = false;
        }
    }
    if (PyErr_Occurred()) throw nb::python_error();
    return done;
}

// Whether every clause lies within the literals and every literal is one of n variables: a plain pass that the compiler
// vectorises, far cheaper than any kernel.
inline bool within(const int64_t *indptr, int64_t num_clauses, const int32_t *literals, int64_t size, int64_t n) {
    if (indptr[0] != 0 || indptr[num_clauses] != size) return false;
    uint64_t falls = 0;
    for (int64_t c = 0; c < num_clauses; ++c)
        falls |= static_cast<uint64_t>(indptr[c + 1]) - static_cast<uint64_t>(indptr[c]);
    // The sign bit of x | (last - x) is set exactly if x < 0 or x > last.
    const auto last = static_cast<uint32_t>(2 * std::min<int64_t>(n, 1 << 30) - 1);
    uint32_t outside = n > 0 || size == 0 ? 0 : 1u << 31;
    for (int64_t i = 0; i < size; ++i) {
        const auto x = static_cast<uint32_t>(literals[i]);
        outside |= x | (last - x);
    }
    return !(falls >> 63) && !(outside >> 31);
}

// A DNF's arrays as the kernels see them. DNF objects are valid by construction and cannot be changed; what a kernel
// could be led astray by is looked at all the same. `check_formula` is the full check that construction runs.
inline Formula view(const In<int64_t> &indptr, const In<int32_t> &literals, const In<double> &prob) {
    if (indptr.shape(0) < 1) throw std::invalid_argument("indptr must have at least one entry");
    Formula f;
    f.indptr = indptr.data();
    f.literals = literals.data();
    f.prob = prob.data();
    f.num_clauses = static_cast<int64_t>(indptr.shape(0)) - 1;
    f.num_vars = static_cast<int64_t>(prob.shape(0));
    if (!within(f.indptr, f.num_clauses, f.literals, static_cast<int64_t>(literals.shape(0)), f.num_vars))
        throw std::invalid_argument(
            "the arrays are no formula: indptr must span the literals, literals have a variable");
    return f;
}

}  // namespace sharpdnf
