// SPDX-License-Identifier: MIT
// Calls of one core by the other in a run. Tests and benchmarks make them by hand.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <string>
#include <utility>

#include "executor/core/loop/executor_loop.hpp"
#include "instruction_conversion.hpp"
#include "instruction_records.hpp"
#include "scheduler/core/pipeline/scheduler.hpp"
#include "submit/task_building.hpp"
#include "testing_bindings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {

namespace {

/// `accesses`: (buffer, mode, RangeMapper) each.
task with_accesses(task node, const nb::iterable& accesses, std::string name) {
	for(const nb::handle item : accesses) {
		const auto entry = nb::cast<nb::tuple>(item);
		node.accesses.push_back(
		    {buffer_id(nb::cast<std::uint64_t>(entry[0])), static_cast<access_mode>(nb::cast<int>(entry[1])), nb::cast<const range_mapper&>(entry[2])});
	}
	node.name = std::move(name);
	return node;
}

} // namespace

void bind_inner_calls(nb::module_& m) {
	m.def("with_accesses", &with_accesses, "task"_a, "accesses"_a, "name"_a = "",
	    nb::sig("def with_accesses(task: celerity_py._native.Task, accesses: collections.abc.Iterable[tuple[int, int, celerity_py._native.RangeMapper]], "
	            "name: str = ...) -> celerity_py._native.Task"),
	    "The task with a name and (buffer, mode, mapper) each, which a Submitter takes from the arguments of the call.");
	m.def("make_object_fence", &make_object_fence, "object"_a, "on_all"_a = true, "A task that waits for the users of a host object.");
	m.def("make_fence", &make_fence, "buffer"_a, "box"_a, "user_allocation"_a, "on_all"_a = true, "to_device"_a = false,
	    "A task that copies a part of a buffer to an array of the user.");
	m.def("make_epoch", &make_epoch, "action"_a = "none", "action: 'none', 'barrier' or 'shutdown'.");
	m.def(
	    "check_dimensions",
	    [](const range_mapper& mapper, const int kernel_dims, const int buffer_dims) {
		    const mapper_misfit found = mapper.check_dimensions(kernel_dims, buffer_dims);
		    return std::make_pair(name_of(found.kind), found.number);
	    },
	    "mapper"_a, "kernel_dims"_a, "buffer_dims"_a, "How they do not fit, and the number that this is about.");
	m.def(
	    "map_chunk",
	    [](const range_mapper& mapper, const user_box& chunk, const user_box& whole, const nb::handle buffer_shape) {
		    const user_box buffer = box_of_shape(buffer_shape);
		    return user_region{mapper.map(chunk.b, whole.b, chunk.dims, buffer.b, buffer.dims), buffer.dims};
	    },
	    "mapper"_a, "chunk"_a, "whole"_a, "buffer_shape"_a,
	    nb::sig("def map_chunk(mapper: celerity_py._native.RangeMapper, chunk: celerity_py._native.Box, whole: celerity_py._native.Box, "
	            "buffer_shape: tuple[int, ...]) -> celerity_py._native.Region"),
	    "The part of a buffer for a chunk of the index space `whole`. RuntimeError if this is a table that has no entry for `chunk`.");
	m.def(
	    "submit_task", [](scheduler& scheduler, const task& node) { return scheduler.submit(task(node)).value; }, "scheduler"_a, "task"_a,
	    "Returns the submission id. Raises AccessPatternError with nothing enqueued.");
	nb::class_<instruction_records>(m, "InstructionRecords", "Instructions made from dicts as a graph context records them, to replay them.")
	    .def(nb::init<const nb::iterable&>(), "instructions"_a,
	        nb::sig("def __init__(self, instructions: collections.abc.Iterable[dict[str, typing.Any]]) -> None"))
	    .def_prop_ro(
	        "instructions",
	        [](const instruction_records& self) {
		        nb::list records;
		        for(const auto* const node : self.batch().instructions) records.append(to_python(*node));
		        return records;
	        },
	        nb::for_getter(nb::sig("def instructions(self) -> list[dict[str, typing.Any]]")), "As dicts again.");

	m.def(
	    "submit", [](executor_loop& executor, const instruction_records& records) { executor.submit(records.batch()); }, "executor"_a, "records"_a,
	    nb::keep_alive<1, 2>(), "Submits recorded instructions to an executor, as the scheduler submits its own.");
	m.def(
	    "statistics_of_one_launch",
	    [] {
		    executor_statistics made;
		    made.instructions[kind_of(device_kernel_instruction{})] = 1;
		    made.driver_calls["cuLaunchKernel"] = 1;
		    made.memories.push_back({1, 8, 16});
		    made.allocations_by_buffer[{buffer_id(3), host_memory}] = 1;
		    return to_python(made);
	    },
	    nb::sig("def statistics_of_one_launch() -> dict[str, typing.Any]"), "Statistics with all kinds of entries, as Executor.statistics() has them on GPUs.");
	m.def(
	    "validate", [](executor_loop& executor) { executor.validate(); }, "executor"_a,
	    "Raises RuntimeError if the engine of the executor contradicts itself.");
	m.def(
	    "set_scheduler_busy", [](executor_loop& executor, const bool busy) { executor.set_scheduler_busy(busy); }, "executor"_a, "busy"_a,
	    "For the statistics of an executor: time with nothing in flight while the scheduler works.");
	m.def(
	    "has_kernel", [](executor_loop& executor, const std::uint32_t device) { return executor.calls().has_kernel(device_id(device)); }, "executor"_a,
	    "device"_a, "Whether next_kernel(device) returns at once.");
	m.def("has_host_task", [](executor_loop& executor) { return executor.calls().has_host_task(); }, "executor"_a, "Whether next_host_task() returns at once.");
	m.def(
	    "set_paused", [](scheduler& scheduler, const bool paused) { scheduler.set_paused(paused); }, "scheduler"_a, "paused"_a,
	    "Holds all input of a scheduler back, or lets it go.");
}

} // namespace celerity::native
