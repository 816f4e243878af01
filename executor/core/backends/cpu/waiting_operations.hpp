// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "devices/lane_progress.hpp"
#include "devices/lane_trace.hpp"
#include "scheduler/core/base/small_vector.hpp"

namespace celerity {

/// Short operations that may not begin yet. To wake the thread of their lane takes longer than they do, so the executor thread carries them out when it asks how
/// far the lane is: whatever they wait for wakes it. Executor thread.
class waiting_operations {
  public:
	waiting_operations(std::vector<lane_progress>& progress, trace_recorder* const trace) : m_progress(progress), m_trace(trace), m_lanes(progress.size()) {}

	/// Whether an operation may begin now.
	bool may_begin(const lane_position& position, const std::span<const lane_position> waits) const {
		const auto is_complete = [&](const lane_position& p) { return m_progress[p.lane].completed() >= p.sequence; };
		return is_complete({position.lane, position.sequence - 1}) && std::all_of(waits.begin(), waits.end(), is_complete);
	}

	/// `work` does not throw.
	void add(const lane_position& position, const std::span<const lane_position> waits, std::function<void()> work) {
		m_lanes[position.lane].push_back({position, small_vector<lane_position, 4>(waits), std::move(work)});
	}

	void carry_out(const lane_index lane) {
		auto& operations = m_lanes[lane];
		while(!operations.empty() && may_begin(operations.front().position, operations.front().waits) && !m_progress[lane].is_cancelled()) {
			carry_out(operations.front().position, operations.front().work);
			operations.pop_front();
		}
	}
	template <typename Work>
	void carry_out(const lane_position& position, Work&& work) const {
		const lane_trace traced(m_trace, position);
		work();
		traced.end();
		m_progress[position.lane].publish(position.sequence);
	}

  private:
	struct operation {
		lane_position position;
		small_vector<lane_position, 4> waits;
		std::function<void()> work;
	};

	std::vector<lane_progress>& m_progress;
	trace_recorder* const m_trace; ///< null if there is no timeline
	std::vector<std::deque<operation>> m_lanes;
};

} // namespace celerity
