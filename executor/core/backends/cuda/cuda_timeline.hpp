// SPDX-License-Identifier: MIT
// When the work of one device began and ended, in the host's time, from events that are recorded around it.
#pragma once

#include <cstdint>

#include "cuda_driver.hpp"
#include "engine/lane_pool.hpp"
#include "scheduler/core/vocabulary/trace_recorder.hpp"

namespace celerity {

/// Belongs to the thread that polls the lanes of the device. Times are right to a few microseconds: a reference event ties the two clocks together. If
/// they drift apart, the reference moves: no operation begins before the host puts it on a lane, and none ends after the host finds it complete.
class cuda_timeline {
  public:
	/// Waits for the stream, which should be idle. The context is current.
	cuda_timeline(const cuda::driver& driver, cuda::stream stream, trace_recorder& trace, double max_distance_ms = 4000);
	~cuda_timeline();
	cuda_timeline(const cuda_timeline&) = delete;
	cuda_timeline& operator=(const cuda_timeline&) = delete;

	/// Both events are complete and measure time. May keep `end`, and put another complete event in its place.
	void add(const lane_position& position, cuda::event begin, cuda::event& end, std::int64_t issued_ns);
	/// The process is about to end, or the context is lost: leave everything as it is.
	void forget() { m_is_forgotten = true; }

  private:
	const cuda::driver& m_driver;
	trace_recorder& m_trace;
	/// The driver tells differences in milliseconds as a float, which has 24 bits: up to here they are finer than the clock behind them. A later event
	/// becomes the reference.
	const double m_max_distance_ms;
	cuda::event m_reference = nullptr;
	std::int64_t m_reference_ns = 0; ///< when it was reached, in the host's time
	bool m_is_forgotten = false;
};

} // namespace celerity
