// SPDX-License-Identifier: MIT
// How far the lanes are: asks the devices, and knows which lanes are full.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "devices/backend.hpp"
#include "dispatch/executor_state.hpp"
#include "engine/out_of_order_engine.hpp"
#include "scheduler/core/base/small_vector.hpp"
#include "threads/event_count.hpp"

namespace celerity {

/// Executor thread, with the loop's state mutex except where noted.
class lane_watch {
  public:
	using positions = small_vector<lane_position, 16>;

	explicit lane_watch(executor_state& state) : m_state(state) {}

	/// The last complete positions of lanes that have got further.
	positions poll();
	/// To ask a device costs as much as to issue an instruction. While there are instructions to issue, poll() is therefore called now and then only.
	bool is_due() const;
	/// As poll(), of lanes with work of raised queues only.
	positions poll_raised();
	/// Before poll_raised(): an instruction of a raised queue has been issued.
	void note_raised(const issue& issued);

	bool is_any_in_flight() const;
	/// The instruction has been put on its lane.
	void note_issued(const issue& issued);
	/// Whether nothing may be put on lanes now.
	bool is_full();

	/// Looks at devices and peers, which do not signal, until one of them has got further, `wake_up` is signalled, or the time is up. Without the mutex: only
	/// this thread changes the engine.
	void wait_for_progress(event_count& wake_up, std::uint64_t seen, event_count::clock::time_point deadline, bool may_spin) const;

  private:
	executor_state& m_state;
	std::int64_t m_next_poll_ns = 0;
	std::vector<lane_position> m_raised; ///< by lane, the last instruction of a raised queue that may be in flight
	lane_index m_full_lane = no_lane;
};

} // namespace celerity
