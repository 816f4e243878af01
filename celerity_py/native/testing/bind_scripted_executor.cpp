// SPDX-License-Identifier: MIT
// Whole executors on devices that tests drive step by step.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>

#include "executor/core/dispatch/issue_requests.hpp"
#include "executor/core/loop/executor_loop.hpp"
#include "instruction_conversion.hpp"
#include "instruction_records.hpp"
#include "scripted_backend.hpp"
#include "testing_bindings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {
namespace {

std::uintptr_t number_of(const void* const address) { return reinterpret_cast<std::uintptr_t>(address); }

/// As a call for a launcher thread.
nb::object to_python(const scripted_backend::launched_kernel& kernel) {
	const auto native = nb::module_::import_("celerity_py._native");
	nb::list accesses;
	auto next_place = kernel.access_places.begin();
	for(const auto& access : kernel.accesses) {
		nb::list parts;
		for(const auto& part : access.parts) {
			const auto& at = *next_place++;
			parts.append(native.attr("BoundPart")(nb::cast(flatten(part.allocation)), number_of(at.address), nb::cast(flatten(*at.array)),
			    nb::cast(flatten(part.bounding_box))));
		}
		const auto place = access.parts.empty() ? *next_place++ : array_place{};
		if(access.accessed.empty()) {
			accesses.append(nb::none());
			continue;
		}
		const box array = place.array != nullptr ? *place.array : box();
		accesses.append(native.attr("BoundAccess")(access.buffer.value, nb::cast(flatten(access.allocation)), number_of(place.address),
		    nb::cast(flatten(array)), nb::cast(flatten(access.bounding_box)), celerity::native::to_python(access.accessed), parts));
	}
	nb::list reductions;
	for(const auto& place : kernel.reduction_places) reductions.append(native.attr("BoundReduction")(number_of(place.address)));
	return native.attr("KernelCall")(0, kernel.submission.value, nb::cast(flatten(kernel.chunk)), accesses, reductions);
}

nb::tuple step(scripted_backend& self, const std::int64_t which) {
	const auto result = self.step(which);
	const bool is_launch = result.kind == scripted_backend::step_kind::launch;
	const nb::object launch = is_launch ? to_python(*result.launch) : nb::none();
	return nb::make_tuple(name_of(result.kind), result.position.lane, result.position.sequence, launch);
}

nb::tuple make(const executor_options& options, const std::uint32_t compute_lanes, const std::uint32_t other_lanes, const bool stream_like,
    const bool single_fifo, const bool host_copies_apart) {
	scripted_backend* devices = nullptr;
	auto executor = std::make_unique<executor_loop>(options, [&](event_count&) -> std::unique_ptr<backend> {
		auto made =
		    std::make_unique<scripted_backend>(scripted_options{options.num_devices, compute_lanes, other_lanes, stream_like, single_fifo, host_copies_apart});
		devices = made.get();
		return made;
	});
	executor->set_callbacks({.progress = [devices](const task_id task, bool) { devices->note_reached(task); }, .load = {}, .freed = {}});
	const nb::object owner = nb::cast(executor.release(), nb::rv_policy::take_ownership);
	const nb::object driver = nb::cast(devices, nb::rv_policy::reference);
	nb::setattr(driver, "executor", owner); // which owns it
	return nb::make_tuple(owner, driver);
}

/// The requests of an executor on such devices to its engine.
nb::list make_requests(const instruction_records& records, const std::size_t num_ranks, const std::size_t num_devices, const bool stream_like,
    const std::vector<bool>& direct_peers, const std::vector<std::uint64_t>& launches) {
	scripted_backend devices({num_devices, 1, 1, stream_like, false, false});
	const allocation_table allocations;
	executor_statistics statistics;
	direct_context direct{rank_id(0), devices, devices.direct(), false, allocations, statistics, nullptr};
	for(const bool is_peer : direct_peers) {
		direct.neighbours.emplace_back().is_peer = is_peer;
		direct.has_agreed |= is_peer;
	}
	launch_table table;
	for(const auto submission : launches) table.add(submission_id(submission), {});
	const request_rules rules{devices, table, direct, num_ranks, num_devices};
	nb::list result;
	for(const auto* const item : records.batch().instructions) {
		const auto request = make_request(*item, rules);
		if(!is_on_lane(request.policy)) {
			result.append(nb::make_tuple(name_of(request.policy), nb::none(), nb::none()));
			continue;
		}
		const auto& lanes = devices.lane_classes()[request.lane_class];
		result.append(nb::make_tuple(name_of(request.policy), name_of(lanes.kind), lanes.device.value));
	}
	return result;
}

} // namespace

