// SPDX-License-Identifier: MIT
// The operations of a graph, made of the instructions of its first run.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "devices/graph_devices.hpp"
#include "devices/native_launch.hpp"
#include "memory/allocation_table.hpp"
#include "period_graphs.hpp"
#include "transfers/direct_receiver.hpp"

namespace celerity {

/// A step of a run whose transfers have begun.
struct begun_step {
	std::uint32_t first_flag = 0; ///< of a send: ready and answer; of a receive: by part ready and, behind it, the answer if there is one
	std::vector<direct_receiver::graph_fetch> fetches{};
	std::optional<graph_put> put{}; ///< of a send
};

/// `begun`: by step; empty for a run without transfers.
std::vector<graph_operation> operations_of(const graph_run& run, std::span<const begun_step> begun, const allocation_table& allocations,
    const launch_table& launches);

} // namespace celerity
