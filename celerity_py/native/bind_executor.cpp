// SPDX-License-Identifier: MIT
#include "bind_executor.hpp"

namespace nb = nanobind;

void bind_executor(nb::module_& m);

void bind_executor(nb::module_& m) { celerity::native::bind_executor_machines(m); }
