// SPDX-License-Identifier: MIT
// Several small copies as one kernel. A copy engine takes some 4 µs for each box however small it is; one kernel fetches all halos of a chunk in less.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/backend.hpp"
#include "cuda_driver.hpp"
#include "memory/nd_copy.hpp"

namespace celerity {

/// The launch of kernels that are compiled elsewhere, once per device; see celerity_py/cuda/small_copies.cuh, which has the same layout.
class cuda_small_copies {
  public:
	static constexpr std::size_t max_parts = 8;
	static constexpr std::size_t few_parts = 2;
	/// Larger copies are left to the copy engines, which are faster there.
	static constexpr std::size_t max_bytes = std::size_t{1} << 20;
	/// Larger copies are no part of an exchange in a graph, whose kernel has few blocks. It looks at flags in memory of its device.
	static constexpr std::size_t max_exchanged_bytes = std::size_t{1} << 18;

	/// Two, because a launch takes the longer, the more bytes of arguments it has.
	struct functions {
		cuda::function few = nullptr; ///< for up to `few_parts` copies
		cuda::function many = nullptr;
		cuda::function exchange = nullptr; ///< with other devices or ranks, in graphs
		cuda::function set_flags = nullptr; ///< of a graph with such exchanges
		cuda::function advance_flags = nullptr; ///< between devices, for a launch of the graph
	};
	struct part {
		std::uint64_t source;
		std::uint64_t destination;
		std::uint32_t count[3];              ///< words in a run, runs, planes of runs
		std::uint32_t word_bytes;            ///< 16, 8, 4, 2 or 1: addresses and strides are multiples of it
		std::int64_t source_stride_bytes[2]; ///< of runs and planes
		std::int64_t destination_stride_bytes[2];
	};
	/// Source and destination are null or aligned as the offsets are.
	static part part_of(const void* source, void* destination, const strided_copy& copy);

	void set_functions(const functions& compiled) { m_functions = compiled; }
	const functions& compiled() const { return m_functions; }
	bool is_available() const { return m_functions.many != nullptr; }

	void clear();
	std::vector<part> parts() const;
	/// False if the copies are too many or too large for a kernel.
	bool add(const void* source, void* destination, const strided_copy& copy);
	/// Otherwise, a copy of fewer than 2^31 words may be added.
	bool is_full() const { return m_arguments.num_parts == max_parts; }
	void add_of_any_size(const void* source, void* destination, const strided_copy& copy);
	void launch(const cuda::driver& driver, cuda::stream stream) const;

	/// Whether a cuda_exchange can carry out the copies.
	bool may_exchange() const { return m_total_bytes <= max_exchanged_bytes; }
	/// So many are set by one launch.
	static constexpr std::size_t flags_per_launch = 120;
	/// Puts flags into memory of the device.
	void set_flags(const cuda::driver& driver, cuda::stream stream, std::span<const graph_flag> flags, cuda::device_pointer destination) const;
	/// Adds one to the value of each flag.
	void advance_flags(const cuda::driver& driver, cuda::stream stream, cuda::device_pointer flags, std::uint64_t count) const;

  private:
	/// The kernel for few copies takes as many of the parts as it needs.
	struct arguments {
		std::uint64_t num_parts;
		std::array<part, max_parts> parts;
	};
	/// Of set_flags(): as many as fit into the parameters of a kernel.
	struct flag_arguments {
		std::uint64_t destination;
		std::uint64_t count;
		std::array<graph_flag, flags_per_launch> flags;
	};
	functions m_functions;
	arguments m_arguments{};
	std::size_t m_total_bytes = 0;
	std::uint32_t m_most_words = 0;

	/// Of each part: enough for the largest one.
	std::uint32_t num_blocks() const;
};

} // namespace celerity
