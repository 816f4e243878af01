// SPDX-License-Identifier: MIT
// Several small copies as one kernel. A copy engine takes some 4 µs for each box however small it is; one kernel fetches all halos of a chunk in less.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backend.hpp"
#include "cuda_driver.hpp"
#include "nd_copy.hpp"

namespace celerity {

/// The launch of a kernel that is compiled elsewhere, once per device; see celerity_py/small_copies.py, which has the same layout.
class cuda_small_copies {
  public:
	static constexpr std::size_t max_parts = 8;
	/// What the copy engines do better.
	static constexpr std::size_t max_bytes = std::size_t{1} << 20;
	/// Blocks that wait take places on the device that others need, and there may be four such kernels at a time.
	static constexpr std::uint64_t max_waiting_blocks = 16;

	void set_function(const cuda::function function) { m_function = function; }
	bool is_available() const { return m_function != nullptr; }

	void clear();
	/// False if the copies are too many or too large for a kernel. The source may be read when `flag` is reached, if that has an address.
	bool add(const void* source, void* destination, const strided_copy& copy, const shared_flag& flag);
	std::uint64_t num_parts() const { return m_arguments.num_parts; }
	/// Whether the kernel is small enough to wait for flags itself.
	bool may_wait() const { return blocks_per_part() * num_parts() <= max_waiting_blocks; }
	/// `waits`: for all flags.
	void launch(const cuda::driver& driver, cuda::stream stream, bool waits);

  private:
	struct part {
		std::uint64_t source;
		std::uint64_t destination;
		std::uint64_t count[3];               ///< words in a run, runs, planes of runs
		std::int64_t source_stride_bytes[2];  ///< of runs and planes
		std::int64_t destination_stride_bytes[2];
		std::uint64_t word_bytes;             ///< 16, 8, 4, 2 or 1: what addresses and strides are multiples of
		std::uint64_t flag;                   ///< its address, or 0
		std::uint64_t flag_value;
	};
	struct arguments {
		std::uint64_t num_parts;
		std::uint64_t waits;
		std::array<part, max_parts> parts;
	};

	cuda::function m_function = nullptr;
	arguments m_arguments{};
	std::size_t m_total_bytes = 0;
	std::uint64_t m_most_words = 0;

	std::uint64_t blocks_per_part() const;
};

} // namespace celerity
