// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "instruction.hpp"
#include "task.hpp"

namespace celerity {

/// Receives the batches that the scheduler has planned. Called from the scheduler thread; must not block for long.
class instruction_sink {
  public:
	virtual void submit(instruction_batch&& batch) = 0;
	/// Whether the sink knows the first `num_handed_over` instructions, and at most `most` of the queue are unfinished. False without queues of several
	/// priorities. Any thread.
	virtual bool has_at_most(queue_priority /*queue*/, std::uint64_t /*most*/, std::uint64_t /*num_handed_over*/) const { return false; }

	/// Whether the sink knows the first `num_handed_over` instructions, and all that is left waits for other ranks. May take a lock of the sink. Any thread.
	virtual bool is_idle(std::uint64_t /*num_handed_over*/) { return false; }
	/// Whether devices carry out whole periods as graphs, so that it pays to collect these. From the first batch on.
	virtual bool takes_periods() const { return false; }

  protected:
	~instruction_sink() = default; // nobody owns a sink through this type
};

} // namespace celerity
