// SPDX-License-Identifier: MIT
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bindings.hpp"
#include "executor/core/loop/executor_loop.hpp"
#include "look_up.hpp"
#include "named_tuple.hpp"
#include "scheduler/core/pipeline/scheduler.hpp"
#include "seconds.hpp"
#include "bind_fields.hpp"
#include "submit/task_building.hpp"
#include "submit/waiting.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {
namespace {

/// A field of a part of the settings.
template <auto Part, auto Field>
void bind_field(nb::class_<pipeline_settings>& settings, const char* const name) {
	using value = std::remove_cvref_t<decltype(std::declval<pipeline_settings&>().*Part.*Field)>;
	settings.def_prop_rw(
	    name, [](const pipeline_settings& self) -> value { return self.*Part.*Field; },
	    [](pipeline_settings& self, const value& to) { self.*Part.*Field = to; });
}

void bind_scheduler_settings(nb::module_& m) {
	using capabilities = system_capabilities;
	constexpr auto machine = &pipeline_settings::capabilities;
	nb::class_<pipeline_settings> settings(m, "PlanningSettings",
	    "The devices of one rank, and the settings of its planner. The defaults are rank 0 of 1 with 1 device.");
	bind_keywords(settings);
	bind_field<machine, &capabilities::num_ranks>(settings, "num_ranks");
	bind_field<machine, &capabilities::num_devices>(settings, "num_devices");
	bind_field<machine, &capabilities::device_peers>(settings, "device_peers");
	bind_field<machine, &capabilities::user_device_peers>(settings, "user_device_peers");
	bind_field<machine, &capabilities::messages_reach_devices>(settings, "messages_reach_devices");
	bind_field<machine, &capabilities::link_grades>(settings, "link_grades");
	bind_field<machine, &capabilities::direct_ranks>(settings, "direct_ranks");
	bind_field<machine, &capabilities::foreseeable_bytes>(settings, "foreseeable_bytes");
	bind_field<machine, &capabilities::joined_bytes>(settings, "joined_bytes");
	bind_field<machine, &capabilities::gathered_bytes>(settings, "gathered_bytes");
	bind_field<machine, &capabilities::most_horizons_ahead>(settings, "most_horizons_ahead");
	bind_field<&pipeline_settings::horizons, &horizon_policy::step>(settings, "horizon_step");
	bind_field<&pipeline_settings::horizons, &horizon_policy::max_parallelism>(settings, "horizon_max_parallelism");
	settings
	    .def_prop_rw(
	        "rank", [](const pipeline_settings& self) { return self.capabilities.local_rank.value; },
	        [](pipeline_settings& self, const std::uint32_t rank) { self.capabilities.local_rank = rank_id(rank); })
	    .def_prop_rw(
	        "lookahead", [](const pipeline_settings& self) { return names_of<lookahead_mode>[static_cast<std::size_t>(self.lookahead)]; },
	        [](pipeline_settings& self, const std::string& name) { self.lookahead = look_up<lookahead_mode>(name, "lookahead"); })
	    .def_rw("program", &pipeline_settings::program, nb::arg().none())
	    .def_rw("loops", &pipeline_settings::loops, "Whether plain loops may repeat plans, if replays may.")
	    .def_rw("templates", &pipeline_settings::templates, "Whether replays may repeat plans.");
}

/// The planner looks at the history of no more horizons, however far the program may be ahead.
constexpr std::size_t most_pending_horizons = 64;

scheduler* make_scheduler(const pipeline_settings& given, executor_loop* const executor, const std::uint64_t run_ahead, const double idle_spin_s,
    const std::uint64_t most_kept_bytes, std::shared_ptr<trace_recorder> trace, std::shared_ptr<graph_log> graphs) {
	pipeline_settings planning = given;
	planning.capabilities.most_horizons_ahead = std::min<std::size_t>(2 * run_ahead, most_pending_horizons) + 2;
	const scheduler_settings settings{planning, run_ahead, to_nanoseconds(idle_spin_s), most_kept_bytes, std::move(trace), std::move(graphs)};
	auto result = std::make_unique<scheduler>(settings, executor);
	if(executor != nullptr) {
		if(planning.program != nullptr) planning.program->set_divergence_callback([executor](rank_id) { executor->wake(); });
		scheduler* const target = result.get();
		executor->set_callbacks({
		    .progress = [target](const task_id reached, const bool is_epoch) { target->notify_reached(reached, is_epoch); },
		    .load = [target] { target->pace().notify_progress(); },
		    .freed = [target](const std::uint64_t bytes) { target->pace().note_freed(bytes); },
		});
		result->set_failure_callback([executor](const std::string& text) { executor->report_failure(text); });
		if(idle_spin_s > 0) result->set_wake_callback([executor] { executor->expect_work(); });
		result->set_busy_callback([executor](const bool busy) { executor->set_scheduler_busy(busy); });
	}
	return result.release(); // nanobind owns it
}

nb::dict planning_statistics(const scheduler& self) {
	nb::dict result = to_python(self.statistics());
	result.update(nb::cast<nb::dict>(result.attr("pop")("counts")));
	return result;
}

void bind_violations(nb::module_& m) {
	named_tuple<access_violation>::bind(m, "AccessViolation",
	    "A contradiction between the declared accesses of a task. Fields are 0, empty or None where they do not apply.");
	static PyObject* const error_type = PyErr_NewExceptionWithDoc("celerity_py._native.AccessPatternError",
	    "A task's declared accesses contradict each other. args = (AccessViolation,).", PyExc_ValueError, nullptr);
	m.attr("AccessPatternError") = nb::borrow(error_type);
	nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
		try {
			std::rethrow_exception(thrown);
		} catch(const access_pattern_error& error) { PyErr_SetObject(error_type, nb::make_tuple(to_named(error.violation)).ptr()); }
	});
}

} // namespace

