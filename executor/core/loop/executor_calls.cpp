// SPDX-License-Identifier: MIT
// The functions for threads other than the executor's: scheduler, application, launchers, host tasks, reports.
#include <algorithm>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <variant>

#include "events/labels.hpp"
#include "executor_loop.hpp"

namespace celerity {

void executor_loop::submit(instruction_batch&& batch) {
	if(!batch.empty()) post([&](executor_mail& mail) { mail.batches.push_back(std::move(batch)); });
}

void executor_loop::prepare_queue(const queue_priority queue, const double share) {
	m_backend->prepare_queue(queue, share);
	post([&](executor_mail& mail) { mail.queues.push_back(queue); });
}

void executor_loop::report_failure(const std::string& text) {
	post([&](executor_mail& mail) { mail.failures.push_back(text); });
}

void executor_loop::notify_complete(const request_id request) {
	post([&](executor_mail& mail) { mail.requests.push_back(request); });
}

void executor_loop::notify_pilot(const rank_id from, const pilot_message& pilot) {
	post([&](executor_mail& mail) { mail.pilots.emplace_back(from, pilot); });
}

void executor_loop::kernel_returned(const call_ticket ticket) {
	m_calls.kernel_returned(ticket);
	if(m_backend->defers_kernels()) post([&](executor_mail& mail) { mail.launches.push_back(instruction_id(ticket)); });
}

void executor_loop::host_task_waits(const call_ticket ticket) {
	post([&](executor_mail& mail) { mail.waiting_calls.push_back(instruction_id(ticket)); });
}

void executor_loop::host_task_done(const call_ticket ticket) {
	m_calls.host_task_done(ticket);
	post([&](executor_mail& mail) { mail.host_calls.push_back(instruction_id(ticket)); });
}

void executor_loop::wake() {
	m_is_woken.store(true, std::memory_order_relaxed);
	m_wake_up.signal();
}

// Two threads that wake up one after the other take twice as long.
void executor_loop::expect_work() {
	m_expects_work.store(true, std::memory_order_relaxed);
	m_wake_up.signal();
}

std::vector<receive_arbiter::unclaimed_pilot> executor_loop::unclaimed_pilots() {
	const std::lock_guard lock(m_state_mutex);
	if(!m_is_stopping.load(std::memory_order_relaxed)) work();
	return m_communication.arbiter().unclaimed_pilots();
}

void executor_loop::fail() {
	m_is_failed.store(true, std::memory_order_relaxed);
	cancel();
	m_wake_up.signal();
}

void executor_loop::cancel() {
	m_backend->cancel();
	m_calls.discard();
}

void executor_loop::stop() {
	m_is_stopping.store(true, std::memory_order_relaxed);
	m_backend->cancel();
	m_calls.close();
	m_wake_up.signal();
	{ const std::lock_guard lock(m_state_mutex); } // the executor thread sees the flag before it touches another instruction
	const std::lock_guard lock(m_stop_mutex);
	m_backend->stop();
}

bool executor_loop::release_devices() {
	stop();
	const std::lock_guard lock(m_state_mutex);
	while(!m_allocations.entries().empty()) {
		const auto [id, entry] = *m_allocations.entries().begin();
		m_backend->deallocate(id.memory, entry.address, entry.size_bytes, entry.alignment_bytes);
		m_allocations.remove(id);
	}
	for(const auto& watched : std::exchange(m_watched_folds, {})) give_back(watched);
	if(!m_backend->release()) return false;
	m_graphs = {};
	return true;
}

std::vector<active_instruction> executor_loop::active_instructions() {
	const std::lock_guard lock(m_state_mutex);
	std::vector<active_instruction> active;
	if(m_is_stopping.load(std::memory_order_relaxed)) return active; // the scheduler may be gone, and its instructions with it
	const auto now = static_cast<std::uint64_t>(now_ns());
	const bool show_unissued = m_engine.num_in_flight() == 0; // something must be wrong then
	const auto report = [&](const out_of_order_engine::live_instruction& live) {
		if(live.policy == issue_policy::clock) return;
		const auto transfer = find_status(live);
		const bool is_waiting = transfer.has_value() && transfer->is_waiting;
		if(!live.is_issued && !show_unissued && !is_waiting) return;
		auto call = live.is_enqueued && m_backend->defers_kernels() ? call_state::on_stream : call_state::waiting;
		if(m_calls.is_running(live.id.value)) call = call_state::running;
		auto& entry = active.emplace_back(describe(*live.payload, live.is_issued || is_waiting, call, m_communication.arbiter()));
		if(live.is_issued) entry.age_s = 1e-9 * static_cast<double>(now - live.stamp);
		const bool is_kernel = std::holds_alternative<device_kernel_instruction>(live.payload->operation);
		entry.is_computing = call == call_state::running || (is_kernel && call == call_state::on_stream && live.may_run);
		if(live.num_ids > 1) entry.text = describe_run(instructions_of(live), live.is_issued);
		if(!is_waiting) return;
		if(!live.is_issued) entry.age_s = 1e-9 * static_cast<double>(now - transfer->stamp);
		if(live.num_ids > 1) {
			entry.text += ": " + transfer->text;
		} else if(!transfer->text.empty()) {
			entry.text = label(live.id) + " " + name_of(kind_of(live.payload->operation)) + ": " + transfer->text;
		}
		if(transfer->peer.has_value()) entry.peer = transfer->peer;
	};
	m_engine.for_each_live(report);
	if(!m_staged.empty()) {
		const auto& items = m_staged.front().batch.instructions;
		const auto* const next = items[std::min(m_staged.front().num_announced, items.size() - 1)];
		report({next->id, 1, next, issue_policy::pull});
	}
	std::stable_sort(active.begin(), active.end(), [](const auto& a, const auto& b) { return a.age_s > b.age_s; });
	return active;
}

instruction_sink::activity executor_loop::current_activity(const std::uint64_t num_handed_over) {
	const std::lock_guard lock(m_state_mutex);
	if(m_engine.num_submitted() < num_handed_over) return activity::busy;
	if(m_engine.num_live() == 0) return activity::idle;
	bool is_waiting = true;
	m_engine.for_each_live([&](const out_of_order_engine::live_instruction& live) {
		if(!live.is_issued || live.policy == issue_policy::clock) return;
		const auto category = std::visit([](const auto& operation) { return operation.traits.category; }, live.payload->operation);
		is_waiting &= live.num_ids == 1 && category == instruction_category::transfer;
	});
	return is_waiting ? activity::waiting : activity::busy;
}

std::optional<transfer_status> executor_loop::find_status(const out_of_order_engine::live_instruction& live) const {
	std::optional<transfer_status> found;
	for(const auto* const item : instructions_of(live)) {
		const auto sent = m_sender.find_status(item->id);
		auto status = sent.has_value() ? sent : m_receiver.find_status(item->id);
		if(status.has_value() && (!found.has_value() || (status->is_waiting && !found->is_waiting))) found = std::move(status);
	}
	return found;
}

executor_statistics executor_loop::statistics() {
	const std::lock_guard lock(m_state_mutex);
	m_time.advance(m_engine.num_live() > 0);
	auto result = m_statistics;
	result.issued_early = m_engine.get_counters().issued_early;
	result.lane_waits = m_engine.get_counters().waits;
	result.driver_calls = m_backend->count_driver_calls();
	result.multiprocessors = m_backend->parts();
	result.busy_seconds = m_time.busy_seconds();
	result.starved_seconds = m_time.starved_seconds();
	result.idle_seconds = m_time.idle_seconds();
	return result;
}

} // namespace celerity
