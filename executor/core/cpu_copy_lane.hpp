// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "backend.hpp"
#include "event_count.hpp"
#include "lane_progress.hpp"
#include "scheduler/core/small_vector.hpp"

namespace celerity {

/// A thread that carries out copies in order, started by the first one. The progress of all lanes is shared: `own` is the index of this one.
class cpu_copy_lane {
  public:
	cpu_copy_lane(std::vector<lane_progress>& progress, lane_index own, event_count& completions);
	~cpu_copy_lane() { stop(); }
	cpu_copy_lane(const cpu_copy_lane&) = delete;
	cpu_copy_lane& operator=(const cpu_copy_lane&) = delete;

	void enqueue(std::uint64_t sequence, std::span<const lane_position> waits, const copy_operation& copy);
	/// Copies that have not begun never will. Any thread.
	void cancel();
	void stop();

  private:
	struct entry {
		std::uint64_t sequence = 0;
		small_vector<lane_position, 4> waits;
		copy_operation copy;
	};

	std::vector<lane_progress>& m_progress;
	lane_index m_own;
	event_count& m_completions;
	std::mutex m_mutex;
	std::condition_variable m_wake;
	std::vector<entry> m_queue;
	bool m_is_cancelled = false;
	std::thread m_thread;

	void run();
	bool execute(const entry& item);
};

} // namespace celerity
