// SPDX-License-Identifier: MIT
#include "nd_copy.hpp"

#include <cstring>

namespace celerity {

namespace {

/// Strides and offset of a box inside a dense row-major array, in bytes.
struct array_geometry {
	std::array<std::size_t, 3> strides;
	std::size_t offset;

	array_geometry(const box& array, const box& part, const std::size_t element_size) {
		strides[2] = element_size;
		strides[1] = strides[2] * static_cast<std::size_t>(array.extent(2));
		strides[0] = strides[1] * static_cast<std::size_t>(array.extent(1));
		offset = 0;
		for(std::size_t d = 0; d < 3; ++d) offset += static_cast<std::size_t>(part.min(d) - array.min(d)) * strides[d];
	}
};

/// A size known at compile time turns memcpy into one load and one store: columns of halos are runs of one element.
template <std::size_t RunBytes>
void copy_short_runs(const std::byte* source, std::byte* destination, const strided_copy::loop& loop) {
	for(std::size_t i = 0; i < loop.count; ++i) {
		std::memcpy(destination, source, RunBytes);
		source += loop.source_stride_bytes;
		destination += loop.destination_stride_bytes;
	}
}

void copy_runs(const std::byte* source, std::byte* destination, const strided_copy::loop& loop, const std::size_t run_bytes) {
	switch(run_bytes) {
	case 1: return copy_short_runs<1>(source, destination, loop);
	case 2: return copy_short_runs<2>(source, destination, loop);
	case 4: return copy_short_runs<4>(source, destination, loop);
	case 8: return copy_short_runs<8>(source, destination, loop);
	case 16: return copy_short_runs<16>(source, destination, loop);
	default: break;
	}
	for(std::size_t i = 0; i < loop.count; ++i) {
		std::memcpy(destination, source, run_bytes);
		source += loop.source_stride_bytes;
		destination += loop.destination_stride_bytes;
	}
}

} // namespace

strided_copy make_strided_copy(const box& part, const box& source_box, const box& destination_box, const std::size_t element_size_bytes) {
	strided_copy copy;
	if(part.empty()) {
		copy.loops[0].count = 0;
		return copy;
	}
	const array_geometry source(source_box, part, element_size_bytes);
	const array_geometry destination(destination_box, part, element_size_bytes);
	copy.source_offset_bytes = source.offset;
	copy.destination_offset_bytes = destination.offset;
	copy.run_bytes = static_cast<std::size_t>(part.extent(2)) * element_size_bytes;

	for(const std::size_t d : {std::size_t{1}, std::size_t{0}}) {
		const auto count = static_cast<std::size_t>(part.extent(d));
		if(count == 1) continue;
		if(copy.num_loops == 0 && source.strides[d] == copy.run_bytes && destination.strides[d] == copy.run_bytes) {
			copy.run_bytes *= count; // whole rows on both sides
			continue;
		}
		if(copy.num_loops == 1) {
			auto& inner = copy.loops[0];
			if(source.strides[d] == inner.count * inner.source_stride_bytes && destination.strides[d] == inner.count * inner.destination_stride_bytes) {
				inner.count *= count; // the same steps go on across the planes
				continue;
			}
		}
		copy.loops[copy.num_loops++] = {count, source.strides[d], destination.strides[d]};
	}
	return copy;
}

strided_copy make_row_copy(const box& part, const box& source_box, const box& destination_box, const std::size_t element_size_bytes) {
	const array_geometry source(source_box, part, element_size_bytes);
	const array_geometry destination(destination_box, part, element_size_bytes);
	const auto loop_over = [&](const std::size_t d) {
		return strided_copy::loop{static_cast<std::size_t>(part.extent(d)), source.strides[d], destination.strides[d]};
	};
	return {source.offset, destination.offset, static_cast<std::size_t>(part.extent(2)) * element_size_bytes, 2, {loop_over(1), loop_over(0)}};
}

void execute_copy(const void* const source, void* const destination, const strided_copy& copy) {
	const auto* from = static_cast<const std::byte*>(source) + copy.source_offset_bytes;
	auto* to = static_cast<std::byte*>(destination) + copy.destination_offset_bytes;
	for(std::size_t i = 0; i < copy.loops[1].count; ++i) {
		copy_runs(from, to, copy.loops[0], copy.run_bytes);
		from += copy.loops[1].source_stride_bytes;
		to += copy.loops[1].destination_stride_bytes;
	}
}

void nd_copy(const array_place& source, const array_place& destination, const std::span<const box> boxes, const std::size_t element_size_bytes) {
	for_each_strided_copy(source.array, destination.array, boxes, element_size_bytes,
	    [&](const strided_copy& copy) { execute_copy(source.address, destination.address, copy); });
}

} // namespace celerity
