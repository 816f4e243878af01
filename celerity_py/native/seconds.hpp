// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace celerity {

/// Python's seconds; negative ones are none, and more than eleven days are as many.
inline std::chrono::nanoseconds to_nanoseconds(const double seconds) {
	return std::chrono::nanoseconds(static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e6) * 1e9));
}

} // namespace celerity
