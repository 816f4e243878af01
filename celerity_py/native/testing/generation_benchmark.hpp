// SPDX-License-Identifier: MIT
// The six program shapes by which graph generation is measured, built through the internal interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "scheduler/core/vocabulary/instruction.hpp"

namespace celerity::native {

struct generation_setup {
	std::string topology; ///< soup, chain, expanding_tree, contracting_tree, wave_sim, jacobi
	std::size_t num_ranks = 1;
	std::size_t num_devices = 1;
	bool with_instructions = true; ///< else task and command graphs only
	double wave_time = 50;         ///< length of wave_sim: 4 steps per unit
};

struct generation_result {
	std::vector<double> seconds; ///< one entry per round: construction, generation and destruction of all graphs
	std::size_t num_tasks = 0;
	std::size_t num_commands = 0;
	std::vector<std::uint64_t> instructions_by_kind; ///< index of instruction_operation
};

/// Nothing is recorded and nothing pruned, as in C++ Celerity's own benchmarks. Throws std::invalid_argument for an unknown topology.
generation_result measure_generation(const generation_setup& setup, std::size_t num_rounds);

} // namespace celerity::native
