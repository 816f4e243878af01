// SPDX-License-Identifier: MIT
// Lists of boxes that are no region: what to allocate for scattered data, and which of many boxes lie somewhere. Costs grow like sorting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "grid.hpp"

namespace celerity {

/// As connected_bounding_boxes(), but one box for many parts that fill a good part of it.
box_vector contiguous_boxes(const region& r);
/// What merge_overlapping_bounding_boxes() and then merge_connected_boxes() make of `boxes` and `added`, given that they leave `boxes` as it is. Linear.
void merge_into(box_vector& boxes, const box& added);
/// Sorted along this dimension, a box has the fewest candidates for neighbours. `boxes`: not empty.
std::size_t dimension_of_shortest_boxes(std::span<const box> boxes);

/// Finds those of many boxes that overlap a given one, in logarithmic time and some for each that it finds. An interval tree along one dimension.
class box_index {
  public:
	/// From so many boxes on it is faster than to look at each.
	static constexpr std::size_t min_size = 24;

	box_index() = default;
	/// Copies the boxes; they are known by their position in `boxes` from then on.
	explicit box_index(std::span<const box> boxes);

	std::size_t size() const { return m_entries.size(); }

	/// Calls f(position, box) for each box that overlaps `where`, in no particular order.
	template <typename F>
	void for_each_overlapping(const box& where, F&& f) const {
		if(!where.empty()) visit(0, m_entries.size(), where, f);
	}
	/// Whether one of the boxes covers `where`, which is not empty.
	bool covers(const box& where) const;

  private:
	struct entry {
		box where;
		std::size_t position;
		coordinate end; ///< greatest maximum in the subtree
	};

	std::size_t m_dim = 0;
	std::vector<entry> m_entries; // sorted by minimum; the root of each range is its middle

	coordinate find_ends(std::size_t begin, std::size_t end);

	template <typename F>
	void visit(const std::size_t begin, const std::size_t end, const box& where, F&& f) const {
		if(begin == end) return;
		const std::size_t middle = begin + (end - begin) / 2;
		const entry& root = m_entries[middle];
		if(root.end <= where.min(m_dim)) return;
		visit(begin, middle, where, f);
		if(root.where.min(m_dim) >= where.max(m_dim)) return;
		if(root.where.overlaps(where)) f(root.position, root.where);
		visit(middle + 1, end, where, f);
	}
};

} // namespace celerity
