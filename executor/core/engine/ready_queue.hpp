// SPDX-License-Identifier: MIT
// Instructions that wait for their turn, by the priority of their queue.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "instruction_window.hpp"
#include "scheduler/core/vocabulary/task.hpp"

namespace celerity {

/// An instruction that waits for its turn.
struct ready_entry {
	queue_priority queue = 0;
	std::uint32_t rank = 0; ///< among the instructions of its queue; the greatest goes first, and the oldest among equals
	instruction_id id;
	instruction_window::slot_type slot = instruction_window::no_slot;
};

/// Hands out the instructions of the highest queue first. No queue waits for ever: after `longest_wait` instructions of higher queues, a waiting one of a
/// lower queue has its turn. Only the order of calls matters, and no clock.
class ready_queue {
  public:
	static constexpr std::uint32_t longest_wait = 32;

	bool is_empty() const { return m_filled == 0; }

	void push(const ready_entry& entry) {
		auto& heap = m_heaps[entry.queue];
		heap.push_back(entry);
		std::push_heap(heap.begin(), heap.end(), is_less_urgent);
		m_filled |= 1U << entry.queue;
	}

	/// False if there is none.
	bool pop(ready_entry& out) {
		if(m_filled == 0) return false;
		const bool is_alone = (m_filled & (m_filled - 1)) == 0;
		const auto queue = is_alone ? static_cast<queue_priority>(std::countr_zero(m_filled)) : choose_queue();
		auto& heap = m_heaps[queue];
		std::pop_heap(heap.begin(), heap.end(), is_less_urgent);
		out = heap.back();
		heap.pop_back();
		if(heap.empty()) m_filled &= ~(1U << queue);
		return true;
	}

  private:
	std::array<std::vector<ready_entry>, max_queue_priority + 1> m_heaps;
	std::array<std::uint32_t, max_queue_priority + 1> m_passed_over{}; ///< by queue: instructions of higher ones since its last turn
	std::uint32_t m_filled = 0;                                        ///< bit q: queue q has a waiting instruction

	// Heaps of the standard library have the greatest element on top.
	static bool is_less_urgent(const ready_entry& a, const ready_entry& b) { return a.rank != b.rank ? a.rank < b.rank : a.id > b.id; }

	/// Several queues have waiting instructions.
	queue_priority choose_queue() {
		const auto highest = static_cast<queue_priority>(std::bit_width(m_filled) - 1);
		for(queue_priority queue = 0; queue < highest; ++queue) {
			if((m_filled >> queue & 1U) == 0 || m_passed_over[queue] < longest_wait) continue;
			m_passed_over[queue] = 0;
			return queue;
		}
		for(queue_priority queue = 0; queue < highest; ++queue) m_passed_over[queue] += m_filled >> queue & 1U;
		m_passed_over[highest] = 0;
		return highest;
	}
};

} // namespace celerity
