// SPDX-License-Identifier: MIT
// Divides the operations of a graph among devices. A graph of one device cannot wait for an operation in that of another, so nodes raise flags and wait for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "backends/backend.hpp"
#include "cuda_driver.hpp"
#include "cuda_small_copies.hpp"

namespace celerity {

/// From an operation of one device to those of another. Words are numbered by device.
struct cuda_graph_flag {
	device_id from;
	device_id to;
	std::uint32_t word = 0; ///< of `to`
	std::uint32_t raised_count = 0; ///< word of `from`
	std::uint32_t awaited_count = 0; ///< word of `to`
};

/// The number of a flag of another rank. A word of the device holds the flag of the present launch.
enum class rank_flag_number : std::uint32_t {};

using cuda_node_flag = std::variant<cuda_graph_flag, rank_flag_number>;

/// An operation, or an *exchange* with other devices or ranks, or both in one kernel. An exchange raises flags, then waits for flags, and then copies.
struct cuda_graph_node {
	std::optional<decltype(graph_operation::what)> what; ///< of an exchange, copies
	std::vector<cuda_node_flag> raised;
	std::vector<cuda_node_flag> awaited;
	std::uint32_t arrived = 0; ///< word of an exchange
	std::vector<std::uint32_t> after; ///< nodes of the same device
	bool is_urgent = false; ///< an operation for whose results other devices wait

	bool is_exchange() const { return !raised.empty() || !awaited.empty(); }
};

/// The operations of one device.
struct cuda_graph_part {
	device_id device;
	std::vector<cuda_graph_node> nodes;
	std::uint32_t num_words = 0; ///< the first ones hold flags of other ranks
	cuda::executable_graph handle = nullptr; ///< made and launched by the thread that issues operations of the device
};

/// `fits`: whether an exchange can carry out these copies. No device waits for ever, even if a device carries out all its nodes one after the other, in any
/// order that their edges allow: a node that waits comes after all flags that its device raises for earlier operations. With flags of other ranks, there is
/// one device.
std::vector<cuda_graph_part> part_by_device(std::span<const graph_operation> operations, std::size_t num_rank_flags,
    const std::function<bool(const decltype(graph_operation::what)&)>& fits);

} // namespace celerity
