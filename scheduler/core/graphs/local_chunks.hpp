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
	bool is_border = false; ///< other devices wait for what it computes
};

/// Divides a rank's chunk of a task among its devices, then each device's share into oversubscribed parts, so that what one device works on
/// stays contiguous, or into borders and what they enclose, borders first. Host tasks stay whole, and so do the shares of tasks with reductions:
/// each device has one place for its partial result.
void split_among_devices(const task& node, const box& rank_chunk, std::size_t num_devices, std::vector<local_chunk>& out);

} // namespace celerity
