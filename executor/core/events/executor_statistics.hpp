// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/core/base/fields.hpp"
#include "scheduler/core/base/ids.hpp"
#include "scheduler/core/base/names.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"

namespace celerity {

/// Of a GPU that queues have divided.
struct multiprocessor_parts {
	std::uint32_t share = 0; ///< multiprocessors for the kernels of queues with a share
	std::uint32_t rest = 0;  ///< for those of all other queues
	CELERITY_FIELDS(share, rest)
};

struct executor_statistics {
	struct memory_usage {
		std::uint64_t allocations = 0; ///< so far
		std::uint64_t current_bytes = 0;
		std::uint64_t peak_bytes = 0;
		CELERITY_FIELDS(allocations, current_bytes, peak_bytes)
	};
	struct sent {
		std::uint64_t host = 0;   ///< through host memory of both sides
		std::uint64_t direct = 0; ///< between devices
		CELERITY_FIELDS(host, direct)
	};

	counts_of<instruction_kind> instructions{}; ///< complete
	std::array<std::uint64_t, max_queue_priority + 1> instructions_by_priority{}; ///< of their queue; complete
	counts_of<copy_reason> copies{};            ///< those of a resize tell how often allocations grew
	counts_of<copy_reason> copied_bytes{};
	sent sent_bytes;
	std::uint64_t received_bytes = 0;
	std::uint64_t batches = 0;
	std::uint64_t issued_early = 0;                    ///< to a lane before all predecessors were complete
	std::uint64_t lane_waits = 0;                      ///< cross-lane waits that the engine asked for
	std::uint64_t graph_runs = 0;                      ///< complete; their instructions count one by one
	std::uint64_t graph_instructions = 0;              ///< of these
	std::uint64_t changed_kernels = 0;                 ///< of graphs, which got other scalars than at the launch before
	std::map<std::string, std::uint64_t> driver_calls; ///< of this process, by function, where the devices have a driver
	std::vector<multiprocessor_parts> multiprocessors; ///< by device; empty if no queue has a share
	std::vector<memory_usage> memories;                ///< by memory_id
	std::map<std::pair<buffer_id, memory_id>, std::uint64_t> allocations_by_buffer; ///< of the newest buffers; buffer 0: staging, or space for partial results
	double busy_seconds = 0; ///< something was in flight
	double starved_seconds = 0; ///< nothing in flight while the scheduler was at work
	double idle_seconds = 0;
	CELERITY_FIELDS(instructions, instructions_by_priority, copies, copied_bytes, sent_bytes, received_bytes, batches, issued_early, lane_waits, graph_runs,
	    graph_instructions, changed_kernels, driver_calls, multiprocessors, memories, allocations_by_buffer, busy_seconds, starved_seconds, idle_seconds)

	/// A program may make buffers for ever: the oldest of `most_counted` entries makes room.
	void count_allocation(const buffer_id buffer, const memory_id memory) {
		++allocations_by_buffer[{buffer, memory}];
		if(allocations_by_buffer.size() > most_counted) allocations_by_buffer.erase(allocations_by_buffer.upper_bound({buffer_id{}, memory_id(0xff)}));
	}
	static constexpr std::size_t most_counted = 4096;
};

} // namespace celerity
