// SPDX-License-Identifier: MIT
// Several small copies as one kernel. A copy engine takes some 4 µs for each box however small it is; one kernel fetches all halos of a chunk in less. The
// kernel may wait for flags of other ranks before it copies, and answer behind that: each of these would be a call of the driver and an operation of a stream.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/backend.hpp"
#include "cuda_driver.hpp"
#include "memory/nd_copy.hpp"

namespace celerity {

/// The launch of a kernel that is compiled elsewhere, once per device; see celerity_py/cuda/small_copies.py, which has the same layout.
class cuda_small_copies {
  public:
	static constexpr std::size_t max_parts = 8;
	/// Larger copies are left to the copy engines, which are faster there.
	static constexpr std::size_t max_bytes = std::size_t{1} << 20;
	/// Larger copies leave waiting to their stream: all blocks of a kernel that waits look at the flags, across the bus.
	static constexpr std::size_t max_waiting_bytes = std::size_t{1} << 17;

	void set_function(const cuda::function function) { m_function = function; }
	bool is_available() const { return m_function != nullptr; }
	/// From now on the kernel may wait for flags. `arrived` is a word of the device, 0, for this object alone; its launches with flags follow each other.
	/// Launches that wait end, and the context with them, when `stop` is not 0.
	void allow_flags(const cuda::device_pointer arrived, const std::uint32_t* const stop) {
		m_arguments.arrived = arrived;
		m_arguments.stop = cuda::to_device_pointer(stop);
	}

	void clear();
	/// False if the copies are too many or too large for a kernel.
	bool add(const void* source, void* destination, const strided_copy& copy);
	/// Whether the kernel may wait for flags before these copies.
	bool may_wait() const { return m_arguments.arrived != 0 && m_total_bytes <= max_waiting_bytes; }
	/// Before the copies, and after them. At most one of each for each copy.
	void wait_for(const shared_flag& flag) { put(m_arguments.ready, m_arguments.num_ready, flag); }
	void answer(const shared_flag& flag) { put(m_arguments.answers, m_arguments.num_answers, flag); }
	void launch(const cuda::driver& driver, cuda::stream stream) const;

  private:
	struct part {
		std::uint64_t source;
		std::uint64_t destination;
		std::uint64_t count[3];               ///< words in a run, runs, planes of runs
		std::int64_t source_stride_bytes[2];  ///< of runs and planes
		std::int64_t destination_stride_bytes[2];
		std::uint64_t word_bytes;             ///< 16, 8, 4, 2 or 1: addresses and strides are multiples of it
	};
	struct flag {
		std::uint64_t address;
		std::uint64_t value;
	};
	using flags = std::array<flag, max_parts>;
	struct arguments {
		std::uint64_t num_parts;
		std::uint64_t num_ready;
		std::uint64_t num_answers;
		std::uint64_t arrived;
		std::uint64_t stop;
		std::array<part, max_parts> parts;
		flags ready;
		flags answers;
	};

	cuda::function m_function = nullptr;
	arguments m_arguments{};
	std::size_t m_total_bytes = 0;
	std::uint64_t m_most_words = 0;

	static void put(flags& all, std::uint64_t& count, const shared_flag& added) { all.at(count++) = {cuda::to_device_pointer(added.address), added.value}; }
};

} // namespace celerity
