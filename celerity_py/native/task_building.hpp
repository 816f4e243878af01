// SPDX-License-Identifier: MIT
// Tasks from the arguments of the submit functions.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "scheduler/core/vocabulary/task.hpp"
#include "user_geometry.hpp"

namespace celerity::native {

/// What Python says of a task or buffer for comparisons between ranks: (digest of the code, digest of values or contents).
using origin = std::tuple<std::uint64_t, std::uint64_t>;
void set_origin(task& node, const origin& from);

/// `accesses`: a sequence of (buffer, mode, RangeMapper); `reductions`: of (buffer, op, dtype name, include_current).
task make_kernel(std::string name, const user_box& space, nanobind::handle accesses, nanobind::handle reductions, nanobind::handle granularity, bool split_2d,
    std::uint32_t oversubscription, std::uint32_t border);
/// `on`: "once", "master" or "split"; `space` may be None unless it is "split". Those that are not split run in program order, unless `unordered`.
task make_host_task(std::string name, nanobind::handle space, nanobind::handle accesses, const std::string& on, bool unordered);
task make_fence(std::uint64_t buffer, const user_box& where, std::uint64_t user_allocation, bool on_all);
task make_epoch(const std::string& action);
/// A task with a geometry only, of kind "kernel", "host" or "single".
task make_shape(const user_box& space, nanobind::handle granularity, bool split_2d, std::uint32_t oversubscription, std::uint32_t border,
    const std::string& kind);
buffer_info make_buffer(nanobind::handle shape, std::size_t element_size_bytes, std::size_t alignment_bytes, const std::string& initial,
    std::uint64_t user_allocation, std::string name);
std::vector<user_box> with_dims(const std::vector<box>& boxes, int dims);

} // namespace celerity::native
