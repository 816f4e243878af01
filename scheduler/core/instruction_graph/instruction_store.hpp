// SPDX-License-Identifier: MIT
#pragma once

#include <deque>

#include "base/arena.hpp"
#include "base/ids.hpp"

namespace celerity {

/// The memory of the instructions, freed horizon by horizon once the executor cannot look at them any more.
class instruction_store {
  public:
	instruction_store() { m_buckets.push_back(bucket{task_id{}, arena(m_block_pool)}); }

	arena& nodes() { return m_buckets.back().nodes; }
	/// Before the instruction of this horizon or epoch. Its bucket is there already if the instruction has been repeated from a template.
	void open_bucket(const task_id opened_by) {
		if(m_buckets.back().opened_by < opened_by) m_buckets.push_back(bucket{opened_by, arena(m_block_pool)});
	}
	/// Everything before this horizon or epoch has been executed.
	void notify_epoch_reached(const task_id reached) {
		// Until a further report the executor may still look at instructions right before the one it has just reported.
		while(m_buckets.size() > 1 && m_buckets[1].opened_by <= m_last_reached) m_buckets.pop_front();
		m_last_reached = reached;
	}
	task_id last_reached() const { return m_last_reached; }

  private:
	struct bucket {
		task_id opened_by; ///< the horizon or epoch whose instruction is the first in it
		arena nodes;
	};

	arena_block_pool m_block_pool;
	std::deque<bucket> m_buckets;
	task_id m_last_reached;
};

} // namespace celerity
