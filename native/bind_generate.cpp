#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_generate(nb::module_ &) {}
