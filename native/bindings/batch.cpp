#include <algorithm>

#include "arrays.hpp"
#include "batch.hpp"

template <class T, class Get> static Out<T> column(const std::vector<BatchAnswer> &answers, Get get) {
    std::vector<T> out;
    out.reserve(answers.size());
    for (const auto &answer : answers) out.push_back(static_cast<T>(get(answer)));
    return to_numpy(std::move(out));
}

void bind_batch(nb::module_ &m) {
    m.def(
        "count_batch",
        [](In<int64_t> indptr, In<int32_t> literals, In<double> prob, In<int64_t> formula_indptr, int promise,
           double epsilon, double delta, uint64_t seed, int threads, double seconds, int64_t memory) {
            const Formula all = view(indptr, literals, prob);
            const auto num_formulas = static_cast<int64_t>(formula_indptr.shape(0)) - 1;
            const int64_t *const ends = formula_indptr.data();
            if (num_formulas < 0 || ends[0] != 0 || ends[num_formulas] != all.num_clauses ||
                !std::is_sorted(ends, ends + num_formulas + 1))
                throw std::invalid_argument("formula_indptr does not span the clauses");
            std::vector<BatchAnswer> answers;
            {
                nb::gil_scoped_release release;
                Poll poll(seconds, signal_pending);
                const BatchAsk ask{static_cast<Promise>(promise), epsilon, delta, seed, static_cast<std::size_t>(memory)};
                answers = count_batch(all, formula_indptr.data(), num_formulas, ask, threads, poll);
            }
            if (PyErr_Occurred()) throw nb::python_error();
            nb::dict out;
            out["log_prob"] = column<double>(answers, [](const auto &a) { return a.log_prob; });
            out["log_lower"] = column<double>(answers, [](const auto &a) { return a.log_lower; });
            out["log_upper"] = column<double>(answers, [](const auto &a) { return a.log_upper; });
            out["log_certified_lower"] = column<double>(answers, [](const auto &a) { return a.log_certified_lower; });
            out["log_certified_upper"] = column<double>(answers, [](const auto &a) { return a.log_certified_upper; });
            out["guarantee"] = column<int8_t>(answers, [](const auto &a) { return a.promise; });
            out["engine"] = column<int8_t>(answers, [](const auto &a) { return a.method; });
            out["samples"] = column<int64_t>(answers, [](const auto &a) { return a.samples; });
            out["met"] = column<uint8_t>(answers, [](const auto &a) { return a.met; });
            return out;
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("formula_indptr"), nb::arg("promise"),
        nb::arg("epsilon"), nb::arg("delta"), nb::arg("seed"), nb::arg("threads"), nb::arg("seconds"),
        nb::arg("memory"), "The columns of every formula's answer.");
}
