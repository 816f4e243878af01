// SPDX-License-Identifier: MIT
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "bindings.hpp"
#include "look_up.hpp"
#include "scheduler/core/vocabulary/task.hpp"
#include "bind_fields.hpp"
#include "submit/task_building.hpp"
#include "submit/user_geometry.hpp"

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

using array_of_user = std::tuple<user_box, std::uint64_t, int>;

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
	        "arrays",
	        [](const buffer_info& self) {
		        std::vector<array_of_user> arrays;
		        for(const auto& [where, allocation] : self.arrays) {
			        const int device = allocation.memory == user_memory ? -1 : static_cast<int>(device_of(allocation.memory).value);
			        arrays.emplace_back(user_box{where, self.dims}, allocation.user_number(), device);
		        }
		        return arrays;
	        },
	        [](buffer_info& self, const std::vector<array_of_user>& arrays) {
		        self.arrays.clear();
		        for(const auto& [where, number, device] : arrays) {
			        const memory_id memory = device < 0 ? user_memory : memory_of(device_id(static_cast<std::uint32_t>(device)));
			        self.arrays.push_back({where.b, allocation_id::of_user(memory, number)});
		        }
	        },
	        "Of this rank: (box, number of the array, the rank's device on which it lies, or -1 on the host).")
	    .def_prop_rw(
	        "held_by_ranks",
	        [](const buffer_info& self) {
		        std::vector<std::vector<user_box>> held;
		        for(const auto& part : self.held_by_ranks) {
			        auto& boxes = held.emplace_back();
			        for(const box& b : part) boxes.push_back({b, self.dims});
		        }
		        return held;
	        },
	        [](buffer_info& self, const std::vector<std::vector<user_box>>& held) {
		        self.held_by_ranks.clear();
		        for(const auto& part : held) {
			        box_vector boxes;
			        for(const auto& each : part) boxes.push_back(each.b);
			        self.held_by_ranks.emplace_back(std::move(boxes));
		        }
	        },
	        "Of each rank, for initial='local': the boxes that only its arrays hold.")
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
	m.attr("MAX_QUEUE_PRIORITY") = max_queue_priority;
	bind_buffer_info(m);
	nb::class_<task>(m, "Task", "A task before its submit. A Submitter adds the accesses and the name, from the arguments of the call.")
	    .def_static("kernel", &make_kernel, "box"_a, "granularity"_a.none() = nb::none(), "division"_a = no_hints(), "reductions"_a = nb::tuple(),
	        "origin"_a = origin{},
	        "reductions: (buffer, op, dtype name, include_current) each; for the op \"callable\" also (number, name, digest of code and identity).")
	    .def_static("host_task", &make_host_task, "box"_a, "on"_a = "split", "unordered"_a = false, "granularity"_a.none() = nb::none(),
	        "objects"_a = std::vector<std::uint64_t>(), "origin"_a = origin{}, "group"_a = "",
	        "on: 'once', 'master', or 'split', which divides the box among the ranks. objects: ids of host objects, distinct and ascending. "
	        "group: of a collective host task, as the program names it.")
	    .def_rw("priority", &task::priority, "Of the queue that submits it.")
	    .def_prop_ro("division", &division_of, "Equal for tasks whose index spaces are divided into the same chunks.");
}

} // namespace celerity::native
