// SPDX-License-Identifier: MIT
#pragma once

#include "vocabulary/instruction.hpp"

/// Long asynchronous operations start early, synchronous ones yield to them. Same order as C++ Celerity's, so that schedules compare.
namespace celerity::priorities {

inline constexpr instruction_priority free = -1;            // nobody waits for it
inline constexpr instruction_priority reduce = 0;
inline constexpr instruction_priority alloc = 1;            // may take long, but blocks only the next new access
inline constexpr instruction_priority transfer = 2;         // sends and receives: posted early, finished by others
inline constexpr instruction_priority fence = 3;
inline constexpr instruction_priority kernel = 4;
inline constexpr instruction_priority horizon_or_epoch = 5; // lets the graphs forget
inline constexpr instruction_priority copy = 6;             // feeds kernels
inline constexpr instruction_priority push_boost = 10;      // another rank waits for it

} // namespace celerity::priorities