void bind_scheduler(nb::module_& m) {
	bind_scheduler_settings(m);
	bind_violations(m);
	named_tuple<planning_notice>::bind(m, "PlanningNotice", "A notice of the planner. Fields are 0, empty or None where they do not apply.");
	nb::class_<scheduler>(m, "Scheduler", nb::is_weak_referenceable(),
	    "Task, command and instruction graphs of this rank, generated by a native thread. One application thread submits; destroy_buffer may be called anywhere.")
	    .def(nb::new_(&make_scheduler), "planning"_a, "executor"_a.none(), nb::kw_only(), "run_ahead"_a = 16, "idle_spin_s"_a = 0.0,
	        "most_kept_bytes"_a = std::uint64_t{1} << 30U, "trace"_a = nb::none(), "graphs"_a = nb::none(), nb::keep_alive<0, 3>(),
	        "Without an executor nothing is executed, and horizons and epochs have passed as soon as they are planned. Once out of work, the thread looks "
	        "for more for `idle_spin_s` before it sleeps. While more than `most_kept_bytes` of dropped buffers are kept for unfinished work, submits wait.")
	    .def("start", &scheduler::start, "Start the thread.")
	    .def("stop", &scheduler::stop, nb::call_guard<nb::gil_scoped_release>(), "Work off the input, then end and join the thread. Idempotent.")
	    .def(
	        "create_buffer", [](scheduler& self, const buffer_info& info) { return self.create_buffer(info).value; }, "info"_a,
	        "Announce a virtual buffer; returns its id.")
	    .def(
	        "destroy_buffer", [](scheduler& self, const std::uint64_t id, const std::uint64_t num_bytes) { self.destroy_buffer(buffer_id(id), num_bytes); },
	        "buffer"_a, "num_bytes"_a, "Free the buffer, with so many bytes of elements, after its last use. Any thread; only enqueues.")
	    .def(
	        "chunks_for", [](const scheduler& self, const task& node) { return with_dims(self.chunks_for(node), node.geometry.dims); }, "task"_a,
	        "Everything a range mapper is asked for: the whole range first, each rank's chunk, this rank's chunks per device and part of one.")
	    .def(
	        "next_submission", [](const scheduler& self) { return self.next_submission().value; }, "The id that the next submission will get.")
	    .def(
	        "release", [](scheduler& self) { self.pace().release(); }, "Never let a submit wait again: the run has failed. Any thread.")
	    .def(
	        "wait_until_planned", [](scheduler& self) { wait_until([&] { return self.pace().wait_until_planned(signal_interval); }); },
	        "Block until all input so far has been planned, without the GIL.")
	    .def("flush", &scheduler::flush, "Compile the commands that lookahead holds back.")
	    .def("announce", &scheduler::announce, "priority"_a, "There is a queue of this priority. All ranks make this call before the same tasks.")
	    .def_prop_ro("has_notices", &scheduler::has_notices, "Whether there are some that nobody has taken. Any thread.")
	    .def(
	        "notices", [](const scheduler& self) { return to_named(self.notices()); }, nb::sig("def notices(self) -> list[PlanningNotice]"),
	        "The result of the next take_notices(). Any thread.")
	    .def(
	        "take_notices", [](scheduler& self) { return to_named(self.take_notices()); }, nb::sig("def take_notices(self) -> list[PlanningNotice]"),
	        "The notices since the last call. Any thread.")
	    .def(
	        "plan_totals", [](const scheduler& self) { return to_python(self.totals()); }, nb::sig("def plan_totals(self) -> dict[str, typing.Any]"),
	        "Of a dry run: the instructions planned so far by kind, bytes by link, and memory in the order of the plan.")
	    .def("statistics", &planning_statistics, nb::sig("def statistics(self) -> dict[str, typing.Any]"),
	        "Counts, and the seconds the thread was busy and idle.");
}

} // namespace celerity::native
