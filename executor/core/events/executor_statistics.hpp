// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "scheduler/core/base/ids.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"

namespace celerity {

inline constexpr std::size_t num_copy_reasons = names_of<copy_reason>.size();

struct executor_statistics {
	struct memory_usage {
		std::uint64_t num_allocations = 0; ///< so far
		std::uint64_t current_bytes = 0;
		std::uint64_t peak_bytes = 0;
	};

	std::array<std::uint64_t, num_instruction_kinds> instructions{}; ///< complete, by kind
	std::array<std::uint64_t, num_copy_reasons> num_copies{}; ///< by reason; those of a resize tell how often allocations grew
	std::array<std::uint64_t, num_copy_reasons> copied_bytes{};
	std::uint64_t sent_bytes_host = 0;   ///< through host memory of both sides
	std::uint64_t sent_bytes_direct = 0; ///< between devices
	std::uint64_t received_bytes = 0;
	std::uint64_t num_batches = 0;
	std::uint64_t issued_early = 0; ///< to a lane before all predecessors were complete
	std::uint64_t lane_waits = 0;   ///< cross-lane waits that the engine asked for
	std::vector<std::pair<const char*, std::uint64_t>> driver_calls; ///< of this process, by function, where the devices have a driver
	std::vector<memory_usage> memories; ///< by memory_id
	std::map<std::pair<buffer_id, memory_id>, std::uint64_t> allocations_by_buffer; ///< of the newest buffers; buffer 0: staging, or space for partial results

	/// A program may make buffers for ever: the oldest of `most_counted` entries makes room.
	void count_allocation(const buffer_id buffer, const memory_id memory) {
		++allocations_by_buffer[{buffer, memory}];
		if(allocations_by_buffer.size() > most_counted) allocations_by_buffer.erase(allocations_by_buffer.upper_bound({buffer_id{}, memory_id(0xff)}));
	}
	static constexpr std::size_t most_counted = 4096;

	double busy_seconds = 0; ///< something was in flight
	double starved_seconds = 0; ///< nothing in flight while the scheduler was at work
	double idle_seconds = 0;
};

} // namespace celerity
