// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>

namespace celerity {

/// The time of the steady clock in nanoseconds. All processes of a host share this clock; in Python it is time.perf_counter_ns().
inline std::int64_t now_ns() { return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

} // namespace celerity
