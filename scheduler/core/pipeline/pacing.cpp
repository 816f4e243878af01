// SPDX-License-Identifier: MIT
#include "pacing.hpp"

#include <algorithm>
#include <limits>
#include <thread>

namespace celerity {

namespace {

using clock = std::chrono::steady_clock;

/// Input that the scheduler has not looked at yet is bounded too: it always gets there by itself, so waiting for it cannot deadlock.
constexpr std::uint64_t max_waiting_events = 8192;
/// With queues of several priorities the planner must not come upon many horizons at once. These are half of those that a queue with little work may be ahead.
constexpr std::uint64_t max_waiting_run_aheads = 8;

} // namespace

void pacing::release() {
	m_is_released.store(true);
	m_contents.lift_bound();
	notify_progress();
}

bool pacing::is_behind(const std::uint64_t allowed_horizons, const std::uint64_t allowed_events) const {
	if(m_is_released.load(std::memory_order_relaxed)) return false;
	// `executed` is read first. Both numbers only grow, and the executor may pass a horizon just before it counts as released.
	const std::uint64_t executed = m_executed_horizons.load(std::memory_order_acquire);
	const std::uint64_t released = m_released_horizons.load(std::memory_order_acquire);
	if(released > executed + allowed_horizons) return true;
	const std::uint64_t planned = m_num_planned.load(std::memory_order_acquire);
	return m_num_pushed.load(std::memory_order_relaxed) > planned + allowed_events;
}

std::uint64_t pacing::most_waiting_events() const {
	if(!are_several(m_queues.load(std::memory_order_relaxed))) return max_waiting_events;
	return std::clamp<std::uint64_t>(max_waiting_run_aheads * m_settings.run_ahead * m_settings.tasks_per_horizon, 64, max_waiting_events);
}

bool pacing::is_behind_by(const distance& halves) const {
	return is_behind(halves.horizons * m_settings.run_ahead / 2, halves.events * most_waiting_events() / 2);
}

// A horizon waits for the work of all queues. So a queue whose tasks take long, or many tasks of another one, keep the program as far ahead as it may be. The
// other queues must not wait for that: each is then bounded by its own unfinished instructions. Those of the lowest queue are few, as horizons wait for them.
bool pacing::is_short_of_work(const queue_priority queue, const std::uint64_t halves) const {
	const std::uint64_t most = (queue == 0 ? 2 : 8) * m_settings.num_devices * halves;
	const std::uint64_t most_horizons = (queue == 0 ? 1 : 2) * (32 * m_settings.run_ahead + 128);
	if(is_behind(most_horizons, 2 * most_waiting_events())) return false;
	const auto& newest = m_newest[queue];
	if(m_num_planned.load(std::memory_order_acquire) < newest.num_pushed.load(std::memory_order_relaxed)) return false;
	return m_sink.has_at_most(queue, most, newest.num_handed_over.load(std::memory_order_relaxed));
}

// Without a priority, a submit goes on at half: one long sleep instead of many short ones. A replay goes on at once: the horizons of a graph end together, and
// the next batch must come before the devices have run out of work. While a submit waits, replays have its limits. Otherwise they would keep the program so far
// ahead that the submit never goes on.
pacing::submit_limits pacing::limits_of(const queue_priority queue, const bool is_replay) const {
	if(queue > 0) return {{4, 4}, {3, 3}};
	const bool is_alone = !are_several(m_queues.load(std::memory_order_relaxed)) && !m_is_throttled.load(std::memory_order_relaxed);
	if((is_replay || m_is_collecting.load(std::memory_order_relaxed)) && is_alone) return {{4, 2}, {4, 2}};
	return {{2, 2}, {1, 1}};
}

bool pacing::may_submit(const queue_priority queue, const bool is_replay) const {
	if(m_contents.is_full()) return false;
	const bool is_waiting = queue == 0 && m_is_throttled.load(std::memory_order_relaxed);
	return (!is_waiting && !is_behind_by(limits_of(queue, is_replay).block)) || is_short_of_work(queue, 2);
}

bool pacing::throttle(const std::chrono::milliseconds limit, const queue_priority queue, const bool is_replay) {
	if(may_submit(queue, is_replay)) return true;
	const bool must_fall_to_half = queue == 0 && !is_replay && !m_is_collecting.load(std::memory_order_relaxed);
	if(must_fall_to_half) m_is_throttled = true;
	const auto may_go_on = [&] { return m_contents.has_room() && (!is_behind_by(limits_of(queue, is_replay).go_on) || is_short_of_work(queue, 1)); };
	const bool done = wait(limit, may_go_on, true);
	const bool has_fallen = must_fall_to_half || !is_behind_by({1, 1}); // a submit that an exception has ended no longer waits
	if(queue == 0 && done && has_fallen) m_is_throttled = false;
	return done;
}

bool pacing::wait_until_planned(const std::chrono::milliseconds limit) {
	const std::uint64_t target = m_num_pushed.load();
	const auto is_planned = [&] { return m_num_accounted.load(std::memory_order_acquire) >= target; };
	const auto spin_until = clock::now() + m_settings.idle_spin;
	while(!is_planned() && clock::now() < spin_until) std::this_thread::yield();
	return wait(limit, is_planned, false);
}

bool pacing::wait(const std::chrono::milliseconds limit, const std::function<bool()>& may_go_on, const bool is_let_go) {
	std::unique_lock lock(m_mutex);
	m_num_waiters.fetch_add(1);
	const auto own = m_waiters.insert(m_waiters.end(), &may_go_on);
	const auto seen = m_num_let_go;
	const bool done = m_progress.wait_for(lock, limit, [&] { return (is_let_go && m_num_let_go != seen) || may_go_on(); });
	m_waiters.erase(own);
	m_num_waiters.fetch_sub(1);
	return done;
}

void pacing::notify_progress() {
	if(m_num_waiters.load() == 0) return;
	{
		const std::lock_guard lock(m_mutex); // a waiter is either before its test or asleep
		const bool lets_go = !is_behind_by({1, 1}) && m_contents.has_room();
		if(lets_go) ++m_num_let_go;
		// A thread that must go on waiting is not woken: it would need the interpreter lock too.
		if(!lets_go && std::none_of(m_waiters.begin(), m_waiters.end(), [](const auto* const may_go_on) { return (*may_go_on)(); })) return;
	}
	m_progress.notify_all();
}

void pacing::note_planned(const std::uint64_t released_horizons, const std::uint64_t num_events) {
	m_released_horizons.store(released_horizons, std::memory_order_release);
	m_num_planned.fetch_add(num_events, std::memory_order_release);
	notify_progress();
}

void pacing::note_accounted() {
	m_num_accounted.store(m_num_planned.load(std::memory_order_relaxed), std::memory_order_release);
	notify_progress();
}

void pacing::note_freed(const std::uint64_t bytes) {
	m_contents.add(-static_cast<std::int64_t>(bytes));
	notify_progress();
}

void pacing::note_executed_horizon() {
	m_executed_horizons.fetch_add(1, std::memory_order_release);
	notify_progress();
}

void pacing::give_up() {
	m_contents.lift_bound();
	m_num_planned.store(~std::uint64_t{0} >> 1);
	m_num_accounted.store(~std::uint64_t{0} >> 1);
	notify_progress();
}

bool pacing::is_execution_behind(const std::uint64_t allowed) const { return is_behind(allowed, std::numeric_limits<std::uint64_t>::max() / 2); }

} // namespace celerity
