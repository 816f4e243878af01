// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "devices/direct_transfers.hpp"
#include "devices/lane_progress.hpp"
#include "devices/lane_trace.hpp"
#include "memory/nd_copy.hpp"
#include "scheduler/core/base/small_vector.hpp"
#include "threads/event_count.hpp"
#include "transfers/flag_memory.hpp"

namespace celerity {

/// Everything but the flags.
inline void carry_out(const pull_operation& pull) {
	const auto& copy = pull.copy;
	if(copy.source.address != nullptr) nd_copy(copy.source, copy.destination, copy.boxes, copy.element_size_bytes);
}

/// Nothing without a source.
void carry_out(const reduce_operation& operation);

/// A thread that carries out copies and other work in order, started by the first one. The progress of all lanes is shared: `own` is the index of this one.
/// Other threads may complete positions of the lane as well.
class cpu_lane {
  public:
	cpu_lane(std::vector<lane_progress>& progress, lane_index own, event_count& completions, const flag_board* flags = nullptr,
	    trace_recorder* trace = nullptr);
	~cpu_lane() { stop(); }
	cpu_lane(const cpu_lane&) = delete;
	cpu_lane& operator=(const cpu_lane&) = delete;

	void enqueue(const std::uint64_t sequence, const std::span<const lane_position> waits, const copy_operation& copy) {
		const pull_operation pull{{}, copy, {}, {}};
		enqueue(sequence, waits, std::span(&pull, 1));
	}
	/// Copies, with flags before and behind them; without source no copy. Then the other work, which does not throw.
	void enqueue(std::uint64_t sequence, std::span<const lane_position> waits, std::span<const pull_operation> pulls, std::function<void()> work = nullptr);
	/// Drops the copies that have not begun. Any thread. A thread that waits for a flag has to be woken besides.
	void cancel();
	void stop();

  private:
	struct entry {
		std::uint64_t sequence = 0;
		small_vector<lane_position, 4> waits;
		small_vector<pull_operation, 1> pulls;
		std::function<void()> work; ///< behind the pulls; may be empty
	};

	std::vector<lane_progress>& m_progress;
	lane_index m_own;
	event_count& m_completions;
	const flag_board* m_flags; ///< null if there are no flags
	trace_recorder* m_trace;   ///< null if there is no timeline
	std::mutex m_mutex;
	std::condition_variable m_wake;
	std::vector<entry> m_queue;
	bool m_is_cancelled = false;
	std::thread m_thread;

	void run();
	bool execute(const entry& item);
};

} // namespace celerity
