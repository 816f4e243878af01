// SPDX-License-Identifier: MIT
// The working part of region algebra: (union of boxes) \ (union of other boxes), in normal form, by sweeping a line or a plane along the slow dimension.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "grid.hpp"

namespace celerity {

/// The extents of a box in two dimensions. In the third, all boxes of a sweep are equal.
struct rectangle {
	coordinate slow_min;
	coordinate slow_max;
	coordinate fast_min;
	coordinate fast_max;
};

/// (union of `plus`) \ (union of `minus`) in two dimensions. An object keeps its arrays from call to call.
class plane_sweep {
  public:
	std::vector<rectangle> plus;  ///< input: any non-empty rectangles, sorted by slow_min
	std::vector<rectangle> minus; ///< input: disjoint rectangles, sorted by slow_min
	std::vector<rectangle> out;   ///< sorted by (slow_min, fast_min)

	void run();

  private:
	static constexpr coordinate never = std::numeric_limits<coordinate>::max();

	/// The rectangles that the sweep line currently crosses, sorted by fast_min.
	class front {
	  public:
		std::vector<rectangle> items;
		coordinate first_end = never; ///< the least slow_max of `items`

		void clear() {
			items.clear();
			first_end = never;
		}
		void enter(const rectangle& r) {
			first_end = std::min(first_end, r.slow_max);
			items.push_back(r);
			std::size_t i = items.size() - 1;
			for(; i > 0 && items[i - 1].fast_min > r.fast_min; --i) items[i] = items[i - 1];
			items[i] = r;
		}
		void leave(const coordinate now) {
			if(first_end > now) return;
			first_end = never;
			std::size_t kept = 0;
			for(const rectangle& r : items) {
				if(r.slow_max <= now) continue;
				first_end = std::min(first_end, r.slow_max);
				items[kept++] = r;
			}
			items.resize(kept);
		}
	};

	/// An output that ends at the sweep line. It grows if the next row repeats its interval.
	struct open_output {
		coordinate fast_min;
		coordinate fast_max;
		std::uint32_t index;
	};

	front m_active;
	front m_holes;
	std::vector<open_output> m_open; // sorted by fast_min
	std::vector<open_output> m_next_open;
	std::size_t m_open_position = 0;

	void emit_row(coordinate now, coordinate next);
	void emit_without_holes(coordinate begin, coordinate end, coordinate now, coordinate next, std::size_t& hole);
	void emit(coordinate begin, coordinate end, coordinate now, coordinate next);
};

/// The same in three dimensions, as a stack of plane sweeps along dimension 0.
class space_sweep {
  public:
	std::vector<box> plus;  ///< input: any non-empty boxes
	std::vector<box> minus; ///< input: disjoint boxes inside the bounding box of `plus`

	/// Appends (union of `plus`) \ (union of `minus`) in normal form, sorted. Leaves the inputs in a different order.
	void run(box_vector& out);

  private:
	plane_sweep m_plane;
	std::vector<box> m_active;
	std::vector<box> m_holes;
	std::vector<std::uint32_t> m_open; // outputs that end at the current position, sorted by min in dimensions 1 and 2
	std::vector<std::uint32_t> m_next_open;

	template <std::size_t Slow, std::size_t Fast>
	void run_in_plane(box_vector& out);
	void run_in_space(box_vector& out);
	void emit_slab(box_vector& out, coordinate now, coordinate next);
};

/// Sorts. Fast for few items, which are the rule.
template <typename T, typename Less>
void sort_few(T* const first, T* const last, const Less& less) {
	if(last - first > 16) return std::sort(first, last, less);
	for(T* i = first + (first != last); i < last; ++i) {
		if(!less(*i, *(i - 1))) continue;
		const T item = *i;
		T* hole = i;
		for(; hole != first && less(item, *(hole - 1)); --hole) *hole = *(hole - 1);
		*hole = item;
	}
}

} // namespace celerity
