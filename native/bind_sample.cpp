#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_sample(nb::module_ &) {}
