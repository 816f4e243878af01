// SPDX-License-Identifier: MIT
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "generation_benchmark.hpp"
#include "testing_bindings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {
namespace {

nb::dict measure(const std::string& topology, const std::size_t num_ranks, const std::size_t num_devices, const bool with_instructions,
    const std::size_t num_rounds, const double wave_time) {
	generation_result values;
	{
		const nb::gil_scoped_release release;
		values = measure_generation({topology, num_ranks, num_devices, with_instructions, wave_time}, num_rounds);
	}
	nb::dict instructions;
	for(std::size_t i = 0; i < num_instruction_kinds; ++i) {
		if(values.instructions_by_kind[i] > 0) instructions[names_of<instruction_kind>[i]] = values.instructions_by_kind[i];
	}
	nb::dict result;
	result["seconds"] = values.seconds;
	result["tasks"] = values.num_tasks;
	result["commands"] = values.num_commands;
	result["instructions"] = instructions;
	return result;
}

} // namespace

void bind_generation_benchmark(nb::module_& m) {
	m.def("measure_generation", &measure, "topology"_a, nb::kw_only(), "num_ranks"_a = 1, "num_devices"_a = 1, "with_instructions"_a = true, "num_rounds"_a = 6,
	    "wave_time"_a = 50.0,
	    nb::sig("def measure_generation(topology: str, *, num_ranks: int = 1, num_devices: int = 1, with_instructions: bool = True, num_rounds: int = 6, "
	            "wave_time: float = 50.0) -> dict[str, typing.Any]"),
	    "Time graph generation of one of soup, chain, expanding_tree, contracting_tree, wave_sim, jacobi for rank 0, without execution.\n\n"
	    "Returns seconds per round (construction to destruction), and the number of tasks, commands and instructions by kind.");
}

} // namespace celerity::native
