// SPDX-License-Identifier: MIT
#include "failed_run.hpp"

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "threads/event_count.hpp"

namespace celerity {

namespace {

constexpr std::chrono::milliseconds settle_pause{1};
constexpr std::chrono::minutes longest_settle_time{10};

} // namespace

// The planner frees those before the last horizon as soon as it hears of this one, which is later. Some that come after the last horizon were complete
// before it.
void failed_run::begin_horizon(const instruction_id horizon) {
	std::erase_if(m_before, [&](const instruction* const kept) { return kept->id < m_last_horizon; });
	m_before.insert(m_before.end(), m_since.begin(), m_since.end());
	m_since.clear();
	m_last_horizon = horizon;
}

void failed_run::keep(const executor_mail& mail) {
	m_left.batches.insert(m_left.batches.end(), mail.batches.begin(), mail.batches.end());
	m_left.host_calls.insert(m_left.host_calls.end(), mail.host_calls.begin(), mail.host_calls.end());
	m_left.launches.insert(m_left.launches.end(), mail.launches.begin(), mail.launches.end());
}

void failed_run::require_failure() const {
	if(m_loop.state.options.num_ranks > 1 || !m_loop.has_failed) throw std::logic_error("contents are recovered after a failure of a single rank");
}

void failed_run::take_ends() {
	keep(m_loop.inbox.take());
	for(const auto call : m_left.host_calls) m_loop.state.engine.complete(call);
	for(const auto launched : m_left.launches) m_loop.state.engine.notify_issued(launched);
	m_left.host_calls.clear();
	m_left.launches.clear();
}

void failed_run::take_completed() {
	std::vector<out_of_order_engine::completed_instruction> completed;
	m_loop.state.engine.take_completed(completed);
	for(const auto& each : completed) {
		if(each.num_ids > 1) {
			for(const auto* const item : m_loop.runs.find(each.id).instructions) note_complete(*item);
		} else {
			note_complete(*each.payload);
		}
	}
}

bool failed_run::settle(const std::chrono::nanoseconds timeout) {
	const auto deadline = event_count::clock::now() + std::min<std::chrono::nanoseconds>(timeout, longest_settle_time);
	while(true) {
		{
			const std::lock_guard lock(m_loop.state_mutex);
			require_failure();
			if(m_loop.is_stopping) return true;
			const bool is_settled = m_loop.state.devices->are_streams_idle();
			take_ends();
			const auto progressed = m_loop.lanes.poll();
			while(const auto violation = m_loop.state.devices->take_violation()) note_failed(violation->kernel->submission);
			for(const auto& [lane, completed] : progressed) m_loop.state.engine.complete_lane(lane, completed);
			take_completed();
			if(is_settled) return true;
		}
		if(event_count::clock::now() >= deadline) return false;
		std::this_thread::sleep_for(settle_pause);
	}
}

last_contents failed_run::find(const buffer_id buffer, const planned_places& planned, const submission_id failed) {
	using progress = contents_search::progress;
	const std::lock_guard lock(m_loop.state_mutex);
	auto& state = m_loop.state;
	require_failure();
	if(!m_loop.is_stopping) throw std::logic_error("contents are recovered when all threads have ended");
	if(m_loop.runs.next_staged() != nullptr) throw std::runtime_error("periods of a replay have not been issued, and hide where the contents are");
	const bool has_streams = state.devices->defers_kernels();
	take_ends();
	// Not from streams: kernels that wait for each other have ended at stop() without their data.
	if(!has_streams) {
		for(const auto& [lane, completed] : m_loop.lanes.poll()) state.engine.complete_lane(lane, completed);
	}
	take_completed();
	if(failed.value != 0) note_failed(failed);
	contents_search search(buffer, planned, state.allocations, m_failed);
	for(const auto* const items : {&m_before, &m_since}) {
		for(const auto* const item : *items) search.pass(*item, progress::complete);
	}
	state.engine.for_each_live([&](const out_of_order_engine::live_instruction& live) {
		// Lanes of the host have been joined: what they have not completed, they have not begun.
		const bool is_on_stream = live.is_enqueued && has_streams;
		const bool has_begun = state.calls.is_running(live.id.value) || is_on_stream || (live.is_issued && live.policy == issue_policy::host);
		for(const auto* const item : m_loop.runs.instructions_of(live)) search.pass(*item, has_begun ? progress::begun : progress::unissued);
	});
	for(const auto& batch : m_left.batches) {
		for(const auto* const item : batch.instructions) search.pass(*item, progress::unissued);
	}
	return search.take();
}

} // namespace celerity
