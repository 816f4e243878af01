// SPDX-License-Identifier: MIT
// The recorder of the timeline, a class for each kind of event, and ranges for profilers.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "executor/core/events/profiler_ranges.hpp"
#include "instruction_conversion.hpp"
#include "named_tuple.hpp"
#include "scheduler/core/vocabulary/trace_recorder.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {
namespace {

/// A number, a name, or numbers.
template <typename T>
auto to_property(const T& value) {
	if constexpr(requires { flatten(value); }) {
		return flatten(value);
	} else if constexpr(std::is_same_v<T, traced_dependencies>) {
		std::vector<std::uint64_t> ids;
		for(const auto id : value) ids.push_back(id.value);
		return ids;
	} else {
		return to_plain(value);
	}
}

/// As a class whose properties are the fields: "plan" becomes "TracedPlan".
template <typename Action>
void bind_action(nb::module_& m) {
	std::string name(Action::kind_name);
	name.front() = static_cast<char>(name.front() - 'a' + 'A');
	nb::class_<Action> cls(m, ("Traced" + name).c_str());
	[&]<std::size_t... I>(std::index_sequence<I...>) {
		(cls.def_prop_ro(field_names<Action>[I], [](const Action& self) { return to_property(std::get<I>(self.fields())); }), ...);
	}(std::make_index_sequence<num_fields<Action>>());
	static_assert(has_complete_list<Action>);
}

template <typename... Actions>
void bind_actions(nb::module_& m, std::type_identity<std::variant<Actions...>> /* all */) {
	(bind_action<Actions>(m), ...);
}

template <typename... Kinds>
nb::dict traits_by_name(std::type_identity<std::variant<Kinds...>> /* all */) {
	nb::dict traits;
	((traits[Kinds::kind_name] = named_tuple<instruction_traits>::make(Kinds::traits)), ...);
	return traits;
}

void record_call(trace_recorder& self, const std::string& call, const std::int64_t start_ns, const std::int64_t end_ns, const std::uint64_t submission) {
	self.record({start_ns, end_ns, traced_application{look_up<application_call>(call, "a call"), submission_id(submission)}});
}

} // namespace

void bind_trace(nb::module_& m) {
	bind_actions(m, std::type_identity<traced_action>());
	named_tuple<instruction_traits>::bind(m, "InstructionTraits", "The facts that all instructions of a kind share.");
	m.def(
	    "instruction_kinds", [] { return traits_by_name(std::type_identity<instruction_operation>()); },
	    nb::sig("def instruction_kinds() -> dict[str, InstructionTraits]"), "By the name of the kind.");
	nb::class_<trace_event>(m, "TraceEvent", "One entry of a timeline. Times are those of time.perf_counter_ns(). Ids are 0 where they do not apply.")
	    .def_ro("start_ns", &trace_event::start_ns)
	    .def_ro("end_ns", &trace_event::end_ns)
	    .def_ro("action", &trace_event::action);
	nb::class_<trace_recorder>(m, "TraceRecorder", "The latest actions of scheduler, executor and application, with their times. Any thread.")
	    .def(nb::new_([](const std::size_t capacity) { return std::make_shared<trace_recorder>(capacity); }), "capacity"_a, "Keeps at least so many events.")
	    .def_prop_ro("num_lost", &trace_recorder::num_lost, "Events that newer ones have replaced.")
	    .def("record_call", &record_call, "call"_a, "start_ns"_a, "end_ns"_a, "submission"_a = 0,
	        "The application was in a call ('submit', 'map', 'blocked' or 'wait'), by time.perf_counter_ns(). Any thread.")
	    .def("events", &trace_recorder::events, nb::call_guard<nb::gil_scoped_release>(), "The events so far, by start.");
	nb::class_<profiler_ranges>(m, "ProfilerRanges", "Ranges that a profiler shows, by functions of NVTX. Any thread.")
	    .def(nb::new_([](const std::uintptr_t push, const std::uintptr_t pop) {
		    return std::make_shared<profiler_ranges>(reinterpret_cast<profiler_ranges::push_function>(push),
		        reinterpret_cast<profiler_ranges::pop_function>(pop));
	    }),
	        "push"_a, "pop"_a, "The addresses of nvtxRangePushA and nvtxRangePop.")
	    .def("push", &profiler_ranges::push, "text"_a, "The calling thread begins a range.")
	    .def("pop", &profiler_ranges::pop, "It ends its innermost range.")
	    .def(
	        "note", [](profiler_ranges& self, const std::uint64_t id, std::string name) { self.note(submission_id(id), std::move(name)); }, "submission"_a,
	        "name"_a, "The name of a submission, for its instructions.");
}

} // namespace celerity::native
