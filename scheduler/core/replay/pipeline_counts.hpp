// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "base/fields.hpp"

namespace celerity {

struct pipeline_counts {
	std::uint64_t tasks = 0;
	std::uint64_t horizons = 0;
	std::uint64_t commands = 0;
	std::uint64_t instructions = 0;
	std::uint64_t lookahead_flushes = 0; ///< by a fence, an epoch, the user, or the scheduler
	std::uint64_t expanded_repetitions = 0; ///< of recordings, from a template
	std::uint64_t repeated_tasks = 0; ///< of plain loops, from a template
	std::uint64_t batched_tasks = 0; ///< of these, in batches that devices may carry out as graphs
	std::uint64_t loop_batches = 0; ///< such batches
	CELERITY_FIELDS(tasks, horizons, commands, instructions, lookahead_flushes, expanded_repetitions, repeated_tasks, batched_tasks, loop_batches)
};

/// How far planning has come.
struct planning_progress {
	pipeline_counts counts;
	std::uint64_t released_horizons = 0; ///< handed to the sink
};

} // namespace celerity
