// SPDX-License-Identifier: MIT
// A flag that one thread sets, and another one waits for without sleeping.
#pragma once

#include <atomic>
#include <chrono>

#include "relax_cpu.hpp"

namespace celerity {

/// Waking a thread that sleeps takes tens of microseconds, and hundreds once its core has gone to sleep as well.
class spin_flag {
  public:
	void set() { m_is_set.store(true, std::memory_order_release); }

	/// Looks at the flag until it is set, or `limit` is over; whether it is set.
	bool wait(const std::chrono::nanoseconds limit) const {
		const auto deadline = std::chrono::steady_clock::now() + limit;
		spin_pause pause;
		while(true) {
			for(int i = 0; i < looks_between_clocks; ++i) {
				if(m_is_set.load(std::memory_order_acquire)) return true;
				pause();
			}
			if(std::chrono::steady_clock::now() >= deadline) return m_is_set.load(std::memory_order_acquire);
		}
	}

  private:
	static constexpr int looks_between_clocks = 16;
	std::atomic<bool> m_is_set{false};
};

} // namespace celerity
