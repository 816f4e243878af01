// SPDX-License-Identifier: MIT
#include "batch_hold.hpp"

#include <utility>

namespace celerity {

namespace {

/// The program may wait for an effect of what is held, without an event that would tell.
constexpr std::chrono::microseconds longest_wait_behind_batches{2000};
/// For the end of a period, while devices have nothing to do.
constexpr std::chrono::microseconds longest_wait_of_devices{100};
/// Devices are at work on one, and the next one is there when that ends.
constexpr unsigned enough_batches = 2;

} // namespace

void batch_hold::look(loop_batches& batches, const pacing& pace) {
	if(!batches.is_collecting()) batches.release();
	if(batches.has_whole() && !may_wait(batches, pace)) {
		batches.release_whole();
		end();
	}
	if(!batches.is_empty() && !batches.has_whole() && !may_wait(batches, pace)) batches.release();
	if(batches.is_empty()) end();
}

void batch_hold::end() {
	if(is_holding()) m_held += clock::now() - std::exchange(m_since, {});
}

// A whole period waits for more of them while devices have enough to do. A part of one waits for its rest, which a graph may then have; but not if the program
// waits as well, and nothing else ends that.
bool batch_hold::may_wait(const loop_batches& batches, const pacing& pace) {
	const auto now = clock::now();
	if(m_since == clock::time_point{}) m_since = now;
	const auto num_in_flight = batches.num_in_flight(pace.executed_horizons());
	m_until = m_since + (num_in_flight > 0 ? longest_wait_behind_batches : longest_wait_of_devices);
	if(now >= m_until) return false;
	return batches.has_whole() ? num_in_flight >= enough_batches : num_in_flight > 0 || pace.may_submit();
}

} // namespace celerity
