#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_dtree(nb::module_ &) {}
