// SPDX-License-Identifier: MIT
// Instructions that wait for their turn, by the priority of their queue.
// A lower queue has one turn in 33 at least: urgent work without end slows it down, and never stops it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "instruction_window.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"
#include "scheduler/core/vocabulary/task.hpp"

namespace celerity {

/// The greatest one goes first. The upper half is the priority of an instruction, that of its queue above that of its kind.
using issue_order = std::uint32_t;
inline constexpr unsigned order_bits_below_priority = 16; ///< for the order among instructions of equal priority
constexpr queue_priority queue_of(const issue_order order) { return queue_priority_of(order >> order_bits_below_priority); }
/// Of instructions of queue 0 all orders are smaller.
inline constexpr issue_order least_of_raised_queues = priority_of_queue(1) << order_bits_below_priority;

/// An instruction that waits for its turn.
struct ready_entry {
	issue_order order = 0; ///< among equals the oldest goes first
	instruction_window::slot_type slot = instruction_window::no_slot;
	instruction_id id;
};

/// Hands out the instructions of the highest queue first. No queue waits for ever: after `longest_wait` instructions of higher queues, a waiting one of a
/// lower queue has its turn. Only the order of calls matters, and no clock.
class ready_queue {
  public:
	static constexpr std::uint32_t longest_wait = 32;

	void push(const ready_entry& entry) {
		const auto queue = queue_of(entry.order);
		auto& heap = m_heaps[queue];
		heap.push_back(entry);
		std::push_heap(heap.begin(), heap.end(), is_less_urgent);
		if(queue > 0) ++m_num_raised;
	}

	/// False if there is none.
	bool pop(ready_entry& out) {
		queue_priority queue = 0;
		if(m_num_raised > 0) {
			queue = choose_queue();
			if(queue > 0) --m_num_raised;
		}
		auto& heap = m_heaps[queue];
		if(heap.empty()) return false;
		out = heap.front();
		std::pop_heap(heap.begin(), heap.end(), is_less_urgent);
		heap.pop_back();
		return true;
	}

	std::size_t size() const {
		std::size_t sum = 0;
		for(const auto& heap : m_heaps) sum += heap.size();
		return sum;
	}

  private:
	std::array<std::vector<ready_entry>, max_queue_priority + 1> m_heaps;
	std::array<std::uint32_t, max_queue_priority + 1> m_passed_over{}; ///< by queue: instructions of higher ones since its last turn
	std::size_t m_num_raised = 0;                                      ///< entries of queues above 0, so that a program with one queue looks at no other

	// Heaps of the standard library have the greatest element on top. A lambda, as compilers do not inline calls through a pointer to a function.
	static constexpr auto is_less_urgent = [](const ready_entry& a, const ready_entry& b) { return a.order != b.order ? a.order < b.order : a.id > b.id; };

	/// A queue above 0 has a waiting instruction.
	queue_priority choose_queue() {
		queue_priority highest = max_queue_priority;
		while(m_heaps[highest].empty()) --highest;
		for(queue_priority queue = 0; queue < highest; ++queue) {
			if(m_heaps[queue].empty() || m_passed_over[queue] < longest_wait) continue;
			m_passed_over[queue] = 0;
			return queue;
		}
		for(queue_priority queue = 0; queue < highest; ++queue) m_passed_over[queue] += m_heaps[queue].empty() ? 0 : 1;
		m_passed_over[highest] = 0;
		return highest;
	}
};

} // namespace celerity
