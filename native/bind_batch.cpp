#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_batch(nb::module_ &) {}
