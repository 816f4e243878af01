// SPDX-License-Identifier: MIT
// Lists of boxes that are no regions: the boxes to allocate for scattered data, and an index that finds boxes among many. Costs grow like those of sorting.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "box_predicates.hpp"
#include "grid.hpp"

namespace celerity {

/// As connected_bounding_boxes(), but a single box if the parts are many and fill a good share of it.
box_vector contiguous_boxes(const region& r);
/// Adds a box to `boxes`, to which merge_overlapping_bounding_boxes() and then merge_connected_boxes() have been applied, and applies both again. Linear.
void merge_into(box_vector& boxes, const box& added);
/// Merges disjoint items whose boxes form a larger box, until no two do. box_of(item) is the box of an item. merge(item, neighbour) lets the item absorb its
/// neighbour and returns true, or returns false if the two must stay apart. Absorbed items are removed.
template <typename Items, typename BoxOf, typename Merge>
void merge_along_all(Items& items, BoxOf&& box_of, Merge&& merge) {
	std::size_t dims_without_merge = 0;
	for(std::size_t d = 2; dims_without_merge < 3; d = (d + 2) % 3) {
		++dims_without_merge;
		const auto is_other = [&](const auto& item) { return !is_same_interval(box_of(items[0]), box_of(item), d); };
		if(std::none_of(items.begin(), items.end(), is_other)) continue;
		// Sorted like this, the neighbour that continues an item along `d` comes right after the item: any box between the two would overlap one of them.
		const std::size_t major = d == 0 ? 1 : 0;
		const std::size_t minor = d == 2 ? 1 : 2;
		std::sort(items.begin(), items.end(), [&](const auto& a, const auto& b) {
			const point& p = box_of(a).min();
			const point& q = box_of(b).min();
			return p[major] != q[major] ? p[major] < q[major] : p[minor] != q[minor] ? p[minor] < q[minor] : p[d] < q[d];
		});
		std::size_t last = 0;
		for(std::size_t i = 1; i < items.size(); ++i) {
			if(!do_continue(box_of(items[last]), box_of(items[i])) || !merge(items[last], items[i])) items[++last] = items[i];
		}
		if(last + 1 == items.size()) continue;
		items.resize(last + 1);
		dims_without_merge = 1; // along `d` nothing is left to merge
	}
}
/// The dimension in which the boxes are shortest, compared with the extent of all. Sorted along it, each box has the fewest candidates for neighbours.
/// `boxes` must not be empty.
std::size_t dimension_of_shortest_boxes(std::span<const box> boxes);

/// An interval tree along one dimension, which finds the boxes that overlap a given box. The time is logarithmic in the number of boxes, and linear in that of
/// the boxes found.
class box_index {
  public:
	/// For fewer boxes it is faster to look at each of them.
	static constexpr std::size_t min_size = 24;

	box_index() = default;
	/// Copies the boxes. Their positions in `boxes` name them from then on.
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
