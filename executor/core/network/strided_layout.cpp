// SPDX-License-Identifier: MIT
#include "strided_layout.hpp"

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

} // namespace celerity
