// SPDX-License-Identifier: MIT
#pragma once

#include "instruction.hpp"

namespace celerity {

/// Receives the batches that the scheduler has planned. Called from the scheduler thread; must not block for long.
class instruction_sink {
  public:
	virtual void submit(instruction_batch&& batch) = 0;

  protected:
	~instruction_sink() = default; // nobody owns a sink through this type
};

} // namespace celerity
