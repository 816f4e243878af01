// SPDX-License-Identifier: MIT
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bindings.hpp"
#include "look_up.hpp"
#include "scheduler/core/vocabulary/task.hpp"
#include "settings.hpp"
#include "task_building.hpp"
#include "user_geometry.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {
namespace {

nb::tuple division_of(const task& node) {
	const task_geometry& geometry = node.geometry;
	return nb::make_tuple(static_cast<int>(node.kind), user_box{geometry.global, geometry.dims}, to_tuple(geometry.granularity, 3),
	    static_cast<int>(geometry.split), geometry.oversubscription, geometry.border, geometry.block, nb::tuple(nb::cast(geometry.weights)),
	    geometry.can_split);
}

void bind_buffer_info(nb::module_& m) {
	nb::class_<buffer_info> info(m, "BufferInfo", "A buffer before it is created. The sizes are in bytes; without `initial` it has no contents.");
	bind_keywords(info);
	info.def_prop_rw(
	        "shape", [](const buffer_info& self) { return to_tuple(self.extents, self.dims); },
	        [](buffer_info& self, const nb::handle shape) {
		        const user_box whole = box_of_shape(shape);
		        self.dims = whole.dims;
		        self.extents = whole.b.max();
	        })
	    .def_rw("element_size", &buffer_info::element_size_bytes)
	    .def_rw("alignment", &buffer_info::element_alignment_bytes)
	    .def_prop_rw(
	        "initial", [](const buffer_info& self) { return names_of<buffer_info::initial_contents>[static_cast<std::size_t>(self.initial)]; },
	        [](buffer_info& self, const std::string& name) { self.initial = look_up<buffer_info::initial_contents>(name, "the initial contents of a buffer"); })
	    .def_prop_rw(
	        "user_allocation", [](const buffer_info& self) { return self.user_allocation.raw; },
	        [](buffer_info& self, const std::uint64_t raw) { self.user_allocation = allocation_id{user_memory, raw}; })
	    .def_rw("name", &buffer_info::name)
	    .def_rw("type_name", &buffer_info::type_name)
	    .def_rw("contents_digest", &buffer_info::contents_digest)
	    .def_rw("site", &buffer_info::site);
}

} // namespace

void bind_tasks(nb::module_& m) {
	m.attr("ACCESS_MODES") = all_names<access_mode>();
	m.attr("REDUCTION_OPERATIONS") = all_names<reduction_op>();
	m.attr("SCALAR_TYPES") = all_names<scalar_type>();
	m.attr("SPLITS") = all_names<split_kind>();
	bind_buffer_info(m);
	nb::class_<task>(m, "Task", "A task before its submit. A Submitter adds the accesses and the name, from the arguments of the call.")
	    .def_static("kernel", &make_kernel, "box"_a, "granularity"_a.none() = nb::none(), "division"_a = no_hints(), "reductions"_a = nb::tuple(),
	        "origin"_a = origin{}, "reductions: (buffer, op, dtype name, include_current) each.")
	    .def_static("host_task", &make_host_task, "box"_a, "on"_a = "split", "unordered"_a = false, "granularity"_a.none() = nb::none(),
	        "objects"_a = std::vector<std::uint64_t>(), "origin"_a = origin{},
	        "on: 'once', 'master', or 'split', which divides the box among the ranks. objects: ids of host objects, distinct and ascending.")
	    .def_prop_ro("division", &division_of, "Equal for tasks whose index spaces are divided into the same chunks.");
}

} // namespace celerity::native