void bind_scripted_executor(nb::module_& m) {
	nb::class_<scripted_backend>(m, "ScriptedDevices", nb::dynamic_attr(),
	    R"(The devices of an executor that make_scripted_executor() has made. Whatever is on their lanes waits until step().

Everything, the executor's calls included, happens on one thread.)")
	    .def("possible_steps", &scripted_backend::possible_steps,
	        "The arguments that step() takes now: lanes, and negative numbers for flags that may be written ahead of their lanes.")
	    .def("step", &step, "which"_a, nb::sig("def step(self, which: int) -> tuple[str, int, int, celerity_py._native.KernelCall | None]"),
	        R"(Lets a lane make a step. Returns ("copy" | "reduce" | "signal" | "pull" | "kernel" | "launch", lane, sequence, call).

A kernel runs when this returns: its body is the caller's to carry out. For a "launch" the call is one as next_kernel() gives, otherwise it is None.)")
	    .def_prop_ro(
	        "begun", [](const scripted_backend& self) { return nb::make_tuple(self.begun().lane, self.begun().sequence); },
	        nb::for_getter(nb::sig("def begun(self) -> tuple[int, int]")), "(lane, sequence) of the call that next_kernel() has given last.")
	    .def(
	        "take_reached",
	        [](scripted_backend& self) {
		        std::vector<std::uint64_t> tasks;
		        for(const auto task : self.take_reached()) tasks.push_back(task.value);
		        return tasks;
	        },
	        "Horizons and epochs that have completed since the last call.")
	    .def_prop_ro("num_allocations", &scripted_backend::num_allocations, "Allocated and not freed.")
	    .def("find_leftovers", &scripted_backend::find_leftovers, "Operations left on lanes, or memory written after it was freed; empty if there are none.");

	m.def("make_scripted_executor", &make, "settings"_a, nb::kw_only(), "compute_lanes"_a = 1, "other_lanes"_a = 1, "stream_like"_a = false,
	    "single_fifo"_a = false, "host_copies_apart"_a = false,
	    nb::sig("def make_scripted_executor(settings: celerity_py._native.ExecutorSettings, *, compute_lanes: int = 1, other_lanes: int = 1, "
	            "stream_like: bool = False, single_fifo: bool = False, host_copies_apart: bool = False) "
	            "-> tuple[celerity_py._native.Executor, ScriptedDevices]"),
	    "A real executor on devices that a test drives.");
	m.def("make_requests", &make_requests, "records"_a, nb::kw_only(), "num_ranks"_a = 1, "num_devices"_a = 1, "stream_like"_a = false,
	    "direct_peers"_a = std::vector<bool>(), "launches"_a = std::vector<std::uint64_t>(),
	    nb::sig("def make_requests(records: InstructionRecords, *, num_ranks: int = 1, num_devices: int = 1, stream_like: bool = False, "
	            "direct_peers: collections.abc.Sequence[bool] = (), launches: collections.abc.Sequence[int] = ()) "
	            "-> list[tuple[str, str | None, int | None]]"),
	    R"(The requests of executors to their engines: (policy, kind of the lane, its device) for each instruction.

Args:
    records: The instructions.
    direct_peers: By rank; empty if there are none.
    launches: Submissions whose kernels the executor launches itself.)");
	m.def(
	    "register_scripted_launch", [](executor_loop& executor, const std::uint64_t submission) { executor.launches().add(submission_id(submission), {}); },
	    "executor"_a, "submission"_a, "The executor itself launches the kernels of this submission: step() returns them. Before the submission.");
}

} // namespace celerity::native
