// SPDX-License-Identifier: MIT
// The executor of one rank: takes batches from the scheduler, carries out or hands out every instruction when its time has come, and reports completion.
//
// Threads: the scheduler thread calls submit(); one thread, the executor's, calls run() again and again; launcher threads sit in next_kernel(), host-task
// threads in next_host_task(); any thread may call the rest. m_state_mutex is held while the executor thread works, never while it waits.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "announcements.hpp"
#include "backends/backend.hpp"
#include "call_board.hpp"
#include "engine/out_of_order_engine.hpp"
#include "engine_requests.hpp"
#include "events/executor_events.hpp"
#include "events/executor_statistics.hpp"
#include "events/profiler_ranges.hpp"
#include "executor_inbox.hpp"
#include "memory/allocation_table.hpp"
#include "period_graphs.hpp"
#include "progress_report.hpp"
#include "queue_loads.hpp"
#include "scheduler/core/graphs/program_log.hpp"
#include "scheduler/core/vocabulary/instruction_sink.hpp"
#include "scheduler/core/vocabulary/trace_recorder.hpp"
#include "threads/busy_clock.hpp"
#include "threads/event_count.hpp"
#include "transfers/communication.hpp"
#include "transfers/direct_context.hpp"
#include "transfers/direct_receiver.hpp"
#include "transfers/direct_sender.hpp"

namespace celerity {

struct executor_options {
	std::size_t num_ranks = 1;
	rank_id rank;
	std::size_t num_devices = 1;
	bool oversubscribed = false; ///< more busy threads than cores: never spin
	bool check = false;          ///< fill fresh memory with 0xff bytes
	bool lane_events = true;     ///< lanes wait for each other, and not the host for all of them
	kernel_order order = kernel_order::age; ///< of instructions of one queue and kind
	bool sync = false;           ///< issue work for devices and host tasks one at a time
	bool direct = false;         ///< transfers between ranks of this host may be direct; not with `sync`
	std::shared_ptr<trace_recorder> trace = nullptr; ///< null: there is no timeline
	std::shared_ptr<profiler_ranges> ranges = nullptr; ///< null: no profiler looks
	std::shared_ptr<program_log> program = nullptr;  ///< to compare with other ranks; null: there are none
	bool overwrites_wait = false; ///< a writer waits on its lane until other ranks have fetched the old data; otherwise the host waits
	std::chrono::nanoseconds idle_spin{0};           ///< so long the thread looks for work before it sleeps
	/// With direct transfers, the executor puts nothing on lanes while a lane has so many instructions in flight. A full queue would block the thread, for
	/// which other ranks may wait. A queue of CUDA holds a thousand operations, and an instruction is up to eight of them.
	std::uint64_t most_on_a_lane = 120;
};

/// Whether all busy threads of this rank have a core of their own.
bool has_free_cores(const executor_options& options);

/// An allocation failed for good.
class memory_shortage : public std::runtime_error {
  public:
	explicit memory_shortage(memory_holders found) : std::runtime_error("there is no room for an allocation"), holders(std::move(found)) {}

	memory_holders holders;
};

/// A batch that waits, and all later ones with it, until other ranks have announced the data that its graphs fetch. The numbers are of instructions.
struct staged_batch {
	instruction_batch batch;
	bool runs_as_graphs = false;
	std::size_t num_begun = 0;     ///< whose transfers have begun
	std::size_t num_submitted = 0; ///< to the engine
	std::size_t num_announced = 0; ///< up to the first transfer that is not announced

	bool has_begun() const { return num_begun == batch.instructions.size(); }
	instruction_span left() const { return instruction_span(batch.instructions).subspan(num_submitted); }
	instruction_id first_id() const { return left().front()->id; }
};

class executor_loop final : public instruction_sink {
  public:
	using progress_callback = std::function<void(task_id, bool is_epoch)>;
	using load_callback = std::function<void()>;
	using backend_factory = std::function<std::unique_ptr<backend>(event_count&)>;

