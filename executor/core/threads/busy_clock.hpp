// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "scheduler/core/base/clock.hpp"

namespace celerity {

/// Sums up the time during which something runs. One thread switches it, any thread reads it.
class busy_clock {
  public:
	void set_running(const bool running) {
		const std::int64_t since = m_since_ns.load(std::memory_order_relaxed);
		if(running == (since != 0)) return;
		const std::int64_t now = now_ns();
		if(!running) m_total_ns.store(m_total_ns.load(std::memory_order_relaxed) + now - since, std::memory_order_relaxed);
		m_since_ns.store(running ? now : 0, std::memory_order_release);
	}

	std::int64_t total_ns(const std::int64_t now) const {
		const std::int64_t since = m_since_ns.load(std::memory_order_acquire);
		return m_total_ns.load(std::memory_order_relaxed) + (since != 0 ? now - since : 0);
	}

  private:
	std::atomic<std::int64_t> m_total_ns{0};
	std::atomic<std::int64_t> m_since_ns{0}; // 0: stands still
};

/// Divides the executor's time among busy (something in flight), starved (nothing in flight while the scheduler works) and idle.
class time_account {
  public:
	/// Books the time since the last call; `is_busy` is the state from now on. `has_worked`: the time since then counts as busy in any case.
	void advance(const bool is_busy, const bool has_worked = false) {
		const std::int64_t now = now_ns();
		const std::int64_t scheduler_total = m_scheduler.total_ns(now);
		m_is_busy |= has_worked;
		if(m_until_ns != 0) {
			const std::int64_t elapsed = now - m_until_ns;
			const std::int64_t starved = m_is_busy ? 0 : std::clamp<std::int64_t>(scheduler_total - m_scheduler_total_ns, 0, elapsed);
			m_busy_ns += m_is_busy ? elapsed : 0;
			m_starved_ns += starved;
			m_idle_ns += m_is_busy ? 0 : elapsed - starved;
		}
		m_until_ns = now;
		m_scheduler_total_ns = scheduler_total;
		m_is_busy = is_busy;
	}

	double busy_seconds() const { return 1e-9 * static_cast<double>(m_busy_ns); }
	double starved_seconds() const { return 1e-9 * static_cast<double>(m_starved_ns); }
	double idle_seconds() const { return 1e-9 * static_cast<double>(m_idle_ns); }

	/// One thread, which need not be that of advance().
	void set_scheduler_busy(const bool is_busy) { m_scheduler.set_running(is_busy); }

  private:
	busy_clock m_scheduler;
	std::int64_t m_until_ns = 0; // 0: not started
	std::int64_t m_scheduler_total_ns = 0;
	std::int64_t m_busy_ns = 0;
	std::int64_t m_starved_ns = 0;
	std::int64_t m_idle_ns = 0;
	bool m_is_busy = false;
};

} // namespace celerity
