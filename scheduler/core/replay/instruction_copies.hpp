// SPDX-License-Identifier: MIT
// Copies of instructions of any kind. Both functions follow from the fields of the kinds.
#pragma once

#include "base/arena.hpp"
#include "vocabulary/instruction.hpp"
#include "vocabulary/plan_position.hpp"

namespace celerity {

/// A copy that refers to no data outside of `memory`.
instruction copy_into(arena& memory, const instruction& made);

/// Moves the ids in the operation that differ from one repetition to the next. A list that holds such ids is copied into `memory`; other lists are shared.
void move_ids(arena& memory, instruction_operation& operation, const plan_position& by);

} // namespace celerity
