// SPDX-License-Identifier: MIT
// Bounding boxes of groups of leaves, with which a large region_map skips most leaves in a search.
#pragma once

#include <cstddef>
#include <vector>

#include "grid.hpp"

namespace celerity {

/// Leaves are the items of a vector, and have a member `bounds`. Leaves that lie near each other follow each other in the vector. The bounds of a group may be
/// larger than necessary.
class leaf_groups {
  public:
	/// The position of the first leaf, from the n-th on, whose bounds is_near(bounds) accepts. Without such a leaf, the number of leaves or more.
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
	/// To be called when `b` has been added to the n-th leaf.
	void widen(const std::size_t n, const box& b) {
		box& bounds = m_bounds[n / group_size];
		bounds = bounding_box(bounds, b);
	}
	/// To be called when the n-th leaf has been cut in two. Each later group then begins with the former last leaf of the group before it.
	template <typename Leaves>
	void note_split(const Leaves& leaves, const std::size_t n) {
		if(++m_num_shifts > group_size) return find(leaves);
		for(std::size_t g = n / group_size + 1; g * group_size < leaves.size(); ++g) {
			if(g == m_bounds.size()) m_bounds.emplace_back();
			m_bounds[g] = bounding_box(m_bounds[g], leaves[g * group_size].bounds);
		}
	}
	/// Computes all bounds from scratch.
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
