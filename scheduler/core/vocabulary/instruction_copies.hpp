// SPDX-License-Identifier: MIT
#pragma once

#include "base/arena.hpp"
#include "instruction.hpp"

namespace celerity {

/// A copy that refers to no data outside of `memory`.
instruction copy_into(arena& memory, const instruction& made);

} // namespace celerity
