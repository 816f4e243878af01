// SPDX-License-Identifier: MIT
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <optional>

#include "scheduler/core/vocabulary/planning_notice.hpp"
#include "user_geometry.hpp"

namespace nb = nanobind;
using namespace celerity;

void bind_planning_notices(nb::module_& m);

void bind_planning_notices(nb::module_& m) {
	using kind = planning_notice::kind_type;
	nb::enum_<kind>(m, "NoticeKind", "What a PlanningNotice tells of.")
	    .value("FAULT", kind::fault, "Planning itself has failed; text tells how.")
	    .value("UNWRITTEN_READ", kind::unwritten_read, "A task or fence reads a region of a buffer that nothing has written.")
	    .value("MANY_ALLOCATIONS", kind::many_allocations, "A buffer has been allocated many times in one memory.")
	    .value("FULL_LOOKAHEAD", kind::full_lookahead, "Lookahead has held back so many commands that it lets go of them.");
	nb::class_<planning_notice>(m, "PlanningNotice", "What planning has to tell the program. Fields are 0 or empty where they do not apply.")
	    .def_ro("kind", &planning_notice::kind)
	    .def_prop_ro(
	        "submission", [](const planning_notice& self) { return self.submission.value; }, "That it is about.")
	    .def_prop_ro(
	        "task", [](const planning_notice& self) { return self.task.value; }, "0 of an unwritten read: it is a fence's.")
	    .def_ro("task_name", &planning_notice::task_name)
	    .def_prop_ro("buffer", [](const planning_notice& self) { return self.buffer.value; })
	    .def_ro("buffer_name", &planning_notice::buffer_name)
	    .def_prop_ro(
	        "where", [](const planning_notice& self) { return user_region{self.where, self.dims}; }, "The region of the buffer that is read.")
	    .def_prop_ro(
	        "device",
	        [](const planning_notice& self) {
		        return is_device_memory(self.memory) ? std::optional<std::uint32_t>(device_of(self.memory).value) : std::nullopt;
	        },
	        "Whose memory it is; None: host memory.")
	    .def_ro("count", &planning_notice::count)
	    .def_ro("text", &planning_notice::text);
}
