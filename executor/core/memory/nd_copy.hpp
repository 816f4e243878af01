// SPDX-License-Identifier: MIT
// Copies of boxes between allocations, reduced to as few and as long contiguous runs as their layouts allow.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "scheduler/core/geometry/grid.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"

namespace celerity {

/// Runs of contiguous bytes inside at most two loops (the first one is the inner one). Offsets count from the address of the allocation.
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

/// Calls f(strided_copy) for every box, in order; linear layouts are packed.
template <typename F>
void for_each_strided_copy(const copy_layout& source, const copy_layout& destination, const std::span<const box> boxes, const std::size_t element_size_bytes,
    F&& f) {
	std::size_t packed_bytes = 0;
	for(const box& part : boxes) {
		auto copy = make_strided_copy(part, source.is_linear ? part : source.allocated_box, destination.is_linear ? part : destination.allocated_box,
		    element_size_bytes);
		if(source.is_linear) copy.source_offset_bytes += source.offset_bytes + packed_bytes;
		if(destination.is_linear) copy.destination_offset_bytes += destination.offset_bytes + packed_bytes;
		packed_bytes += static_cast<std::size_t>(part.area()) * element_size_bytes;
		f(static_cast<const strided_copy&>(copy));
	}
}

void execute_copy(const void* source, void* destination, const strided_copy& copy);

/// The two allocations must not overlap.
void nd_copy(const void* source, const copy_layout& source_layout, void* destination, const copy_layout& destination_layout, std::span<const box> boxes,
    std::size_t element_size_bytes);

} // namespace celerity
