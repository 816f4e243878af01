// SPDX-License-Identifier: MIT
#pragma once

#include <nanobind/nanobind.h>

namespace celerity::native {

void bind_cuda(nanobind::module_& m);

} // namespace celerity::native
