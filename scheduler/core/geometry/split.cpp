// SPDX-License-Identifier: MIT
#include "split.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace celerity {

namespace {

/// A grid has to be cheaper than this share of an earlier one to replace it.
constexpr double worthwhile = 0.95;
constexpr coordinate max_blocks = coordinate{1} << 16;

coordinate round_up(const coordinate extent, const coordinate step) { return (extent + step - 1) / step * step; }

/// The extent of a whole block.
coordinate block_step(const box& space, const point& granularity, const coordinate extent) {
	return round_up(std::max(extent, (space.extent(0) + max_blocks - 1) / max_blocks), granularity[0]);
}

/// The cuts of one dimension: blocks of the granularity dealt evenly, one more to each of the first few chunks.
class interval_split {
  public:
	/// `count` must not exceed the number of blocks, except that it may be 1.
	interval_split(const box& space, const std::size_t dim, const coordinate granularity, const coordinate count)
	    : m_min(space.min(dim)), m_max(space.max(dim)), m_count(count) {
		if(count == 1) return;
		const coordinate num_blocks = space.extent(dim) / granularity;
		m_small = num_blocks / count * granularity;
		m_num_large = num_blocks % count;
		m_granularity = granularity;
	}

	coordinate begin(const coordinate i) const { return i == m_count ? m_max : m_min + i * m_small + std::min(i, m_num_large) * m_granularity; }

  private:
	coordinate m_min;
	coordinate m_max;
	coordinate m_count;
	coordinate m_small = 0;
	coordinate m_num_large = 0;
	coordinate m_granularity = 1;
};

/// The number of chunks along each dimension.
struct grid {
	point chunks{{1, 1, 1}};
	coordinate count() const { return chunks[0] * chunks[1] * chunks[2]; }
};

box_vector apply(const box& space, const point& granularity, const grid& by) {
	const interval_split split_0(space, 0, granularity[0], by.chunks[0]);
	box_vector chunks;
	chunks.reserve(static_cast<std::size_t>(by.count()));
	if(by.chunks[1] == 1 && by.chunks[2] == 1) {
		for(coordinate i = 0; i < by.chunks[0]; ++i) chunks.push_back(with_interval(space, 0, split_0.begin(i), split_0.begin(i + 1)));
		return chunks;
	}
	const interval_split split_1(space, 1, granularity[1], by.chunks[1]);
	const interval_split split_2(space, 2, granularity[2], by.chunks[2]);
	for(coordinate i = 0; i < by.chunks[0]; ++i) {
		for(coordinate j = 0; j < by.chunks[1]; ++j) {
			for(coordinate k = 0; k < by.chunks[2]; ++k) {
				chunks.push_back(box(point{{split_0.begin(i), split_1.begin(j), split_2.begin(k)}},
				    point{{split_0.begin(i + 1), split_1.begin(j + 1), split_2.begin(k + 1)}}));
			}
		}
	}
	return chunks;
}

/// Descending.
std::vector<coordinate> divisors(const coordinate number) {
	std::vector<coordinate> low;
	std::vector<coordinate> high;
	for(coordinate d = 1; d * d <= number; ++d) {
		if(number % d != 0) continue;
		high.push_back(number / d);
		if(d * d != number) low.push_back(d);
	}
	high.insert(high.end(), low.rbegin(), low.rend());
	return high;
}

/// Of all cuts together, relative to other grids of the same space.
double cost_of(const box& space, const cut_costs& costs, const grid& by) {
	double sum = 0;
	for(std::size_t d = 0; d < 3; ++d) {
		if(by.chunks[d] > 1) sum += costs[d] * static_cast<double>(by.chunks[d] - 1) / static_cast<double>(space.extent(d));
	}
	return sum;
}

grid choose_grid(const box& space, const point& granularity, const cut_costs& costs, const coordinate count) {
	point most;
	for(std::size_t d = 0; d < 3; ++d) most[d] = costs[d] == never_cut ? 1 : std::max<coordinate>(1, space.extent(d) / granularity[d]);
	grid best;
	double best_cost = 0;
	for(const coordinate in_0 : divisors(count)) {
		for(const coordinate in_1 : divisors(count / in_0)) {
			const grid candidate{point{{std::min(in_0, most[0]), std::min(in_1, most[1]), std::min(count / in_0 / in_1, most[2])}}};
			if(candidate.count() < best.count()) continue;
			const double cost = cost_of(space, costs, candidate);
			if(candidate.count() == best.count() && cost >= worthwhile * best_cost) continue;
			best = candidate;
			best_cost = cost;
		}
	}
	return best;
}

} // namespace

box_vector split(const box& space, const point& granularity, const cut_costs& costs, const std::size_t count) {
	if(space.empty()) return {};
	if(count <= 1) return {space};
	const auto wanted = static_cast<coordinate>(count);
	if(costs == cut_rows) return apply(space, granularity, {point{{std::min(wanted, max_rows(space, granularity)), 1, 1}}});
	return apply(space, granularity, choose_grid(space, granularity, costs, wanted));
}

box_vector split_by_weights(const box& space, const point& granularity, const std::span<const double> weights) {
	const coordinate num_blocks = max_rows(space, granularity);
	const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
	coordinate num_to_serve = std::count_if(weights.begin(), weights.end(), [](const double weight) { return weight > 0; });
	box_vector chunks;
	double sum = 0;
	coordinate begun = 0;
	for(const double weight : weights) {
		if(weight <= 0) {
			chunks.push_back(box());
			continue;
		}
		sum += weight;
		--num_to_serve;
		const auto ideal = static_cast<coordinate>(std::llround(static_cast<double>(num_blocks) * (sum / total)));
		const coordinate latest = num_blocks - num_to_serve; // leaves a block for each of the others
		const coordinate end = num_to_serve == 0 ? num_blocks : std::min(std::max(begun + 1, std::min(ideal, latest)), num_blocks);
		const auto place_of = [&](const coordinate block) { return block == num_blocks ? space.max(0) : space.min(0) + block * granularity[0]; };
		chunks.push_back(begun < end ? with_interval(space, 0, place_of(begun), place_of(end)) : box());
		begun = end;
	}
	return chunks;
}

box_vector split_into_blocks(const box& space, const point& granularity, const coordinate extent) {
	const coordinate step = block_step(space, granularity, extent);
	const coordinate rest = space.min(0) % step;
	coordinate used = (rest < 0 ? rest + step : rest) / granularity[0] * granularity[0]; // of the first block, before the space
	box_vector blocks;
	for(coordinate low = space.min(0); low < space.max(0); used = 0) {
		const coordinate high = space.max(0) - low > step - used ? low + step - used : space.max(0);
		blocks.push_back(with_interval(space, 0, low, high));
		low = high;
	}
	return blocks;
}

coordinate first_block_number(const box& space, const point& granularity, const coordinate extent) {
	const coordinate step = block_step(space, granularity, extent);
	return space.min(0) / step - (space.min(0) % step < 0 ? 1 : 0);
}

} // namespace celerity
