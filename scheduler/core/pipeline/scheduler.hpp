// SPDX-License-Identifier: MIT
// The thread that plans while the executor runs.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "vocabulary/trace_recorder.hpp"
#include "graphs/access_checks.hpp"
#include "graphs/cut_choice.hpp"
#include "graph_log.hpp"
#include "kept_contents.hpp"
#include "plan_totals.hpp"
#include "scheduling_pipeline.hpp"
#include "vocabulary/instruction_sink.hpp"

namespace celerity {

struct scheduler_settings {
	pipeline_settings pipeline;
	/// Horizons that may be released but not executed before `throttle` blocks; it lets go at half of that. Twice as many for queues with a priority, and for
	/// replays: devices carry out a batch of their horizons as a whole, and need the next one meanwhile. With queues of several priorities, a queue with
	/// little unfinished work of its own may go on, as long as all that is ahead is bounded.
	std::uint64_t run_ahead = 16;
	/// The time for which a thread without work looks for more before it sleeps.
	std::chrono::nanoseconds idle_spin{0};
	std::shared_ptr<trace_recorder> trace = nullptr; ///< null: there is no timeline
	std::shared_ptr<graph_log> graphs = nullptr; ///< null: nobody wants to see the graphs. It lacks what templates repeat.
	/// Of contents that the program has let go of, and of arrays that are arguments: the program waits while the run keeps more of them for unfinished work.
	std::uint64_t most_kept_bytes = std::uint64_t{1} << 30U;
};

struct scheduler_statistics {
	pipeline_counts counts;
	double busy_s = 0;
	double idle_s = 0;
	std::uint64_t released_horizons = 0;
	std::uint64_t executed_horizons = 0;
	CELERITY_FIELDS(counts, busy_s, idle_s, released_horizons, executed_horizons)
};

/// Owns the pipeline and its thread. `submit` and `create_buffer` belong to one application thread at a time; `throttle`, the notify functions and
/// `destroy_buffer` may be called from any thread. Nothing here ever takes the GIL.
class scheduler {
  public:
	/// Without a sink this is a dry run: nothing is executed, and every horizon and epoch counts as passed once it is planned.
	scheduler(const scheduler_settings& settings, instruction_sink* sink);
	~scheduler();
	scheduler(const scheduler&) = delete;
	scheduler& operator=(const scheduler&) = delete;

	void start();
	/// Ends the thread once it has worked off its input; idempotent.
	void stop();

	buffer_id create_buffer(buffer_info info);
	void destroy_buffer(buffer_id id);
	/// Chooses the cuts that the hints of a task leave open. `submit` does the same; a recording needs it before.
	void choose_cuts(task& node) const;
	/// Checks the accesses, then enqueues. Throws access_pattern_error with nothing changed.
	submission_id submit(task&& submitted);
	/// Likewise for repetitions of tasks that `submit` has checked, from line `site`. Returns the number of the first task. The buffers must live.
	submission_id replay(std::shared_ptr<const recorded_program> program, std::uint32_t repetitions, std::uint64_t site);
	submission_id next_submission() const { return submission_id(m_last_submission + 1); }
	std::vector<box> chunks_for(const task& node) const { return all_chunks(node, m_partition); }
	void flush();
	/// There is a queue of this priority. As submit().
	void announce(queue_priority queue);

	/// Blocks while the application is too far ahead, at most `limit`. Returns true if it may go on.
	bool throttle(std::chrono::milliseconds limit, queue_priority queue = 0, bool is_replay = false);
	/// To be called when the run has failed: no horizon will be reached, and `throttle` never blocks again. Any thread.
	void release();
	/// True without taking a lock if `throttle` would not block.
	bool may_submit(queue_priority queue = 0, bool is_replay = false) const { return !m_contents.is_full() && !is_far_ahead(queue, is_replay); }
	/// Blocks until all input so far is planned and in the statistics, at most `limit`; for dry runs. Returns true once it is.
	bool wait_until_planned(std::chrono::milliseconds limit);

	/// The program waits while there is too much; after `remove`, `notify_load` wakes it.
	kept_contents& contents() { return m_contents; }

	/// The executor has passed a horizon or epoch.
	void notify_reached(task_id reached, bool is_epoch);
	/// `has_at_most` of the sink may have changed. Any thread.
	void notify_load() { notify_progress(); }
	/// Holds all input back (it queues up), or lets it go; for measurements.
	void set_paused(bool paused);
	/// Called with true when the thread starts to work and false when it runs out of input. Set before start().
	void set_busy_callback(std::function<void(bool)> callback) { m_on_busy = std::move(callback); }

	/// Called when a sleeping thread gets input, on the thread that brings it: instructions will follow soon. Set before start().
	void set_wake_callback(std::function<void()> callback) { m_on_wake = std::move(callback); }
	/// Called with the text if planning fails. On the scheduler thread; set before start().
	void set_failure_callback(std::function<void(const std::string&)> callback) { m_on_failure = std::move(callback); }

	/// The notices since the last call.
	std::vector<planning_notice> take_notices();
	/// The notices that the next call of `take_notices` returns.
	std::vector<planning_notice> notices() const;
	bool has_notices() const { return m_has_notices.load(std::memory_order_relaxed); }
	scheduler_statistics statistics() const;
	/// The plan so far, of a dry run; zeros without.
	plan_totals totals() const;
	const buffer_info& find_buffer(buffer_id id) const;

