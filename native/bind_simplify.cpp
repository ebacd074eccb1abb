#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_simplify(nb::module_ &) {}
