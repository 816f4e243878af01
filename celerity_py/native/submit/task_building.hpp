// SPDX-License-Identifier: MIT
// Tasks from the arguments of the submit functions.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "scheduler/core/vocabulary/task.hpp"
#include "submit/user_geometry.hpp"

namespace celerity::native {

/// Digests that Python makes for comparisons between ranks: (of the code, of values or contents).
using origin = std::tuple<std::uint64_t, std::uint64_t>;
/// `celerity_py.hints.Division`: the kind of split by its place among SPLITS, chunks per device, items of borders, items per block, weights or None, steps
/// between exchanges of halos.
using division = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::int64_t, nanobind::object, std::uint32_t>;

/// Of a task without hints.
division no_hints();
/// `reductions`: a sequence of (buffer, op, dtype name, include_current), and for the op "callable" also (number, name, digest of code and identity).
task make_kernel(const user_box& space, nanobind::handle granularity, const division& how, nanobind::handle reductions, const origin& from);
/// `on`: "once", "master" or "split"; only the latter looks at `space` and `granularity`. Those that are not split run in program order, unless `unordered`.
/// `objects`: the ids of host objects, distinct and ascending. `group`: of a collective host task.
task make_host_task(const user_box& space, const std::string& on, bool unordered, nanobind::handle granularity, const std::vector<std::uint64_t>& objects,
    const origin& from, const std::string& group);
task make_fence(std::uint64_t buffer, const user_box& where, std::uint64_t user_allocation, bool on_all, bool to_device);
task make_object_fence(std::uint64_t object, bool on_all);
task make_epoch(const std::string& action);
std::vector<user_box> with_dims(const std::vector<box>& boxes, int dims);

} // namespace celerity::native
