// SPDX-License-Identifier: MIT
#include "executor_loop.hpp"

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <thread>

#include "backends/cpu/cpu_backend.hpp"
#include "events/labels.hpp"
#include "executor_trace.hpp"
#include "threads/relax_cpu.hpp"

namespace celerity {

namespace {

/// After so many rounds that found more to do, events are handed over before the next one: a send should not wait for unrelated work.
constexpr int rounds_before_hand_over = 4;
/// Between two calls that wake threads whose queues may have less to do: to wake a thread takes as long as to issue an instruction.
constexpr int rounds_per_load_call = 16;
/// Between two looks at the inbox. Where there are queues of several priorities, news interrupts a round.
constexpr int issues_per_round = 64;
/// While there are instructions to issue, the lanes are polled after so long, and again after so many times the duration of the last poll: with many lanes in
/// flight, one poll takes as long as the issue of several instructions.
constexpr std::int64_t shortest_between_polls_ns = 10'000;
constexpr std::int64_t longest_between_polls_ns = 200'000;
constexpr std::int64_t poll_durations_between = 8;
/// About the cost of falling asleep and waking up.
constexpr std::chrono::microseconds spin_time{20};
/// Between two looks at the devices, where there are fewer cores than busy threads.
constexpr std::chrono::microseconds shortest_pause{10};
constexpr std::chrono::microseconds longest_pause{200};
/// Keeps the sum with the present time representable.
constexpr std::chrono::hours max_timeout{24};

remote_waits remote_waits_of(const executor_options& options) {
	if(!options.direct) return remote_waits::none;
	return options.overwrites_wait ? remote_waits::answers : remote_waits::pulls;
}

std::unique_ptr<backend> require(std::unique_ptr<backend> made) {
	if(made == nullptr) throw std::invalid_argument("an executor needs a backend");
	return made;
}

} // namespace

// Application, scheduler and executor threads, and one per device.
bool has_free_cores(const executor_options& options) { return !options.oversubscribed && std::thread::hardware_concurrency() >= 3 + options.num_devices; }

executor_loop::executor_loop(const executor_options& options)
    : executor_loop(options,
          [&](event_count& completions) { return std::make_unique<cpu_backend>(options.num_devices, completions, options.direct, options.trace.get()); }) {}

executor_loop::executor_loop(const executor_options& options, const backend_factory& make_backend)
    : m_options(options), m_may_spin(has_free_cores(options)), m_trace(options.trace.get()),
      m_is_observed(options.trace != nullptr || options.ranges != nullptr), m_backend(require(make_backend(m_wake_up))),
      m_calls(options.num_devices, *m_backend, m_trace), m_engine(m_backend->lane_classes(), {remote_waits_of(options), options.lane_events, options.order}),
      m_direct{*m_backend, m_allocations, m_statistics, m_trace}, m_rules{*m_backend, m_launches, m_direct, options.num_ranks, options.num_devices},
      m_sender(m_direct), m_receiver(m_direct), m_communication(m_allocations, m_statistics, m_receiver, m_announcements.events(), m_trace) {
	if(options.num_devices == 0 || options.num_devices > max_memories - first_device_memory_value) throw std::invalid_argument("a rank has 1 to 62 devices");
	m_statistics.memories.resize(first_device_memory_value + options.num_devices);
}

executor_loop::~executor_loop() { release_devices(); }

// ---- direct transfers: start ------------------------------------------------------------------------------------------------------

std::optional<flag_segment::offer> executor_loop::offer_direct(const std::vector<rank_id>& host_ranks) {
	if(!m_options.direct || m_options.sync || !m_backend->has_direct_transfers()) return std::nullopt;
	return m_direct.make_offer(m_options.rank, host_ranks);
}

// ---- the executor thread ----------------------------------------------------------------------------------------------------------

std::vector<executor_event> executor_loop::run(const std::chrono::nanoseconds timeout) {
	const auto deadline = event_count::clock::now() + std::min<std::chrono::nanoseconds>(timeout, max_timeout);
	const bool was_awaiting = has_outstanding_communication();
	std::vector<executor_event> events;
	std::vector<progress_event> progress;
	if(m_left_at_ns != 0) m_trace->record({std::exchange(m_left_at_ns, 0), now_ns(), traced_python{}});
	while(true) {
		const auto seen = m_wake_up.prepare();
		const auto round_began = event_count::clock::now();
		bool must_return = m_is_woken.exchange(false, std::memory_order_relaxed);
		{
			const std::lock_guard lock(m_state_mutex);
			if(m_is_stopping.load(std::memory_order_relaxed)) return {stopped_event{}};
			m_time.advance(m_engine.num_live() > 0);
			m_has_unsent_pilots = false;
			const bool has_worked = work();
			m_time.advance(m_engine.num_live() > 0, has_worked);
			std::swap(progress, m_progress_events);
		}
		// Before the events: a fence that is fulfilled may be followed by a program that ends.
		if(m_progress) {
			for(const auto& reached : progress) m_progress(reached.task, reached.is_epoch);
		}
		progress.clear();
		must_return |= event_count::clock::now() >= deadline;
		must_return |= !was_awaiting && has_outstanding_communication(); // the caller has to look at the network more often from now on
		must_return |= m_announcements.must_hand_over();
		if(must_return) {
			m_announcements.take(events);
			if(m_trace != nullptr && !events.empty()) m_left_at_ns = now_ns();
			return events;
		}
		auto wake_up = m_announcements.is_empty() ? deadline : std::min(deadline, m_announcements.deadline());
		// A deadline from before the round has been looked at. The batch then waits for lanes or runs, which wake this thread.
		if(m_staged_until > round_began) wake_up = std::min(wake_up, m_staged_until);
		wait(seen, wake_up);
	}
}

void executor_loop::wait(const std::uint64_t seen, const event_count::clock::time_point deadline) {
	const bool awaits_peers = m_direct.has_peers() && !m_backend->signals_flags() && (m_sender.num_unanswered() > 0 || m_communication.is_outstanding());
	if((m_backend->must_poll() && is_lane_in_flight()) || awaits_peers) return poll_until_progress(seen, deadline);
	if(m_expects_work.load(std::memory_order_relaxed) && m_expects_work.exchange(false, std::memory_order_relaxed)) m_worked_at = event_count::clock::now();
	auto spin_until = m_worked_at + m_options.idle_spin;
	if(m_may_spin && m_engine.num_in_flight() > 0) spin_until = std::max(spin_until, event_count::clock::now() + spin_time);
	spin_until = std::min(spin_until, deadline);
	while(event_count::clock::now() < spin_until) {
		if(m_wake_up.prepare() != seen) return;
		std::this_thread::yield();
	}
	m_wake_up.wait_until(seen, deadline);
}

bool executor_loop::is_lane_in_flight() const {
	const auto& lanes = m_engine.lanes();
	return std::any_of(lanes.open_lanes().begin(), lanes.open_lanes().end(), [&](const lane_index lane) { return lanes.in_flight(lane) > 0; });
}

// Some devices do not signal their progress. Only this thread changes the engine, so it may be read without the lock.
void executor_loop::poll_until_progress(const std::uint64_t seen, const event_count::clock::time_point deadline) {
	const auto& lanes = m_engine.lanes();
	auto pause = shortest_pause;
	spin_pause spin;
	const auto has_news = [&] { return m_wake_up.prepare() != seen || m_sender.has_news() || m_receiver.has_news(); };
	while(true) {
		if(has_news()) return;
		try {
			for(const lane_index lane : lanes.open_lanes()) {
				if(lanes.in_flight(lane) == 0) continue;
				if(m_backend->completed(lane) > lanes.completed(lane)) return;
				if(has_news()) return; // to ask a device takes much longer than to look at memory
			}
		} catch(const std::exception&) { return; } // work() meets the error again, and reports it
		const auto now = event_count::clock::now();
		if(now >= deadline) return;
		if(m_may_spin) {
			spin();
		} else {
			m_wake_up.wait_until(seen, std::min(deadline, now + pause));
			pause = std::min<std::chrono::microseconds>(2 * pause, longest_pause);
		}
	}
}

bool executor_loop::work() {
	const std::int64_t start_ns = m_trace != nullptr ? now_ns() : 0;
	std::uint64_t num_issued = 0;
	bool has_worked = false;
	try {
		for(int round = 0; !m_is_stopping.load(std::memory_order_relaxed); ++round) {
			if(must_hand_over_before(round)) {
				m_wake_up.signal(); // there may be more work: the next run() must not sleep
				break;
			}
			bool has_progressed = take_inbox();
			if(!may_go_on()) break;
			has_progressed |= begin_staged();
			has_progressed |= poll_direct();
			has_progressed |= submit_staged();
			has_progressed |= allocate_waiting();
			if(const int issued = issue_ready(); issued > 0) {
				has_progressed = true;
				num_issued += static_cast<std::uint64_t>(issued);
			}
			// To ask a device costs as much as to issue an instruction. While there are instructions to issue, the lanes are therefore polled now and then only.
			if(!has_progressed || now_ns() >= m_next_poll_ns) has_progressed |= poll_lanes();
			if(!has_progressed) break;
			has_worked = true;
			if(m_engine.is_shared()) m_loads.note(m_engine);
			if((round + 1) % rounds_per_load_call == 0) tell_loads();
		}
		if(has_worked) tell_loads();
	} catch(const device_failure& error) { enter_failure(error.what(), executor_failure::kind_type::device); } catch(memory_shortage& error) {
		enter_failure(error.what(), executor_failure::kind_type::memory).shortage = std::move(error.holders);
	} catch(const peer_failure& error) {
		enter_failure(error.what(), executor_failure::kind_type::peer).peer = error.peer();
	} catch(const std::exception& error) { enter_failure(error.what()); }
	m_has_outstanding_communication.store(is_communication_outstanding(), std::memory_order_relaxed);
	if(has_worked && m_options.idle_spin.count() > 0) m_worked_at = event_count::clock::now();
	if(m_trace != nullptr && has_worked) m_trace->record({start_ns, now_ns(), traced_work{num_issued}});
	return has_worked;
}

void executor_loop::tell_loads() {
	if(m_engine.is_shared() && m_on_load) m_on_load();
}

// Where there are queues of several priorities, a round may be a single instruction, and no event waits for the next one.
bool executor_loop::must_hand_over_before(const int round) const {
	const bool is_shared = m_engine.is_shared();
	if(round >= rounds_before_hand_over * (is_shared ? issues_per_round : 1) && !m_progress_events.empty()) return true;
	return round >= (is_shared ? 1 : rounds_before_hand_over) && m_announcements.has_urgent();
}

bool executor_loop::take_inbox() {
	const auto& mail = m_inbox.take();
	if(mail.is_empty()) return false;
	m_current = nullptr;
	if(!may_go_on()) return true;
	for(const auto queue : mail.queues) m_engine.announce(queue);
	for(const auto& batch : mail.batches) {
		++m_statistics.batches;
		take_batch(batch);
	}
	for(const auto& [from, pilot] : mail.pilots) take_pilot(from, pilot);
	for(const auto request : mail.requests) m_communication.complete(request, m_done);
	for(const auto call : mail.waiting_calls) m_num_host_calls -= m_waiting_calls.insert(call).second ? 1 : 0;
	for(const auto call : mail.host_calls) {
		m_done.push_back(call);
		m_num_host_calls -= m_waiting_calls.erase(call) == 0 ? 1 : 0;
	}
	for(const auto launched : mail.launches) m_engine.notify_issued(launched);
	complete_done();
	for(const auto& text : mail.failures) enter_failure(text);
	return true;
}

void executor_loop::take_batch(const instruction_batch& batch) {
	const auto stamp = static_cast<std::uint64_t>(now_ns());
	const bool runs_as_graphs = has_graphs() && m_graphs.is_eligible(batch, m_rules);
	if(!m_staged.empty() || (runs_as_graphs && m_direct.has_peers())) {
		m_staged.push_back({batch, runs_as_graphs});
		return;
	}
	if(runs_as_graphs) return submit_as_runs(batch);
	for(const auto* const item : batch.instructions) {
		if(m_trace != nullptr) trace_handover(*m_trace, *item, static_cast<std::int64_t>(stamp));
		m_engine.submit(make_request(*item, m_rules));
		begin_transfer(*item, stamp);
	}
}

void executor_loop::begin_transfer(const instruction& item, const std::uint64_t stamp) {
	if(const auto* const send = std::get_if<send_instruction>(&item.operation)) {
		announce(item, *send, stamp);
	} else if(const auto* const receive = std::get_if<receive_instruction>(&item.operation); receive != nullptr && m_direct.has_peers()) {
		// The engine holds a direct receive until its parts are announced. The arbiter therefore gets it now, behind `m_receiver.add()`. Without direct peers
		// it gets the receive when that is issued: see execute(receive_instruction).
		m_receiver.add(item.id, *receive, stamp);
		m_communication.arbiter().receive(item.id, *receive);
	}
}

void executor_loop::announce(const instruction& item, const send_instruction& send, const std::uint64_t stamp) {
	const auto program_digest = program_digest_at(send.transfer.consumer);
	if(m_direct.is_direct(send)) return m_sender.add(item, send, stamp, program_digest);
	m_announcements.add(pilot_event{
	    send.destination_rank, {.transfer = send.transfer, .message = send.message, .sent_box = send.sent_box, .program_digest = program_digest}});
	m_has_unsent_pilots = true;
}

std::uint64_t executor_loop::program_digest_at(const task_id consumer) const {
	return m_options.program != nullptr ? m_options.program->digest_at(consumer) : 0;
}

bool executor_loop::may_go_on() const {
	return !m_is_failed.load(std::memory_order_relaxed) && (m_options.program == nullptr || !m_options.program->has_diverged());
}

// Data of another program must not be taken for data of this one. A pilot for a task still to come is compared when that task comes, before its receives.
void executor_loop::take_pilot(const rank_id from, const pilot_message& pilot) {
	if(m_options.program != nullptr
	    && m_options.program->compare_task(from, pilot.transfer.consumer, pilot.program_digest) == program_log::verdict::different) {
		return;
	}
	m_communication.arbiter().pilot(from, pilot.message, pilot.transfer, pilot.sent_box);
}

bool executor_loop::poll_direct() {
	m_sender.send_pilots();
	bool has_progressed = false;
	m_receiver.take_pilots([&](const rank_id source, const pilot_message& pilot) {
		take_pilot(source, pilot);
		has_progressed = true;
	});
	m_sender.poll(m_done);
	has_progressed |= !m_done.empty();
	if(has_progressed) complete_done();
	return has_progressed;
}

void executor_loop::release_held() {
	for(const auto& released : m_direct.released) release(released);
	m_direct.released.clear();
	// A peer cannot answer a send before it has its pilot, and a wait for the peer may block the thread that sends the pilot.
	m_engine.allow_remote_waits(!m_has_unsent_pilots && !m_sender.has_unsent_pilots());
}

bool executor_loop::is_communication_outstanding() const {
	// Some backends wake this thread when a peer has fetched.
	const bool must_look = m_sender.num_unanswered() > 0 && !m_backend->signals_flags();
	return m_communication.is_outstanding() || must_look;
}

bool executor_loop::poll_lanes() {
	const std::int64_t start_ns = now_ns();
	small_vector<lane_position, 16> progressed;
	const auto& lanes = m_engine.lanes();
	for(const lane_index lane : lanes.open_lanes()) {
		if(lanes.in_flight(lane) == 0) continue;
		const std::uint64_t completed = m_backend->completed(lane);
		if(completed > lanes.completed(lane)) progressed.push_back({lane, completed});
	}
	const std::int64_t end_ns = now_ns();
	m_next_poll_ns = end_ns + std::clamp(poll_durations_between * (end_ns - start_ns), shortest_between_polls_ns, longest_between_polls_ns);
	return complete_lanes({progressed.begin(), progressed.end()});
}

bool executor_loop::poll_raised() {
	if(m_raised.empty()) return false;
	small_vector<lane_position, 16> progressed;
	const auto& lanes = m_engine.lanes();
	std::erase_if(m_raised, [&](const lane_position& last) {
		if(lanes.completed(last.lane) >= last.sequence) return true;
		const std::uint64_t completed = m_backend->completed(last.lane);
		if(completed > lanes.completed(last.lane)) progressed.push_back({last.lane, completed});
		return completed >= last.sequence;
	});
	return complete_lanes({progressed.begin(), progressed.end()});
}

bool executor_loop::complete_lanes(const std::span<const lane_position> progressed) {
	if(progressed.empty()) return false;
	if(const auto violation = m_backend->take_violation()) {
		fail_out_of_bounds(*violation);
		return true;
	}
	for(const auto& [lane, completed] : progressed) m_engine.complete_lane(lane, completed);
	report_empty_folds();
	retire();
	return true;
}

void executor_loop::fail_out_of_bounds(const bounds_violation& violation) {
	m_is_failed.store(true, std::memory_order_relaxed);
	cancel();
	executor_failure failure;
	failure.kind = executor_failure::kind_type::bounds;
	failure.text = "a kernel left its declared region";
	failure.submission = violation.kernel->submission;
	failure.access = violation.access;
	failure.element = violation.index;
	if(violation.access < violation.kernel->accesses.size()) failure.declared = box_vector(violation.kernel->accesses[violation.access].accessed);
	m_announcements.add(failed_event{std::move(failure)});
}

int executor_loop::issue_ready() {
	const auto stamp = static_cast<std::uint64_t>(now_ns());
	const auto seen = m_wake_up.prepare();
	issue item;
	int num_issued = 0;
	while(num_issued < issues_per_round && !must_hold_back()) {
		if(m_direct.has_peers()) {
			release_held();
			m_engine.allow_lanes(!is_lane_full());
		}
		if(!m_engine.next(item, stamp)) break;
		m_current = item.payload;
		if(m_is_observed) {
			dispatch_observed(item);
		} else {
			dispatch(item);
		}
		if(m_direct.has_peers() && item.lane != no_lane && m_engine.lanes().in_flight(item.lane) >= m_options.most_on_a_lane) m_full_lane = item.lane;
		++num_issued;
		if(!m_done.empty()) complete_done();
		if(m_engine.is_shared() && must_look_around(item, seen)) break;
	}
	m_backend->flush();
	m_current = nullptr;
	if(num_issued > 0) complete_done();
	return num_issued;
}

// Work of a higher queue may have come or become ready, or a thread may wait for an event, while instructions of lower queues are issued.
bool executor_loop::must_look_around(const issue& issued, const std::uint64_t seen) {
	if(issued.lane != no_lane && m_engine.is_raised(queue_priority_of(issued.payload->priority))) {
		const auto known = std::find_if(m_raised.begin(), m_raised.end(), [&](const lane_position& last) { return last.lane == issued.lane; });
		if(known == m_raised.end()) {
			m_raised.push_back({issued.lane, issued.sequence});
		} else {
			known->sequence = issued.sequence;
		}
	}
	return m_wake_up.prepare() != seen || m_announcements.has_urgent() || poll_raised();
}

bool executor_loop::must_hold_back() const {
	if(!m_options.sync) return false;
	return m_num_host_calls > 0 || is_lane_in_flight();
}

// Issued lane operations never need an unissued one, since remote waits respect keys. But they may need a message that the host has yet to send, if another
// rank ends such a wait only after that message. Therefore the host must never block at a full queue.
bool executor_loop::is_lane_full() {
	if(m_full_lane == no_lane) return false;
	if(m_engine.lanes().in_flight(m_full_lane) >= m_options.most_on_a_lane) return true;
	m_full_lane = no_lane;
	return false;
}

void executor_loop::complete_done() {
	m_communication.flush(m_done);
	for(const auto id : m_done) m_engine.complete(id);
	m_done.clear();
	retire();
}

// The executor does not read an instruction once it has reported the next horizon or epoch. That report comes after this.
void executor_loop::retire() {
	m_engine.take_completed(m_retired);
	for(const auto& retired : m_retired) {
		if(retired.num_ids > 1) {
			retire_run(retired.id);
			continue;
		}
		++m_statistics.instructions[kind_of(retired.payload->operation)];
		++m_statistics.instructions_by_priority[queue_priority_of(retired.payload->priority)];
		retire(*retired.payload);
	}
}

void executor_loop::retire(const instruction& item) {
	if(const auto* const horizon = std::get_if<horizon_instruction>(&item.operation)) {
		retire_horizon(*horizon);
	} else if(const auto* const epoch = std::get_if<epoch_instruction>(&item.operation)) {
		retire_epoch(*epoch);
	} else if(std::holds_alternative<receive_instruction>(item.operation)) {
		m_receiver.retire(item.id);
	} else if(std::holds_alternative<send_instruction>(item.operation)) {
		m_sender.retire(item.id);
	}
}

void executor_loop::retire_run(const instruction_id first) {
	const auto& run = m_graphs.find(first);
	run.graph->add_counts(m_statistics);
	for(const auto* const item : run.instructions) retire(*item);
	m_graphs.erase(first);
}

void executor_loop::retire_horizon(const horizon_instruction& horizon) {
	m_progress_events.push_back({horizon.task, false});
	m_launches.drop(horizon.last_submission);
	m_announcements.add_retired(horizon.last_submission);
}

void executor_loop::retire_epoch(const epoch_instruction& epoch) {
	m_progress_events.push_back({epoch.task, true});
	if(epoch.submission.value != 0) m_announcements.add(completed_event{epoch.submission});
	m_launches.drop(epoch.submission);
	if(epoch.submission.value != 0) m_announcements.add_retired(epoch.submission);
	if(epoch.action != epoch_action::shutdown) return;
	m_backend->close_peers(); // before the other ranks hear of the end, and free their memory
	m_announcements.add(shutdown_event{});
}

instruction_span executor_loop::instructions_of(const out_of_order_engine::live_instruction& live) const {
	return live.num_ids > 1 ? instruction_span(m_graphs.find(live.id).instructions) : instruction_span(&live.payload, 1);
}

std::vector<submission_id> executor_loop::kernels_in_flight() const {
	std::vector<submission_id> submissions;
	m_engine.for_each_live([&](const out_of_order_engine::live_instruction& live) {
		if(!live.is_issued) return;
		for(const auto* const item : instructions_of(live)) {
			const auto* const kernel = std::get_if<device_kernel_instruction>(&item->operation);
			if(kernel == nullptr) continue;
			if(std::find(submissions.begin(), submissions.end(), kernel->submission) == submissions.end()) submissions.push_back(kernel->submission);
		}
	});
	return submissions;
}

executor_failure& executor_loop::enter_failure(const std::string& text, const executor_failure::kind_type kind) {
	executor_failure failure;
	failure.kind = kind;
	failure.text = text;
	if(m_current != nullptr) {
		auto active = describe(*m_current, true, call_state::waiting, m_communication.arbiter());
		failure.submission = active.submission;
		failure.instruction = std::move(active.text);
	}
	m_current = nullptr;
	m_is_failed.store(true, std::memory_order_relaxed);
	cancel();
	if(kind == executor_failure::kind_type::device) failure.in_flight = kernels_in_flight();
	return m_announcements.add(failed_event{std::move(failure)}).failure;
}

} // namespace celerity
