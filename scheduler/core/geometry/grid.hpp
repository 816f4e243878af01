// SPDX-License-Identifier: MIT
// Boxes and regions: sets of elements of an index space of 0 to 3 dimensions.
//
// Every box has three coordinates; a space of fewer dimensions fixes the trailing ones to [0, 1). Dimension 0 is the slowest in memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/small_vector.hpp"

namespace celerity {

using coordinate = std::int64_t;

/// A position or an extent.
struct point {
	std::array<coordinate, 3> v{0, 0, 0};

	constexpr coordinate& operator[](const std::size_t d) { return v[d]; }
	constexpr coordinate operator[](const std::size_t d) const { return v[d]; }
	friend constexpr auto operator<=>(const point&, const point&) = default;
	constexpr coordinate product() const { return v[0] * v[1] * v[2]; }
};

/// Half-open. An empty box is always {0,0,0}..{0,0,0}, so that equality is set equality.
class box {
  public:
	constexpr box() = default;
	constexpr box(const point& min, const point& max) : m_min(min), m_max(max) {
		if(min[0] >= max[0] || min[1] >= max[1] || min[2] >= max[2]) {
			m_min = point{};
			m_max = point{};
		}
	}
	/// The whole of a space with the given extents (pass 1 for unused dimensions).
	static constexpr box full(const point& extents) { return box(point{}, extents); }

	constexpr const point& min() const { return m_min; }
	constexpr const point& max() const { return m_max; }
	constexpr coordinate min(const std::size_t d) const { return m_min[d]; }
	constexpr coordinate max(const std::size_t d) const { return m_max[d]; }
	constexpr coordinate extent(const std::size_t d) const { return m_max[d] - m_min[d]; }
	constexpr point extents() const { return point{{extent(0), extent(1), extent(2)}}; }
	constexpr bool empty() const { return m_max[0] == m_min[0]; } // normalised by the constructor
	constexpr coordinate area() const { return extent(0) * extent(1) * extent(2); }

	constexpr bool covers(const box& other) const {
		return other.empty()
		       || (m_min[0] <= other.m_min[0] && other.m_max[0] <= m_max[0] && m_min[1] <= other.m_min[1] && other.m_max[1] <= m_max[1]
		           && m_min[2] <= other.m_min[2] && other.m_max[2] <= m_max[2]);
	}
	/// Whether the two share at least one element; false if either is empty.
	constexpr bool overlaps(const box& other) const {
		return m_min[0] < other.m_max[0] && other.m_min[0] < m_max[0] && m_min[1] < other.m_max[1] && other.m_min[1] < m_max[1] && m_min[2] < other.m_max[2]
		       && other.m_min[2] < m_max[2] && !empty() && !other.empty();
	}

	/// By min, then max: the order of boxes in a region.
	friend constexpr auto operator<=>(const box&, const box&) = default;

  private:
	point m_min;
	point m_max;
};

constexpr box intersection(const box& a, const box& b) {
	point min;
	point max;
	for(std::size_t d = 0; d < 3; ++d) {
		min[d] = std::max(a.min(d), b.min(d));
		max[d] = std::min(a.max(d), b.max(d));
	}
	return box(min, max);
}

/// Smallest box that covers both; an empty box contributes nothing.
constexpr box bounding_box(const box& a, const box& b) {
	if(a.empty()) return b;
	if(b.empty()) return a;
	point min;
	point max;
	for(std::size_t d = 0; d < 3; ++d) {
		min[d] = std::min(a.min(d), b.min(d));
		max[d] = std::max(a.max(d), b.max(d));
	}
	return box(min, max);
}

/// `b` with another interval in dimension `dim`.
constexpr box with_interval(const box& b, const std::size_t dim, const coordinate min, const coordinate max) {
	point lower = b.min();
	point upper = b.max();
	lower[dim] = min;
	upper[dim] = max;
	return box(lower, upper);
}

using box_vector = small_vector<box, 3>;

/// A union of boxes in normal form: no two boxes overlap, each reaches as far as possible in the fastest dimension first, sorted by min, then
/// max. The normal form is unique, so that equality of regions is equality of their box lists.
class region {
  public:
	region() = default;
	region(const box& b) { // NOLINT(google-explicit-constructor): a box is a region
		if(!b.empty()) m_boxes.push_back(b);
	}
	/// From any boxes: overlapping, adjacent, empty, unsorted.
	explicit region(box_vector boxes);

	std::span<const box> boxes() const { return m_boxes; }
	auto begin() const { return m_boxes.begin(); }
	auto end() const { return m_boxes.end(); }
	bool empty() const { return m_boxes.empty(); }
	bool is_single_box() const { return m_boxes.size() == 1; }
	coordinate area() const;
	box bounding_box() const;
	bool covers(const box& b) const;
	bool covers(const region& r) const;
	bool overlaps(const box& b) const;
	bool overlaps(const region& r) const;

	friend bool operator==(const region&, const region&) = default;

	/// Trusts the caller that `boxes` already is in normal form.
	static region from_normalized(box_vector boxes) {
		region r;
		r.m_boxes = std::move(boxes);
		return r;
	}

  private:
	box_vector m_boxes;
};

region region_union(const region& a, const region& b);
region region_intersection(const region& a, const region& b);
region region_difference(const region& a, const region& b);
/// `a` := `a` ∪ `b`.
inline void add_to(region& a, const region& b) {
	if(b.empty()) return;
	a = a.empty() ? b : region_union(a, b);
}

/// Appends the parts of `from` that `cut` does not cover: at most 6 disjoint boxes (not in normal form).
void append_difference(box_vector& out, const box& from, const box& cut);

/// Bounding boxes of the parts of `r` that hang together along faces (edges in 2-D), not corners.
box_vector connected_bounding_boxes(const region& r);
/// Merges any two boxes that overlap into their bounding box, until none do.
void merge_overlapping_bounding_boxes(box_vector& boxes);
/// Merges any two boxes whose union is exactly a box, until none do. Adds no padding.
void merge_connected_boxes(box_vector& boxes);
/// Cuts overlapping regions A, B into A\B, A∩B, B\A, and so on, until all are disjoint. Every input is a union of outputs. Drops empty ones.
void symmetrically_split_overlapping_regions(std::vector<region>& regions);

/// Whether extents and area of the box fit into a coordinate; those of boxes in buffers and index spaces do.
bool has_area(const box& b);

/// "[0:128, 64:65]"; `dims` tells how many dimensions to print (0 prints "[]").
std::string to_string(const box& b, int dims);
/// "{[0:1, 0:4], [2:3, 0:4]}", or the single box alone, or "{}".
std::string to_string(const region& r, int dims);

} // namespace celerity
