// SPDX-License-Identifier: MIT
// The thread that plans while the executor runs.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "vocabulary/trace_recorder.hpp"
#include "graphs/access_checks.hpp"
#include "graphs/cut_choice.hpp"
#include "graphs/deep_halos.hpp"
#include "batch_hold.hpp"
#include "graph_log.hpp"
#include "pacing.hpp"
#include "plan_totals.hpp"
#include "scheduling_pipeline.hpp"
#include "vocabulary/instruction_sink.hpp"

namespace celerity {

struct scheduler_settings {
	pipeline_settings pipeline;
	/// See pacing_settings.
	std::uint64_t run_ahead = 16;
	/// The time for which a thread without work looks for more before it sleeps.
	std::chrono::nanoseconds idle_spin{0};
	/// See pacing_settings.
	std::uint64_t most_kept_bytes = std::uint64_t{1} << 30U;
	std::shared_ptr<trace_recorder> trace = nullptr; ///< null: there is no timeline
	std::shared_ptr<graph_log> graphs = nullptr; ///< null: nobody wants to see the graphs. It lacks what templates repeat.
};

struct scheduler_statistics {
	pipeline_counts counts;
	double busy_s = 0;
	double idle_s = 0;
	double held_s = 0; ///< while instructions of a plain loop waited for more of them
	std::uint64_t released_horizons = 0;
	std::uint64_t executed_horizons = 0;
	CELERITY_FIELDS(counts, busy_s, idle_s, held_s, released_horizons, executed_horizons)
};

/// Owns the pipeline and its thread. `submit` and `create_buffer` belong to one application thread at a time; `pace`, `notify_reached` and `destroy_buffer`
/// may be called from any thread. Nothing here ever takes the GIL.
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
	/// `num_bytes`: of all its elements.
	void destroy_buffer(buffer_id id, std::uint64_t num_bytes);
	/// Chooses the cuts that the hints of a task leave open. `submit` does the same; a recording needs it before.
	void choose_cuts(task& node) const;
	/// Of tasks whose cuts are chosen. The buffers must live.
	deep_halos find_halos(const std::span<const task> tasks) const { return plan_deep_halos(tasks, m_partition, m_find_buffer); }
	/// Checks the accesses, then enqueues. Throws access_pattern_error with nothing changed.
	submission_id submit(task&& submitted);
	/// Likewise for repetitions of tasks that `submit` has checked, from line `site`, beginning with `phase`. Returns the number of the first task. The buffers
	/// must live.
	submission_id replay(std::shared_ptr<const recorded_program> program, std::uint32_t repetitions, std::size_t phase, std::uint64_t site);
	submission_id next_submission() const { return submission_id(m_last_submission + 1); }
	std::vector<box> chunks_for(const task& node) const { return all_chunks(node, m_partition); }
	/// What the chunks of this rank's devices access. Throws access_pattern_error.
	std::vector<accessed_chunk> local_accesses(task node) const {
		choose_cuts(node);
		return celerity::local_accesses(node, m_partition, m_find_buffer);
	}
	void flush();
	/// There is a queue of this priority. As submit().
	void announce(queue_priority queue);

	/// How far the program is ahead, and whether it may submit.
	pacing& pace() { return m_pace; }

	/// The executor has passed a horizon or epoch.
	void notify_reached(task_id reached, bool is_epoch);
	/// Holds all input back (it queues up), or lets it go; for measurements.
	void set_paused(bool paused);
	/// Called with true when the thread starts to work and false when it runs out of input. Set before start().
	void set_busy_callback(std::function<void(bool)> callback) { m_on_busy = std::move(callback); }

	/// Called when a sleeping thread gets input, on the thread that brings it: instructions will follow soon. Set before start().
	void set_wake_callback(std::function<void()> callback) { m_on_wake = std::move(callback); }
	/// Called with the text if planning fails. On the scheduler thread; set before start().
	void set_failure_callback(std::function<void(const std::string&)> callback) { m_on_failure = std::move(callback); }

	/// Where the contents of a buffer will be when all that was submitted has been executed; after a failure, before stop(). Throws std::runtime_error if the
	/// thread has ended.
	planned_places newest_places(buffer_id id);

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
		std::size_t phase = 0; ///< of the first one
		std::uint64_t site = 0;
	};
	struct buffer_event {
		buffer_info info;
	};
	struct destroy_event {
		buffer_id id;
		std::uint64_t num_bytes = 0; ///< counted as kept until this event is planned
	};
	struct reached_event {
		task_id reached;
	};
	/// Or a question, which compiles nothing.
	struct flush_event {
		buffer_id asked{};
		std::shared_ptr<std::promise<planned_places>> answer = nullptr;
	};
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
	pacing m_pace;
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

	// Scheduler thread only.
	replay_event m_rest; ///< repetitions that wait for the end of their period
	std::uint64_t m_num_condemned_bytes = 0; ///< by the pipeline, when it was looked at last

	mutable std::mutex m_mutex;
	std::condition_variable m_wake;
	std::vector<event> m_input;
	bool m_is_sleeping = false;
	bool m_is_stopping = false;
	bool m_is_paused = false;
	std::atomic<bool> m_has_input{false};

	mutable std::mutex m_notices_mutex;
	std::vector<planning_notice> m_notices;
	std::atomic<bool> m_has_notices{false};

	mutable std::mutex m_statistics_mutex;
	scheduler_statistics m_statistics;
	plan_totals m_totals;

	/// Returns the number of all events so far, in which a replay counts as its tasks.
	template <typename Event>
	std::uint64_t push(Event&& e, std::uint64_t num_events = 1);
	void run();
	bool take_input(std::vector<event>& out, const scheduling_pipeline& pipeline, const batch_hold& hold);
	/// Until there may be input. Adds a flush to the input if the program has submitted nothing for a while, commands are held back, and nothing is executed.
	void sleep(std::unique_lock<std::mutex>& lock, const scheduling_pipeline& pipeline, const batch_hold& hold);
	/// A submit must not wait for commands that are held back until a later submit comes.
	void flush_if_no_room(scheduling_pipeline& pipeline);
	void note_planned(const scheduling_pipeline& pipeline, std::uint64_t num_events);
	void handle(scheduling_pipeline& pipeline, event&& e);
	/// Repetitions that end no period of a template may wait for the next event.
	void replay(scheduling_pipeline& pipeline, replay_event&& event);
	void finish_replay(scheduling_pipeline& pipeline);
	/// The executor must not wait for the end of a period if there is no more input.
	void finish_replay_without_input(scheduling_pipeline& pipeline);
	void handle_traced(scheduling_pipeline& pipeline, event&& e);
	void report(planning_notice&& notice);
	pipeline_observers make_observers();
	void forget_dead_buffers();
};

} // namespace celerity
