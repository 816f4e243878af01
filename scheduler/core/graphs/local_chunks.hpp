// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

#include "base/ids.hpp"
#include "geometry/grid.hpp"
#include "vocabulary/task.hpp"

namespace celerity {

/// A part of a rank's chunk, and the memory in which it runs.
struct local_chunk {
	box chunk;
	memory_id memory;
	bool is_border = false; ///< other devices wait for its results
};

/// Divides a rank's chunk of a task among its devices, so that the share of each device is contiguous. Each share is then divided into oversubscribed parts, or
/// into borders and the interior that they enclose, borders first. Host tasks stay whole. So do the shares of tasks with reductions, because each device has
/// one place for its partial result.
void split_among_devices(const task& node, const box& rank_chunk, std::size_t num_devices, std::vector<local_chunk>& out);

} // namespace celerity
