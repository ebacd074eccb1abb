// What Python calls for many formulas at once: `count_batch`, with one array a field of the answers.
#include <algorithm>

#include "batch.hpp"
#include "results.hpp"

namespace sharpdnf {

// One entry a formula in every column. The integers are places in the tuples of names that Python keeps.
struct BatchAnswers {
    std::vector<double> log_prob, log_lower, log_upper, log_certified_lower, log_certified_upper;
    std::vector<double> log_complement, log_complement_lower, log_complement_upper;
    std::vector<int8_t> guarantee, engine, of;
    std::vector<int64_t> samples;
    std::vector<uint8_t> met;
    nb::list details;
};

template <class T, class Get> static std::vector<T> column(const std::vector<Row> &rows, Get get) {
    std::vector<T> out;
    out.reserve(rows.size());
    for (const auto &row : rows) out.push_back(static_cast<T>(get(row)));
    return out;
}

static BatchAnswers columns_of(const std::vector<Row> &rows, bool complement) {
    BatchAnswers out;
    out.log_prob = column<double>(rows, [](const auto &a) { return a.log_prob; });
    out.log_lower = column<double>(rows, [](const auto &a) { return a.log_lower; });
    out.log_upper = column<double>(rows, [](const auto &a) { return a.log_upper; });
    out.log_certified_lower = column<double>(rows, [](const auto &a) { return a.log_sure_lower; });
    out.log_certified_upper = column<double>(rows, [](const auto &a) { return a.log_sure_upper; });
    out.log_complement = column<double>(rows, [](const auto &a) { return a.log_complement; });
    out.log_complement_lower = column<double>(rows, [](const auto &a) { return a.log_complement_lower; });
    out.log_complement_upper = column<double>(rows, [](const auto &a) { return a.log_complement_upper; });
    out.guarantee = column<int8_t>(rows, [](const auto &a) { return a.promise; });
    out.engine = column<int8_t>(rows, [](const auto &a) { return a.method; });
    out.samples = column<int64_t>(rows, [](const auto &a) { return a.samples; });
    out.met = column<uint8_t>(rows, [](const auto &a) { return a.met; });
    out.of = column<int8_t>(rows, [=](const auto &a) { return complement || a.complement; });
    return out;
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
    using B = BatchAnswers;
    Result<B>(m, "BatchAnswers", "Columns with one entry a formula, named as the fields of Estimate.")
        .field("log_prob", &B::log_prob)
        .field("log_lower", &B::log_lower)
        .field("log_upper", &B::log_upper)
        .field("log_certified_lower", &B::log_certified_lower)
        .field("log_certified_upper", &B::log_certified_upper)
        .field("log_complement", &B::log_complement)
        .field("log_complement_lower", &B::log_complement_lower)
        .field("log_complement_upper", &B::log_complement_upper)
        .field("guarantee", &B::guarantee, "A place in GUARANTEES.")
        .field("engine", &B::engine, "A place in METHODS.")
        .field("of", &B::of, "A place in OF.")
        .field("samples", &B::samples)
        .field("met", &B::met)
        .value(
            "details",
            [](const B &self) { return nb::typed<nb::list, nb::typed<nb::dict, nb::str, nb::any>>(self.details); },
            "How each answer came about; empty if it was not asked for.");
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
                throw std::invalid_argument("count_batch: numbers must have one entry for each formula");
            if (all.size() > std::numeric_limits<int32_t>::max())
                throw std::invalid_argument("more than 2^31 literals");
            if (promise < 0 || promise > static_cast<int>(Promise::none))
                throw std::invalid_argument("count_batch: there is no promise of this number");
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
            BatchAnswers out = columns_of(rows, complement);
            for (const auto &answer : answers) out.details.append(details_of(answer));
            return out;
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("formula_indptr"), nb::arg("seed"),
        nb::arg("numbers"), nb::arg("promise"), nb::arg("complement"), nb::arg("epsilon"), nb::arg("delta"),
        nb::arg("successes"), nb::arg("third_successes"), nb::arg("draws"), nb::arg("threads"), nb::arg("seconds"),
        nb::arg("memory"), nb::arg("details"), "Counts every formula of a batch.");
}

}  // namespace sharpdnf
