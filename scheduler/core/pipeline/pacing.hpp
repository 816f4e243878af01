// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>

#include "kept_contents.hpp"
#include "vocabulary/instruction_sink.hpp"
#include "vocabulary/task.hpp"

namespace celerity {

struct pacing_settings {
	/// Horizons that may be released but not executed before `throttle` blocks; it lets go at half of that. Twice as many for queues with a priority, and for
	/// replays: devices carry out a batch of their horizons as a whole, and need the next one meanwhile. With queues of several priorities, a queue with
	/// little unfinished work of its own may go on, as long as all that is ahead is bounded.
	std::uint64_t run_ahead = 16;
	std::uint64_t tasks_per_horizon = 4;
	std::size_t num_devices = 1;
	/// The time for which a thread without work looks for more before it sleeps.
	std::chrono::nanoseconds idle_spin{0};
	/// See kept_contents: beyond that, `throttle` blocks as well.
	std::uint64_t most_kept_bytes = std::uint64_t{1} << 30U;
};

/// How far the program is ahead of planning and execution, and how long a submit waits. Any thread may call any function.
class pacing {
  public:
	pacing(const pacing_settings& settings, const instruction_sink& sink) : m_settings(settings), m_sink(sink), m_contents(settings.most_kept_bytes) {}

	/// Blocks while the application is too far ahead, at most `limit`. Returns true if it may go on.
	bool throttle(std::chrono::milliseconds limit, queue_priority queue = 0, bool is_replay = false);
	/// To be called when the run has failed: no horizon will be reached, and `throttle` never blocks again.
	void release();
	/// True without taking a lock if `throttle` would not block.
	bool may_submit(queue_priority queue = 0, bool is_replay = false) const;
	/// Blocks until all input so far is planned and in the statistics, at most `limit`; for dry runs. Returns true once it is.
	bool wait_until_planned(std::chrono::milliseconds limit);
	/// Those who wait look again. Also to be called if `has_at_most` of the sink may have changed.
	void notify_progress();

	/// There is a queue of this priority.
	void announce(const queue_priority queue) { m_queues.fetch_or(queue_set_of(queue), std::memory_order_relaxed); }
	/// Returns the number of all events so far.
	std::uint64_t note_pushed(const std::uint64_t num_events) { return m_num_pushed.fetch_add(num_events, std::memory_order_relaxed) + num_events; }
	/// The newest task of the queue is the event with this number.
	void note_newest(const queue_priority queue, const std::uint64_t num_pushed) { m_newest[queue].num_pushed = num_pushed; }
	/// The newest task of the queue is planned, and the sink has so many instructions.
	void note_handed_over(const queue_priority queue, const std::uint64_t num_instructions) {
		m_newest[queue].num_handed_over.store(num_instructions, std::memory_order_relaxed);
	}
	/// So many more events are planned; `released_horizons` in all have been handed to the sink.
	void note_planned(std::uint64_t released_horizons, std::uint64_t num_events);
	/// All that is planned is in the statistics.
	void note_accounted();
	/// What the run keeps for work that is held back or not executed.
	kept_contents& contents() { return m_contents; }
	/// Whether devices carry out the present loop of submits as graphs: submits then have the limits of replays.
	void set_collecting(const bool is_collecting) { m_is_collecting.store(is_collecting, std::memory_order_relaxed); }
	/// The executor has freed so many bytes.
	void note_freed(std::uint64_t bytes);
	/// The executor has passed one more horizon.
	void note_executed_horizon();
	/// Planning has failed. A thread that waits for planning must not wait for ever.
	void give_up();

	std::uint64_t released_horizons() const { return m_released_horizons.load(); }
	std::uint64_t executed_horizons() const { return m_executed_horizons.load(); }
	/// Whether more horizons than `allowed` are released and not executed.
	bool is_execution_behind(std::uint64_t allowed) const;

  private:
	/// In halves of what a submit without a priority may be ahead.
	struct distance {
		std::uint64_t horizons = 0;
		std::uint64_t events = 0;
	};
	/// A submit blocks while the program is further ahead than `block`, and goes on when it is no further than `go_on`.
	struct submit_limits {
		distance block;
		distance go_on;
	};
	/// The counts when the newest task of a queue is planned: events pushed so far, instructions handed to the sink so far.
	struct newest_task {
		std::atomic<std::uint64_t> num_pushed{0};
		std::atomic<std::uint64_t> num_handed_over{0};
	};

	pacing_settings m_settings;
	const instruction_sink& m_sink;
	kept_contents m_contents;
	std::mutex m_mutex;
	std::condition_variable m_progress;
	std::list<const std::function<bool()>*> m_waiters; ///< the conditions of threads that wait; guarded by m_mutex
	std::uint64_t m_num_let_go = 0; ///< all who waited go on, also those who wake up when others are far ahead again; guarded by m_mutex
	std::atomic<std::uint64_t> m_num_pushed{0}; ///< a replay counts as its tasks
	std::atomic<std::uint64_t> m_num_planned{0};
	std::atomic<std::uint64_t> m_num_accounted{0}; ///< planned, and in the statistics
	std::atomic<std::uint64_t> m_released_horizons{0};
	std::atomic<std::uint64_t> m_executed_horizons{0};
	std::atomic<int> m_num_waiters{0};
	std::atomic<bool> m_is_released{false};
	std::atomic<bool> m_is_throttled{false}; ///< a submit that is no replay and in no collected loop waits, of a queue without a priority
	std::atomic<bool> m_is_collecting{false};
	std::atomic<queue_set> m_queues{0}; ///< those that were announced
	std::array<newest_task, max_queue_priority + 1> m_newest;

	/// Until `may_go_on()`, at most `limit`; or, if `is_let_go`, until all who wait go on. Whether that has come.
	bool wait(std::chrono::milliseconds limit, const std::function<bool()>& may_go_on, bool is_let_go);
	bool is_behind(std::uint64_t allowed_horizons, std::uint64_t allowed_events) const;
	std::uint64_t most_waiting_events() const;
	submit_limits limits_of(queue_priority queue, bool is_replay) const;
	bool is_behind_by(const distance& halves) const;
	/// Whether a queue has little unfinished work: `halves` of a half of what it may have while others keep the program from being further ahead.
	bool is_short_of_work(queue_priority queue, std::uint64_t halves) const;
};

} // namespace celerity
