// SPDX-License-Identifier: MIT
#pragma once

#include <nanobind/nanobind.h>

namespace celerity::native {

void bind_grid(nanobind::module_& m);
void bind_range_mapper(nanobind::module_& m);
void bind_trace(nanobind::module_& m);
void bind_network(nanobind::module_& m);
void bind_executor(nanobind::module_& m);
void bind_cuda(nanobind::module_& m);
void bind_fused_kernels(nanobind::module_& m);
void bind_program_log(nanobind::module_& m);
void bind_tasks(nanobind::module_& m);
void bind_graph_log(nanobind::module_& m);
void bind_scheduler(nanobind::module_& m);
void bind_last_words(nanobind::module_& m);
void bind_start_watch(nanobind::module_& m);
void bind_submitter(nanobind::module_& m);
void bind_temporary_memory(nanobind::module_& m);
void bind_view_releaser(nanobind::module_& m);

} // namespace celerity::native
