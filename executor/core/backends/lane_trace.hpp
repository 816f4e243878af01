// SPDX-License-Identifier: MIT
// The record of a lane in the timeline: when it was at which position. The lane does not know the instruction.
#pragma once

#include <cstdint>

#include "engine/lane_pool.hpp"
#include "scheduler/core/vocabulary/trace_recorder.hpp"

namespace celerity {

inline void trace_lane(trace_recorder& trace, const lane_position& position, const std::int64_t start_ns, const std::int64_t end_ns) {
	trace.record({start_ns, end_ns, traced_lane{position.lane, position.sequence}});
}

/// Records its own lifetime as the time during which the lane was at `position`. Records nothing without a recorder.
class lane_trace {
  public:
	lane_trace(trace_recorder* const trace, const lane_position& position)
	    : m_trace(trace), m_position(position), m_start_ns(trace != nullptr ? now_ns() : 0) {}
	/// To be called before the position counts as complete.
	void end() const {
		if(m_trace != nullptr) trace_lane(*m_trace, m_position, m_start_ns, now_ns());
	}

  private:
	trace_recorder* m_trace;
	lane_position m_position;
	std::int64_t m_start_ns;
};

} // namespace celerity
