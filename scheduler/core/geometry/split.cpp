// SPDX-License-Identifier: MIT
#include "split.hpp"

#include <cmath>

namespace celerity {

namespace {

/// The cuts of one dimension: blocks of the granularity dealt evenly, one more to each of the first few chunks.
class interval_split {
  public:
	/// `count` must not exceed max_count().
	interval_split(const box& space, const std::size_t dim, const coordinate granularity, const coordinate count)
	    : m_min(space.min(dim)), m_max(space.max(dim)), m_count(count) {
		const coordinate num_blocks = space.extent(dim) / granularity;
		m_small = num_blocks / count * granularity;
		m_num_large = num_blocks % count;
		m_granularity = granularity;
	}

	/// At least 1: an interval shorter than the granularity is one chunk.
	static coordinate max_count(const coordinate extent, const coordinate granularity) { return std::max<coordinate>(1, extent / granularity); }

	coordinate begin(const coordinate i) const { return i == m_count ? m_max : m_min + i * m_small + std::min(i, m_num_large) * m_granularity; }

  private:
	coordinate m_min;
	coordinate m_max;
	coordinate m_count;
	coordinate m_small = 0;
	coordinate m_num_large = 0;
	coordinate m_granularity = 1;
};

/// Chunks along dimensions 0 and 1.
struct split_factors {
	coordinate dim_0 = 1;
	coordinate dim_1 = 1;
	coordinate count() const { return dim_0 * dim_1; }
};

box_vector apply(const box& space, const point& granularity, const split_factors& factors) {
	const interval_split split_0(space, 0, granularity[0], factors.dim_0);
	const interval_split split_1(space, 1, granularity[1], factors.dim_1);
	box_vector chunks;
	chunks.reserve(static_cast<std::size_t>(factors.count()));
	for(coordinate i = 0; i < factors.dim_0; ++i) {
		for(coordinate j = 0; j < factors.dim_1; ++j) {
			chunks.push_back(box(point{{split_0.begin(i), split_1.begin(j), space.min(2)}}, point{{split_0.begin(i + 1), split_1.begin(j + 1), space.max(2)}}));
		}
	}
	return chunks;
}

/// Of two ways to place the same two factors, the one with more chunks; then more cuts in dimension 0 for squares, else the shorter chunk edges.
split_factors better_of(const box& space, const split_factors& a, const split_factors& b) {
	if(a.count() != b.count()) return a.count() > b.count() ? a : b;
	const double extent_0 = static_cast<double>(space.extent(0));
	const double extent_1 = static_cast<double>(space.extent(1));
	const double squareness = std::sqrt(extent_0 * extent_1) / extent_0;
	const bool is_square = squareness > 0.95 && squareness < 1.05;
	const auto edges = [&](const split_factors& f) { return extent_0 / static_cast<double>(f.dim_0) + extent_1 / static_cast<double>(f.dim_1); };
	if(is_square || edges(a) == edges(b)) return a.dim_0 >= b.dim_0 ? a : b;
	return edges(a) < edges(b) ? a : b;
}

split_factors choose_factors(const box& space, const point& granularity, const coordinate count) {
	const coordinate max_0 = interval_split::max_count(space.extent(0), granularity[0]);
	const coordinate max_1 = interval_split::max_count(space.extent(1), granularity[1]);
	const auto clamped = [&](const coordinate dim_0, const coordinate dim_1) { return split_factors{std::min(dim_0, max_0), std::min(dim_1, max_1)}; };
	split_factors best;
	for(coordinate f = static_cast<coordinate>(std::sqrt(static_cast<double>(count))); f >= 1 && best.count() < count; --f) {
		if(count % f != 0) continue;
		const split_factors candidate = better_of(space, clamped(f, count / f), clamped(count / f, f));
		if(candidate.count() > best.count()) best = candidate;
	}
	return best;
}

} // namespace

box_vector split_1d(const box& space, const point& granularity, const std::size_t count) {
	if(space.empty()) return {};
	if(count <= 1) return {space};
	const coordinate max_0 = interval_split::max_count(space.extent(0), granularity[0]);
	return apply(space, granularity, split_factors{std::min(static_cast<coordinate>(count), max_0), 1});
}

box_vector split_2d(const box& space, const point& granularity, const std::size_t count) {
	if(space.empty()) return {};
	if(count <= 1) return {space};
	return apply(space, granularity, choose_factors(space, granularity, static_cast<coordinate>(count)));
}

} // namespace celerity
