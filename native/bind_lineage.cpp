#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "arrays.hpp"
#include "lineage.hpp"

static constexpr double kNoDeadline = 1e10;

template <class T> static Out<T> hand_over(RawArray<T> &&values) {
    T *data = values.release();
    nb::capsule owner(data, [](void *p) noexcept { std::free(p); });
    return Out<T>(data, {values.size}, owner);
}

void bind_lineage(nb::module_ &m) {
    m.def(
        "sort_lineage",
        [](const std::vector<nb::ndarray<nb::ndim<1>, nb::c_contig, nb::device::cpu, nb::ro>> &keys,
           const std::vector<In<uint8_t>> &nulls, const std::vector<In<int32_t>> &values, int64_t rows, std::size_t sorted, bool with_order) {
            if (sorted > values.size()) throw std::invalid_argument("more columns to sort than there are");
            if (nulls.size() != keys.size()) throw std::invalid_argument("a null mask, or an empty one, for every key");
            if (rows < 0 || rows >= int64_t{1} << 31) throw std::invalid_argument("too many rows of lineage");
            std::vector<KeyColumn> columns;
            for (std::size_t k = 0; k < keys.size(); ++k) {
                const bool masked = nulls[k].shape(0) > 0, wide = keys[k].dtype() == nb::dtype<int64_t>();
                if (static_cast<int64_t>(keys[k].shape(0)) != rows || (masked && nulls[k].shape(0) != keys[k].shape(0)))
                    throw std::invalid_argument("every column must have one entry a row");
                if (!wide && keys[k].dtype() != nb::dtype<int32_t>())
                    throw std::invalid_argument("keys are 64 or 32 bits wide");
                columns.push_back({wide ? static_cast<const int64_t *>(keys[k].data()) : nullptr,
                                   wide ? nullptr : static_cast<const int32_t *>(keys[k].data()),
                                   masked ? nulls[k].data() : nullptr});
            }
            std::vector<const int32_t *> carried;
            for (const auto &value : values) {
                if (static_cast<int64_t>(value.shape(0)) != rows)
                    throw std::invalid_argument("every column must have one entry a row");
                carried.push_back(value.data());
            }
            SortedRows out;
            {
                nb::gil_scoped_release release;
                Poll poll(kNoDeadline, signal_pending);
                out = RowSorter(static_cast<int32_t>(rows), carried, sorted, with_order, poll).run(columns);
            }
            if (PyErr_Occurred()) throw nb::python_error();
            if (!with_order) out.order = {};
            return std::make_tuple(hand_over(std::move(out.table)), to_numpy(std::move(out.starts)),
                                   to_numpy(std::move(out.first)), hand_over(std::move(out.order)));
        },
        nb::arg("keys"), nb::arg("nulls"), nb::arg("values"), nb::arg("rows"), nb::arg("sorted"), nb::arg("with_order"),
        "Rows sorted by the keys, NULLs last: (the value columns row by row, the first `sorted` of each row in "
        "increasing order; where each distinct key begins; its first row; the order of the rows if asked for)");
    m.def(
        "lineage_clauses",
        [](In<int32_t> rows, int64_t clauses, int64_t width, int64_t num_rows) {
            if (clauses < 0 || width < 0 || static_cast<int64_t>(rows.shape(0)) != clauses * width)
                throw std::invalid_argument("rows must have one entry for each clause and column");
            if (num_rows >= int64_t{1} << 30) throw std::invalid_argument("literals cannot number that many rows");
            int32_t largest = -1;
            for (std::size_t i = 0; i < rows.shape(0); ++i) largest = std::max(largest, rows.data()[i]);
            if (largest >= num_rows) throw std::invalid_argument("a row number beyond the known rows");
            LineageClauses out;
            {
                nb::gil_scoped_release release;
                Poll poll(kNoDeadline, signal_pending);
                out = lineage_clauses(rows.data(), clauses, width, num_rows, poll);
            }
            if (PyErr_Occurred()) throw nb::python_error();
            return std::make_tuple(hand_over(std::move(out.indptr)), hand_over(std::move(out.literals)),
                                   out.all_rows, to_numpy(std::move(out.row_of_var)));
        },
        nb::arg("rows"), nb::arg("clauses"), nb::arg("width"), nb::arg("num_rows"),
        "(indptr, literals, whether variable v is row v, the row of each variable if not) of conjunctions of numbered rows");
}
