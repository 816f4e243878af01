// SPDX-License-Identifier: MIT
#pragma once

#include <nanobind/nanobind.h>

namespace celerity::native {

void bind_geometry(nanobind::module_& m);
void bind_generation_benchmark(nanobind::module_& m);
void bind_graphs(nanobind::module_& m);
void bind_executor_machines(nanobind::module_& m);
void bind_network_parts(nanobind::module_& m);
void bind_memory_kernels(nanobind::module_& m);
void bind_inner_calls(nanobind::module_& m);
void bind_scripted_executor(nanobind::module_& m);

} // namespace celerity::native
