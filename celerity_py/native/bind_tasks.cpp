// SPDX-License-Identifier: MIT
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <string>

#include "scheduler/core/vocabulary/task.hpp"
#include "task_building.hpp"
#include "user_geometry.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace celerity;
using namespace celerity::native;

void bind_tasks(nb::module_& m);

namespace {

nb::tuple division_of(const task& node) {
	const task_geometry& geometry = node.geometry;
	return nb::make_tuple(static_cast<int>(node.kind), user_box{geometry.global, geometry.dims}, to_tuple(geometry.granularity, 3),
	    geometry.split == split_kind::split_2d, geometry.oversubscription, geometry.border, geometry.can_split);
}

} // namespace

void bind_tasks(nb::module_& m) {
	nb::class_<task>(m, "Task", "A task before its submit. A Submitter adds the accesses and the name, from the arguments of the call.")
	    .def_static("kernel", &make_kernel, "box"_a, "granularity"_a.none() = nb::none(), "division"_a = division{false, 1, 0}, "reductions"_a = nb::tuple(),
	        "origin"_a = origin{}, nb::kw_only(), "accesses"_a = nb::tuple(), "name"_a = "",
	        "reductions: (buffer, op, dtype name, include_current) each. accesses: (buffer, mode, RangeMapper) each.")
	    .def_static("host_task", &make_host_task, "box"_a, "on"_a = "split", "unordered"_a = false, "origin"_a = origin{}, nb::kw_only(),
	        "accesses"_a = nb::tuple(), "name"_a = "", "on: 'once', 'master', or 'split', which divides the box among the ranks.")
	    .def_static("fence", &make_fence, "buffer"_a, "box"_a, "user_allocation"_a, "on_all"_a = true, "Copies a part of a buffer to registered user memory.")
	    .def_static("epoch", &make_epoch, "action"_a = "none", "action: 'none', 'barrier' or 'shutdown'.")
	    .def_prop_ro("division", &division_of, "Equal for tasks whose index spaces are divided into the same chunks.");
}
