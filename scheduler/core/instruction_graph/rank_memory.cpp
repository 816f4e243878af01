// SPDX-License-Identifier: MIT
#include "rank_memory.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <optional>
#include <utility>

#include "instruction_priorities.hpp"

namespace celerity {

namespace {

constexpr std::size_t many_allocations = 10;

} // namespace

void rank_memory::create_buffer(const buffer_info& info) {
	const box domain = box::full(info.extents);
	content_state initial{0, m_history.window.epoch(), user_memory};
	if(info.initial == buffer_info::initial_contents::user_function) initial.up_to_date = bit_of(user_memory);
	buffer_state buffer{info, domain, domain, region_map<content_state>(domain, initial), std::vector<memory_state>(m_num_memories), {}, {}};
	for(const auto& [where, allocation] : info.arrays) {
		const std::size_t size_bytes = static_cast<std::size_t>(where.area()) * info.element_size_bytes;
		buffer.memories[user_memory.value].allocations.push_back(allocation_state{
		    allocation, where, size_bytes, region_map<instruction_front>(where, instruction_front{m_history.window.epoch(), {}})});
		buffer.contents.update(where, content_state{bit_of(user_memory), m_history.window.epoch(), user_memory, allocation.memory});
	}
	m_buffers.emplace(info.id, std::move(buffer));
}

void rank_memory::condemn(const buffer_id id) {
	auto& buffer = m_buffers.at(id);
	buffer.is_dropped = true;
	for(const auto& memory : buffer.memories) {
		for(const auto& allocation : memory.allocations) buffer.condemned_bytes += allocation.size_bytes;
		for(const box& wanted : memory.anticipated) buffer.condemned_bytes += static_cast<std::size_t>(wanted.area()) * buffer.info.element_size_bytes;
	}
	m_num_condemned_bytes += buffer.condemned_bytes;
}

void rank_memory::destroy_buffer(const command_phase& now, const buffer_id id) {
	const auto it = m_buffers.find(id);
	assert(it != m_buffers.end());
	m_num_condemned_bytes -= it->second.condemned_bytes; // the instructions tell what it really is
	for(const auto& memory : it->second.memories) {
		for(const auto& allocation : memory.allocations) free_allocation(now, allocation);
	}
	m_buffers.erase(it);
}

buffer_state& rank_memory::use(const buffer_id id) {
	auto& buffer = m_buffers.at(id);
	m_recent.use(id, buffer.last_use);
	return buffer;
}

void rank_memory::apply_epoch(const instruction_id epoch) {
	m_recent.apply_epoch(m_buffers, [&](buffer_state& buffer) {
		buffer.contents.transform([&](content_state& state) {
			if(state.origin < epoch) state.origin = epoch;
		});
		for(auto& memory : buffer.memories) {
			for(auto& allocation : memory.allocations) allocation.accesses.transform([&](instruction_front& f) { f.apply_epoch(epoch, m_history.settled); });
		}
	});
}

void rank_memory::require_contiguous(const command_phase& now, buffer_state& buffer, const buffer_requirements& requirements) {
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

void rank_memory::require_in(const command_phase& now, buffer_state& buffer, const memory_id memory, const region& where) {
	buffer_requirements required;
	for(const box& contiguous : contiguous_boxes(where)) required.contiguous.emplace_back(memory, contiguous);
	require_contiguous(now, buffer, required);
}

void rank_memory::allocate_contiguous(const command_phase& now, buffer_state& buffer, const memory_id memory, box_vector&& wanted) {
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
		state.allocations.push_back(allocation_state{id, allocated, size_bytes, region_map<instruction_front>(allocated, instruction_front{alloc, {}})});
		replaced_at.for_each_overlapping(allocated,
		    [&](const std::size_t position, const box&) { resize_into(now, buffer, memory, state.allocations.back(), replaced[position]); });
	}
	for(const auto& allocation : replaced) free_allocation(now, allocation);

	++state.num_allocations_made; // of however many boxes at once
	if(state.num_allocations_made >= many_allocations) warn_of_many_allocations(buffer, memory, state.num_allocations_made, now.submission);
}

std::vector<allocation_state> rank_memory::take_replaced(memory_state& memory, box_vector& target) {
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

void rank_memory::warn_of_many_allocations(buffer_state& buffer, const memory_id memory, const std::size_t count, const submission_id submission) {
	if(buffer.has_warned || !m_notify) return;
	buffer.has_warned = true;
	m_notify({.kind = planning_notice::kind_type::many_allocations,
	    .submission = submission,
	    .buffer = buffer.info.id,
	    .buffer_name = buffer.info.name,
	    .device = is_device_memory(memory) ? std::optional(device_of(memory)) : std::nullopt,
	    .number = count});
}

void rank_memory::resize_into(const command_phase& now, buffer_state& buffer, const memory_id memory, allocation_state& target, allocation_state& old) {
	box_vector live;
	buffer.contents.query(intersection(old.allocated, target.allocated), [&](const box& part, const content_state& content) {
		if((content.up_to_date & bit_of(memory)) != 0) live.push_back(part);
	});
	if(!live.empty()) copy_between(m_history, now, buffer, region(std::move(live)), old, target, copy_reason::resize);
}

instruction_id rank_memory::emit_alloc(const command_phase& now, const allocation_id id, const std::size_t size_bytes, const std::size_t alignment_bytes,
    const buffer_id buffer, const box& allocated) {
	const std::size_t aligned_bytes = std::max<std::size_t>(alignment_bytes, 64);
	return instruction_builder(m_history, now).emit(alloc_instruction{id, size_bytes, aligned_bytes, buffer, allocated, now.submission}, priorities::alloc);
}

staging_allocation rank_memory::make_staging(const command_phase& now, const memory_id memory, const std::size_t size_bytes,
    const std::size_t alignment_bytes) {
	const allocation_id id = next_allocation(memory);
	return {id, size_bytes, alignment_bytes, emit_alloc(now, id, size_bytes, alignment_bytes, buffer_id{}, box()), {}};
}

staging_allocation& rank_memory::acquire_staging(const command_phase& now, const memory_id memory, const std::size_t size_bytes,
    const std::size_t alignment_bytes) {
	// Powers of two, so that growing transfers reuse the memory of shorter ones.
	const std::size_t rounded_bytes = std::bit_ceil(std::max<std::size_t>(size_bytes, 256));
	auto& pool = m_staging[memory.value];
	for(auto& staging : pool) {
		if(staging.size_bytes != rounded_bytes || staging.alignment_bytes != alignment_bytes) continue;
		// Old enough that waiting for it costs no concurrency: everything it was used for precedes the applied epoch.
		const bool is_free = std::all_of(staging.uses.begin(), staging.uses.end(), [&](const instruction_id use) { return use < m_history.window.epoch(); });
		if(!is_free) continue;
		staging.ready = m_history.window.epoch();
		staging.uses.clear();
		return staging;
	}
	pool.push_back(make_staging(now, memory, rounded_bytes, alignment_bytes));
	return pool.back();
}

void rank_memory::free_allocation(const command_phase& now, const allocation_state& allocation) {
	instruction_builder free(m_history, now);
	free.follow_users(allocation);
	emit_free(free, allocation.id, allocation.size_bytes);
}

instruction_id rank_memory::emit_free(instruction_builder& free, const allocation_id id, const std::size_t size_bytes) {
	m_num_condemned_bytes += size_bytes;
	return free.emit(free_instruction{id, size_bytes}, priorities::free);
}

void rank_memory::free_staging(const command_phase& now) {
	for(auto& pool : m_staging) {
		for(const auto& staging : pool) {
			instruction_builder free(m_history, now);
			free.follow(staging.ready, dependency_kind::output);
			for(const instruction_id use : staging.uses) free.follow(use, dependency_kind::anti);
			emit_free(free, staging.id, staging.size_bytes);
		}
		pool.clear();
	}
}

void rank_memory::materialize_initial_contents(const command_phase& now, buffer_state& buffer, const region& where) {
	if(buffer.info.initial != buffer_info::initial_contents::user_function) return;
	box_vector missing;
	buffer.contents.query(where, [&](const box& part, const content_state& state) {
		if(state.up_to_date == bit_of(user_memory)) missing.push_back(part);
	});
	if(missing.empty()) return;
	const region wanted(std::move(missing));
	require_on_host(now, buffer, wanted);
	for_each_part(buffer.memories[host_memory.value], wanted, [&](allocation_state& allocation, const region& part) {
		instruction_builder initialize(m_history, now);
		initialize.produce(buffer, allocation, part);
		initialize.emit(initialize_instruction{buffer.info.id, allocation.id, m_history.nodes().copy(part.boxes()), buffer.info.element_size_bytes},
		    priorities::kernel);
	});
}

planned_places rank_memory::newest_places(const buffer_id id) const {
	const buffer_state* const buffer = find(id);
	if(buffer == nullptr) return {};
	planned_places found{buffer->domain, {}};
	buffer->contents.for_each([&](const box& part, const content_state& state) {
		if(state.up_to_date == 0) return;
		region rest(part);
		for(const auto& allocation : buffer->memories[state.origin_memory.value].allocations) {
			const box common = intersection(part, allocation.allocated);
			if(common.empty()) continue;
			found.places.push_back({common, allocation.id});
			rest = region_difference(rest, common);
		}
		for(const box& uncalled : rest) found.places.push_back({uncalled, {}});
	});
	return found;
}

void rank_memory::validate() const {
	for(const auto& [id, buffer] : m_buffers) validate_buffer(buffer);
	const instruction_id newest = m_history.window.current();
	for(std::size_t m = 0; m < m_staging.size(); ++m) {
		for(const auto& staging : m_staging[m]) {
			ensure(staging.id.raw <= m_last_raw_allocation[m], "the number of staging memory has been given away");
			ensure(staging.ready <= newest, "the instruction for which staging memory waits has been made");
			for(const instruction_id use : staging.uses) ensure(staging.ready <= use && use <= newest, "staging memory is used once it is ready");
		}
	}
}

void rank_memory::validate_buffer(const buffer_state& buffer) const {
	for(std::uint8_t m = 0; m < buffer.memories.size(); ++m) validate_allocations(buffer, memory_id(m));
	buffer.contents.validate();
	buffer.contents.for_each([&](const box& part, const content_state& state) {
		if(state.up_to_date == 0) return;
		ensure((state.up_to_date & bit_of(state.origin_memory)) != 0, "the memory in which a value was produced holds it as long as any memory does");
		ensure(state.origin <= m_history.window.current(), "the producer of a value has been made");
		for(std::size_t m = host_memory.value; m < buffer.memories.size(); ++m) {
			if((state.up_to_date >> m & 1U) == 0) continue;
			coordinate allocated = 0;
			for(const auto& allocation : buffer.memories[m].allocations) allocated += intersection(allocation.allocated, part).area();
			ensure(allocated == part.area(), "a memory that holds a value has an allocation for it");
		}
	});
	for(const auto& receive : buffer.receives) {
		buffer.contents.query(receive.awaited, [](const box&, const content_state& state) { ensure(state.up_to_date == 0, "awaited data is nowhere yet"); });
	}
}

void rank_memory::validate_allocations(const buffer_state& buffer, const memory_id memory) const {
	const auto& state = buffer.memories[memory.value];
	ensure(state.places.size() == 0 || state.places.size() == state.allocations.size(), "the index of allocations has all of them");
	box_vector boxes;
	coordinate area = 0;
	for(const auto& allocation : state.allocations) {
		ensure(buffer.domain.covers(allocation.allocated) && !allocation.allocated.empty(), "an allocation has elements of its buffer");
		ensure(allocation.id.is_of_user() || allocation.id.raw <= m_last_raw_allocation[memory.value], "the number of an allocation has been given away");
		boxes.push_back(allocation.allocated);
		area += allocation.allocated.area();
		allocation.accesses.validate();
		allocation.accesses.for_each([&](const box&, const instruction_front& f) { f.validate(m_history.window.current()); });
	}
	ensure(region(std::move(boxes)).area() == area, "the allocations of a buffer in one memory are disjoint");
}

std::vector<std::size_t> rank_memory::foreseen_bytes() const {
	std::vector<std::size_t> sums(m_num_memories);
	for(const auto& [id, buffer] : m_buffers) {
		for(std::size_t m = 0; m < m_num_memories; ++m) sums[m] += buffer.memories[m].foreseen_bytes;
	}
	return sums;
}

} // namespace celerity
