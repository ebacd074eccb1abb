#include <algorithm>

#include "arrays.hpp"
#include "batch.hpp"

namespace sharpdnf {

template <class T, class Get> static Out<T> column(const std::vector<Row> &rows, Get get) {
    std::vector<T> out;
    out.reserve(rows.size());
    for (const auto &row : rows) out.push_back(static_cast<T>(get(row)));
    return to_numpy(std::move(out));
}

// How the answer came about: what `Estimate.info` says of an answer of `auto`.
static nb::dict details_of(const Answer &answer) {
    nb::dict out;
    out["why"] = answer.why;
    if (*answer.stopped) out["stopped"] = answer.stopped;
    if (answer.method == Method::bounds) out["unate"] = answer.unate, out["pairs"] = answer.pairs;
    if (answer.nodes) out["nodes"] = answer.nodes;
    if (answer.method == Method::exact) out["method"] = answer.by;
    if (answer.method == Method::conditioned) out["variables"] = Auto::kConditioned;
    if (answer.estimator >= 0) {
        out["estimator"] = answer.estimator, out["log_scale"] = answer.log_scale;
        out["operations"] = answer.operations, out["successes"] = answer.successes;
    }
    nb::list notes;
    for (const int32_t note : answer.notes) notes.append(note);
    out["notes"] = notes;
    return out;
}

void bind_batch(nb::module_ &m) {
    m.def(
        "count_batch",
        [](In<int64_t> indptr, In<int32_t> literals, In<double> prob, In<int64_t> formula_indptr, uint64_t seed,
           In<int64_t> numbers, int promise, bool complement, double epsilon, double delta, int64_t successes,
           int64_t third_successes, int64_t draws, int threads, double seconds, int64_t memory, bool details) {
            const Formula all = view(indptr, literals, prob);
            const auto num_formulas = static_cast<int64_t>(formula_indptr.shape(0)) - 1;
            const int64_t *const ends = formula_indptr.data();
            if (num_formulas < 0 || ends[0] != 0 || ends[num_formulas] != all.num_clauses ||
                !std::is_sorted(ends, ends + num_formulas + 1))
                throw std::invalid_argument("formula_indptr does not span the clauses");
            if (static_cast<int64_t>(numbers.shape(0)) != num_formulas)
                throw std::invalid_argument("count_batch: one number a formula");
            if (all.size() > std::numeric_limits<int32_t>::max())
                throw std::invalid_argument("more than 2^31 literals");
            if (promise < 0 || promise > static_cast<int>(Promise::none))
                throw std::invalid_argument("count_batch: promise");
            std::vector<Row> rows;
            std::vector<Answer> answers;
            {
                nb::gil_scoped_release release;
                Poll poll(seconds, signal_pending);
                const Ask ask{static_cast<Promise>(promise),
                              complement,
                              epsilon,
                              delta,
                              successes,
                              third_successes,
                              draws,
                              static_cast<std::size_t>(std::max<int64_t>(memory, 0))};
                rows = count_batch(all, ends, seed, numbers.data(), num_formulas, ask, threads, poll,
                                   details ? &answers : nullptr);
            }
            if (PyErr_Occurred()) throw nb::python_error();
            nb::dict out;
            out["log_prob"] = column<double>(rows, [](const auto &a) { return a.log_prob; });
            out["log_lower"] = column<double>(rows, [](const auto &a) { return a.log_lower; });
            out["log_upper"] = column<double>(rows, [](const auto &a) { return a.log_upper; });
            out["log_certified_lower"] = column<double>(rows, [](const auto &a) { return a.log_sure_lower; });
            out["log_certified_upper"] = column<double>(rows, [](const auto &a) { return a.log_sure_upper; });
            out["log_complement"] = column<double>(rows, [](const auto &a) { return a.log_complement; });
            out["log_complement_lower"] = column<double>(rows, [](const auto &a) { return a.log_complement_lower; });
            out["log_complement_upper"] = column<double>(rows, [](const auto &a) { return a.log_complement_upper; });
            out["guarantee"] = column<int8_t>(rows, [](const auto &a) { return a.promise; });
            out["engine"] = column<int8_t>(rows, [](const auto &a) { return a.method; });
            out["samples"] = column<int64_t>(rows, [](const auto &a) { return a.samples; });
            out["met"] = column<uint8_t>(rows, [](const auto &a) { return a.met; });
            out["of"] = column<int8_t>(rows, [=](const auto &a) { return complement || a.complement; });
            if (details) {
                nb::list all_details;
                for (const auto &answer : answers) all_details.append(details_of(answer));
                out["details"] = all_details;
            }
            return out;
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("formula_indptr"), nb::arg("seed"),
        nb::arg("numbers"), nb::arg("promise"), nb::arg("complement"), nb::arg("epsilon"), nb::arg("delta"),
        nb::arg("successes"), nb::arg("third_successes"), nb::arg("draws"), nb::arg("threads"), nb::arg("seconds"),
        nb::arg("memory"), nb::arg("details"), "The columns of every formula's answer.");
}

}  // namespace sharpdnf
