// SPDX-License-Identifier: MIT
// Several small copies as one kernel. A copy engine takes some 4 µs for each box however small it is; one kernel fetches all halos of a chunk in less.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "cuda_driver.hpp"
#include "memory/nd_copy.hpp"

namespace celerity {

/// The launch of a kernel that is compiled elsewhere, once per device; see celerity_py/cuda/small_copies.py, which has the same layout.
class cuda_small_copies {
  public:
	static constexpr std::size_t max_parts = 8;
	/// Larger copies are left to the copy engines, which are faster there.
	static constexpr std::size_t max_bytes = std::size_t{1} << 20;

	void set_function(const cuda::function function) { m_function = function; }
	bool is_available() const { return m_function != nullptr; }

	void clear();
	/// False if the copies are too many or too large for a kernel.
	bool add(const void* source, void* destination, const strided_copy& copy);
	void launch(const cuda::driver& driver, cuda::stream stream);

  private:
	struct part {
		std::uint64_t source;
		std::uint64_t destination;
		std::uint64_t count[3];               ///< words in a run, runs, planes of runs
		std::int64_t source_stride_bytes[2];  ///< of runs and planes
		std::int64_t destination_stride_bytes[2];
		std::uint64_t word_bytes;             ///< 16, 8, 4, 2 or 1: addresses and strides are multiples of it
	};
	struct arguments {
		std::uint64_t num_parts;
		std::array<part, max_parts> parts;
	};

	cuda::function m_function = nullptr;
	arguments m_arguments{};
	std::size_t m_total_bytes = 0;
	std::uint64_t m_most_words = 0;
};

} // namespace celerity