	/// With the CPU backend.
	explicit executor_loop(const executor_options& options);
	executor_loop(const executor_options& options, const backend_factory& make_backend);
	executor_loop(const executor_loop&) = delete;
	executor_loop& operator=(const executor_loop&) = delete;
	~executor_loop();

	/// Told of every horizon and epoch that is complete, on the executor thread, without locks held. Set it before the first batch.
	void set_progress_callback(progress_callback callback) { m_progress = std::move(callback); }
	/// With queues of several priorities: called when `has_at_most` may have changed, on the executor thread, with locks held. Set it before the first batch.
	void set_load_callback(load_callback callback) { m_on_load = std::move(callback); }

	/// Direct transfers, before the first batch: every rank of `host_ranks` gives its offer to the others, opens theirs, and names those with whom both sides
	/// have succeeded. Nothing if this executor has no direct transfers.
	std::optional<flag_segment::offer> offer_direct(const std::vector<rank_id>& host_ranks);
	/// Throws std::runtime_error.
	void open_direct(const rank_id peer, const flag_segment::offer& offer) { m_direct.open(peer, offer); }
	void agree_direct(const std::vector<rank_id>& peers) { m_direct.agree(peers); }

	void submit(instruction_batch&& batch) override;
	bool has_at_most(const queue_priority queue, const std::uint64_t most, const std::uint64_t num_handed_over) const override {
		return m_loads.has_at_most(queue, most, num_handed_over);
	}
	activity current_activity(std::uint64_t num_handed_over) override;
	/// For the accounting of idle time: whether the scheduler has something to do.
	void set_scheduler_busy(const bool busy) { m_time.set_scheduler_busy(busy); }

	/// Work will come soon. With `idle_spin` the thread wakes up, and looks for it. Any thread.
	void expect_work();

	/// Works until there is an event, communication becomes outstanding, a thread calls wake(), or the time is up. An event for which no thread waits
	/// leaves a little later, with others.
	std::vector<executor_event> run(std::chrono::nanoseconds timeout);
	/// See announcements::watch(). Any thread.
	bool watch(const submission_id submission, spin_flag& flag, const std::chrono::nanoseconds limit) { return m_announcements.watch(submission, flag, limit); }
	void wake();
	void notify_complete(request_id request);
	void notify_pilot(rank_id from, const pilot_message& pilot);
	/// Of the pilots that have come, by MPI or from direct peers. Between two calls of run(), on the same thread.
	std::vector<receive_arbiter::unclaimed_pilot> unclaimed_pilots();
	/// Requests, or awaited data: the network should be polled.
	bool has_outstanding_communication() const { return m_has_outstanding_communication.load(std::memory_order_relaxed); }

	/// Blocks; nothing after stop(). One thread per device: the device's kernels run in the order in which they are handed out.
	std::optional<kernel_call> next_kernel(const device_id device) { return m_calls.next_kernel(device); }
	/// The kernel's function has returned; its work may still run on its lane.
	void kernel_returned(call_ticket ticket);
	/// Blocks; nothing after stop(). Any number of threads.
	std::optional<host_call> next_host_task() { return m_calls.next_host_task(); }
	/// A host task that is running waits for other ranks: with `sync`, it no longer keeps others from being issued. Once per call.
	void host_task_waits(call_ticket ticket);
	void host_task_done(call_ticket ticket);
	/// Whether next_kernel() and next_host_task() return at once.
	bool has_kernel(const device_id device) { return m_calls.has_kernel(device); }
	bool has_host_task() { return m_calls.has_host_task(); }

	/// From now on the kernel of this submission is launched by the executor thread itself. Before the submission; one thread.
	void register_launch(const submission_id submission, native_launch&& launch) { m_launches.add(submission, std::move(launch)); }
	void take_back_launch(const submission_id submission) { m_launches.take_back(submission); }

	std::uint64_t register_user_memory(void* const address, const box& allocated_box) { return m_allocations.register_user_memory(address, allocated_box); }
	void replace_user_memory(const std::uint64_t raw, void* const address) { m_allocations.replace_user_memory(raw, address); }
	void unregister_user_memory(const std::uint64_t raw) { m_allocations.unregister_user_memory(raw); }

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

