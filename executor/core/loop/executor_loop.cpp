// SPDX-License-Identifier: MIT
#include "executor_loop.hpp"

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <thread>
#include <utility>

#include "backends/cpu/cpu_backend.hpp"
#include "dispatch/executor_trace.hpp"
#include "dispatch/instruction_facts.hpp"
#include "events/labels.hpp"

namespace celerity {

namespace {

/// After so many rounds that found more to do, events are handed over before the next one: a send should not wait for unrelated work.
constexpr int rounds_before_hand_over = 4;
/// Between two calls that wake threads whose queues may have less to do: to wake a thread takes as long as to issue an instruction.
constexpr int rounds_per_load_call = 16;
/// Between two looks at the inbox. Where there are queues of several priorities, news interrupts a round.
constexpr int issues_per_round = 64;
/// Keeps the sum with the present time representable.
constexpr std::chrono::hours max_timeout{24};

executor_failure failure_of(const bounds_violation& violation) {
	executor_failure failure;
	failure.kind = executor_failure::kind_type::bounds;
	failure.text = "a kernel left its declared region";
	failure.submission = violation.kernel->submission;
	failure.access = violation.access;
	failure.element = violation.index;
	if(violation.access < violation.kernel->accesses.size()) failure.declared = box_vector(violation.kernel->accesses[violation.access].accessed);
	return failure;
}

/// From the network. Those of a run that does not go on are dropped. Whether there were any; the caller completes what is done.
bool take_messages(executor_state& state, const bool goes_on) {
	if(!state.network.look()) return false;
	const auto arrived = state.network.take();
	if(arrived.is_empty() || !goes_on) return false;
	for(const auto& [from, pilot] : arrived.pilots) state.transfers.take_pilot(from, pilot_message::parse(pilot.data(), pilot.size()));
	for(const auto request : arrived.completed) state.transfers.messages().complete(request, state.done);
	return true;
}

/// Whether events are to leave ahead of further work. Where there are queues of several priorities, a round may be a single instruction, and no event waits
/// for the next one.
bool must_hand_over_before(const executor_state& state, const int round) {
	const bool is_shared = state.engine.is_shared();
	if(round >= rounds_before_hand_over * (is_shared ? issues_per_round : 1) && !state.reached.empty()) return true;
	return round >= (is_shared ? 1 : rounds_before_hand_over) && state.events.has_urgent();
}

/// Whether the thread of run() has to do what only Python can.
bool must_return(executor_state& state) { return state.network.has_control() || state.events.must_hand_over(); }

/// The time of the next turn if nothing happens.
event_count::clock::time_point next_turn(const executor_state& state, const graph_runs& runs, const event_count::clock::time_point latest_began,
    const event_count::clock::time_point deadline) {
	auto next = state.events.is_empty() ? deadline : std::min(deadline, state.events.deadline());
	// Times from before the round have been looked at. A staged batch then waits for lanes or runs, which wake this thread.
	for(const auto time : {runs.staged_until(), state.transfers.next_announcement()}) {
		if(time > latest_began) next = std::min(next, time);
	}
	return next;
}

void issue_one(const executor_state& state, dispatcher& dispatcher, graph_runs& runs, const issue& item) {
	if(item.num_ids == 1) return dispatcher.dispatch(item);
	state.flush();
	runs.issue(item, dispatcher.waits_of(item));
}

/// For a timeline or a profiler, too.
void issue_observed(const executor_state& state, dispatcher& dispatcher, graph_runs& runs, const issue& item) {
	const std::int64_t start_ns = state.trace != nullptr ? now_ns() : 0;
	const profiler_range range(state.options.ranges.get(), [&](const profiler_ranges& ranges) {
		if(item.num_ids == 1) return name_for_profiler(*item.payload, ranges);
		const auto& instructions = runs.find(item.id).instructions;
		const auto first = label(instructions.front()->key.task);
		return first + " to " + label(instructions.back()->key.task) + ": " + std::to_string(instructions.size()) + " instructions as graphs";
	});
	issue_one(state, dispatcher, runs, item);
	if(state.trace != nullptr) trace_issue(*state.trace, item, state.allocations, start_ns);
}

} // namespace

executor_loop::executor_loop(const executor_options& options)
    : executor_loop(options, [&](event_count& completions) {
	      return std::make_unique<cpu_backend>(options.num_devices, completions, options.direct, options.trace.get(), options.kernel_threads);
      }) {}

executor_loop::executor_loop(const executor_options& options, const backend_factory& make_backend)
    : m_is_observed(options.trace != nullptr || options.ranges != nullptr), m_inbox(m_wake_up), m_state(options, make_backend(m_wake_up), m_inbox),
      m_dispatcher(m_state), m_runs(m_state), m_lanes(m_state), m_failed_run({m_state_mutex, m_is_failed, m_is_stopping, m_inbox, m_state, m_runs, m_lanes}),
      m_pauses(m_state, m_lanes, m_wake_up) {}

executor_loop::~executor_loop() { release_devices(); }

// ---- the executor thread ----------------------------------------------------------------------------------------------------------

std::vector<executor_event> executor_loop::run(const std::chrono::nanoseconds timeout) {
	const auto deadline = event_count::clock::now() + std::min<std::chrono::nanoseconds>(timeout, max_timeout);
	std::vector<executor_event> events;
	if(m_left_at_ns != 0) m_state.trace->record({std::exchange(m_left_at_ns, 0), now_ns(), traced_python{}});
	auto& lead = m_state.calls.lead();
	while(true) {
		const auto seen = m_wake_up.prepare();
		const bool is_woken = m_is_woken.exchange(false, std::memory_order_relaxed);
		turn();
		if(m_is_stopping.load(std::memory_order_relaxed)) return {stopped_event{}};
		if(must_return(m_state) || is_woken || event_count::clock::now() >= deadline) {
			m_state.events.take(events);
			if(!events.empty()) m_state.network.note_progress();
			if(m_state.trace != nullptr && !events.empty()) m_left_at_ns = now_ns();
			return events;
		}
		if(lead.may_rest() && m_state.options.ranges == nullptr) { // a profiler shows the ranges of each thread
			const auto is_wanted = [this] { return m_is_woken.load(std::memory_order_relaxed) || m_is_stopping.load(std::memory_order_relaxed); };
			lead.rest(deadline, is_wanted, [this] { m_wake_up.signal(); });
		} else {
			m_pauses.wait(seen, next_turn(m_state, m_runs, m_turn_began, deadline));
		}
	}
}

std::optional<kernel_call> executor_loop::next_kernel(const device_id device) {
	auto& lead = m_state.calls.lead();
	if(!lead.try_take()) return m_state.calls.next_kernel(device);
	while(true) {
		const auto seen = m_wake_up.prepare();
		turn();
		if(m_is_stopping.load(std::memory_order_relaxed) || lead.must_give_back() || must_return(m_state)) break;
		std::optional<kernel_call> call;
		{
			const std::lock_guard lock(m_state_mutex);
			call = m_state.calls.try_next_kernel(device);
		}
		if(call.has_value()) {
			lead.leave();
			return call;
		}
		m_pauses.wait(seen, next_turn(m_state, m_runs, m_turn_began, event_count::clock::now() + max_timeout));
	}
	lead.give_back();
	return m_state.calls.next_kernel(device);
}

void executor_loop::turn() {
	m_turn_began = event_count::clock::now();
	{
		const std::lock_guard lock(m_state_mutex);
		if(m_is_stopping.load(std::memory_order_relaxed)) return;
		m_time.advance(m_state.engine.num_live() > 0);
		m_state.transfers.note_pilots_sent();
		const bool has_worked = work();
		m_time.advance(m_state.engine.num_live() > 0, has_worked);
		std::swap(m_progress, m_state.reached);
	}
	// Before the events: a fence that is fulfilled may be followed by a program that ends.
	if(m_callbacks.progress) {
		for(const auto& reached : m_progress) m_callbacks.progress(reached.task, reached.is_epoch);
	}
	m_progress.clear();
}

bool executor_loop::work() {
	const std::int64_t start_ns = m_state.trace != nullptr ? now_ns() : 0;
	std::uint64_t num_issued = 0;
	bool has_worked = false;
	try {
		for(int round = 0; !m_is_stopping.load(std::memory_order_relaxed); ++round) {
			if(must_hand_over_before(m_state, round)) {
				m_wake_up.signal(); // there may be more work: the next run() must not sleep
				break;
			}
			bool has_progressed = take_inbox();
			bool has_transferred = take_messages(m_state, may_go_on());
			if(!may_go_on()) break;
			has_transferred |= m_runs.begin_staged(); // peers may have announced the data of these before
			has_transferred |= m_state.transfers.poll(m_state.done);
			if(has_transferred) complete_done();
			has_progressed |= has_transferred;
			has_progressed |= m_runs.submit_staged();
			if(m_dispatcher.allocate_waiting()) {
				has_progressed = true;
				complete_done();
			}
			if(const int issued = issue_ready(); issued > 0) {
				has_progressed = true;
				num_issued += static_cast<std::uint64_t>(issued);
			}
			if(!has_progressed || m_lanes.is_due()) has_progressed |= complete_lanes(m_lanes.poll());
			if(!has_progressed) break;
			has_worked = true;
			if(const auto bytes = std::exchange(m_state.freed_bytes, 0); bytes > 0 && m_callbacks.freed) m_callbacks.freed(bytes);
			if(m_state.engine.is_shared()) m_loads.note(m_state.engine);
			if(m_state.engine.is_shared() && (round + 1) % rounds_per_load_call == 0 && m_callbacks.load) m_callbacks.load();
		}
		if(has_worked && m_state.engine.is_shared() && m_callbacks.load) m_callbacks.load();
	} catch(const device_failure& error) { enter_failure(error.what(), executor_failure::kind_type::device); } catch(memory_shortage& error) {
		enter_failure(error.what(), executor_failure::kind_type::memory).shortage = std::move(error.holders);
	} catch(const peer_failure& error) {
		enter_failure(error.what(), executor_failure::kind_type::peer).peer = error.peer();
	} catch(const network_failure& error) { enter_failure(error.what(), executor_failure::kind_type::network); } catch(const std::exception& error) {
		enter_failure(error.what());
	}
	m_state.network.set_awaiting(m_state.transfers.is_outstanding());
	if(has_worked) m_pauses.note_worked();
	if(m_state.trace != nullptr && has_worked) m_state.trace->record({start_ns, now_ns(), traced_work{num_issued}});
	return has_worked;
}

bool executor_loop::take_inbox() {
	const auto& mail = m_inbox.take();
	if(mail.is_empty()) return false;
	m_state.current = nullptr;
	if(!may_go_on()) {
		m_failed_run.keep(mail);
		return true;
	}
	for(const auto queue : mail.queues) m_state.engine.announce(queue);
	for(const auto& batch : mail.batches) {
		++m_state.statistics.batches;
		if(m_runs.take(batch)) continue;
		const auto stamp = static_cast<std::uint64_t>(now_ns());
		for(const auto* const item : batch.instructions) {
			if(m_state.trace != nullptr) trace_handover(*m_state.trace, *item, static_cast<std::int64_t>(stamp));
			m_state.engine.submit(make_request(*item, m_state.rules));
			m_state.transfers.begin(*item, stamp);
		}
	}
	for(const auto& [from, pilot] : mail.pilots) m_state.transfers.take_pilot(from, pilot);
	for(const auto request : mail.requests) m_state.transfers.messages().complete(request, m_state.done);
	for(const auto call : mail.waiting_calls) m_dispatcher.note_waiting(call);
	for(const auto call : mail.host_calls) m_dispatcher.end_call(call);
	for(const auto launched : mail.launches) m_state.engine.notify_issued(launched);
	complete_done();
	for(const auto& text : mail.failures) enter_failure(text);
	return true;
}

bool executor_loop::may_go_on() const {
	return !m_is_failed.load(std::memory_order_relaxed) && (m_state.options.program == nullptr || !m_state.options.program->has_diverged());
}

bool executor_loop::complete_lanes(const std::span<const lane_position> progressed) {
	if(progressed.empty()) return false;
	if(const auto violation = m_state.devices->take_violation()) {
		m_is_failed.store(true, std::memory_order_relaxed);
		m_failed_run.note_failed(violation->kernel->submission);
		m_state.cancel();
		m_state.events.add(failed_event{failure_of(*violation)});
		return true;
	}
	for(const auto& [lane, completed] : progressed) m_state.engine.complete_lane(lane, completed);
	m_dispatcher.report_empty_reductions();
	retire();
	return true;
}

int executor_loop::issue_ready() {
	const auto stamp = static_cast<std::uint64_t>(now_ns());
	const auto seen = m_wake_up.prepare();
	const bool has_peers = m_state.transfers.direct().has_peers();
	issue item;
	int num_issued = 0;
	const auto must_hold_back = [&] { return m_state.options.sync && (m_dispatcher.has_host_calls() || m_lanes.is_any_in_flight()); };
	while(num_issued < issues_per_round && !must_hold_back()) {
		if(has_peers) {
			m_runs.release_held();
			m_state.engine.allow_lanes(!m_lanes.is_full());
		}
		if(!m_state.engine.next(item, stamp)) break;
		m_state.current = item.payload;
		if(m_is_observed) {
			issue_observed(m_state, m_dispatcher, m_runs, item);
		} else {
			issue_one(m_state, m_dispatcher, m_runs, item);
		}
		if(has_peers) m_lanes.note_issued(item);
		++num_issued;
		if(!m_state.done.empty()) complete_done();
		if(m_state.engine.is_shared() && must_look_around(item, seen)) break;
	}
	m_state.flush();
	m_state.current = nullptr;
	if(num_issued > 0) complete_done();
	return num_issued;
}

// Work of a higher queue may have come or become ready, or a thread may wait for an event, while instructions of lower queues are issued.
bool executor_loop::must_look_around(const issue& issued, const std::uint64_t seen) {
	if(issued.lane != no_lane && m_state.engine.is_raised(queue_priority_of(issued.payload->priority))) { m_lanes.note_raised(issued); }
	return m_wake_up.prepare() != seen || m_state.events.has_urgent() || complete_lanes(m_lanes.poll_raised());
}

void executor_loop::complete_done() {
	m_state.transfers.messages().flush(m_state.done);
	for(const auto id : m_state.done) m_state.engine.complete(id);
	m_state.done.clear();
	retire();
}

// The executor does not read an instruction once it has reported the next horizon or epoch. That report comes after this.
void executor_loop::retire() {
	const auto retire_one = [this](const instruction& item) {
		m_dispatcher.retire(item);
		if(m_state.options.num_ranks == 1) m_failed_run.note_complete(item);
	};
	m_state.engine.take_completed(m_retired);
	for(const auto& retired : m_retired) {
		if(retired.num_ids > 1) {
			const auto& run = m_runs.find(retired.id);
			run.graph->add_counts(m_state.statistics);
			for(const auto* const item : run.instructions) retire_one(*item);
			m_runs.erase(retired.id);
			continue;
		}
		++m_state.statistics.instructions[kind_of(retired.payload->operation)];
		++m_state.statistics.instructions_by_priority[queue_priority_of(retired.payload->priority)];
		retire_one(*retired.payload);
	}
}

executor_failure& executor_loop::enter_failure(const std::string& text, const executor_failure::kind_type kind) {
	executor_failure failure;
	failure.kind = kind;
	failure.text = text;
	if(m_state.current != nullptr) {
		auto active = describe(*m_state.current, true, call_state::waiting, m_state.transfers.arbiter());
		failure.submission = active.submission;
		failure.instruction = std::move(active.text);
	}
	m_state.current = nullptr;
	m_is_failed.store(true, std::memory_order_relaxed);
	m_state.cancel();
	if(kind == executor_failure::kind_type::device) failure.in_flight = m_runs.kernels_in_flight();
	return m_state.events.add(failed_event{std::move(failure)}).failure;
}

} // namespace celerity
