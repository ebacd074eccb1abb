#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_klm(nb::module_ &) {}
