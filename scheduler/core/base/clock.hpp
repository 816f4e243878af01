// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>

namespace celerity {

/// Of the steady clock, which the processes of a host share. Python calls it time.perf_counter_ns().
inline std::int64_t now_ns() { return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

} // namespace celerity
