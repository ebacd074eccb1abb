// The border between numpy and the kernels: read-only views in, owning arrays out, every index checked once.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "formula.hpp"

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

// A DNF's arrays as the kernels see them. DNF objects are valid by construction, so only the cheap facts are
// checked here; `check_formula` is the full check that construction runs.
inline Formula view(const In<int64_t> &indptr, const In<int32_t> &literals, const In<double> &prob) {
    if (indptr.shape(0) < 1) throw std::invalid_argument("indptr must have at least one entry");
    Formula f;
    f.indptr = indptr.data();
    f.literals = literals.data();
    f.prob = prob.data();
    f.num_clauses = static_cast<int64_t>(indptr.shape(0)) - 1;
    f.num_vars = static_cast<int64_t>(prob.shape(0));
    if (f.indptr[0] != 0 || f.indptr[f.num_clauses] != static_cast<int64_t>(literals.shape(0)))
        throw std::invalid_argument("indptr does not span the literals");
    return f;
}
