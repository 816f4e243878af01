// SPDX-License-Identifier: MIT
#pragma once

#include <nanobind/nanobind.h>

#include "scheduler/core/base/arena.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"

namespace celerity::native {

/// Instructions made from Python dicts, in the form in which a graph context records them. Owns them: it must outlive their execution.
class instruction_records {
  public:
	explicit instruction_records(const nanobind::iterable& instructions);

	instruction_batch batch() const { return m_batch; }

  private:
	arena_block_pool m_blocks;
	arena m_arena{m_blocks};
	instruction_batch m_batch;
};

} // namespace celerity::native
