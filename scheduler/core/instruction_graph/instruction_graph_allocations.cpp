// SPDX-License-Identifier: MIT
// Allocations of buffers: where they lie, how they grow, and what is in them at first.
#include "instruction_graph.hpp"

#include <algorithm>
#include <cassert>

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

instruction_graph_generator::allocation_state* instruction_graph_generator::find_allocation(
    buffer_state& buffer, const memory_id memory, const box& covered) {
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

void instruction_graph_generator::require_contiguous(buffer_state& buffer, const buffer_requirements& requirements) {
	small_vector<memory_id, 8> growing;
	for(const auto& [memory, wanted] : requirements.contiguous) {
		if(find_allocation(buffer, memory, wanted) != nullptr) continue;
		if(std::find(growing.begin(), growing.end(), memory) == growing.end()) growing.push_back(memory);
	}
	if(growing.empty()) return;
	// What is about to be overwritten need not survive the move to a larger allocation.
	if(!requirements.discarded.empty()) {
		buffer.contents.modify(requirements.discarded, [](content_state& state) { state.up_to_date = 0; });
	}
	for(const memory_id memory : growing) {
		box_vector wanted;
		for(const auto& [other, contiguous] : requirements.contiguous) {
			if(other == memory) wanted.push_back(contiguous);
		}
		allocate_contiguous(buffer, memory, std::move(wanted));
	}
}

void instruction_graph_generator::require_on_host(buffer_state& buffer, const region& where) {
	buffer_requirements on_host;
	for(const box& contiguous : contiguous_boxes(where)) on_host.contiguous.emplace_back(host_memory, contiguous);
	require_contiguous(buffer, on_host);
}

void instruction_graph_generator::allocate_contiguous(buffer_state& buffer, const memory_id memory, box_vector&& wanted) {
	auto& state = buffer.memories[memory.value];
	wanted.append(state.anticipated.begin(), state.anticipated.end());
	state.anticipated.clear();

	// Overlapping boxes become one; an existing allocation that this swallows is replaced.
	box_vector target = std::move(wanted);
	for(const auto& allocation : state.allocations) target.push_back(allocation.allocated);
	merge_overlapping_bounding_boxes(target);

	std::sort(target.begin(), target.end());

	std::vector<allocation_state> kept;
	std::vector<allocation_state> replaced;
	std::vector<bool> is_kept(target.size());
	for(auto& allocation : state.allocations) {
		const auto same = std::lower_bound(target.begin(), target.end(), allocation.allocated);
		const bool stays = same != target.end() && *same == allocation.allocated;
		if(stays) is_kept[static_cast<std::size_t>(same - target.begin())] = true;
		(stays ? kept : replaced).push_back(std::move(allocation));
	}
	box_vector made;
	for(std::size_t i = 0; i < target.size(); ++i) {
		if(!is_kept[i]) made.push_back(target[i]);
	}
	merge_connected_boxes(made);
	std::sort(made.begin(), made.end());
	state.allocations = std::move(kept);
	state.places = box_index();
	std::vector<box> old_places;
	for(const auto& allocation : replaced) old_places.push_back(allocation.allocated);
	const box_index replaced_at(old_places);

	for(const box& allocated : made) {
		const std::size_t size_bytes = static_cast<std::size_t>(allocated.area()) * buffer.info.element_size_bytes;
		const allocation_id id = next_allocation(memory);
		begin();
		const instruction_id alloc =
		    emit(alloc_instruction{id, size_bytes, std::max<std::size_t>(buffer.info.element_alignment_bytes, 64), buffer.info.id, allocated, m_submission}, priorities::alloc);
		state.allocations.push_back(allocation_state{id, allocated, size_bytes, region_map<front>(allocated, front{alloc, {}})});
		replaced_at.for_each_overlapping(
		    allocated, [&](const std::size_t position, const box&) { resize_into(buffer, memory, state.allocations.back(), replaced[position]); });
	}
	for(const auto& allocation : replaced) free_allocation(allocation);

	state.num_allocations_made += made.size();
	if(state.num_allocations_made < many_allocations || buffer.has_warned || !m_notify) return;
	buffer.has_warned = true;
	planning_notice notice;
	notice.kind = planning_notice::kind_type::many_allocations;
	notice.submission = m_submission;
	notice.buffer = buffer.info.id;
	notice.buffer_name = buffer.info.name;
	notice.memory = memory;
	notice.count = state.num_allocations_made;
	m_notify(std::move(notice));
}

void instruction_graph_generator::resize_into(buffer_state& buffer, const memory_id memory, allocation_state& target, allocation_state& old) {
	box_vector live;
	buffer.contents.query(intersection(old.allocated, target.allocated), [&](const box& part, const content_state& content) {
		if((content.up_to_date & bit_of(memory)) != 0) live.push_back(part);
	});
	if(!live.empty()) emit_copy(buffer, region(std::move(live)), old, target, copy_reason::resize);
}

void instruction_graph_generator::free_allocation(const allocation_state& allocation) {
	begin();
	allocation.accesses.for_each([&](const box&, const front& f) { f.depend_for_write(m_window); });
	emit(free_instruction{allocation.id, allocation.size_bytes}, priorities::free);
}

void instruction_graph_generator::materialize_initial_contents(buffer_state& buffer, const region& where) {
	if(buffer.info.initial != buffer_info::initial_contents::user_function) return;
	box_vector missing;
	buffer.contents.query(where, [&](const box& part, const content_state& state) {
		if(state.up_to_date == bit_of(user_memory)) missing.push_back(part);
	});
	if(missing.empty()) return;
	const region wanted(std::move(missing));
	require_on_host(buffer, wanted);
	for_each_part(buffer.memories[host_memory.value], wanted, [&](allocation_state& allocation, const region& part) {
		begin();
		depend_for_write(allocation, part);
		const instruction_id self = emit(
		    initialize_instruction{buffer.info.id, allocation.id, allocation.allocated, nodes().copy(part.boxes()), buffer.info.element_size_bytes},
		    priorities::kernel);
		record_write(allocation, part);
		buffer.contents.update(part, content_state{bit_of(host_memory), self, host_memory});
	});
}

} // namespace celerity
