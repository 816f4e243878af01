// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "execution_plan.hpp"
#include "graphs/command_graph.hpp"
#include "rank_memory.hpp"
#include "vocabulary/plan_position.hpp"

namespace celerity {

/// The memory that commands will want which are not compiled yet. The wants of a buffer become one allocation.
class anticipation {
  public:
	anticipation(const system_capabilities& capabilities, rank_memory& memory)
	    : m_capabilities(capabilities), m_memory(memory), m_foreseen_bytes(capabilities.num_memories()) {}

	/// A buffer in one memory, as long as nothing more is allocated for it there.
	struct place {
		buffer_id buffer;
		memory_id memory;
		std::size_t num_allocations_made;
	};
	/// Notes the memory that `cmd` will want when it is compiled. Adds to `wanted` the places where some of it is new: neither allocated nor noted before.
	void anticipate(const command& cmd, const execution_plan& plan, std::vector<place>& wanted);
	/// Whether what is wanted here is not allocated yet, and later commands may want more. Waiting for them may then pay, as all wants of a buffer become one
	/// allocation. It does not pay if the whole buffer is wanted as one box, if the program has dropped the buffer, or if nothing new has been wanted here for
	/// two horizons.
	bool may_grow(const place& at) const;
	/// To be called at each horizon that is held back. If the wants of a buffer have grown in one direction for several horizons, and there is memory to spare,
	/// the rest of the buffer in this direction is wanted at once. Execution then need not wait for the end of the growth.
	void foresee_growth();
	/// The buffer is about to be destroyed.
	void forget(const buffer_state& buffer);

	/// As in the task graph.
	void validate() const;
	std::uint64_t num_held_horizons() const { return m_num_held_horizons; }
	template <typename Walk>
	void walk_state(Walk& walk) {
		walk.number(m_growing.size());
		walk.last(m_num_held_horizons, &plan_position::held_horizons);
	}

  private:
	const system_capabilities& m_capabilities;
	rank_memory& m_memory;
	std::uint64_t m_num_held_horizons = 0;
	std::vector<std::pair<buffer_id, memory_id>> m_growing; ///< the memory states with `has_grown`
	std::vector<std::size_t> m_foreseen_bytes;              ///< by memory id

	void anticipate_boxes(buffer_state& buffer, memory_id memory, std::span<const box> boxes, std::vector<place>& wanted);
	void anticipate_box(buffer_state& buffer, const memory_id memory, const box& one, std::vector<place>& wanted) {
		anticipate_boxes(buffer, memory, std::span(&one, 1), wanted);
	}
	void anticipate_execution(const task& node, const execution_plan& plan, std::vector<place>& wanted);
	void foresee_growth(buffer_state& buffer, memory_id memory);
	region find_unread(const task& node, const await_push_command& await) const;
};

} // namespace celerity
