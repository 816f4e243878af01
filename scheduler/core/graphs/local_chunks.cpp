// SPDX-License-Identifier: MIT
#include "local_chunks.hpp"

#include "geometry/split.hpp"

namespace celerity {

namespace {

/// Cuts off the borders to other shares: in dimension 0 over the whole width, then, if dimension 1 is split too, at the sides of the rest. If the borders would
/// use up the share in a dimension, it is not cut there.
void cut_borders(const task_geometry& geometry, const box& share, const memory_id memory, std::vector<local_chunk>& out) {
	box inner = share;
	for(std::size_t d = 0; d < (geometry.split == split_kind::split_2d ? 2 : 1); ++d) {
		const auto step = geometry.granularity[d];
		const auto width = (static_cast<coordinate>(geometry.border) + step - 1) / step * step;
		const bool is_cut_low = share.min()[d] > geometry.global.min()[d];
		const bool is_cut_high = share.max()[d] < geometry.global.max()[d];
		if(inner.max()[d] - inner.min()[d] <= width * (static_cast<int>(is_cut_low) + static_cast<int>(is_cut_high))) continue;
		auto low = inner.min();
		auto high = inner.max();
		if(is_cut_low) {
			auto end = high;
			low[d] = end[d] = inner.min()[d] + width;
			out.push_back({box(inner.min(), end), memory, true});
		}
		if(is_cut_high) {
			auto begin = low;
			high[d] = begin[d] = inner.max()[d] - width;
			out.push_back({box(begin, inner.max()), memory, true});
		}
		inner = box(low, high);
	}
	out.push_back({inner, memory});
}

} // namespace

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
	const bool can_cut = can_split && node.reductions.empty();
	const std::size_t parts = can_cut ? geometry.oversubscription : 1;
	for(std::size_t d = 0; d < shares.size(); ++d) {
		const memory_id memory = memory_of(device_id(static_cast<std::uint32_t>(d)));
		if(can_cut && geometry.border > 0) {
			cut_borders(geometry, shares[d], memory, out);
		} else if(parts <= 1) {
			out.push_back({shares[d], memory});
		} else {
			for(const box& part : split(shares[d], parts)) out.push_back({part, memory});
		}
	}
}

} // namespace celerity
