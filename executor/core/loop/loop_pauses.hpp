// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>

#include "dispatch/executor_state.hpp"
#include "lane_watch.hpp"
#include "threads/event_count.hpp"

namespace celerity {

/// How the thread that carries out the loop waits when there is nothing to do: it looks for work for a while, and then sleeps.
class loop_pauses {
  public:
	using clock = event_count::clock;

	loop_pauses(executor_state& state, const lane_watch& lanes, event_count& wake_up)
	    : m_state(state), m_lanes(lanes), m_wake_up(wake_up), m_may_spin(has_free_cores(state.options)) {}

	/// Work will come soon. Any thread.
	void expect_work() {
		m_expects_work.store(true, std::memory_order_relaxed);
		m_wake_up.signal();
	}
	void note_worked() {
		if(m_state.options.idle_spin.count() > 0) m_worked_at = clock::now();
	}
	/// Until something has come since `seen` was the count of `wake_up`, it is time to look at the network, or the time is up.
	void wait(std::uint64_t seen, clock::time_point deadline);

  private:
	executor_state& m_state;
	const lane_watch& m_lanes;
	event_count& m_wake_up;
	const bool m_may_spin;
	std::atomic<bool> m_expects_work{false};
	clock::time_point m_worked_at{};
};

} // namespace celerity
