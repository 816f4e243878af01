// SPDX-License-Identifier: MIT
// The shares of an execution on the devices of one rank, and the boxes that they need in memory.
#pragma once

#include <cstddef>
#include <vector>

#include "geometry/grid.hpp"
#include "graphs/command_graph.hpp"
#include "graphs/local_chunks.hpp"
#include "rank_memory.hpp"
#include "vocabulary/instruction.hpp"
#include "vocabulary/task.hpp"

namespace celerity {

/// The parts of an execution on this rank, and the region of each part for each access. They stay the same until the execution is compiled.
struct execution_plan {
	std::vector<local_chunk> chunks;
	std::vector<region> regions; ///< of access a by chunk c: regions[a * chunks.size() + c]

	const region& accessed(const std::size_t access, const std::size_t chunk) const { return regions[access * chunks.size() + chunk]; }
	/// The memory in which the partial results of this rank meet.
	memory_id memory_to_reduce_in(const task_reduction& reduction, const system_capabilities& capabilities) const {
		return capabilities.memory_to_reduce_in(reduction, chunks.front().memory);
	}
};

/// Splits and maps an execution.
void plan_execution(const system_capabilities& capabilities, const rank_memory& memory, const task& node, const execution_command& execution,
    execution_plan& plan);

/// Boxes around the elements of an access by one chunk, each of which must lie in a single allocation. The elements of a periodic access at the opposite side
/// have a box of their own, because the box around all would have the whole extent of the buffer.
box_vector boxes_in_memory(const buffer_access& access, const region& where);

} // namespace celerity
