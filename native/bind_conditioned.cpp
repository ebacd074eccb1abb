#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_conditioned(nb::module_ &) {}
