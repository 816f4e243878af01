// SPDX-License-Identifier: MIT
// Divides the operations of a graph among devices. A graph of one device cannot wait for an operation in that of another, so nodes raise flags and wait for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
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

/// An operation, or an *exchange* with other devices, or both in one kernel. An exchange raises flags, then waits for flags, and then copies.
struct cuda_graph_node {
	std::optional<decltype(graph_operation::what)> what; ///< of an exchange, copies
	std::vector<cuda_graph_flag> raised;
	std::vector<cuda_graph_flag> awaited;
	std::uint32_t arrived = 0; ///< word of an exchange
	std::vector<std::uint32_t> after; ///< nodes of the same device

	bool is_exchange() const { return !raised.empty() || !awaited.empty(); }
};

/// The operations of one device.
struct cuda_graph_part {
	device_id device;
	std::vector<cuda_graph_node> nodes;
	std::uint32_t num_words = 0;
	cuda::executable_graph handle = nullptr; ///< made and launched by the thread that issues operations of the device
};

/// `fits`: whether an exchange can carry out these copies. No device waits for ever, even if a device carries out all its nodes one after the other, in any
/// order that their edges allow: a node that waits comes after all flags that its device raises for earlier operations.
std::vector<cuda_graph_part> part_by_device(std::span<const graph_operation> operations,
    const std::function<bool(const decltype(graph_operation::what)&)>& fits);

} // namespace celerity
