// SPDX-License-Identifier: MIT
// Copies of boxes between allocations, reduced to as few and as long contiguous runs as their layouts allow.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "scheduler/core/geometry/grid.hpp"

namespace celerity {

/// Data in memory: a dense row-major array, or boxes that lie packed one after the other, each row-major.
struct array_place {
	std::byte* address = nullptr;
	const box* array = nullptr; ///< in buffer coordinates; null: packed
};

/// Runs of contiguous bytes inside at most two loops (the first one is the inner one). Offsets count from the addresses of the two places.
struct strided_copy {
	struct loop {
		std::size_t count = 1;
		std::size_t source_stride_bytes = 0;
		std::size_t destination_stride_bytes = 0;
		friend bool operator==(const loop&, const loop&) = default;
	};
	std::size_t source_offset_bytes = 0;
	std::size_t destination_offset_bytes = 0;
	std::size_t run_bytes = 0;
	std::size_t num_loops = 0;
	std::array<loop, 2> loops;

	std::size_t num_runs() const { return loops[0].count * loops[1].count; }
};

/// Copy of `part` between two dense row-major arrays over `source_box` and `destination_box`, both of which cover `part`.
strided_copy make_strided_copy(const box& part, const box& source_box, const box& destination_box, std::size_t element_size_bytes);

/// The same with runs of one row of `part`, and with both loops: these do not depend on the arrays.
strided_copy make_row_copy(const box& part, const box& source_box, const box& destination_box, std::size_t element_size_bytes);

/// Calls f(strided_copy) for every box, in order.
template <typename F>
void for_each_strided_copy(const box* const source_array, const box* const destination_array, const std::span<const box> boxes,
    const std::size_t element_size_bytes, F&& f) {
	std::size_t packed_bytes = 0;
	for(const box& part : boxes) {
		auto copy = make_strided_copy(part, source_array == nullptr ? part : *source_array, destination_array == nullptr ? part : *destination_array,
		    element_size_bytes);
		if(source_array == nullptr) copy.source_offset_bytes += packed_bytes;
		if(destination_array == nullptr) copy.destination_offset_bytes += packed_bytes;
		packed_bytes += static_cast<std::size_t>(part.area()) * element_size_bytes;
		f(static_cast<const strided_copy&>(copy));
	}
}

void execute_copy(const void* source, void* destination, const strided_copy& copy);

/// The two places must not overlap.
void nd_copy(const array_place& source, const array_place& destination, std::span<const box> boxes, std::size_t element_size_bytes);

} // namespace celerity
