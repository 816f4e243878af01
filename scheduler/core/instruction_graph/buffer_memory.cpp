// SPDX-License-Identifier: MIT
#include "buffer_memory.hpp"

namespace celerity {

const box_index& places_of(memory_state& memory) {
	if(memory.places.size() == 0) {
		std::vector<box> boxes;
		boxes.reserve(memory.allocations.size());
		for(const auto& allocation : memory.allocations) boxes.push_back(allocation.allocated);
		memory.places = box_index(boxes);
	}
	return memory.places;
}

allocation_state* find_allocation(buffer_state& buffer, const memory_id memory, const box& covered) {
	auto& state = buffer.memories[memory.value];
	if(state.allocations.size() >= box_index::min_size) {
		allocation_state* found = nullptr;
		places_of(state).for_each_overlapping(covered, [&](const std::size_t position, const box& allocated) {
			if(allocated.covers(covered)) found = &state.allocations[position];
		});
		return found;
	}
	for(auto& allocation : state.allocations) {
		if(allocation.allocated.covers(covered)) return &allocation;
	}
	return nullptr;
}
} // namespace celerity
