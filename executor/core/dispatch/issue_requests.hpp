// SPDX-License-Identifier: MIT
// From instructions to requests of the engine. A pure function.
#pragma once

#include <cstddef>

#include "devices/backend.hpp"
#include "devices/native_launch.hpp"
#include "engine/out_of_order_engine.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"
#include "transfers/direct_context.hpp"

namespace celerity {

/// The facts that a request depends on, besides the instruction itself.
struct request_rules {
	const backend& devices; ///< whose classes of lanes there are
	const launch_table& launches;
	const direct_context& direct;
	std::size_t num_ranks = 1;
	std::size_t num_devices = 1;
};

issue_request make_request(const instruction& item, const request_rules& rules);

} // namespace celerity
