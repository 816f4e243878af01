// SPDX-License-Identifier: MIT
// The recorder of the timeline; what its numbers mean is decided here, once, in words.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>

#include <stdexcept>
#include <string_view>
#include <vector>

#include "executor/core/engine/lane_pool.hpp"
#include "look_up.hpp"
#include "scheduler/core/base/trace_recorder.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace celerity;
using celerity::native::look_up;

void bind_trace(nb::module_& m);

namespace {

const char* operation_name(const trace_event& event) {
	switch(event.kind) {
	case trace_kind::issue: return instruction_kind_names.at(event.operation);
	case trace_kind::plan: return names_of<plan_input>.at(event.operation);
	case trace_kind::application: return names_of<application_call>.at(event.operation);
	default: return "";
	}
}

nb::tuple to_python(const trace_event& event) {
	const auto reason = std::string_view(operation_name(event)) == "copy" ? names_of<copy_reason>.at(event.reason) : "";
	const auto track = event.track == no_lane ? -1 : static_cast<std::int64_t>(event.track);
	return nb::make_tuple(name_of(event.kind), event.start_ns, event.end_ns, operation_name(event), reason, event.instruction,
	    event.submission, event.buffer, event.bytes, event.sequence, track, event.peer);
}

nb::list events(const trace_recorder& self) {
	std::vector<trace_event> found;
	{
		const nb::gil_scoped_release released;
		found = self.events();
	}
	nb::list result;
	for(const auto& event : found) result.append(to_python(event));
	return result;
}

void record_call(trace_recorder& self, const std::string_view call, const std::int64_t start_ns, const std::int64_t end_ns, const std::uint64_t submission) {
	trace_event event;
	event.kind = trace_kind::application;
	event.operation = static_cast<std::uint8_t>(look_up<application_call>(call, "a call"));
	event.start_ns = start_ns;
	event.end_ns = end_ns;
	event.submission = submission;
	self.record(event);
}

} // namespace

void bind_trace(nb::module_& m) {
	nb::class_<trace_recorder>(m, "TraceRecorder", "What scheduler, executor and application did and when: the latest events, from any thread.")
	    .def(nb::new_([](const std::size_t capacity) { return std::make_shared<trace_recorder>(capacity); }), "capacity"_a,
	        "Keeps at least so many events.")
	    .def_prop_ro("num_lost", &trace_recorder::num_lost, "Events that newer ones have replaced.")
	    .def(
	        "record_call",
	        [](trace_recorder& self, const nb::str& call, const std::int64_t start_ns, const std::int64_t end_ns, const std::uint64_t submission) {
		        record_call(self, call.c_str(), start_ns, end_ns, submission);
	        },
	        "call"_a, "start_ns"_a, "end_ns"_a, "submission"_a = 0,
	        "The application was in a call ('submit', 'blocked' or 'wait'), by time.perf_counter_ns(). Any thread.")
	    .def("events", &events, nb::sig("def events(self) -> list[tuple[str, int, int, str, str, int, int, int, int, int, int, int]]"),
	        R"(By start: (kind, start in ns, end in ns, operation, reason, instruction, submission, buffer, bytes, sequence, track, peer).

Kinds are issue, lane, call, send, receive, barrier, work, python, plan and application; trace_recorder.hpp tells what the numbers are.)");
}
