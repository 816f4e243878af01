// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace celerity {

/// The last id of each kind that planning has given away.
struct plan_position {
	std::uint64_t tasks = 0;
	std::uint64_t commands = 0;
	std::uint64_t instructions = 0;
	std::uint64_t messages = 0;
	std::uint64_t reductions = 0;
	std::uint64_t submissions = 0;
	std::uint64_t held_horizons = 0;

	friend bool operator==(const plan_position&, const plan_position&) = default;
	friend plan_position operator+(const plan_position& a, const plan_position& b) {
		return {a.tasks + b.tasks, a.commands + b.commands, a.instructions + b.instructions, a.messages + b.messages, a.reductions + b.reductions,
		    a.submissions + b.submissions, a.held_horizons + b.held_horizons};
	}
	friend plan_position operator-(const plan_position& a, const plan_position& b) {
		return {a.tasks - b.tasks, a.commands - b.commands, a.instructions - b.instructions, a.messages - b.messages, a.reductions - b.reductions,
		    a.submissions - b.submissions, a.held_horizons - b.held_horizons};
	}
};

} // namespace celerity
