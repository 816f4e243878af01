// SPDX-License-Identifier: MIT
// Several small copies as one kernel. A copy engine takes some 4 µs for each box however small it is; one kernel fetches all halos of a chunk in less.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "devices/graph_devices.hpp"
#include "cuda_driver.hpp"
#include "memory/nd_copy.hpp"

namespace celerity {

/// The launch of kernels that are compiled elsewhere, once per device: those of celerity_py/cuda/small_copies.cuh.
class cuda_small_copies {
  public:
	/// Larger copies are left to the copy engines, which are faster there.
	static constexpr std::size_t max_bytes = std::size_t{1} << 20;
	/// Larger copies are no part of an exchange in a graph, whose kernel has few blocks. It looks at flags in memory of its device.
	static constexpr std::size_t max_exchanged_bytes = std::size_t{1} << 18;

	/// Two, because a launch takes the longer, the more bytes of arguments it has.
	struct functions {
		cuda::function few = nullptr; ///< for up to `few_small_copies`
		cuda::function many = nullptr;
		cuda::function exchange = nullptr; ///< with other devices or ranks, in graphs
		cuda::function set_flags = nullptr; ///< of a graph with such exchanges
		cuda::function advance_flags = nullptr; ///< between devices, for a launch of the graph
	};
	/// Source and destination are null or aligned as the offsets are.
	static small_copy of(const void* source, void* destination, const strided_copy& copy);

	void set_functions(const functions& compiled) { m_functions = compiled; }
	const functions& compiled() const { return m_functions; }
	bool is_available() const { return m_functions.many != nullptr; }

	void clear();
	std::span<const small_copy> copies() const { return std::span(m_arguments.copies).first(m_arguments.num_copies); }
	/// False if the copies are too many or too large for a kernel.
	bool add(const void* source, void* destination, const strided_copy& copy);
	/// Otherwise, a copy of fewer than 2^31 words may be added.
	bool is_full() const { return m_arguments.num_copies == max_small_copies; }
	void add_of_any_size(const void* source, void* destination, const strided_copy& copy);
	void launch(const cuda::driver& driver, cuda::stream stream) const;

	/// Whether a cuda_exchange can carry out the copies.
	bool may_exchange() const { return m_total_bytes <= max_exchanged_bytes; }
	/// Puts flags into memory of the device.
	void set_flags(const cuda::driver& driver, cuda::stream stream, std::span<const graph_flag> flags, cuda::device_pointer destination) const;
	/// Adds one to the value of each flag.
	void advance_flags(const cuda::driver& driver, cuda::stream stream, cuda::device_pointer flags, std::uint64_t count) const;

  private:
	functions m_functions;
	small_copy_arguments<max_small_copies> m_arguments{};
	std::size_t m_total_bytes = 0;
	std::uint32_t m_most_words = 0;

	/// Of each copy: enough for the largest one.
	std::uint32_t num_blocks() const;
};

} // namespace celerity
