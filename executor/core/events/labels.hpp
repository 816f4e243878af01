// SPDX-License-Identifier: MIT
// The one printed form of ids.
#pragma once

#include <cstdint>
#include <string>

#include "scheduler/core/base/ids.hpp"

namespace celerity {

// Appending, since GCC 12 warns about `"B" + std::to_string(...)` for no reason (its bug 105651).
inline std::string numbered(const char* const prefix, const std::uint64_t number) {
	std::string text(prefix);
	text += std::to_string(number);
	return text;
}

inline std::string label(const task_id id) { return numbered("T", id.value); }
inline std::string label(const buffer_id id) { return numbered("B", id.value); }
inline std::string label(const instruction_id id) { return numbered("I", id.value); }
inline std::string label(const device_id id) { return numbered("D", id.value); }
inline std::string label(const allocation_id id) { return numbered("M", id.memory.value) + numbered(".A", id.raw); }

} // namespace celerity
