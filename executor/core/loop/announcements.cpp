// SPDX-License-Identifier: MIT
#include "announcements.hpp"

#include <algorithm>
#include <variant>

namespace celerity {

namespace {

/// Python needs the interpreter lock. This thread may have to wait for it while the application submits, and issues nothing meanwhile.
constexpr std::chrono::milliseconds longest_unannounced{2};

/// Of an event for which no thread waits.
bool may_come_later(const executor_event& event) {
	if(const auto* const completed = std::get_if<completed_event>(&event)) return completed->is_known;
	return std::holds_alternative<retired_event>(event) || std::holds_alternative<empty_reduction_event>(event);
}

} // namespace

void announcements::add_retired(const submission_id last) {
	if(auto* const previous = m_events.empty() ? nullptr : std::get_if<retired_event>(&m_events.back())) {
		previous->last_submission = std::max(previous->last_submission, last);
	} else {
		m_events.emplace_back(retired_event{last});
	}
}

bool announcements::has_urgent() const {
	return std::any_of(m_events.begin(), m_events.end(), [](const executor_event& event) { return !may_come_later(event); });
}

bool announcements::must_hand_over() {
	if(m_events.empty()) return false;
	// In the order of the events: Python knows that an array of the user is free before it hears of a later completion.
	for(auto& event : m_events) {
		if(auto* const completed = std::get_if<completed_event>(&event); completed != nullptr && !completed->is_known) {
			completed->is_known = tell_watchers(completed->submission);
		}
		if(!may_come_later(event)) return true;
	}
	const auto now = event_count::clock::now();
	if(m_deadline == event_count::clock::time_point{}) m_deadline = now + longest_unannounced;
	return now >= m_deadline;
}

bool announcements::watch(const submission_id submission, spin_flag& flag, const std::chrono::nanoseconds limit) {
	watcher self{submission, &flag};
	{
		const std::lock_guard lock(m_mutex);
		m_watchers.push_back(&self);
	}
	flag.wait(limit);
	const std::lock_guard lock(m_mutex);
	std::erase(m_watchers, &self);
	return self.is_told;
}

bool announcements::tell_watchers(const submission_id submission) {
	const std::lock_guard lock(m_mutex);
	bool is_told = false;
	for(auto* const watcher : m_watchers) {
		if(watcher->submission != submission) continue;
		watcher->is_told = is_told = true;
		watcher->flag->set();
	}
	return is_told;
}

} // namespace celerity
