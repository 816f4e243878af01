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
	if(!batch.empty()) m_inbox.post([&](executor_mail& mail) { mail.batches.push_back(std::move(batch)); });
}

void executor_loop::prepare_queue(const queue_priority queue, const double share) {
	m_state.devices->prepare_queue(queue, share);
	m_inbox.post([&](executor_mail& mail) { mail.queues.push_back(queue); });
}

void executor_loop::report_failure(const std::string& text) {
	m_inbox.post([&](executor_mail& mail) { mail.failures.push_back(text); });
}

void executor_loop::notify_complete(const request_id request) {
	m_inbox.post([&](executor_mail& mail) { mail.requests.push_back(request); });
}

void executor_loop::notify_pilot(const rank_id from, const pilot_message& pilot) {
	m_inbox.post([&](executor_mail& mail) { mail.pilots.emplace_back(from, pilot); });
}

void executor_loop::wake() {
	m_is_woken.store(true, std::memory_order_relaxed);
	m_wake_up.signal();
}

// Two threads that wake up one after the other take twice as long.
void executor_loop::expect_work() { m_pauses.expect_work(); }

std::vector<receive_arbiter::unclaimed_pilot> executor_loop::unclaimed_pilots() {
	const std::lock_guard lock(m_state_mutex);
	if(!m_is_stopping.load(std::memory_order_relaxed)) work();
	return m_state.transfers.arbiter().unclaimed_pilots();
}

void executor_loop::fail() {
	m_is_failed.store(true, std::memory_order_relaxed);
	m_state.cancel();
	m_wake_up.signal();
}

void executor_loop::stop() {
	m_is_stopping.store(true, std::memory_order_relaxed);
	m_state.devices->cancel();
	m_state.calls.close();
	m_wake_up.signal();
	{ const std::lock_guard lock(m_state_mutex); } // the executor thread sees the flag before it touches another instruction
	const std::lock_guard lock(m_stop_mutex);
	m_state.devices->stop();
}

bool executor_loop::release_devices() {
	stop();
	const std::lock_guard lock(m_state_mutex);
	while(!m_state.allocations.entries().empty()) {
		const auto [id, entry] = *m_state.allocations.entries().begin();
		m_state.devices->deallocate(id.memory, entry.address, entry.size_bytes, entry.alignment_bytes);
		m_state.allocations.remove(id);
	}
	m_dispatcher.give_back_watched();
	if(!m_state.devices->release()) return false;
	m_runs.clear();
	return true;
}

bool executor_loop::is_idle(const std::uint64_t num_handed_over) {
	const std::lock_guard lock(m_state_mutex);
	if(m_state.engine.num_submitted() < num_handed_over) return false;
	bool only_waits = true;
	m_state.engine.for_each_live([&](const out_of_order_engine::live_instruction& live) {
		if(!live.is_issued || live.policy == issue_policy::clock) return;
		const auto category = std::visit([](const auto& operation) { return operation.traits.category; }, live.payload->operation);
		only_waits &= live.num_ids == 1 && category == instruction_category::transfer;
	});
	return only_waits;
}

bool executor_loop::has_empty_lanes(const std::uint64_t num_handed_over) {
	const std::lock_guard lock(m_state_mutex);
	return m_state.engine.num_submitted() >= num_handed_over && m_state.engine.num_live_on_lanes() == 0;
}

std::vector<active_instruction> executor_loop::active_instructions() {
	const std::lock_guard lock(m_state_mutex);
	std::vector<active_instruction> active;
	if(m_is_stopping.load(std::memory_order_relaxed)) return active; // the scheduler may be gone, and its instructions with it
	const auto now = static_cast<std::uint64_t>(now_ns());
	const bool show_unissued = m_state.engine.num_in_flight() == 0; // something must be wrong then
	const auto report = [&](const out_of_order_engine::live_instruction& live) {
		if(live.policy == issue_policy::clock) return;
		const auto transfer = m_runs.find_status(live);
		const bool is_waiting = transfer.has_value() && transfer->is_waiting;
		if(!live.is_issued && !show_unissued && !is_waiting) return;
		auto call = live.is_enqueued && m_state.devices->defers_kernels() ? call_state::on_stream : call_state::waiting;
		if(m_state.calls.is_running(live.id.value)) call = call_state::running;
		auto& entry = active.emplace_back(describe(*live.payload, live.is_issued || is_waiting, call, m_state.transfers.arbiter()));
		if(live.is_issued) entry.age_s = 1e-9 * static_cast<double>(now - live.stamp);
		const bool is_kernel = std::holds_alternative<device_kernel_instruction>(live.payload->operation);
		entry.is_computing = call == call_state::running || (is_kernel && call == call_state::on_stream && live.may_run);
		if(live.num_ids > 1) entry.text = describe_run(m_runs.instructions_of(live), live.is_issued);
		if(!is_waiting) return;
		if(!live.is_issued) entry.age_s = 1e-9 * static_cast<double>(now - transfer->stamp);
		if(live.num_ids > 1) {
			entry.text += ": " + transfer->text;
		} else if(!transfer->text.empty()) {
			entry.text = label(live.id) + " " + name_of(kind_of(live.payload->operation)) + ": " + transfer->text;
		}
		if(transfer->peer.has_value()) entry.peer = transfer->peer;
	};
	m_state.engine.for_each_live(report);
	if(const auto* const next = m_runs.next_staged(); next != nullptr) report({next->id, 1, next, issue_policy::pull});
	std::stable_sort(active.begin(), active.end(), [](const auto& a, const auto& b) { return a.age_s > b.age_s; });
	return active;
}

void executor_loop::validate() {
	const std::lock_guard lock(m_state_mutex);
	if(!m_is_failed.load(std::memory_order_relaxed)) m_state.engine.validate();
}

executor_statistics executor_loop::statistics() {
	const std::lock_guard lock(m_state_mutex);
	m_time.advance(m_state.engine.num_live() > 0);
	auto result = m_state.statistics;
	result.issued_early = m_state.engine.get_counters().issued_early;
	result.lane_waits = m_state.engine.get_counters().waits;
	result.driver_calls = m_state.devices->count_driver_calls();
	result.multiprocessors = m_state.devices->parts();
	result.busy_seconds = m_time.busy_seconds();
	result.starved_seconds = m_time.starved_seconds();
	result.idle_seconds = m_time.idle_seconds();
	return result;
}

} // namespace celerity
