// SPDX-License-Identifier: MIT
// From instruction ids, which only grow, to slots: a ring over the span of ids between the oldest live instruction and the newest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "scheduler/core/base/ids.hpp"

namespace celerity {

class instruction_window {
  public:
	using slot_type = std::uint32_t;
	static constexpr slot_type no_slot = UINT32_MAX;

	instruction_window() : m_ring(initial_capacity, no_slot) {}

	/// Unknown ids (never inserted, or erased) give `no_slot`.
	slot_type find(const instruction_id id) const {
		if(id.value < m_first || id.value >= m_end) return no_slot;
		return m_ring[id.value & mask()];
	}

	/// `num_ids` consecutive ids lead to the slot.
	void insert(const instruction_id id, const slot_type slot, const std::uint64_t num_ids = 1) {
		if(id.value < m_end) throw std::invalid_argument("instruction ids must grow from one submission to the next");
		if(m_first == m_end) m_first = m_end = id.value; // empty: skip the gap
		const std::uint64_t end = id.value + num_ids;
		if(end - m_first > m_ring.size()) grow(end - m_first);
		for(; m_end < id.value; ++m_end) m_ring[m_end & mask()] = no_slot;
		for(; m_end < end; ++m_end) m_ring[m_end & mask()] = slot;
	}

	void erase(const instruction_id id, const std::uint64_t num_ids = 1) {
		for(std::uint64_t i = id.value; i < id.value + num_ids; ++i) m_ring[i & mask()] = no_slot;
		while(m_first < m_end && m_ring[m_first & mask()] == no_slot) ++m_first;
	}

	/// Calls f(slot) once for every slot in the order of ids.
	template <typename F>
	void for_each(F&& f) const {
		slot_type previous = no_slot;
		for(std::uint64_t id = m_first; id < m_end; ++id) {
			const slot_type slot = m_ring[id & mask()];
			if(slot != no_slot && slot != previous) f(slot);
			previous = slot;
		}
	}

  private:
	static constexpr std::size_t initial_capacity = 1024;

	std::vector<slot_type> m_ring; // size is a power of two
	std::uint64_t m_first = 0;
	std::uint64_t m_end = 0;

	std::uint64_t mask() const { return m_ring.size() - 1; }

	void grow(const std::uint64_t at_least) {
		std::size_t capacity = m_ring.size();
		while(capacity < at_least) capacity *= 2;
		std::vector<slot_type> ring(capacity, no_slot);
		for(std::uint64_t id = m_first; id < m_end; ++id) ring[id & (capacity - 1)] = m_ring[id & mask()];
		m_ring = std::move(ring);
	}
};

} // namespace celerity
