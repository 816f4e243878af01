// SPDX-License-Identifier: MIT
// The memory of the buffers of one rank: allocations, the places of the newest values, and staging.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.hpp"
#include "base/small_vector.hpp"
#include "geometry/box_lists.hpp"
#include "geometry/region_map.hpp"
#include "graphs/command_graph.hpp"
#include "graphs/dependency_window.hpp"
#include "graphs/recent_buffers.hpp"
#include "growth_forecast.hpp"
#include "vocabulary/instruction.hpp"
#include "vocabulary/task.hpp"

namespace celerity {

using instruction_front = access_front<instruction_id>;

/// A dense row-major array over `allocated`, in buffer coordinates. The arrays of the user count as user memory, also those that lie on a device.
struct allocation_state {
	allocation_id id;
	box allocated;
	std::size_t size_bytes;
	region_map<instruction_front> accesses;
};
struct memory_state {
	std::vector<allocation_state> allocations; ///< disjoint boxes
	box_index places;                          ///< of the allocations; made by the first search among many
	box_vector anticipated;                    ///< wanted by commands not compiled yet
	growth_forecast forecast;
	bool has_grown = false;                    ///< `anticipated` has grown since the last horizon
	std::uint64_t last_growth = 0;             ///< of `anticipated`: the number of horizons that were held back before
	std::size_t foreseen_bytes = 0;            ///< allocated or wanted for growth that is only expected
	std::size_t num_allocations_made = 0;
};
/// The memories of this rank that hold the newest value of an element, and its producer.
struct content_state {
	std::uint64_t up_to_date = 0; ///< bit per memory; none: never written, or held by another rank
	instruction_id origin;        ///< the instruction that produced the value (never a copy)
	memory_id origin_memory;      ///< the memory in which it was produced; up to date as long as any memory is
	memory_id user_place = user_memory; ///< the memory in which the array of the user lies, if user memory holds the value
	friend bool operator==(const content_state&, const content_state&) = default;
};
struct buffer_state {
	buffer_info info;
	box domain;
	region whole; ///< the domain
	region_map<content_state> contents;
	std::vector<memory_state> memories; ///< by memory id
	std::vector<await_push_command> receives; ///< that no task has read yet
	bool has_warned = false; ///< of many allocations, in any memory
	bool is_dropped = false; ///< by the program
	std::uint64_t condemned_bytes = 0; ///< once it is dropped: of the allocations that will be freed, as far as is known
	recent_buffers::round last_use = 0;
};
/// A part of the buffer in one memory.
struct read_requirement {
	memory_id memory;
	region where;
};
/// The memory and the data that one command wants of one buffer.
struct buffer_requirements {
	std::vector<std::pair<memory_id, box>> contiguous; ///< not empty; each must lie in a single allocation
	std::vector<read_requirement> reads;
	region discarded; ///< overwritten without being read
};
/// Memory of no buffer: copies pass through it, or partial results meet there.
struct staging_allocation {
	allocation_id id;
	std::size_t size_bytes;
	std::size_t alignment_bytes;
	instruction_id ready;                 ///< the next user waits for this instruction
	small_vector<instruction_id, 6> uses; ///< the users since `ready`, in order
};

/// Where the allocations of a memory lie; for a memory with many of them.
const box_index& places_of(memory_state& memory);
/// The allocation that covers the box; null: there is none.
allocation_state* find_allocation(buffer_state& buffer, memory_id memory, const box& covered);

/// Calls f(allocation, part of `where` in it) for each allocation that overlaps `where`. f must not allocate.
template <typename F>
void for_each_part(memory_state& memory, const region& where, F&& f) {
	if(memory.allocations.size() < box_index::min_size) {
		const box bounds = where.bounding_box();
		for(auto& allocation : memory.allocations) {
			if(allocation.allocated.covers(bounds)) {
				if(!bounds.empty()) f(allocation, where);
				return; // allocations are disjoint
			}
			const region part = region_intersection(where, allocation.allocated);
			if(!part.empty()) f(allocation, part);
		}
		return;
	}
	std::vector<std::pair<std::size_t, box>> found;
	for(const box& b : where) {
		places_of(memory).for_each_overlapping(b,
		    [&](const std::size_t position, const box& allocated) { found.emplace_back(position, intersection(b, allocated)); });
	}
	std::sort(found.begin(), found.end());
	for(std::size_t i = 0; i < found.size();) {
		const std::size_t position = found[i].first;
		box_vector boxes;
		for(; i < found.size() && found[i].first == position; ++i) boxes.push_back(found[i].second);
		const region part(std::move(boxes));
		f(memory.allocations[position], part);
	}
}
} // namespace celerity
