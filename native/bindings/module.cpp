// The Python module `sharpdnf._native`: one bind_* function for each kernel in native/kernels.
#include <nanobind/nanobind.h>

namespace sharpdnf {

namespace nb = nanobind;

void bind_formula(nb::module_ &);
void bind_parse(nb::module_ &);
void bind_simplify(nb::module_ &);
void bind_dtree(nb::module_ &);
void bind_sample(nb::module_ &);
void bind_klm(nb::module_ &);
void bind_conditioned(nb::module_ &);
void bind_generate(nb::module_ &);
void bind_batch(nb::module_ &);
void bind_layers(nb::module_ &);
void bind_lineage(nb::module_ &);
void bind_tails(nb::module_ &);
void bind_creation(nb::module_ &);
void bind_frontier(nb::module_ &);
void bind_reach(nb::module_ &);
void bind_circuit(nb::module_ &);
void bind_cutsets(nb::module_ &);
void bind_fixpoint(nb::module_ &);
void bind_exact(nb::module_ &);
void bind_compiled(nb::module_ &);
void bind_pivot(nb::module_ &);

}  // namespace sharpdnf

NB_MODULE(_native, m) {
    using namespace sharpdnf;
    m.doc() = "Kernels of sharpdnf: arrays in, numbers out, the GIL released.";
    bind_formula(m);
    bind_parse(m);
    bind_simplify(m);
    bind_dtree(m);
    bind_sample(m);
    bind_klm(m);
    bind_conditioned(m);
    bind_generate(m);
    bind_batch(m);
    bind_layers(m);
    bind_lineage(m);
    bind_tails(m);
    bind_creation(m);
    bind_frontier(m);
    bind_reach(m);
    bind_circuit(m);
    bind_cutsets(m);
    bind_fixpoint(m);
    bind_exact(m);
    bind_compiled(m);
    bind_pivot(m);
}
