// SPDX-License-Identifier: MIT
#include "strided_layout.hpp"

#include <cstring>

#include <algorithm>

namespace celerity {

placed_layout layout_of(const payload& place) {
	if(std::find(place.extent.begin(), place.extent.end(), 0) != place.extent.end()) return {};
	placed_layout placed;
	auto& [run_bytes, num_loops, loops] = placed.layout;
	run_bytes = place.element_size_bytes;
	std::size_t stride = place.element_size_bytes;
	for(std::size_t d = place.extent.size(); d-- > 0;) {
		const auto count = place.extent[d];
		placed.first_byte += place.offset[d] * stride;
		if(count != 1) {
			if(num_loops == 0 && stride == run_bytes) {
				run_bytes *= count;
			} else if(num_loops > 0 && stride == loops[num_loops - 1].count * loops[num_loops - 1].stride_bytes) {
				loops[num_loops - 1].count *= count;
			} else {
				loops[num_loops++] = {count, stride};
			}
		}
		stride *= place.allocated_shape[d];
	}
	return placed;
}

namespace {

/// Calls f(address, bytes) for each contiguous part of the box, in order.
template <typename F>
void for_each_run(const payload& place, F&& f) {
	if(bytes_of(place) == 0) return;
	const auto [first_byte, layout] = layout_of(place);
	std::array<strided_layout::loop, 3> loops = layout.loops;
	for(std::size_t i = layout.num_loops; i < loops.size(); ++i) loops[i] = {1, 0};
	auto* const first = static_cast<std::byte*>(place.address) + first_byte;
	for(std::size_t i = 0; i < loops[2].count; ++i) {
		for(std::size_t j = 0; j < loops[1].count; ++j) {
			auto* run = first + i * loops[2].stride_bytes + j * loops[1].stride_bytes;
			for(std::size_t k = 0; k < loops[0].count; ++k, run += loops[0].stride_bytes) f(run, layout.run_bytes);
		}
	}
}

} // namespace

std::size_t bytes_of(const payload& place) { return place.extent[0] * place.extent[1] * place.extent[2] * place.element_size_bytes; }

void pack(const payload& source, std::byte* dense) {
	for_each_run(source, [&](const std::byte* const run, const std::size_t size_bytes) {
		std::memcpy(dense, run, size_bytes);
		dense += size_bytes;
	});
}

void unpack(const std::byte* dense, const payload& destination) {
	for_each_run(destination, [&](std::byte* const run, const std::size_t size_bytes) {
		std::memcpy(run, dense, size_bytes);
		dense += size_bytes;
	});
}

} // namespace celerity
