// SPDX-License-Identifier: MIT
// Sleep until an event, without losing events between the last look and the sleep.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace celerity {

/// Any number of threads signal, one waits: seen = prepare(); look for work; if there is none, wait_until(seen, ...).
class event_count {
  public:
	using clock = std::chrono::steady_clock;

	std::uint64_t prepare() const { return m_epoch.load(std::memory_order_seq_cst); }

	/// A system call only if the waiter sleeps, and then only by the first thread that signals.
	void signal() {
		m_epoch.fetch_add(1, std::memory_order_seq_cst);
		if(!m_is_sleeping.load(std::memory_order_seq_cst) || !m_is_sleeping.exchange(false, std::memory_order_seq_cst)) return;
		{ const std::lock_guard lock(m_mutex); } // the waiter is either before its check of the epoch or inside wait
		m_wake.notify_one();
	}

	void wait_until(const std::uint64_t seen, const clock::time_point deadline) {
		std::unique_lock lock(m_mutex);
		while(true) {
			m_is_sleeping.store(true, std::memory_order_seq_cst);
			if(m_epoch.load(std::memory_order_seq_cst) != seen) break;
			if(m_wake.wait_until(lock, deadline) == std::cv_status::timeout) break;
		}
		m_is_sleeping.store(false, std::memory_order_seq_cst);
	}

  private:
	std::atomic<std::uint64_t> m_epoch{0};
	std::atomic<bool> m_is_sleeping{false};
	std::mutex m_mutex;
	std::condition_variable m_wake;
};

} // namespace celerity
