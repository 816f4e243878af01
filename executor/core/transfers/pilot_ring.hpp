// SPDX-License-Identifier: MIT
// Pilots between two ranks of a host, through memory that both of them map: no message, no system call, and no Python.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "events/pilot_message.hpp"

namespace celerity {

/// One rank pushes, another one pops. All zeroes is an empty ring.
class pilot_ring {
  public:
	static constexpr std::uint64_t capacity = 1024;

	/// False if it is full.
	bool push(const pilot_message& pilot) {
		const auto index = m_pushed.load(std::memory_order_relaxed);
		if(index - m_popped.load(std::memory_order_acquire) == capacity) return false;
		m_pilots[index % capacity] = pilot;
		m_pushed.store(index + 1, std::memory_order_release);
		return true;
	}

	/// False if it is empty.
	bool pop(pilot_message& pilot) {
		const auto index = m_popped.load(std::memory_order_relaxed);
		if(index == m_pushed.load(std::memory_order_acquire)) return false;
		pilot = m_pilots[index % capacity];
		m_popped.store(index + 1, std::memory_order_release);
		return true;
	}

	bool is_empty() const { return m_popped.load(std::memory_order_relaxed) == m_pushed.load(std::memory_order_acquire); }

  private:
	alignas(64) std::atomic<std::uint64_t> m_pushed;
	alignas(64) std::atomic<std::uint64_t> m_popped;
	alignas(64) std::array<pilot_message, capacity> m_pilots;

	static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "two processes share it");
};

} // namespace celerity
