// SPDX-License-Identifier: MIT
// The graphs that a run keeps, for Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <variant>

#include "bindings.hpp"
#include "graph_records.hpp"
#include "instruction_conversion.hpp"
#include "scheduler/core/pipeline/graph_log.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {
namespace {

nb::dict to_dict_of_task(const graph_log::kept_task& kept) {
	const auto& node = *kept.record.node;
	nb::dict result = to_dict(kept.record);
	result["action"] = name_of(node.action);
	result["dims"] = node.geometry.dims;
	result["index_space"] = to_python(node.geometry.global);
	result["side_effects"] = to_python(node.side_effects);
	result["reductions"] = to_python(node.reductions);
	result["num_horizons"] = kept.num_horizons;
	nb::list commands;
	for(const auto& command : kept.commands) {
		nb::dict record = to_dict(command.record);
		record["rank"] = command.rank.value;
		commands.append(record);
	}
	result["commands"] = commands;
	nb::list instructions;
	for(const auto& made : kept.instructions) {
		nb::dict record = to_dict(&made.node);
		record["kinds"] = to_python(made.kinds);
		instructions.append(record);
	}
	result["instructions"] = instructions;
	return result;
}

nb::dict to_dict_of_buffer(const buffer_info& info) {
	nb::dict result;
	result["id"] = info.id.value;
	result["name"] = to_python(info.name);
	result["dims"] = info.dims;
	result["element_size_bytes"] = info.element_size_bytes;
	result["initial"] = name_of(info.initial);
	return result;
}

nb::list task_numbers(const graph_log& self) {
	nb::list numbers;
	self.visit([&](const graph_log::kept_task& task) { numbers.append(nb::make_tuple(task.record.node->id.value, task.num_horizons)); });
	return numbers;
}

nb::tuple snapshot(const graph_log& self, const std::uint64_t first, const std::uint64_t end) {
	nb::list tasks;
	nb::list allocs;
	nb::list buffers;
	const auto add_task = [&](const graph_log::kept_task& task) {
		const auto id = task.record.node->id.value;
		if(id >= first && id < end) {
			tasks.append(to_dict_of_task(task));
			return;
		}
		for(const auto& made : task.instructions) {
			if(std::holds_alternative<alloc_instruction>(made.node.operation)) allocs.append(to_dict(&made.node));
		}
	};
	self.visit(add_task, [&](const graph_log::kept_buffer& buffer) { buffers.append(to_dict_of_buffer(buffer.info)); });
	return nb::make_tuple(tasks, allocs, buffers);
}

} // namespace

void bind_graph_log(nb::module_& m) {
	nb::class_<graph_log>(m, "GraphLog", "The newest tasks of a scheduler, with their commands on all ranks and their instructions on this one.")
	    .def(nb::new_([](const std::size_t num_ranks, const std::uint32_t rank, const std::uint64_t first, const std::optional<std::uint64_t> end) {
		    const task_id last(end.value_or(std::numeric_limits<std::uint64_t>::max()));
		    return std::make_shared<graph_log>(num_ranks, rank_id(rank), graph_log::range{task_id(first), last});
	    }),
	        "num_ranks"_a, "rank"_a, "first"_a = 0, "end"_a = nb::none(), "Keeps tasks with ids from `first` to before `end`.")
	    .def_ro_static("max_tasks", &graph_log::max_tasks)
	    .def_prop_ro("num_ranks", &graph_log::num_ranks)
	    .def_prop_ro("rank", [](const graph_log& self) { return self.local_rank().value; })
	    .def_prop_ro("knows_all_ranks", &graph_log::knows_all_ranks, "Whether the commands are those of all ranks.")
	    .def("task_numbers", &task_numbers, nb::sig("def task_numbers(self) -> list[tuple[int, int]]"),
	        "Of each kept task, its number and that of horizons up to it. Any thread.")
	    .def("snapshot", &snapshot, "first"_a, "end"_a,
	        nb::sig("def snapshot(self, first: int, end: int) -> tuple[list[dict[str, typing.Any]], list[dict[str, typing.Any]], list[dict[str, "
	                "typing.Any]]]"),
	        "The kept tasks from `first` to before `end`, the allocations of the others, and all buffers, as records. Any thread.");
}

} // namespace celerity::native
