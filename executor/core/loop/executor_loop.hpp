// SPDX-License-Identifier: MIT
// The executor of one rank: takes batches from the scheduler, carries out or hands out every instruction when its time has come, and reports completion.
//
// Threads: the scheduler thread calls submit(); one thread, the executor's, calls run() again and again; launcher threads sit in next_kernel(), host-task
// threads in next_host_task(); any thread may call the rest. m_state_mutex is held while the executor thread works, never while it waits.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "devices/backend.hpp"
#include "dispatch/dispatcher.hpp"
#include "dispatch/executor_inbox.hpp"
#include "dispatch/executor_options.hpp"
#include "dispatch/executor_state.hpp"
#include "dispatch/progress_report.hpp"
#include "engine/out_of_order_engine.hpp"
#include "events/executor_events.hpp"
#include "events/executor_statistics.hpp"
#include "failed_run.hpp"
#include "lane_watch.hpp"
#include "loop_pauses.hpp"
#include "queue_loads.hpp"
#include "runs/graph_runs.hpp"
#include "scheduler/core/vocabulary/instruction_sink.hpp"
#include "threads/busy_clock.hpp"
#include "threads/event_count.hpp"

namespace celerity {

/// Called on the executor thread. All may be empty.
struct executor_callbacks {
	std::function<void(task_id, bool is_epoch)> progress; ///< told of every horizon and epoch that is complete, without locks held
	std::function<void()> load;                           ///< with queues of several priorities: `has_at_most` may have changed; with locks held
	std::function<void(std::uint64_t bytes)> freed;       ///< told of memory that has been freed, with locks held
};

class executor_loop final : public instruction_sink {
  public:
	using backend_factory = std::function<std::unique_ptr<backend>(event_count&)>;

	/// With the CPU backend.
	explicit executor_loop(const executor_options& options);
	executor_loop(const executor_options& options, const backend_factory& make_backend);
	executor_loop(const executor_loop&) = delete;
	executor_loop& operator=(const executor_loop&) = delete;
	~executor_loop();

	/// Before the first batch.
	void set_callbacks(executor_callbacks callbacks) { m_callbacks = std::move(callbacks); }

	/// For the start of direct transfers, before the first batch: every rank of a host gives its offer to the others, opens theirs, and names those with whom
	/// both sides have succeeded. Null if this executor has no direct transfers.
	direct_context* direct() {
		return m_state.options.direct && !m_state.options.sync && m_state.direct_lanes != nullptr ? &m_state.transfers.direct() : nullptr;
	}

	void submit(instruction_batch&& batch) override;
	bool has_at_most(const queue_priority queue, const std::uint64_t most, const std::uint64_t num_handed_over) const override {
		return m_loads.has_at_most(queue, most, num_handed_over);
	}
	bool is_idle(std::uint64_t num_handed_over) override;
	bool takes_periods() const override { return m_runs.are_possible(); }
	/// Whether the executor thread knows the first `num_handed_over` instructions, and none that needs a lane of a device is left. Any thread.
	bool has_empty_lanes(std::uint64_t num_handed_over);
	/// For the accounting of idle time: whether the scheduler has something to do.
	void set_scheduler_busy(const bool busy) { m_time.set_scheduler_busy(busy); }

	/// Work will come soon. With `idle_spin` the thread wakes up, and looks for it. Any thread.
	void expect_work();

	/// Connected with a port before the first batch. Without a port, messages are events, and notify_complete() and notify_pilot() answer them: for tests that play
	/// the network.
	network_link& network() { return m_state.network; }

	/// Works until there is an event, the port has something for Python, a thread calls wake(), or the time is up. An event for which no thread waits leaves a
	/// little later, with others.
	std::vector<executor_event> run(std::chrono::nanoseconds timeout);
	/// See call_board::next_kernel(). Behind a short kernel, the calling thread carries out the loop until the next kernel is there: the thread of run() rests.
	std::optional<kernel_call> next_kernel(device_id device);
	/// See announcements::watch(). Any thread.
	bool watch(const submission_id submission, spin_flag& flag, const std::chrono::nanoseconds limit) { return m_state.events.watch(submission, flag, limit); }
	void wake();
	void notify_complete(request_id request);
	void notify_pilot(rank_id from, const pilot_message& pilot);
	/// Of the pilots that have come, by MPI or from direct peers. Between two calls of run(), on the same thread.
	std::vector<receive_arbiter::unclaimed_pilot> unclaimed_pilots();
	/// For the threads that call user functions; nothing after stop(). Any thread.
	call_board& calls() { return m_state.calls; }
	/// A kernel whose launch is there is launched by the executor thread itself. Before the submission; one thread.
	launch_table& launches() { return m_state.launches; }
	/// For the memory of users. Any thread.
	allocation_table& allocations() { return m_state.allocations; }

	/// Before the first task of a queue with this priority; see backend::prepare_queue(). Any thread.
	void prepare_queue(queue_priority queue, double share = 0);
	/// Nothing new is issued from now on; run() goes on returning.
	void fail();
	/// As if the executor itself had failed: run() returns a failed event with this text. Any thread.
	void report_failure(const std::string& text);
	/// Wakes every thread out of its wait and joins the native ones. Afterwards the executor reads no instruction. Idempotent.
	void stop();
	/// Stops, and gives all memory and handles of the devices back. False while operations run there: then it may be called again. No thread runs user code.
	bool release_devices();

	/// For the contents of buffers, before release_devices().
	failed_run& after_failure() { return m_failed_run; }
	std::vector<active_instruction> active_instructions();
	executor_statistics statistics();
	/// For tests: see out_of_order_engine::validate(). Not of a run that has failed.
	void validate();

	std::span<const lane_class> lane_classes() const { return m_state.devices->lane_classes(); }

  private:
	const bool m_is_observed; ///< by a timeline or a profiler
	executor_callbacks m_callbacks;
	queue_loads m_loads;
	event_count m_wake_up;
	std::atomic<bool> m_is_woken{false};
	std::atomic<bool> m_is_failed{false};
	std::atomic<bool> m_is_stopping{false};
	executor_inbox m_inbox;

	// m_state_mutex guards the members below, except those from `m_left_at_ns` on, which only the thread uses that carries out the loop: see loop_lead.
	std::mutex m_state_mutex;
	std::mutex m_stop_mutex;
	executor_state m_state;
	dispatcher m_dispatcher;
	graph_runs m_runs; // gone before the devices
	lane_watch m_lanes;
	failed_run m_failed_run;
	std::vector<out_of_order_engine::completed_instruction> m_retired;
	time_account m_time;
	std::int64_t m_left_at_ns = 0; ///< with a timeline: when run() last returned with something to do in Python
	event_count::clock::time_point m_turn_began{};
	loop_pauses m_pauses;
	std::vector<reached_task> m_progress; // of a turn

	/// A round, with its reports to other native code. One thread at a time.
	void turn();
	/// Whether there was anything to do.
	bool work();
	bool take_inbox();
	/// Whether the run goes on: it has not failed, and no other rank is known to run another program.
	bool may_go_on() const;
	/// Up to these positions. False if there are none.
	bool complete_lanes(std::span<const lane_position> progressed);
	int issue_ready();
	/// Between two instructions of several queues. `seen`: the count of `m_wake_up` at the last look.
	bool must_look_around(const issue& issued, std::uint64_t seen);
	void complete_done();
	void retire();
	executor_failure& enter_failure(const std::string& text, executor_failure::kind_type kind = executor_failure::kind_type::fault);
};

} // namespace celerity
