// What Python calls of the network's layers, forwards and backwards.
#include "layers.hpp"
#include "arrays.hpp"

#include <nanobind/stl/pair.h>

namespace sharpdnf {

namespace {

using Rows = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using RowsOut = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Row = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using RowOut = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void require(bool held, const char *what) {
    if (!held) throw std::invalid_argument(what);
}

void check_edges(const In<int64_t> &indptr, const In<int32_t> &indices, int64_t num_sources) {
    require(indptr.shape(0) >= 1 && indptr.data()[0] == 0, "indptr must start at 0");
    const int64_t rows = static_cast<int64_t>(indptr.shape(0)) - 1;
    for (int64_t r = 0; r < rows; ++r) require(indptr.data()[r] <= indptr.data()[r + 1], "indptr must not decrease");
    require(indptr.data()[rows] == static_cast<int64_t>(indices.shape(0)), "indptr does not span the edges");
    for (size_t e = 0; e < indices.shape(0); ++e)
        require(indices.data()[e] >= 0 && indices.data()[e] < num_sources, "an edge leaves the graph");
}

void aggregate(In<int64_t> indptr, In<int32_t> indices, Rows x, RowsOut out) {
    require(out.shape(0) + 1 == indptr.shape(0) && out.shape(1) == x.shape(1), "aggregate: shapes do not match");
    nb::gil_scoped_release release;
    check_edges(indptr, indices, static_cast<int64_t>(x.shape(0)));
    aggregate_rows(indptr.data(), indices.data(), x.data(), static_cast<int64_t>(out.shape(0)),
                   static_cast<int64_t>(x.shape(1)), out.data());
}

std::pair<Out<int64_t>, Out<int32_t>> transpose(In<int64_t> indptr, In<int32_t> indices, int64_t num_columns) {
    require(num_columns >= 0, "transpose: num_columns must not be negative");
    check_edges(indptr, indices, num_columns);
    std::vector<int64_t> column_indptr(num_columns + 1);
    std::vector<int32_t> rows(indices.shape(0));
    transpose_edges(indptr.data(), indices.data(), static_cast<int64_t>(indptr.shape(0)) - 1, num_columns,
                    column_indptr.data(), rows.data());
    return {to_numpy(std::move(column_indptr)), to_numpy(std::move(rows))};
}

void lstm_forward(Rows gates, Rows cell, Row gain, Row shift, RowsOut state, RowsOut new_cell) {
    const size_t rows = cell.shape(0), k = cell.shape(1);
    require(gates.shape(0) == rows && gates.shape(1) == 4 * k && gain.shape(0) == 5 * k && shift.shape(0) == 5 * k &&
                state.shape(0) == rows && state.shape(1) == k && new_cell.shape(0) == rows && new_cell.shape(1) == k,
            "lstm_forward: shapes do not match");
    nb::gil_scoped_release release;
    lstm_forward_rows(gates.data(), cell.data(), gain.data(), shift.data(), static_cast<int64_t>(rows),
                      static_cast<int64_t>(k), state.data(), new_cell.data());
}

void lstm_backward(Rows gates, Rows cell, Row gain, Row shift, Rows dstate, Rows dnew_cell, RowsOut dgates,
                   RowsOut dcell, RowOut dgain, RowOut dshift) {
    const size_t rows = cell.shape(0), k = cell.shape(1);
    require(gates.shape(0) == rows && gates.shape(1) == 4 * k && gain.shape(0) == 5 * k && shift.shape(0) == 5 * k &&
                dstate.shape(0) == rows && dstate.shape(1) == k && dnew_cell.shape(0) == rows &&
                dnew_cell.shape(1) == k && dgates.shape(0) == rows && dgates.shape(1) == 4 * k &&
                dcell.shape(0) == rows && dcell.shape(1) == k && dgain.shape(0) == 5 * k && dshift.shape(0) == 5 * k,
            "lstm_backward: shapes do not match");
    nb::gil_scoped_release release;
    lstm_backward_rows(gates.data(), cell.data(), gain.data(), shift.data(), dstate.data(), dnew_cell.data(),
                       static_cast<int64_t>(rows), static_cast<int64_t>(k), dgates.data(), dcell.data(), dgain.data(),
                       dshift.data());
}

}  // namespace

void bind_layers(nb::module_ &m) {
    m.def("aggregate", &aggregate, nb::arg("indptr"), nb::arg("indices"), nb::arg("x"), nb::arg("out"));
    m.def("transpose", &transpose, nb::arg("indptr"), nb::arg("indices"), nb::arg("num_columns"));
    m.def("lstm_forward", &lstm_forward, nb::arg("gates"), nb::arg("cell"), nb::arg("gain"), nb::arg("shift"),
          nb::arg("state"), nb::arg("new_cell"));
    m.def("lstm_backward", &lstm_backward, nb::arg("gates"), nb::arg("cell"), nb::arg("gain"), nb::arg("shift"),
          nb::arg("dstate"), nb::arg("dnew_cell"), nb::arg("dgates"), nb::arg("dcell"), nb::arg("dgain"),
          nb::arg("dshift"));
}

}  // namespace sharpdnf
