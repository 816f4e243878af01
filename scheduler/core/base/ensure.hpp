// SPDX-License-Identifier: MIT
#pragma once

#include <stdexcept>
#include <string>

namespace celerity {

/// For the `validate()` of planner state, which tests call after each event.
inline void ensure(const bool holds, const char* const statement) {
	if(!holds) throw std::logic_error(std::string("The state of the planner contradicts itself. This should hold: ") + statement);
}

} // namespace celerity
