// SPDX-License-Identifier: MIT
// How long the executor thread may wait between two looks at the network.
#pragma once

#include <chrono>

namespace celerity {

struct look_settings {
	bool spins = false;         ///< never sleep while something is awaited
	double cores_per_rank = 1;  ///< shared ones counted in part
	bool has_other_ways = false; ///< some awaited data does not come through the network
};

/// What is known at a look.
struct look_facts {
	std::chrono::nanoseconds since_progress{0}; ///< since anything has moved
	std::chrono::nanoseconds since_arrival{0};  ///< since the network has brought something, or was given something
	std::chrono::nanoseconds since_move{0};     ///< since a look has moved a part of a message; 0: this one has
	bool is_awaiting = false;  ///< something of other ranks
	bool has_requests = false; ///< some of that comes through the network for sure
};

/// Whether a look that took so long has moved a part of a message. A library tells of whole messages only.
bool has_moved_data(std::chrono::nanoseconds look, std::chrono::nanoseconds shortest_look);

/// No network wakes a thread, so a thread that waits for a message looks again and again. That takes a core, which kernels and other ranks want.
std::chrono::nanoseconds time_to_next_look(const look_settings& settings, const look_facts& facts);

} // namespace celerity
