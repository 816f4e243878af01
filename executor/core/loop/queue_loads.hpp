// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "engine/out_of_order_engine.hpp"
#include "scheduler/core/vocabulary/task.hpp"

namespace celerity {

/// The unfinished instructions of each queue, for threads that submit. One thread writes, and any thread reads.
class queue_loads {
  public:
	void note(const out_of_order_engine& engine) {
		for(queue_priority queue = 0; queue <= max_queue_priority; ++queue) m_unfinished[queue].store(engine.num_live_of(queue), std::memory_order_relaxed);
		m_num_known.store(engine.num_submitted(), std::memory_order_release);
	}
	/// False also while the engine has yet to get some of the first `num_handed_over` instructions.
	bool has_at_most(const queue_priority queue, const std::uint64_t most, const std::uint64_t num_handed_over) const {
		return m_num_known.load(std::memory_order_acquire) >= num_handed_over && m_unfinished[queue].load(std::memory_order_relaxed) <= most;
	}

  private:
	std::array<std::atomic<std::uint64_t>, max_queue_priority + 1> m_unfinished{};
	std::atomic<std::uint64_t> m_num_known{0};
};

} // namespace celerity