	std::vector<active_instruction> active_instructions();
	executor_statistics statistics();

	const executor_options& options() const { return m_options; }
	/// Whether periods of replays may run as graphs; once direct transfers have started.
	bool has_graphs() const {
		return m_backend->has_graphs() && !m_options.sync && m_trace == nullptr && (!m_direct.has_peers() || m_backend->do_graphs_exchange());
	}
	std::span<const lane_class> lane_classes() const { return m_backend->lane_classes(); }

  private:
	struct progress_event {
		task_id task;
		bool is_epoch = false;
	};
	/// A fold on a device that makes the result of a minimum or maximum.
	struct watched_fold {
		lane_position position;
		reduction_id reduction;
		std::uint32_t* has_values; ///< see fold_operation
	};

	const executor_options m_options;
	const bool m_may_spin;
	trace_recorder* const m_trace;
	const bool m_is_observed; ///< by a timeline or a profiler
	progress_callback m_progress;
	load_callback m_on_load;
	queue_loads m_loads;
	event_count m_wake_up;
	std::atomic<bool> m_is_woken{false};
	std::atomic<bool> m_is_failed{false};
	std::atomic<bool> m_is_stopping{false};
	std::atomic<bool> m_has_outstanding_communication{false};

	executor_inbox m_inbox;
	std::unique_ptr<backend> m_backend;
	call_board m_calls;
	launch_table m_launches;
	announcements m_announcements;

	// m_state_mutex guards the members below, except mutexes, atomics, `m_worked_at` and `m_left_at_ns`. Only the executor thread uses these two.
	std::mutex m_state_mutex;
	std::mutex m_stop_mutex;
	out_of_order_engine m_engine;
	allocation_table m_allocations; // user memory has a lock of its own
	executor_statistics m_statistics;
	direct_context m_direct; // gone before the backend
	request_rules m_rules;
	period_graphs m_graphs; // gone before the backend
	std::deque<staged_batch> m_staged;
	std::unordered_map<instruction_id, bool> m_released_early; ///< transfers of staged batches; whether the data is ready
	event_count::clock::time_point m_staged_since{};           ///< the first batch waits for more periods; 0: it does not
	event_count::clock::time_point m_staged_until{};           ///< so long the first batch waits for more periods; 0: it does not
	std::vector<graph_flag> m_flags;                            ///< of the latest run
	direct_sender m_sender;
	direct_receiver m_receiver;
	communication m_communication;
	bool m_has_unsent_pilots = false; // among m_announcements
	std::deque<const instruction*> m_waiting_allocations; // until the backend has room for the first one
	std::vector<shared_flag> m_answers; ///< of waits_of()
	std::vector<watched_fold> m_watched_folds; ///< not complete; those of graphs are not watched
	std::vector<progress_event> m_progress_events;
	std::vector<instruction_id> m_done;
	std::vector<out_of_order_engine::completed_instruction> m_retired;
	const instruction* m_current = nullptr; // being issued, for the message if that fails
	std::size_t m_num_host_calls = 0; // issued and not complete, without those that wait for other ranks
	std::set<instruction_id> m_waiting_calls; // not complete
	time_account m_time;
	std::int64_t m_left_at_ns = 0; ///< with a timeline: when run() last returned with something to do in Python

	std::int64_t m_next_poll_ns = 0;
	std::vector<lane_position> m_raised; ///< by lane, the last instruction of a raised queue that may be in flight
	event_count::clock::time_point m_worked_at{};
	std::atomic<bool> m_expects_work{false};
	lane_index m_full_lane = no_lane;

