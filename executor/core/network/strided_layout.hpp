// SPDX-License-Identifier: MIT
// Normal forms of boxes in memory: equal patterns share a datatype of the network.
#pragma once

#include <array>
#include <compare>
#include <cstddef>

#include "events/executor_events.hpp"

namespace celerity {

/// Contiguous bytes, repeated by nested strides. The position of the box is not part of it: all rows (columns, faces) of an allocation have one layout.
struct strided_layout {
	struct loop {
		std::size_t count = 0; ///< more than 1
		std::size_t stride_bytes = 0;
		auto operator<=>(const loop&) const = default;
	};

	std::size_t run_bytes = 0;
	std::size_t num_loops = 0;
	std::array<loop, 3> loops{}; ///< innermost first; those behind `num_loops` are zero

	auto operator<=>(const strided_layout&) const = default;
};

struct placed_layout {
	std::size_t first_byte = 0; ///< offset in the allocation
	strided_layout layout;
};

/// Unit dimensions vanish, and a dimension that continues the next inner one in memory merges with it.
placed_layout layout_of(const payload& place);

std::size_t bytes_of(const payload& place);
/// Copies the box into dense memory of bytes_of() bytes, or out of it.
void pack(const payload& source, std::byte* dense);
void unpack(const std::byte* dense, const payload& destination);

} // namespace celerity
