// SPDX-License-Identifier: MIT
// Divides the operations of a graph among devices. A graph of one device cannot wait for an operation in that of another, so nodes raise flags and wait for them.
// One graph over several devices would need no flags, but its launch costs the host 1.9 µs per operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "devices/graph_devices.hpp"
#include "cuda_driver.hpp"
#include "cuda_small_copies.hpp"

namespace celerity {

/// A flag in the memory of one device, raised by another one. Words are numbered by device.
struct cuda_graph_word {
	device_id device;
	std::uint32_t number = 0;
};

/// An operation, or an *exchange* with other devices or ranks, or both in one kernel. An exchange puts data into inboxes, raises flags, then waits for flags, and then
/// copies.
struct cuda_graph_node {
	std::optional<decltype(graph_operation::what)> what; ///< of an exchange, copies
	std::vector<std::uint32_t> raised; ///< flags of the part
	std::vector<std::uint32_t> awaited; ///< flags of the part, before all copies
	std::vector<std::uint32_t> awaited_by_end; ///< likewise, beside the copies
	std::vector<std::uint32_t> after; ///< nodes of the same device; none of these is before another one of them
	bool is_urgent = false; ///< an operation for whose results other devices wait
	bool fetches = false; ///< copies out of the memory of other devices of the process
	/// With flags that the node raises, and for each copy or none; a copy waits for its own flag, besides. The address of an inbox between devices counts from
	/// the first inbox of the device.
	std::vector<graph_put> puts{};
	std::vector<graph_arrival> arrivals{};
	std::optional<std::uint32_t> changeable{}; ///< as graph_operation::changeable

	bool is_exchange() const { return !raised.empty() || !awaited.empty() || !awaited_by_end.empty() || !arrivals.empty(); }
};

/// The kernels that one operation launches. Once captured, a launch of the graph may get others of their parameters.
struct cuda_kernel_nodes {
	std::vector<cuda::graph_node> nodes; ///< in the order of the launches
	cuda::device_pointer scratch = 0; ///< that the graph gives them
};

/// The operations of one device.
struct cuda_graph_part {
	device_id device;
	std::vector<cuda_graph_node> nodes;
	std::uint32_t num_flags = 0; ///< that its nodes raise or await; with other ranks, or with other devices
	std::uint32_t num_words = 0; ///< that other devices raise
	std::size_t inbox_bytes = 0; ///< into which other devices put data
	std::vector<cuda_graph_word> words; ///< by flag with other devices
	std::vector<bool> has_put; ///< by flag with other devices: data comes into an inbox as well
	cuda::executable_graph handle = nullptr; ///< made and launched by the thread that issues operations of the device, as are the next two
	cuda::graph source = nullptr; ///< of the handle, if kernels may change: it has their nodes
	std::map<std::uint32_t, cuda_kernel_nodes> changeable; ///< by graph_operation::changeable
};

/// `fits`: whether an exchange can carry out these copies. No device waits for ever, even if a device carries out all its nodes one after the other, in any
/// order that their edges allow: a node that waits comes after all flags that its device raises for earlier operations. With flags of other ranks, there is
/// one device.
std::vector<cuda_graph_part> part_by_device(std::span<const graph_operation> operations, std::size_t num_rank_flags,
    const std::function<bool(const decltype(graph_operation::what)&)>& fits);

} // namespace celerity
