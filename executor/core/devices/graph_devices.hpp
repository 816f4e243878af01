// SPDX-License-Identifier: MIT
// Graphs: many operations that devices carry out at once, for backends that have them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "backend.hpp"
#include "kernel_layouts.cuh"
#include "memory/nd_copy.hpp"
#include "native_launch.hpp"
#include "scheduler/core/base/small_vector.hpp"

namespace celerity {

/// Memory of a device, into which a kernel of a graph on another device puts the data of a message. Behind each word of four bytes it writes the number of
/// the message, so that the data needs no flag: the device that waits looks at the words themselves. As in the protocol LL of NCCL. A
/// later message may overwrite one that has not been read.
struct graph_inbox {
	static constexpr std::size_t word_bytes = 4;
	/// Larger messages are fetched, which moves half of the bytes.
	static constexpr std::size_t most_bytes = std::size_t{1} << 14;
	static constexpr std::size_t size_bytes = 2 * most_bytes; ///< between ranks, where an inbox gets one message after the other

	std::uint64_t address = 0;
	std::uint32_t num_turns = 1; ///< message n uses inbox n % num_turns of those that follow each other from the address on
	box array;                   ///< whose elements lie there densely

	static std::size_t bytes_for(const box& array, const std::size_t element_size_bytes) {
		return 2 * static_cast<std::size_t>(array.area()) * element_size_bytes;
	}
	static bool is_for(const box& array, const std::size_t element_size_bytes) {
		return element_size_bytes % word_bytes == 0 && bytes_for(array, element_size_bytes) <= size_bytes;
	}
};

/// A copy into an inbox, at the moment when a flag is raised. `copy` has no destination.
struct graph_put {
	copy_operation copy;
	graph_inbox inbox;
	std::uint32_t flag = 0;
};

/// Where the data of a copy may be found as well, as soon as it is there, instead of at its source once the flag is reached.
struct graph_arrival {
	std::optional<graph_inbox> inbox;
	std::optional<std::uint32_t> flag; ///< of this copy alone
};

/// An operation of a graph. It begins when the operations of the graph that `after` numbers are complete, and flags of other ranks are reached. Flags are
/// numbered by launch.
struct graph_operation {
	device_id device;
	/// Several copies: a gather; no copy: nothing.
	std::variant<copy_operation, std::vector<copy_operation>, launch_operation, reduce_operation> what;
	small_vector<std::uint32_t, 4> after; ///< smaller than the operation's own number
	small_vector<std::uint32_t, 2> awaited{};
	small_vector<std::uint32_t, 2> awaited_by_end{}; ///< need not be reached before it begins
	small_vector<std::uint32_t, 2> raised{}; ///< once the operation is complete
	bool is_urgent = false;                  ///< goes before other operations, because other devices wait for its results
	std::vector<graph_put> puts{};          ///< with some of the flags that it raises
	std::vector<graph_arrival> arrivals{};   ///< of each copy, in their order, or of none
	std::vector<memory_id> origins{};        ///< of each copy within the rank, in their order: the memory of its source
	std::optional<std::uint32_t> changeable{}; ///< of a kernel that later launches of the graph may get with other scalars: its number for these
};

/// A kernel of a graph from the next launch on. It differs from the first one by nothing but scalars.
struct changed_kernel {
	std::uint32_t number = 0; ///< as graph_operation::changeable
	launch_operation launch;
};

/// What may differ from one launch of a graph to the next.
struct graph_values {
	std::span<const graph_flag> flags; ///< with other ranks
	std::vector<changed_kernel> kernels;
};

/// None of a kernel or a reduction.
inline std::span<const copy_operation> copies_of(const decltype(graph_operation::what)& what) {
	if(const auto* const copy = std::get_if<copy_operation>(&what)) return {copy, 1};
	if(const auto* const gathered = std::get_if<std::vector<copy_operation>>(&what)) return *gathered;
	return {};
}

/// Operations of devices, which a lane carries out at once. Not destroyed while a lane carries it out.
class operation_graph {
  public:
	operation_graph() = default;
	operation_graph(const operation_graph&) = delete;
	operation_graph& operator=(const operation_graph&) = delete;
	virtual ~operation_graph() = default;
};

/// The devices of a rank that carry out graphs. Called as the backend is.
class graph_devices {
  public:
	/// Whether operations of graphs may wait for flags of other ranks, and raise such flags.
	virtual bool exchange() const = 0;
	/// The operations and their memory stay as they are for as long as the graph is used. No launch checks bounds.
	virtual std::unique_ptr<operation_graph> make(std::span<const graph_operation> operations, std::size_t num_flags) = 0;
	/// On a lane of any device of the graph. The graph outlives the completion of the position. Not before the latest launch with flags is complete, unless a
	/// wait sees to that.
	virtual void enqueue(lane_position position, const lane_waits& waits, operation_graph& graph, graph_values&& values) = 0;

  protected:
	~graph_devices() = default;
};

} // namespace celerity
