// What Python calls of lineage: columns of a query's result in, clauses of formulas out.
#include "lineage.hpp"

#include <nanobind/stl/vector.h>

#include "results.hpp"

namespace sharpdnf {

static constexpr double kNoDeadline = 1e10;
using AnyColumn = nb::ndarray<nb::ndim<1>, nb::c_contig, nb::device::cpu, nb::ro>;

// The array as numpy sees it. It has no owner of its own: the result that it is read from is kept alive.
template <class T> static Out<T> memory_of(RawArray<T> &values) { return Out<T>(values.data(), {values.size}); }

static void check_length(bool right) {
    if (!right) throw std::invalid_argument("every column must have one entry a row");
}

static std::vector<KeyColumn> key_columns(const std::vector<AnyColumn> &keys, const std::vector<In<uint8_t>> &nulls,
                                          std::size_t rows) {
    if (nulls.size() != keys.size())
        throw std::invalid_argument("nulls must have one mask for every key column, empty where nothing is NULL");
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
    Result<Lineage>(m, "Lineage", "Rows of lineage as clauses, sorted by their keys, NULLs last.")
        .value("indptr", [](Lineage &self) { return memory_of(self.indptr); })
        .value(
            "literals", [](Lineage &self) { return memory_of(self.literals); },
            "Clause c has literals[indptr[c]:indptr[c + 1]], different ones in increasing order.")
        .value(
            "identity", [](Lineage &self) { return memory_of(self.identity); }, "The identity columns, row after row.")
        .field("starts", &Lineage::starts, "Where the clauses of each distinct key begin, and the number of rows.")
        .field("first", &Lineage::first, "The first row of each distinct key.")
        .value(
            "order", [](Lineage &self) { return memory_of(self.order); },
            "The row at each place; empty if it was not asked for.");
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
            return out;
        },
        nb::sig("def lineage(keys: collections.abc.Sequence[numpy.typing.NDArray[numpy.signedinteger[typing.Any]]], "
                "nulls: collections.abc.Sequence[numpy.typing.NDArray[numpy.uint8]], "
                "numbers: collections.abc.Sequence[numpy.typing.NDArray[numpy.int32]], "
                "identity: collections.abc.Sequence[numpy.typing.NDArray[numpy.int32]], rows: int, with_order: bool) "
                "-> Lineage"),  // nanobind has no name for "int64 or int32", which the keys are
        nb::arg("keys"), nb::arg("nulls"), nb::arg("numbers"), nb::arg("identity"), nb::arg("rows"),
        nb::arg("with_order"),
        "Sorts rows by their keys and makes a clause of each row's numbers, of which -1 stands for none.");
    m.def(
        "clause_order",
        [](In<int64_t> starts, In<int64_t> indptr, In<int32_t> literals) {
            const auto formulas = static_cast<int64_t>(starts.shape(0)) - 1;
            const auto clauses = static_cast<int64_t>(indptr.shape(0)) - 1;
            const auto size = static_cast<int64_t>(literals.shape(0));
            if (formulas < 0 || clauses < 0 || starts.data()[0] != 0 || starts.data()[formulas] != clauses ||
                !std::is_sorted(starts.data(), starts.data() + formulas + 1) ||
                !within(indptr.data(), clauses, literals.data(), size, int64_t{1} << 30))
                throw std::invalid_argument("the arrays are no batch: starts and indptr must span the literals");
            std::vector<int64_t> order;
            interruptible([&](Poll &poll) {
                order = clause_order(starts.data(), formulas, indptr.data(), literals.data(), poll);
            });
            return to_numpy(std::move(order));
        },
        nb::arg("starts"), nb::arg("indptr"), nb::arg("literals"),
        "The order that sorts the clauses of every formula by their literals; empty if they are sorted.");
}

}  // namespace sharpdnf
