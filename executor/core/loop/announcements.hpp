// SPDX-License-Identifier: MIT
// Events on their way out of the executor. An event leaves at once if a thread waits for it, otherwise a little later.
#pragma once

#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include "events/executor_events.hpp"
#include "threads/event_count.hpp"
#include "threads/spin_flag.hpp"

namespace celerity {

/// Belongs to the executor thread, except for watch().
class announcements {
  public:
	/// Other parts of the executor append their events here.
	std::vector<executor_event>& events() { return m_events; }
	template <typename Event>
	Event& add(Event&& event) {
		return std::get<Event>(m_events.emplace_back(std::move(event)));
	}
	/// Everything submitted up to `last` is complete.
	void add_retired(submission_id last);

	bool is_empty() const { return m_events.empty(); }
	/// Whether a thread waits for one of the events.
	bool has_urgent() const;
	/// Sets the flags of the threads in watch() whose submission is complete. Returns whether the events must leave now.
	bool must_hand_over();
	/// The time at which events must leave if no thread waits for them; after must_hand_over().
	event_count::clock::time_point deadline() const { return m_deadline; }
	/// Swaps buffers with the caller.
	void take(std::vector<executor_event>& out) {
		std::swap(out, m_events);
		m_deadline = {};
	}

	/// Looks at the flag until it is set, or `limit` is over. If the fence or epoch completes meanwhile, the executor sets the flag itself, ahead of Python.
	/// Returns whether it did. Any thread.
	bool watch(submission_id submission, spin_flag& flag, std::chrono::nanoseconds limit);

  private:
	struct watcher {
		submission_id submission;
		spin_flag* flag;
		bool is_told = false;
	};

	std::vector<executor_event> m_events;
	event_count::clock::time_point m_deadline{}; ///< if no thread waits for any of m_events
	std::mutex m_mutex;
	std::vector<watcher*> m_watchers; ///< the threads in watch()

	bool tell_watchers(submission_id submission);
};

} // namespace celerity
