// What Python calls of the generators of random formulas.
#include "results.hpp"

#include "generate.hpp"

namespace sharpdnf {

namespace {

std::vector<int64_t> copy_widths(const In<int64_t> &widths, int64_t num_vars) {
    std::vector<int64_t> out(widths.data(), widths.data() + widths.shape(0));
    for (const int64_t w : out)
        if (w < 0 || w > num_vars) throw std::invalid_argument("a width is negative or beyond num_vars");
    return out;
}

generate::Placement paper(In<int64_t> widths, int64_t num_vars, int64_t num_privileged, int64_t privileged_slots,
                          bool strict, uint64_t seed, int64_t max_tries) {
    const auto width = copy_widths(widths, num_vars);
    const int64_t slots = std::accumulate(width.begin(), width.end(), int64_t{0});
    if (num_vars < 1 || num_privileged < 0 || num_privileged > num_vars || privileged_slots < 0 ||
        (privileged_slots > 0 && num_privileged == 0) || slots - privileged_slots < num_vars)
        throw std::invalid_argument("the slots do not suffice for the variables");
    generate::Placement out;
    interruptible([&](Poll &poll) {
        Pace pace(poll);
        out = generate::paper(width, num_vars, num_privileged, privileged_slots, strict, seed, max_tries, pace);
    });
    return out;
}

Out<int32_t> uniform(In<int64_t> widths, int64_t num_vars, uint64_t seed) {
    const auto width = copy_widths(widths, num_vars);
    std::vector<int32_t> out;
    interruptible([&](Poll &poll) {
        Pace pace(poll);
        out = generate::uniform(width, num_vars, seed, pace);
    });
    return to_numpy(std::move(out));
}

generate::Paths simple_paths(int64_t num_nodes, In<int64_t> from, In<int64_t> to, int64_t source, int64_t target,
                             bool directed, int64_t limit) {
    const auto edges = static_cast<int64_t>(from.shape(0));
    const auto inside = [&](int64_t node) { return node >= 0 && node < num_nodes; };
    bool valid = static_cast<int64_t>(to.shape(0)) == edges && inside(source) && inside(target);
    for (int64_t e = 0; valid && e < edges; ++e) valid = inside(from.data()[e]) && inside(to.data()[e]);
    if (!valid) throw std::invalid_argument("an edge or a terminal names a node that does not exist");
    generate::Paths out;
    interruptible([&](Poll &poll) {
        Pace pace(poll);
        out =
            generate::PathFinder(num_nodes, from.data(), to.data(), edges, directed).find(source, target, limit, pace);
    });
    return out;
}

}  // namespace

void bind_generate(nb::module_ &m) {
    using generate::Placement, generate::Paths;
    Result<Placement>(m, "Placement", "Variables placed into the slots of clauses.")
        .field("variables", &Placement::variable, "The variable of each slot, clause after clause.")
        .field("tries", &Placement::tries, "How many allocations were drawn.")
        .field("done", &Placement::done, "Whether one of them fitted: else the variables mean nothing.");
    Result<Paths>(m, "Paths", "Simple paths: path i is edges[indptr[i]:indptr[i + 1]].")
        .field("indptr", &Paths::indptr)
        .field("edges", &Paths::edges)
        .field("complete", &Paths::complete, "Whether all paths are there.");
    m.def("generate_paper", &paper, nb::arg("widths"), nb::arg("num_vars"), nb::arg("num_privileged"),
          nb::arg("privileged_slots"), nb::arg("strict"), nb::arg("seed"), nb::arg("max_tries"),
          "Draws a placement; the first num_privileged variables are the privileged ones.");
    m.def("generate_uniform", &uniform, nb::arg("widths"), nb::arg("num_vars"), nb::arg("seed"));
    m.def("simple_paths", &simple_paths, nb::arg("num_nodes"), nb::arg("tail"), nb::arg("head"), nb::arg("source"),
          nb::arg("target"), nb::arg("directed"), nb::arg("limit"),
          "The paths from the source to the target, at most `limit` of them.");
}

}  // namespace sharpdnf