  private:
	struct replay_event {
		std::shared_ptr<const recorded_program> program;
		submission_id first;
		std::uint32_t repetitions = 0;
		std::uint64_t site = 0;
	};
	struct buffer_event {
		buffer_info info;
	};
	struct destroy_event {
		buffer_id id;
	};
	struct reached_event {
		task_id reached;
	};
	struct flush_event {};
	struct queue_event {
		queue_priority queue = 0;
	};
	using event = std::variant<std::shared_ptr<task>, replay_event, buffer_event, destroy_event, reached_event, flush_event, queue_event>;

	/// Counts the instructions, and passes horizons and epochs as soon as they are planned.
	class dry_sink final : public instruction_sink {
	  public:
		explicit dry_sink(scheduler& owner) : m_owner(owner) {}
		void submit(instruction_batch&& batch) override;

	  private:
		scheduler& m_owner;
	};

	scheduler_settings m_settings;
	partition m_partition;
	dry_sink m_dry_sink;
	instruction_sink& m_sink;
	std::function<void(bool)> m_on_busy;
	std::function<void()> m_on_wake;
	std::function<void(const std::string&)> m_on_failure;
	std::thread m_thread;

	// Application thread only.
	std::uint64_t m_last_submission = 0;
	std::uint64_t m_last_buffer = 0;
	std::unordered_map<buffer_id, buffer_info> m_buffers;
	const buffer_lookup m_find_buffer = [this](const buffer_id id) -> const buffer_info& { return find_buffer(id); };
	std::mutex m_dead_buffers_mutex; ///< buffers may die on any thread
	std::vector<buffer_id> m_dead_buffers;

	replay_event m_rest; ///< repetitions that wait for the end of their period; scheduler thread

	mutable std::mutex m_mutex;
	std::condition_variable m_wake;
	std::vector<event> m_input;
	bool m_is_sleeping = false;
	bool m_is_stopping = false;
	bool m_is_paused = false;
	std::atomic<bool> m_has_input{false};

	mutable std::mutex m_progress_mutex;
	std::condition_variable m_progress;
	std::uint64_t m_num_let_go = 0; ///< all who waited go on, also those who wake up when others are far ahead again; guarded by m_progress_mutex
	std::atomic<std::uint64_t> m_num_pushed{0};
	std::atomic<std::uint64_t> m_num_planned{0};
	std::atomic<std::uint64_t> m_num_accounted{0}; ///< planned, and in the statistics
	std::atomic<std::uint64_t> m_released_horizons{0};
	std::atomic<std::uint64_t> m_executed_horizons{0};
	std::atomic<std::uint64_t> m_num_handed_over{0}; ///< instructions
	std::atomic<bool> m_is_holding_back{false};      ///< once what is planned has been counted
	kept_contents m_contents;
	std::atomic<int> m_num_waiters{0};
	std::atomic<bool> m_is_released{false};
	std::atomic<bool> m_is_throttled{false}; ///< a submit that is no replay waits, of a queue without a priority
	std::atomic<queue_set> m_queues{0}; ///< those that were announced
	/// Of the newest task of a queue: what is planned once it is, and what the sink has got then.
	struct newest_task {
		std::atomic<std::uint64_t> num_pushed{0};
		std::atomic<std::uint64_t> num_handed_over{0};
	};
	std::array<newest_task, max_queue_priority + 1> m_newest;

	mutable std::mutex m_notices_mutex;
	std::vector<planning_notice> m_notices;
	std::atomic<bool> m_has_notices{false};

	mutable std::mutex m_statistics_mutex;
	scheduler_statistics m_statistics;
	plan_totals m_totals;

	/// Returns `m_num_pushed`, in which a replay counts as its tasks.
	template <typename Event>
	std::uint64_t push(Event&& e, std::uint64_t num_events = 1);
	void run();
	bool take_input(std::vector<event>& out);
	/// Without input, and with commands that lookahead holds back. Adds a flush to the input if the executor has nothing else to do.
	void sleep_until_flush(std::unique_lock<std::mutex>& lock);
	/// Whether all input is planned; the state of lookahead and sink then is that of the whole program.
	bool is_planned() const { return m_num_accounted.load(std::memory_order_acquire) == m_num_pushed.load(std::memory_order_relaxed); }
	/// As throttle, while the run keeps too much.
	bool await_room(std::chrono::milliseconds limit);
	void handle(scheduling_pipeline& pipeline, event&& e);
	/// Repetitions that end no period of a template may wait for the next event.
	void replay(scheduling_pipeline& pipeline, replay_event&& event);
	void finish_replay(scheduling_pipeline& pipeline);
	/// The executor must not wait for the end of a period if there is no more input.
	void finish_replay_without_input(scheduling_pipeline& pipeline);
	/// The newest task of the queue is planned.
	void note_handed_over(const scheduling_pipeline& pipeline, queue_priority queue);
	void note_planned(const scheduling_pipeline& pipeline, std::uint64_t num_events);
	void handle_traced(scheduling_pipeline& pipeline, event&& e);
	void report(planning_notice&& notice);
	pipeline_observers make_observers();
	void notify_progress();
	bool is_behind(std::uint64_t allowed_horizons, std::uint64_t allowed_events) const;
	std::uint64_t most_waiting_events() const;
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
	submit_limits limits_of(queue_priority queue, bool is_replay) const;
	bool is_behind_by(const distance& halves) const;
	bool is_far_ahead(queue_priority queue, bool is_replay) const;
	/// Whether a queue has little unfinished work: `halves` of a half of what it may have while others keep the program from being further ahead.
	bool is_short_of_work(queue_priority queue, std::uint64_t halves) const;
	void forget_dead_buffers();
};

} // namespace celerity
