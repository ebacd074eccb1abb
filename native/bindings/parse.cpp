// What Python calls to read formulas from text, a chunk at a time, and to write them.
#include "parse.hpp"
#include "arrays.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace sharpdnf {

// "" or what is wrong; the parser's line says where.
template <class Work> static std::string outcome(Work work) {
    nb::gil_scoped_release release;
    try {
        work();
    } catch (const ParseFailure &failure) {
        return failure.message;
    }
    return "";
}

static Out<double> take_prob(Parser &parser) {
    if (!parser.prob) return to_numpy(std::vector<double>());  // no variables
    auto *data = reinterpret_cast<double *>(parser.prob.release());
    nb::capsule owner(data, [](void *p) noexcept { std::free(p); });
    return Out<double>(data, {static_cast<size_t>(parser.num_vars)}, owner);
}

void bind_parse(nb::module_ &m) {
    nb::class_<Parser>(m, "Parser", "Text to DNF arrays in chunks: feed() each, finish(), then take() the arrays.")
        .def(
            "__init__",
            [](Parser *self, const std::string &dialect) {
                const Dialect kind = dialect == "sharpdnf" ? Dialect::sharpdnf
                                     : dialect == "mcc"    ? Dialect::mcc
                                     : dialect == "pysdd"  ? Dialect::pysdd
                                                           : Dialect::automatic;
                new (self) Parser(kind);
            },
            nb::arg("dialect"))
        .def(
            "feed",
            [](Parser &self, nb::bytes chunk) {
                const char *data = chunk.c_str();
                const size_t size = chunk.size();
                return outcome([&] { self.feed(data, data + size); });
            },
            nb::arg("chunk"), "Reads a chunk of text: '' or what is wrong with it.")
        .def(
            "finish", [](Parser &self) { return outcome([&] { self.finish(); }); },
            "Ends the text and settles the weights: '' or what is wrong.")
        .def(
            "take",
            [](Parser &self) {
                auto prob = take_prob(self);
                return std::make_tuple(to_numpy(std::move(self.indptr)), to_numpy(std::move(self.literals)), prob);
            },
            "(indptr, literals, prob), once, after finish() said ''.")
        .def(
            "names",
            [](Parser &self) {
                std::vector<std::pair<int64_t, nb::bytes>> out;
                for (const auto &[variable, name] : self.names)
                    out.emplace_back(variable, nb::bytes(name.data(), name.size()));
                return out;
            },
            "[(1-based variable, name as bytes)] as declared.")
        .def_ro("line", &Parser::line)
        .def_ro("log_scale", &Parser::log_scale)
        .def_ro("repeated_literals", &Parser::repeated_literals)
        .def_ro("impossible_clauses", &Parser::impossible_clauses)
        .def_ro("rounded_vars", &Parser::rounded_vars);
    m.def(
        "format_clauses",
        [](In<int64_t> indptr, In<int32_t> literals, int64_t first, int64_t last, bool negate) {
            const auto size = static_cast<int64_t>(literals.shape(0));
            if (first < 0 || last < first || last >= static_cast<int64_t>(indptr.shape(0)) ||
                indptr.data()[last] > size || indptr.data()[first] < 0 ||
                !std::is_sorted(indptr.data() + first, indptr.data() + last + 1))
                throw std::invalid_argument("no such clauses");
            std::string out;
            {
                nb::gil_scoped_release release;
                out = format_clauses(indptr.data(), literals.data(), first, last, negate);
            }
            return nb::bytes(out.data(), out.size());
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("first"), nb::arg("last"), nb::arg("negate"),
        "Clauses [first, last) as lines of text.");
}

}  // namespace sharpdnf
