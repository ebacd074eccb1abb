#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "arrays.hpp"
#include "lineage.hpp"

namespace sharpdnf {

static constexpr double kNoDeadline = 1e10;
using AnyColumn = nb::ndarray<nb::ndim<1>, nb::c_contig, nb::device::cpu, nb::ro>;

template <class T> static Out<T> hand_over(RawArray<T> &&values) {
    T *data = values.release();
    nb::capsule owner(data, [](void *p) noexcept { std::free(p); });
    return Out<T>(data, {values.size}, owner);
}

static void check_length(bool right) {
    if (!right) throw std::invalid_argument("every column must have one entry a row");
}

static std::vector<KeyColumn> key_columns(const std::vector<AnyColumn> &keys, const std::vector<In<uint8_t>> &nulls,
                                          std::size_t rows) {
    if (nulls.size() != keys.size()) throw std::invalid_argument("a null mask, or an empty one, for every key");
    std::vector<KeyColumn> columns;
    for (std::size_t k = 0; k < keys.size(); ++k) {
        const bool masked = nulls[k].shape(0) > 0, wide = keys[k].dtype() == nb::dtype<int64_t>();
        check_length(keys[k].shape(0) == rows && (!masked || nulls[k].shape(0) == rows));
        if (!wide && keys[k].dtype() != nb::dtype<int32_t>())
            throw std::invalid_argument("keys are 64 or 32 bits wide");
        columns.push_back({wide ? static_cast<const int64_t *>(keys[k].data()) : nullptr,
                           wide ? nullptr : static_cast<const int32_t *>(keys[k].data()),
                           masked ? nulls[k].data() : nullptr});
    }
    return columns;
}

static std::vector<const int32_t *> pointers(const std::vector<In<int32_t>> &columns, std::size_t rows) {
    std::vector<const int32_t *> out;
    for (const auto &column : columns) check_length(column.shape(0) == rows), out.push_back(column.data());
    return out;
}

void bind_lineage(nb::module_ &m) {
    m.def(
        "lineage",
        [](const std::vector<AnyColumn> &keys, const std::vector<In<uint8_t>> &nulls,
           const std::vector<In<int32_t>> &numbers, const std::vector<In<int32_t>> &identity, int64_t rows,
           bool with_order) {
            if (rows < 0 || rows >= int64_t{1} << 31) throw std::invalid_argument("too many rows of lineage");
            const auto columns = key_columns(keys, nulls, rows);
            const auto numbered = pointers(numbers, rows), identified = pointers(identity, rows);
            Lineage out;
            {
                nb::gil_scoped_release release;
                Poll poll(kNoDeadline, signal_pending);
                out = LineageSorter(static_cast<int32_t>(rows), numbered, identified, with_order, poll).run(columns);
            }
            if (PyErr_Occurred()) throw nb::python_error();
            return std::make_tuple(hand_over(std::move(out.indptr)), hand_over(std::move(out.literals)),
                                   hand_over(std::move(out.identity)), to_numpy(std::move(out.starts)),
                                   to_numpy(std::move(out.first)), hand_over(std::move(out.order)));
        },
        nb::arg("keys"), nb::arg("nulls"), nb::arg("numbers"), nb::arg("identity"), nb::arg("rows"),
        nb::arg("with_order"),
        "Rows as clauses, sorted by the keys, NULLs last: (indptr and literals of the clauses, the identity columns "
        "row by "
        "row, where each distinct key begins, its first row, the order of the rows if asked for)");
}

}  // namespace sharpdnf
