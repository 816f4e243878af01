// SPDX-License-Identifier: MIT
// Bounding boxes of runs of leaves, for a region_map with many.
#pragma once

#include <cstddef>
#include <vector>

#include "grid.hpp"

namespace celerity {

/// Leaves are items of a vector with a member `bounds`; those that lie near each other follow each other. The bounds of a group may be larger than need be.
class leaf_groups {
  public:
	/// The first leaf from the n-th on that is_near(bounds) accepts; as many as there are, or more, if there is none.
	template <typename Leaves, typename F>
	std::size_t next(const Leaves& leaves, std::size_t n, F&& is_near) const {
		while(n < leaves.size()) {
			if(n % group_size == 0 && !is_near(m_bounds[n / group_size])) {
				n += group_size;
			} else if(!is_near(leaves[n].bounds)) {
				++n;
			} else {
				break;
			}
		}
		return n;
	}
	/// The n-th leaf has come to hold `b`.
	void widen(const std::size_t n, const box& b) {
		box& bounds = m_bounds[n / group_size];
		bounds = bounding_box(bounds, b);
	}
	/// The n-th leaf was cut in two: from the next group on, each begins with what was the last leaf of the group before.
	template <typename Leaves>
	void note_split(const Leaves& leaves, const std::size_t n) {
		if(++m_num_shifts > group_size) return find(leaves);
		for(std::size_t g = n / group_size + 1; g * group_size < leaves.size(); ++g) {
			if(g == m_bounds.size()) m_bounds.emplace_back();
			m_bounds[g] = bounding_box(m_bounds[g], leaves[g * group_size].bounds);
		}
	}
	/// From scratch.
	template <typename Leaves>
	void find(const Leaves& leaves) {
		m_num_shifts = 0;
		m_bounds.assign((leaves.size() + group_size - 1) / group_size, box());
		for(std::size_t n = 0; n < leaves.size(); ++n) widen(n, leaves[n].bounds);
	}

  private:
	static constexpr std::size_t group_size = 32;

	std::vector<box> m_bounds;
	std::size_t m_num_shifts = 0; ///< since the bounds were found from scratch
};

} // namespace celerity
