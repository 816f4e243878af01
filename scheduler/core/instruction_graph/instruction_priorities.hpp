// SPDX-License-Identifier: MIT
#pragma once

#include "vocabulary/instruction.hpp"

/// Of the kinds of instructions of one queue. Long asynchronous operations start early, synchronous ones yield to them. Same order as C++ Celerity's, so
/// that schedules compare.
namespace celerity::priorities {

inline constexpr instruction_priority free = 0;             // nobody waits for it
inline constexpr instruction_priority reduce = 1;           // by the host
inline constexpr instruction_priority alloc = 2;            // may take long, but blocks only the next new access
inline constexpr instruction_priority transfer = 3;         // sends and receives: posted early, finished by others
inline constexpr instruction_priority fence = 4;
inline constexpr instruction_priority kernel = 5;
inline constexpr instruction_priority horizon_or_epoch = 6; // lets the graphs forget
inline constexpr instruction_priority copy = 7;             // feeds kernels
inline constexpr instruction_priority push_boost = 10;      // another rank waits for it
static_assert(copy + push_boost < kinds_per_queue);

} // namespace celerity::priorities
