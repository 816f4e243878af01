// SPDX-License-Identifier: MIT
#include "local_chunks.hpp"

#include <numeric>

namespace celerity {

namespace {

/// Cuts off the borders to other shares: in dimension 0 over the whole width, then at the other sides of the rest. If the borders would use up the share in a
/// dimension, it is not cut there.
void cut_borders(const task_geometry& geometry, const box& share, const memory_id memory, std::vector<local_chunk>& out) {
	box inner = share;
	for(std::size_t d = 0; d < static_cast<std::size_t>(geometry.dims); ++d) {
		const bool is_cut_low = share.min()[d] > geometry.global.min()[d];
		const bool is_cut_high = share.max()[d] < geometry.global.max()[d];
		if(!is_cut_low && !is_cut_high) continue;
		const auto step = geometry.granularity[d];
		const auto width = (static_cast<coordinate>(geometry.border) + step - 1) / step * step;
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

/// Into at most `count` chunks, by the hints of the task.
box_vector split_evenly(const task_geometry& geometry, const box& whole, const std::size_t count) {
	const auto by = [&](const cut_costs& costs) { return split(whole, geometry.granularity, costs, count); };
	switch(geometry.split) {
	case split_kind::rows: return by(max_rows(whole, geometry.granularity) >= static_cast<coordinate>(count) ? cut_rows : geometry.costs);
	case split_kind::split_2d: return by(cut_tiles);
	case split_kind::split_3d: return by(cut_blocks);
	case split_kind::split_auto: return by(geometry.costs);
	case split_kind::split_1d:
	case split_kind::weights:
	case split_kind::cyclic: break;
	}
	return by(cut_rows);
}

/// The weights of the ranks, if the task has a weight for each device.
std::vector<double> weights_of_ranks(const std::vector<double>& weights, const std::size_t num_ranks) {
	const std::size_t num_devices = weights.size() / num_ranks;
	std::vector<double> sums;
	for(std::size_t r = 0; r < num_ranks; ++r) {
		const auto first = weights.begin() + static_cast<std::ptrdiff_t>(r * num_devices);
		sums.push_back(std::accumulate(first, first + static_cast<std::ptrdiff_t>(num_devices), 0.0));
	}
	return sums;
}

/// Of a cyclic split: which of `count` takes the first block.
std::size_t turn_of_first_block(const task_geometry& geometry, const std::size_t count) {
	const coordinate number = first_block_number(geometry.global, geometry.granularity, geometry.block);
	const auto modulus = static_cast<coordinate>(count);
	return static_cast<std::size_t>((number % modulus + modulus) % modulus);
}

} // namespace

box_vector shares_of_devices(const task_geometry& geometry, const box& share, const partition& parts) {
	const std::size_t count = parts.num_devices;
	if(geometry.dims == 0 || count == 1) return {share};
	if(geometry.weights.size() != parts.num_ranks * count) return split_evenly(geometry, share, count);
	return split_by_weights(share, geometry.granularity, std::span(&geometry.weights[parts.local_rank.value * count], count));
}

box with_reach(const task_geometry& geometry, const box& share) {
	if(share.empty()) return share;
	point low = share.min();
	point high = share.max();
	for(std::size_t d = 0; d < 3; ++d) {
		low[d] -= geometry.reach[d];
		high[d] += geometry.reach[d];
	}
	return intersection(box(low, high), geometry.global);
}

rank_shares with_reach(const task_geometry& geometry, const rank_shares& shares) {
	rank_shares grown;
	for(std::size_t rank = 0; rank < shares.size(); ++rank) {
		box_vector chunks;
		for(const box& share : shares.of(rank)) chunks.push_back(with_reach(geometry, share));
		grown.add_share(chunks);
	}
	return grown;
}

void rank_shares::add_share(const std::span<const box> chunks) {
	m_chunks.append(chunks);
	m_ends.push_back(m_chunks.size());
}

rank_shares split_among_ranks(const task& node, const std::size_t num_ranks) {
	const auto& geometry = node.geometry;
	if(node.kind == task_kind::fence) {
		box_vector chunks;
		chunks.resize(node.fence_on_all_ranks ? num_ranks : 1, box::full(point{{1, 1, 1}}));
		return rank_shares(std::move(chunks));
	}
	if(!geometry.can_split || num_ranks == 1) return rank_shares(box_vector{geometry.global});
	rank_shares shares;
	if(geometry.split == split_kind::cyclic) {
		const box_vector blocks = split_into_blocks(geometry.global, geometry.granularity, geometry.block);
		const std::size_t first_rank = turn_of_first_block(geometry, num_ranks);
		const auto first_of = [&](const std::size_t rank) { return (rank + num_ranks - first_rank) % num_ranks; };
		std::size_t size = num_ranks;
		while(first_of(size - 1) >= blocks.size()) --size;
		for(std::size_t r = 0; r < size; ++r) {
			box_vector dealt;
			for(std::size_t b = first_of(r); b < blocks.size(); b += num_ranks) dealt.push_back(blocks[b]);
			shares.add_share(dealt);
		}
		return shares;
	}
	if(geometry.split != split_kind::weights) return rank_shares(split_evenly(geometry, geometry.global, num_ranks));
	const box_vector chunks = split_by_weights(geometry.global, geometry.granularity, weights_of_ranks(geometry.weights, num_ranks));
	std::size_t size = chunks.size();
	while(chunks[size - 1].empty()) --size;
	for(std::size_t r = 0; r < size; ++r) shares.add_share({&chunks[r], chunks[r].empty() ? std::size_t{0} : std::size_t{1}});
	return shares;
}

void split_among_devices(const task& node, const std::span<const box> share, const partition& parts, std::vector<local_chunk>& out) {
	out.clear();
	const auto& geometry = node.geometry;
	if(node.kind != task_kind::device_kernel) {
		for(const box& chunk : share) out.push_back({chunk, host_memory});
		return;
	}
	const auto memory_of_device = [](const std::size_t device) { return memory_of(device_id(static_cast<std::uint32_t>(device))); };
	const bool is_cyclic = geometry.split == split_kind::cyclic;
	if(is_cyclic && parts.num_ranks * parts.num_devices > 1) {
		box_vector blocks; // those of a rank that has all are dealt here
		if(parts.num_ranks == 1) blocks = split_into_blocks(geometry.global, geometry.granularity, geometry.block);
		const std::span<const box> dealt = parts.num_ranks == 1 ? std::span<const box>(blocks) : share;
		const std::size_t turn = turn_of_first_block(geometry, parts.num_ranks * parts.num_devices);
		// Of `turn`, the rank is the lower digit. A rank before that of the first block begins a turn later.
		const std::size_t first = turn / parts.num_ranks + (parts.local_rank.value < turn % parts.num_ranks ? 1 : 0);
		for(std::size_t i = 0; i < dealt.size(); ++i) out.push_back({dealt[i], memory_of_device((first + i) % parts.num_devices)});
		return;
	}
	const bool can_split = geometry.dims > 0;
	const box& whole = share.front();
	const box_vector shares = shares_of_devices(geometry, whole, parts);
	const bool can_cut = can_split && node.reductions.empty();
	const std::size_t num_parts = can_cut ? geometry.oversubscription : 1;
	for(std::size_t d = 0; d < shares.size(); ++d) {
		const memory_id memory = memory_of_device(d);
		if(shares[d].empty()) continue;
		const box computed = geometry.is_replicated() ? with_reach(geometry, shares[d]) : shares[d];
		if(can_cut && geometry.border > 0) {
			cut_borders(geometry, computed, memory, out);
		} else if(num_parts <= 1) {
			out.push_back({computed, memory});
		} else {
			for(const box& part : split_evenly(geometry, computed, num_parts)) out.push_back({part, memory});
		}
	}
}

} // namespace celerity
