// SPDX-License-Identifier: MIT
// Allocations of buffers: their places, their growth and their initial contents.
#include "instruction_graph.hpp"

#include <algorithm>

#include "instruction_priorities.hpp"

namespace celerity {

namespace {

constexpr std::size_t many_allocations = 10;

} // namespace

const box_index& instruction_graph_generator::places_of(memory_state& memory) {
	if(memory.places.size() == 0) {
		std::vector<box> boxes;
		boxes.reserve(memory.allocations.size());
		for(const auto& allocation : memory.allocations) boxes.push_back(allocation.allocated);
		memory.places = box_index(boxes);
	}
	return memory.places;
}

instruction_graph_generator::allocation_state* instruction_graph_generator::find_allocation(buffer_state& buffer, const memory_id memory, const box& covered) {
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

void instruction_graph_generator::require_contiguous(const command_phase& now, buffer_state& buffer, const buffer_requirements& requirements) {
	small_vector<memory_id, 8> growing;
	for(const auto& [memory, wanted] : requirements.contiguous) {
		if(find_allocation(buffer, memory, wanted) != nullptr) continue;
		if(std::find(growing.begin(), growing.end(), memory) == growing.end()) growing.push_back(memory);
	}
	if(growing.empty()) return;
	// Elements that the command overwrites need not survive the move to a larger allocation.
	if(!requirements.discarded.empty()) {
		buffer.contents.modify(requirements.discarded, [](content_state& state) { state.up_to_date = 0; });
	}
	for(const memory_id memory : growing) {
		box_vector wanted;
		for(const auto& [other, contiguous] : requirements.contiguous) {
			if(other == memory) wanted.push_back(contiguous);
		}
		allocate_contiguous(now, buffer, memory, std::move(wanted));
	}
}

void instruction_graph_generator::require_in(const command_phase& now, buffer_state& buffer, const memory_id memory, const region& where) {
	buffer_requirements required;
	for(const box& contiguous : contiguous_boxes(where)) required.contiguous.emplace_back(memory, contiguous);
	require_contiguous(now, buffer, required);
}

void instruction_graph_generator::allocate_contiguous(const command_phase& now, buffer_state& buffer, const memory_id memory, box_vector&& wanted) {
	auto& state = buffer.memories[memory.value];
	wanted.append(state.anticipated);
	state.anticipated.clear();

	// Overlapping boxes become one; an existing allocation that this swallows is replaced.
	box_vector target = std::move(wanted);
	for(const auto& allocation : state.allocations) target.push_back(allocation.allocated);
	merge_overlapping_bounding_boxes(target);

	std::vector<allocation_state> replaced = take_replaced(state, target);
	merge_connected_boxes(target);
	std::sort(target.begin(), target.end());
	std::vector<box> old_places;
	for(const auto& allocation : replaced) old_places.push_back(allocation.allocated);
	const box_index replaced_at(old_places);

	for(const box& allocated : target) {
		const std::size_t size_bytes = static_cast<std::size_t>(allocated.area()) * buffer.info.element_size_bytes;
		const allocation_id id = next_allocation(memory);
		const instruction_id alloc = emit_alloc(now, id, size_bytes, buffer.info.element_alignment_bytes, buffer.info.id, allocated);
		state.allocations.push_back(allocation_state{id, allocated, size_bytes, region_map<front>(allocated, front{alloc, {}})});
		replaced_at.for_each_overlapping(allocated,
		    [&](const std::size_t position, const box&) { resize_into(now, buffer, memory, state.allocations.back(), replaced[position]); });
	}
	for(const auto& allocation : replaced) free_allocation(now, allocation);

	++state.num_allocations_made; // of however many boxes at once
	if(state.num_allocations_made >= many_allocations) warn_of_many_allocations(buffer, memory, state.num_allocations_made, now.submission);
}

std::vector<instruction_graph_generator::allocation_state> instruction_graph_generator::take_replaced(memory_state& memory, box_vector& target) {
	memory.places = box_index();
	std::vector<allocation_state> replaced;
	if(memory.allocations.empty()) return replaced;
	std::sort(target.begin(), target.end());
	std::vector<bool> is_kept(target.size());
	auto end_of_kept = memory.allocations.begin();
	for(auto& allocation : memory.allocations) {
		const auto same = std::lower_bound(target.begin(), target.end(), allocation.allocated);
		if(same == target.end() || *same != allocation.allocated) {
			replaced.push_back(std::move(allocation));
			continue;
		}
		is_kept[static_cast<std::size_t>(same - target.begin())] = true;
		if(&*end_of_kept != &allocation) *end_of_kept = std::move(allocation);
		++end_of_kept;
	}
	memory.allocations.erase(end_of_kept, memory.allocations.end());
	box_vector made;
	for(std::size_t i = 0; i < target.size(); ++i) {
		if(!is_kept[i]) made.push_back(target[i]);
	}
	target = std::move(made);
	return replaced;
}

void instruction_graph_generator::warn_of_many_allocations(buffer_state& buffer, const memory_id memory, const std::size_t count,
    const submission_id submission) {
	if(buffer.has_warned || !m_notify) return;
	buffer.has_warned = true;
	m_notify({.kind = planning_notice::kind_type::many_allocations,
	    .submission = submission,
	    .buffer = buffer.info.id,
	    .buffer_name = buffer.info.name,
	    .device = is_device_memory(memory) ? std::optional(device_of(memory)) : std::nullopt,
	    .number = count});
}

void instruction_graph_generator::resize_into(const command_phase& now, buffer_state& buffer, const memory_id memory, allocation_state& target,
    allocation_state& old) {
	box_vector live;
	buffer.contents.query(intersection(old.allocated, target.allocated), [&](const box& part, const content_state& content) {
		if((content.up_to_date & bit_of(memory)) != 0) live.push_back(part);
	});
	if(!live.empty()) copy_between(now, buffer, region(std::move(live)), old, target, copy_reason::resize);
}

instruction_id instruction_graph_generator::emit_alloc(const command_phase& now, const allocation_id id, const std::size_t size_bytes,
    const std::size_t alignment_bytes, const buffer_id buffer, const box& allocated) {
	const std::size_t aligned_bytes = std::max<std::size_t>(alignment_bytes, 64);
	return instruction_builder(*this, now).emit(alloc_instruction{id, size_bytes, aligned_bytes, buffer, allocated, now.submission}, priorities::alloc);
}

instruction_graph_generator::staging_allocation instruction_graph_generator::make_staging(const command_phase& now, const memory_id memory,
    const std::size_t size_bytes, const std::size_t alignment_bytes) {
	const allocation_id id = next_allocation(memory);
	return {id, size_bytes, alignment_bytes, emit_alloc(now, id, size_bytes, alignment_bytes, buffer_id{}, box()), {}};
}

void instruction_graph_generator::free_allocation(const command_phase& now, const allocation_state& allocation) {
	instruction_builder free(*this, now);
	free.follow_users(allocation);
	free.emit(free_instruction{allocation.id, allocation.size_bytes}, priorities::free);
}

void instruction_graph_generator::free_staging(const command_phase& now) {
	for(auto& pool : m_staging) {
		for(const auto& staging : pool) {
			instruction_builder free(*this, now);
			free.follow(staging.ready, dependency_kind::output);
			for(const instruction_id use : staging.uses) free.follow(use, dependency_kind::anti);
			free.emit(free_instruction{staging.id, staging.size_bytes}, priorities::free);
		}
		pool.clear();
	}
}

void instruction_graph_generator::materialize_initial_contents(const command_phase& now, buffer_state& buffer, const region& where) {
	if(buffer.info.initial != buffer_info::initial_contents::user_function) return;
	box_vector missing;
	buffer.contents.query(where, [&](const box& part, const content_state& state) {
		if(state.up_to_date == bit_of(user_memory)) missing.push_back(part);
	});
	if(missing.empty()) return;
	const region wanted(std::move(missing));
	require_on_host(now, buffer, wanted);
	for_each_part(buffer.memories[host_memory.value], wanted, [&](allocation_state& allocation, const region& part) {
		instruction_builder initialize(*this, now);
		initialize.produce(buffer, allocation, part);
		initialize.emit(initialize_instruction{buffer.info.id, allocation.id, nodes().copy(part.boxes()), buffer.info.element_size_bytes}, priorities::kernel);
	});
}

} // namespace celerity