	/// Calls add(mail), and wakes the executor thread.
	template <typename F>
	void post(F&& add) {
		m_inbox.post(std::forward<F>(add));
		m_wake_up.signal();
	}
	/// Whether there was anything to do.
	bool work();
	/// Whether events are to leave ahead of further work.
	bool must_hand_over_before(int round) const;
	/// Calls the load callback, if there are queues of several priorities.
	void tell_loads();
	bool take_inbox();
	void take_batch(const instruction_batch& batch);
	/// Announces a send to the other rank, or expects the messages of a receive.
	void begin_transfer(const instruction& item, std::uint64_t stamp);
	/// Sends a pilot, or leaves that to the direct sender.
	void announce(const instruction& item, const send_instruction& send, std::uint64_t stamp);
	void take_pilot(rank_id from, const pilot_message& pilot);
	std::uint64_t program_digest_at(task_id consumer) const;
	/// Whether the run goes on: it has not failed, and no other rank is known to run another program.
	bool may_go_on() const;
	bool poll_lanes();
	/// Of the lanes in `m_raised`.
	bool poll_raised();
	/// Up to these positions. False if there are none.
	bool complete_lanes(std::span<const lane_position> progressed);
	/// Of the folds that are complete.
	void report_empty_folds();
	void give_back(const watched_fold& watched);
	void fail_out_of_bounds(const bounds_violation& violation);
	bool poll_direct();
	void release_held();
	void release(const released_instruction& released);
	bool is_communication_outstanding() const;
	int issue_ready();
	/// Between two instructions of several queues. `seen`: the count of `m_wake_up` at the last look.
	bool must_look_around(const issue& issued, std::uint64_t seen);
	bool must_hold_back() const;
	/// Whether nothing may be put on lanes now.
	bool is_lane_full();
	void complete_done();
	void retire();
	void retire(const instruction& item);
	void retire_horizon(const horizon_instruction& horizon);
	void retire_epoch(const epoch_instruction& epoch);
	void retire_run(instruction_id first);
	/// Of the first transfer that waits, if the instructions are several.
	std::optional<transfer_status> find_status(const out_of_order_engine::live_instruction& live) const;
	/// All instructions that the engine carries out as this one.
	instruction_span instructions_of(const out_of_order_engine::live_instruction& live) const;
	void wait(std::uint64_t seen, event_count::clock::time_point deadline);
	bool is_lane_in_flight() const;
	void poll_until_progress(std::uint64_t seen, event_count::clock::time_point deadline);
	void cancel();
	std::vector<submission_id> kernels_in_flight() const;
	executor_failure& enter_failure(const std::string& text, executor_failure::kind_type kind = executor_failure::kind_type::fault);

	// executor_dispatch.cpp: a specialisation per kind of instruction
	void dispatch(const issue& item);
	/// For a timeline or a profiler, too.
	void dispatch_observed(const issue& item);
	template <typename Operation>
	void execute(const issue& item, const Operation& operation) = delete;
	void allocate(instruction_id id, const alloc_instruction& alloc);
	bool allocate_waiting();
	/// The place of data that begins at an offset in the allocation.
	array_place place_at(allocation_id allocation, std::size_t offset_bytes) const;
	copy_operation operation_of(const copy_instruction& copy) const;
	std::vector<copy_operation> operation_of(const gather_copy_instruction& gather) const;
	fold_operation operation_of(const reduce_instruction& reduce) const;
	launch_operation operation_of(const device_kernel_instruction& kernel, const native_launch& launch) const;

	// executor_runs.cpp: replays that run as graphs
	struct begun_step;
	void submit_as_runs(const instruction_batch& batch);
	bool begin_staged();
	bool submit_staged();
	/// Of the first staged batch, now. Of size 0: none yet, or the batch does not run as graphs.
	batch_part part_to_run(staged_batch& staged);
	bool fetches_as_before(const batch_part& part, const period_graph& graph) const;
	std::vector<begun_step> begin_run(const graph_run& run);
	std::vector<graph_operation> operations_of(const graph_run& run, std::span<const begun_step> begun) const;
	void issue_run(const issue& item);
	/// Valid until the next call.
	lane_waits waits_of(const issue& item);
	std::vector<bound_access> bind(std::span<const access_binding> accesses) const;
	queue_priority launch_queue(lane_index lane) const;
	memory_holders find_holders(const alloc_instruction& lacking) const;
};

} // namespace celerity
