// SPDX-License-Identifier: MIT
#include "loop_pauses.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace celerity {

namespace {

/// About the cost of falling asleep and waking up.
constexpr std::chrono::microseconds spin_time{20};

} // namespace

void loop_pauses::wait(const std::uint64_t seen, const clock::time_point deadline) {
	if((m_state.devices->must_poll() && m_lanes.is_any_in_flight()) || m_state.transfers.must_look_for_peers()) {
		return m_lanes.wait_for_progress(m_wake_up, seen, deadline, m_may_spin);
	}
	if(m_expects_work.load(std::memory_order_relaxed) && m_expects_work.exchange(false, std::memory_order_relaxed)) m_worked_at = clock::now();
	auto spin_until = m_worked_at + m_state.options.idle_spin;
	if(m_may_spin && m_state.engine.num_in_flight() > 0) spin_until = std::max(spin_until, clock::now() + spin_time);
	spin_until = std::min(spin_until, deadline);
	while(true) {
		if(m_wake_up.prepare() != seen || m_state.network.look()) return;
		const auto now = clock::now();
		if(now >= deadline) return;
		const auto next_look = m_state.network.next_look();
		if(now < spin_until || next_look <= now) {
			std::this_thread::yield();
		} else {
			m_wake_up.wait_until(seen, std::min(deadline, next_look));
		}
	}
}

} // namespace celerity
