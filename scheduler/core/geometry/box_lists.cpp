// SPDX-License-Identifier: MIT
#include "box_lists.hpp"

#include <functional>
#include <limits>
#include <numeric>

namespace celerity {

namespace {

/// Below this many boxes it pays to compare all pairs.
constexpr std::size_t min_boxes_for_sorting = 17;
/// So many parts of a region get one allocation ...
constexpr std::size_t many_parts = 32;
/// ... if that is at most so much larger than they are.
constexpr double max_padding = 4;

bool share_a_face(const box& a, const box& b) {
	if(!do_touch(a, b)) return false;
	int overlaps = 0;
	for(std::size_t d = 0; d < 3; ++d) overlaps += intervals_overlap(a, b, d);
	return overlaps >= 2;
}

/// If the union of two boxes is exactly a box, sets `a` to it.
bool try_merge(box& a, const box& b) { return do_touch(a, b) && try_merge_touching(a, b); }

/// Calls f(i, j) for each pair of boxes that touch, and perhaps for others.
template <typename F>
void for_each_near_pair(const std::span<const box> boxes, F&& f) {
	const std::size_t count = boxes.size();
	if(count < min_boxes_for_sorting) {
		for(std::size_t i = 0; i < count; ++i) {
			for(std::size_t j = i + 1; j < count; ++j) f(i, j);
		}
		return;
	}
	const std::size_t d = dimension_of_shortest_boxes(boxes);
	std::vector<std::size_t> order(count);
	std::iota(order.begin(), order.end(), std::size_t{0});
	std::sort(order.begin(), order.end(), [&](const std::size_t a, const std::size_t b) { return boxes[a].min(d) < boxes[b].min(d); });
	for(std::size_t i = 0; i < count; ++i) {
		for(std::size_t j = i + 1; j < count && boxes[order[j]].min(d) <= boxes[order[i]].max(d); ++j) f(order[i], order[j]);
	}
}

/// Of each group of boxes that are related, directly or through others; in the order of their first members.
template <typename Related>
box_vector bounding_boxes_of_groups(const std::span<const box> boxes, Related&& are_related) {
	small_vector<std::size_t, 16> parents;
	for(std::size_t i = 0; i < boxes.size(); ++i) parents.push_back(i);
	const auto find_root = [&](std::size_t i) {
		while(parents[i] != i) i = parents[i] = parents[parents[i]];
		return i;
	};
	for_each_near_pair(boxes, [&](const std::size_t i, const std::size_t j) {
		if(!are_related(boxes[i], boxes[j])) return;
		const std::size_t a = find_root(i);
		const std::size_t b = find_root(j);
		parents[std::max(a, b)] = std::min(a, b); // so that the first member of a group is its root
	});
	box_vector bounds;
	small_vector<std::size_t, 16> places; // in `bounds`, of roots
	for(std::size_t i = 0; i < boxes.size(); ++i) {
		const std::size_t root = find_root(i);
		places.push_back(root == i ? bounds.size() : places[root]);
		if(root == i) {
			bounds.push_back(boxes[i]);
		} else {
			bounds[places[i]] = bounding_box(bounds[places[i]], boxes[i]);
		}
	}
	return bounds;
}

/// Lets `b` absorb all boxes that merge(b, other) accepts, and starts again whenever `b` has grown.
template <typename Merge>
bool absorb(box_vector& boxes, box& b, Merge&& merge) {
	bool has_grown = false;
	for(std::size_t i = 0; i < boxes.size();) {
		if(merge(b, boxes[i])) {
			boxes.swap_remove(i);
			has_grown = true;
			i = 0;
		} else {
			++i;
		}
	}
	return has_grown;
}

bool merge_if_overlapping(box& a, const box& b) {
	if(!a.overlaps(b)) return false;
	a = bounding_box(a, b);
	return true;
}

/// Merges pairs of few boxes.
template <typename Merge>
void merge_pairs(box_vector& boxes, Merge&& merge) {
	for(std::size_t i = 0; i < boxes.size();) {
		bool has_grown = false;
		for(std::size_t j = i + 1; j < boxes.size();) {
			if(merge(boxes[i], boxes[j])) {
				boxes.swap_remove(j);
				has_grown = true;
			} else {
				++j;
			}
		}
		i = has_grown ? 0 : i + 1; // a box that has grown may fit any other
	}
}

} // namespace

std::size_t dimension_of_shortest_boxes(const std::span<const box> boxes) {
	std::size_t best = 0;
	double best_share = 2;
	for(std::size_t d = 0; d < 3; ++d) {
		coordinate first = boxes[0].min(d);
		coordinate last = boxes[0].max(d);
		double sum = 0;
		for(const box& b : boxes) {
			first = std::min(first, b.min(d));
			last = std::max(last, b.max(d));
			sum += static_cast<double>(b.extent(d));
		}
		const double share = sum / (static_cast<double>(boxes.size()) * static_cast<double>(last - first));
		if(share < best_share) {
			best_share = share;
			best = d;
		}
	}
	return best;
}

box_vector connected_bounding_boxes(const region& r) {
	if(r.boxes().size() <= 1) return box_vector(r.boxes());
	return bounding_boxes_of_groups(r.boxes(), share_a_face);
}

box_vector contiguous_boxes(const region& r) {
	box_vector parts = connected_bounding_boxes(r);
	if(parts.size() < many_parts) return parts;
	const auto size_of = [](const box& b) { // an area could overflow
		return static_cast<double>(b.extent(0)) * static_cast<double>(b.extent(1)) * static_cast<double>(b.extent(2));
	};
	box bounds;
	double size = 0;
	for(const box& part : parts) {
		bounds = bounding_box(bounds, part);
		size += size_of(part);
	}
	return size_of(bounds) <= max_padding * size ? box_vector{bounds} : parts;
}

void merge_overlapping_bounding_boxes(box_vector& boxes) {
	if(boxes.size() < min_boxes_for_sorting) return merge_pairs(boxes, merge_if_overlapping);
	for(;;) {
		box_vector merged = bounding_boxes_of_groups(boxes, [](const box& a, const box& b) { return a.overlaps(b); });
		if(merged.size() == boxes.size()) return;
		boxes = std::move(merged); // whose bounds may overlap again
	}
}

// Many boxes have to be disjoint; few may overlap as they like.
void merge_connected_boxes(box_vector& boxes) {
	if(boxes.size() < min_boxes_for_sorting) return merge_pairs(boxes, try_merge);
	const auto merge = [](box& a, const box& b) {
		a = bounding_box(a, b);
		return true;
	};
	merge_along_all(boxes, std::identity(), merge);
}

void merge_into(box_vector& boxes, const box& added) {
	box b = added;
	absorb(boxes, b, merge_if_overlapping);
	absorb(boxes, b, try_merge);
	boxes.push_back(b);
}

void symmetrically_split_overlapping_regions(std::vector<region>& regions) {
	for(std::size_t i = 0; i < regions.size(); ++i) {
		for(std::size_t j = i + 1; j < regions.size(); ++j) {
			if(!regions[i].overlaps(regions[j])) continue;
			region common = region_intersection(regions[i], regions[j]);
			regions[i] = region_difference(regions[i], common);
			regions[j] = region_difference(regions[j], common);
			regions.push_back(std::move(common));
		}
	}
	std::erase_if(regions, [](const region& r) { return r.empty(); });
}

box_index::box_index(const std::span<const box> boxes) {
	if(boxes.empty()) return;
	m_dim = dimension_of_shortest_boxes(boxes);
	m_entries.reserve(boxes.size());
	for(std::size_t i = 0; i < boxes.size(); ++i) m_entries.push_back({boxes[i], i, 0});
	std::sort(m_entries.begin(), m_entries.end(), [this](const entry& a, const entry& b) {
		return a.where.min(m_dim) != b.where.min(m_dim) ? a.where.min(m_dim) < b.where.min(m_dim) : a.position < b.position;
	});
	find_ends(0, m_entries.size());
}

coordinate box_index::find_ends(const std::size_t begin, const std::size_t end) {
	if(begin == end) return std::numeric_limits<coordinate>::min();
	const std::size_t middle = begin + (end - begin) / 2;
	entry& root = m_entries[middle];
	root.end = std::max({root.where.max(m_dim), find_ends(begin, middle), find_ends(middle + 1, end)});
	return root.end;
}

bool box_index::covers(const box& where) const {
	bool is_covered = false;
	for_each_overlapping(where, [&](std::size_t, const box& found) { is_covered |= found.covers(where); });
	return is_covered;
}

} // namespace celerity
