// SPDX-License-Identifier: MIT
// Carries out or hands out the instructions that the engine issues one by one, and ends them, each by its kind.
#pragma once

#include <cstddef>
#include <deque>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "executor_state.hpp"

namespace celerity {

/// An allocation failed for good.
class memory_shortage : public std::runtime_error {
  public:
	explicit memory_shortage(memory_holders found) : std::runtime_error("there is no room for an allocation"), holders(std::move(found)) {}

	memory_holders holders;
};

/// Executor thread, with the loop's state mutex.
class dispatcher {
  public:
	explicit dispatcher(executor_state& state) : m_state(state) {}
	dispatcher(const dispatcher&) = delete;
	dispatcher& operator=(const dispatcher&) = delete;

	/// Throws memory_shortage, device_failure or peer_failure.
	void dispatch(const issue& item);
	/// Valid until the next call.
	lane_waits waits_of(const issue& item);
	/// Carries out the allocations that had to wait, as far as the backend has room. Whether there was one.
	bool allocate_waiting();
	/// Of the reductions that are complete.
	void report_empty_reductions();
	/// Operations run no more.
	void give_back_watched();

	/// A host task that was handed out waits for other ranks.
	void note_waiting(instruction_id call);
	/// A call of a user function has returned.
	void end_call(instruction_id call);
	/// Whether calls of user functions are issued and not complete, without those that wait for other ranks.
	bool has_host_calls() const { return m_num_host_calls > 0; }
	/// The instruction is complete.
	void retire(const instruction& item);

  private:
	/// A reduction on a device that makes the result of a minimum or maximum.
	struct watched_reduce {
		lane_position position;
		reduction_id reduction;
		std::uint32_t* has_values; ///< see reduce_operation
	};

	executor_state& m_state;
	std::deque<const instruction*> m_waiting_allocations; ///< until the backend has room for the first one
	std::vector<shared_flag> m_answers;                   ///< of waits_of()
	std::vector<watched_reduce> m_watched_reduces;            ///< not complete; those of graphs are not watched
	std::size_t m_num_host_calls = 0;
	std::set<instruction_id> m_waiting_calls; ///< not complete

	/// A specialisation per kind of instruction.
	template <typename Operation>
	void execute(const issue& item, const Operation& operation) = delete;
	void allocate(instruction_id id, const alloc_instruction& alloc);
	memory_holders find_holders(const alloc_instruction& lacking) const;
	void give_back(const watched_reduce& watched);
	std::vector<bound_access> bind(std::span<const access_binding> accesses) const;
	queue_priority launch_queue(lane_index lane) const;
	void retire(const horizon_instruction& horizon);
	void retire(const epoch_instruction& epoch);
};

} // namespace celerity
