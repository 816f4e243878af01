// SPDX-License-Identifier: MIT
#include "local_chunks.hpp"

#include "split.hpp"

namespace celerity {

void split_among_devices(const task& node, const box& rank_chunk, const std::size_t num_devices, std::vector<local_chunk>& out) {
	out.clear();
	const auto& geometry = node.geometry;
	if(node.kind != task_kind::device_kernel) {
		out.push_back({rank_chunk, host_memory});
		return;
	}
	const auto split = [&](const box& whole, const std::size_t count) {
		return geometry.split == split_kind::split_2d ? split_2d(whole, geometry.granularity, count) : split_1d(whole, geometry.granularity, count);
	};
	const bool can_split = geometry.dims > 0;
	const box_vector shares = can_split && num_devices > 1 ? split(rank_chunk, num_devices) : box_vector{rank_chunk};
	const std::size_t parts = can_split && node.reductions.empty() ? geometry.oversubscription : 1;
	for(std::size_t d = 0; d < shares.size(); ++d) {
		const memory_id memory = memory_of(device_id(static_cast<std::uint32_t>(d)));
		if(parts <= 1) {
			out.push_back({shares[d], memory});
		} else {
			for(const box& part : split(shares[d], parts)) out.push_back({part, memory});
		}
	}
}

} // namespace celerity
