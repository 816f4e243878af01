// SPDX-License-Identifier: MIT
#include "lane_watch.hpp"

#include <algorithm>
#include <chrono>
#include <exception>

#include "threads/relax_cpu.hpp"

namespace celerity {

namespace {

/// Between two polls: so many times the duration of the last one. With many lanes in flight, one poll takes as long as the issue of several instructions.
constexpr std::int64_t poll_durations_between = 8;
constexpr std::int64_t shortest_between_polls_ns = 10'000;
constexpr std::int64_t longest_between_polls_ns = 200'000;
/// Between two looks at the devices, where there are fewer cores than busy threads.
constexpr std::chrono::microseconds shortest_pause{10};
constexpr std::chrono::microseconds longest_pause{200};

} // namespace

lane_watch::positions lane_watch::poll() {
	const std::int64_t start_ns = now_ns();
	positions progressed;
	const auto& lanes = m_state.engine.lanes();
	for(const lane_index lane : lanes.open_lanes()) {
		if(lanes.in_flight(lane) == 0) continue;
		const std::uint64_t completed = m_state.devices->completed(lane);
		if(completed > lanes.completed(lane)) progressed.push_back({lane, completed});
	}
	const std::int64_t end_ns = now_ns();
	m_next_poll_ns = end_ns + std::clamp(poll_durations_between * (end_ns - start_ns), shortest_between_polls_ns, longest_between_polls_ns);
	return progressed;
}

bool lane_watch::is_due() const { return now_ns() >= m_next_poll_ns; }

lane_watch::positions lane_watch::poll_raised() {
	positions progressed;
	const auto& lanes = m_state.engine.lanes();
	std::erase_if(m_raised, [&](const lane_position& last) {
		if(lanes.completed(last.lane) >= last.sequence) return true;
		const std::uint64_t completed = m_state.devices->completed(last.lane);
		if(completed > lanes.completed(last.lane)) progressed.push_back({last.lane, completed});
		return completed >= last.sequence;
	});
	return progressed;
}

void lane_watch::note_raised(const issue& issued) {
	const auto known = std::find_if(m_raised.begin(), m_raised.end(), [&](const lane_position& last) { return last.lane == issued.lane; });
	if(known == m_raised.end()) {
		m_raised.push_back({issued.lane, issued.sequence});
	} else {
		known->sequence = issued.sequence;
	}
}

bool lane_watch::is_any_in_flight() const {
	const auto& lanes = m_state.engine.lanes();
	return std::any_of(lanes.open_lanes().begin(), lanes.open_lanes().end(), [&](const lane_index lane) { return lanes.in_flight(lane) > 0; });
}

void lane_watch::note_issued(const issue& issued) {
	if(issued.lane != no_lane && m_state.engine.lanes().in_flight(issued.lane) >= m_state.options.most_on_a_lane) m_full_lane = issued.lane;
}

// Issued lane operations never need an unissued one, since remote waits respect keys. But they may need a message that the host has yet to send, if another
// rank ends such a wait only after that message. Therefore the host must never block at a full queue.
bool lane_watch::is_full() {
	if(m_full_lane == no_lane) return false;
	if(m_state.engine.lanes().in_flight(m_full_lane) >= m_state.options.most_on_a_lane) return true;
	m_full_lane = no_lane;
	return false;
}

void lane_watch::wait_for_progress(event_count& wake_up, const std::uint64_t seen, const event_count::clock::time_point deadline, const bool may_spin) const {
	const auto& lanes = m_state.engine.lanes();
	auto pause = shortest_pause;
	spin_pause spin;
	const auto has_news = [&] { return wake_up.prepare() != seen || m_state.transfers.has_news() || m_state.network.look(); };
	while(true) {
		if(has_news()) return;
		try {
			for(const lane_index lane : lanes.open_lanes()) {
				if(lanes.in_flight(lane) == 0) continue;
				if(m_state.devices->completed(lane) > lanes.completed(lane)) return;
				if(has_news()) return; // to ask a device takes much longer than to look at memory
			}
		} catch(const std::exception&) { return; } // the next poll() meets the error again, and the loop reports it
		const auto now = event_count::clock::now();
		if(now >= deadline) return;
		if(may_spin) {
			spin();
		} else {
			wake_up.wait_until(seen, std::min({deadline, now + pause, m_state.network.next_look()}));
			pause = std::min<std::chrono::microseconds>(2 * pause, longest_pause);
		}
	}
}

} // namespace celerity
