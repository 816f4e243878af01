// SPDX-License-Identifier: MIT
// A flag that one thread sets, and others wait for: without sleeping, or asleep.
#pragma once

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "relax_cpu.hpp"

namespace celerity {

/// To wake a thread takes tens of microseconds, and hundreds once its core has gone to sleep as well. A thread that waits holds no lock, so that it leaves
/// none behind when it is interrupted.
class spin_flag {
  public:
	void set() {
		if(m_state.exchange(is_set_value, std::memory_order_seq_cst) != sleeping_value) return;
		::syscall(SYS_futex, &m_state, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
	}

	bool is_set() const { return m_state.load(std::memory_order_acquire) == is_set_value; }

	/// Looks at the flag until it is set, or `limit` is over. Returns whether it is set.
	bool wait(const std::chrono::nanoseconds limit) const {
		const auto deadline = std::chrono::steady_clock::now() + limit;
		spin_pause pause;
		while(true) {
			for(int i = 0; i < looks_between_clocks; ++i) {
				if(is_set()) return true;
				pause();
			}
			if(std::chrono::steady_clock::now() >= deadline) return is_set();
		}
	}

	/// Sleeps until the flag is set, `limit` is over, or a signal arrives. Returns whether it is set.
	bool sleep(const std::chrono::nanoseconds limit) {
		std::uint32_t seen = unset_value;
		if(!m_state.compare_exchange_strong(seen, sleeping_value) && seen == is_set_value) return true;
		const timespec timeout{limit.count() / 1'000'000'000, limit.count() % 1'000'000'000};
		::syscall(SYS_futex, &m_state, FUTEX_WAIT_PRIVATE, sleeping_value, &timeout, nullptr, 0);
		return is_set();
	}

  private:
	static constexpr int looks_between_clocks = 16;
	static constexpr std::uint32_t unset_value = 0, sleeping_value = 1, is_set_value = 2; ///< sleeping: a thread may be asleep
	std::atomic<std::uint32_t> m_state{unset_value};
	static_assert(sizeof m_state == sizeof(std::uint32_t) && std::atomic<std::uint32_t>::is_always_lock_free, "a futex is a plain word");
};

} // namespace celerity
