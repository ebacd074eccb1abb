// What Python calls of the paper's own sampler.
#include "klm.hpp"

#include "results.hpp"

namespace sharpdnf {

void bind_klm(nb::module_ &m) {
    Result<KlmResult>(m, "KlmResult", "The trials of the coverage algorithm of Karp, Luby and Madras.")
        .field("trials", &KlmResult::trials, "How many clause checks were made.")
        .field("accepted", &KlmResult::accepted, "How many samples they took.")
        .field("log_sum", &KlmResult::log_sum, "log S, S the sum of the clauses' probabilities.")
        .field("complete", &KlmResult::complete, "Whether all trials were made before the deadline.");
    m.def(
        "klm",
        [](In<int64_t> indptr, In<int32_t> literals, In<double> prob, int64_t trials, uint64_t seed, double seconds) {
            const Formula f = view(indptr, literals, prob);
            if (f.num_clauses < 1) throw std::invalid_argument("no clauses to sample");
            KlmResult result;
            interruptible([&](Poll &poll) { result = klm(f, trials, seed, poll); }, seconds);
            return result;
        },
        nb::arg("indptr"), nb::arg("literals"), nb::arg("prob"), nb::arg("trials"), nb::arg("seed"), nb::arg("seconds"),
        "Makes so many trials, fewer at the deadline.");
}

}  // namespace sharpdnf
