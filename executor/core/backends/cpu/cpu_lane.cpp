// SPDX-License-Identifier: MIT
#include "cpu_lane.hpp"

#include <algorithm>
#include <utility>

#include "memory/reduce_kernels.hpp"
#include "threads/start_thread.hpp"

namespace celerity {

void carry_out(const reduce_operation& operation) {
	if(operation.source == nullptr) return;
	const auto& [op, type, source, count, num_elements, destination, has_values] = operation;
	reduce_partials(op, type, source, count, num_elements, destination);
	if(has_values != nullptr && !is_extremum_of_nothing(op, type, destination, num_elements)) *has_values = 1;
}

cpu_lane::cpu_lane(std::vector<lane_progress>& progress, const lane_index own, event_count& completions, const flag_board* const flags,
    trace_recorder* const trace)
    : m_progress(progress), m_own(own), m_completions(completions), m_flags(flags), m_trace(trace) {}

void cpu_lane::enqueue(const std::uint64_t sequence, const std::span<const lane_position> waits, const std::span<const pull_operation> pulls,
    std::function<void()> work) {
	{
		const std::lock_guard lock(m_mutex);
		if(m_is_cancelled) return;
		m_queue.push_back({sequence, small_vector<lane_position, 4>(waits), small_vector<pull_operation, 1>(pulls), std::move(work)});
		if(!m_thread.joinable()) m_thread = start_thread("for the work of a lane", [this] { run(); });
	}
	m_wake.notify_one();
}

void cpu_lane::cancel() {
	{
		const std::lock_guard lock(m_mutex);
		m_is_cancelled = true;
		m_queue.clear();
	}
	m_wake.notify_one();
}

void cpu_lane::stop() {
	cancel();
	if(m_thread.joinable()) m_thread.join();
}

void cpu_lane::run() {
	std::vector<entry> batch;
	while(true) {
		{
			std::unique_lock lock(m_mutex);
			m_wake.wait(lock, [&] { return m_is_cancelled || !m_queue.empty(); });
			if(m_is_cancelled) return;
			batch.clear();
			std::swap(batch, m_queue);
		}
		if(!std::all_of(batch.begin(), batch.end(), [&](const entry& item) { return execute(item); })) return;
	}
}

bool cpu_lane::execute(const entry& item) {
	for(const auto& wait : item.waits) {
		if(!m_progress[wait.lane].wait(wait.sequence)) return false;
	}
	if(!m_progress[m_own].wait(item.sequence - 1)) return false; // another thread may be at it
	// A cancelled lane of another device may have left the waits reached, so each lane looks at its own.
	if(m_progress[m_own].is_cancelled()) return false;
	const auto is_cancelled = [this] { return m_progress[m_own].is_cancelled(); };
	const lane_trace traced(m_trace, {m_own, item.sequence});
	for(const auto& pull : item.pulls) {
		if(pull.ready.address != nullptr && !m_flags->wait(pull.ready, is_cancelled)) return false;
		carry_out(pull);
		if(pull.answer.address == nullptr) continue;
		for(const auto& wait : pull.answer_after) {
			if(!m_progress[wait.lane].wait(wait.sequence)) return false;
		}
		m_flags->raise(pull.answer);
	}
	if(item.work) item.work();
	traced.end();
	m_progress[m_own].publish(item.sequence); // boxes may be gone from here on
	m_completions.signal();
	return true;
}

} // namespace celerity
