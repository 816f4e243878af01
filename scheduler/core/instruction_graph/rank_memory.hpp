// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.hpp"
#include "buffer_memory.hpp"
#include "graphs/recent_buffers.hpp"
#include "instruction_builder.hpp"
#include "vocabulary/instruction.hpp"
#include "vocabulary/planned_places.hpp"
#include "vocabulary/planning_notice.hpp"
#include "vocabulary/task.hpp"

namespace celerity {

/// The buffers of one rank and their memory: makes, enlarges and frees allocations and staging.
class rank_memory {
  public:
	/// `notify` may be empty.
	rank_memory(const system_capabilities& capabilities, instruction_history& history, notice_callback notify)
	    : m_history(history), m_notify(std::move(notify)), m_num_memories(capabilities.num_memories()), m_staging(m_num_memories) {}

	void create_buffer(const buffer_info& info);
	/// The program has dropped the buffer. Commands that use it may still be held back; then `destroy_buffer` follows.
	void condemn(buffer_id id);
	/// Frees the buffer's allocations after their last use.
	void destroy_buffer(const command_phase& now, buffer_id id);
	buffer_state& at(const buffer_id id) { return m_buffers.at(id); }
	const buffer_state& at(const buffer_id id) const { return m_buffers.at(id); }
	/// Null: the buffer has been destroyed.
	const buffer_state* find(const buffer_id id) const {
		const auto it = m_buffers.find(id);
		return it == m_buffers.end() ? nullptr : &it->second;
	}
	buffer_state* find(const buffer_id id) { return const_cast<buffer_state*>(std::as_const(*this).find(id)); }
	/// The buffer, for a command whose instructions will access it.
	buffer_state& use(buffer_id id);
	/// Data written before the last epoch keeps this epoch as its writer. With a horizon as the writer, each reader of a constant would wait for all
	/// instructions before the horizon. Only one epoch is kept, which bounds history as well.
	void apply_epoch(instruction_id epoch);

	void require_contiguous(const command_phase& now, buffer_state& buffer, const buffer_requirements& requirements);
	void require_in(const command_phase& now, buffer_state& buffer, memory_id memory, const region& where);
	void require_on_host(const command_phase& now, buffer_state& buffer, const region& where) { require_in(now, buffer, host_memory, where); }
	void materialize_initial_contents(const command_phase& now, buffer_state& buffer, const region& where);
	staging_allocation& acquire_staging(const command_phase& now, memory_id memory, std::size_t size_bytes, std::size_t alignment_bytes);
	void free_staging(const command_phase& now);

	/// Empty if the buffer has been destroyed.
	planned_places newest_places(buffer_id id) const;
	/// Of all instructions so far that free memory, and of all that will free memory of condemned buffers. The latter is an estimate.
	std::uint64_t num_condemned_bytes() const { return m_num_condemned_bytes; }
	/// Throws std::logic_error if the state contradicts itself. For tests.
	void validate() const;
	/// Of growth that is only expected, by memory id. The length is the number of memories.
	std::vector<std::size_t> foreseen_bytes() const;
	template <typename Walk>
	void walk_state(Walk& walk, std::span<const buffer_id> buffers, std::uint64_t num_held_horizons);

  private:
	instruction_history& m_history;
	notice_callback m_notify;
	std::size_t m_num_memories;
	std::unordered_map<buffer_id, buffer_state> m_buffers;
	recent_buffers m_recent;
	std::array<std::uint64_t, max_memories> m_last_raw_allocation{};
	std::uint64_t m_num_condemned_bytes = 0;
	std::vector<std::deque<staging_allocation>> m_staging; ///< by memory id

	void allocate_contiguous(const command_phase& now, buffer_state& buffer, memory_id memory, box_vector&& wanted);
	/// Removes and returns the allocations that boxes of `target` contain but do not equal. Removes the boxes from `target` that are allocated already.
	static std::vector<allocation_state> take_replaced(memory_state& memory, box_vector& target);
	void warn_of_many_allocations(buffer_state& buffer, memory_id memory, std::size_t count, submission_id submission);
	void resize_into(const command_phase& now, buffer_state& buffer, memory_id memory, allocation_state& target, allocation_state& old);
	allocation_id next_allocation(memory_id memory) { return {memory, ++m_last_raw_allocation[memory.value]}; }
	instruction_id emit_alloc(const command_phase& now, allocation_id id, std::size_t size_bytes, std::size_t alignment_bytes, buffer_id buffer,
	    const box& allocated);
	staging_allocation make_staging(const command_phase& now, memory_id memory, std::size_t size_bytes, std::size_t alignment_bytes);
	void free_allocation(const command_phase& now, const allocation_state& allocation);
	instruction_id emit_free(instruction_builder& free, allocation_id id, std::size_t size_bytes);
	void validate_buffer(const buffer_state& buffer) const;
	void validate_allocations(const buffer_state& buffer, memory_id memory) const;

	template <typename Walk>
	static void walk_buffer(Walk& walk, buffer_state& buffer, std::uint64_t num_held_horizons);
};

template <typename Walk>
void rank_memory::walk_state(Walk& walk, const std::span<const buffer_id> buffers, const std::uint64_t num_held_horizons) {
	m_recent.walk_state(walk);
	for(auto& pool : m_staging) {
		walk.number(pool.size());
		for(auto& staging : pool) {
			walk.number(staging.id.raw);
			walk.number(staging.size_bytes);
			walk.number(staging.alignment_bytes);
			walk.id(staging.ready);
			walk.number(staging.uses.size());
			for(instruction_id& use : staging.uses) walk.id(use);
		}
	}
	for(const buffer_id id : buffers) walk_buffer(walk, m_buffers.at(id), num_held_horizons);
}

template <typename Walk>
void rank_memory::walk_buffer(Walk& walk, buffer_state& buffer, const std::uint64_t num_held_horizons) {
	buffer.contents.walk_state(walk, [&](content_state& state) {
		walk.number(state.up_to_date);
		walk.id(state.origin);
		walk.number(state.origin_memory.value);
		walk.number(state.user_place.value);
	});
	for(auto& memory : buffer.memories) {
		walk.number(memory.allocations.size());
		for(auto& allocation : memory.allocations) {
			walk.number(allocation.id.raw);
			walk.boxes(std::span(&allocation.allocated, 1));
			allocation.accesses.walk_state(walk, [&](instruction_front& f) { f.walk_state(walk); });
		}
		walk.boxes(memory.anticipated);
		walk.number(memory.has_grown);
		memory.forecast.walk_state(walk, num_held_horizons);
	}
	walk.number(buffer.receives.size());
	for(auto& receive : buffer.receives) {
		walk.task(receive.transfer.consumer);
		walk.number(receive.transfer.buffer.value);
		walk.reduction(receive.transfer.reduction);
		walk.boxes(receive.awaited.boxes());
	}
}
} // namespace celerity
