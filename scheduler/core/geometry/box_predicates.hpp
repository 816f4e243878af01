// SPDX-License-Identifier: MIT
// Predicates on pairs of boxes, and the union of two boxes if it is a box. Most avoid branches, because a processor could only guess their outcome.
#pragma once

#include <cstddef>

#include "grid.hpp"

namespace celerity {

/// Of non-empty boxes, faster than box::overlaps().
inline bool do_overlap(const box& a, const box& b) {
	return (a.min(0) < b.max(0)) & (b.min(0) < a.max(0)) & (a.min(1) < b.max(1)) & (b.min(1) < a.max(1)) & (a.min(2) < b.max(2)) & (b.min(2) < a.max(2));
}
/// Whether the closures intersect.
inline bool do_touch(const box& a, const box& b) {
	return (a.min(0) <= b.max(0)) & (b.min(0) <= a.max(0)) & (a.min(1) <= b.max(1)) & (b.min(1) <= a.max(1)) & (a.min(2) <= b.max(2)) & (b.min(2) <= a.max(2));
}
inline bool is_same_interval(const box& a, const box& b, const std::size_t d) { return (a.min(d) == b.min(d)) & (a.max(d) == b.max(d)); }
inline bool intervals_overlap(const box& a, const box& b, const std::size_t d) { return (a.min(d) < b.max(d)) & (b.min(d) < a.max(d)); }
/// Whether the union of two disjoint boxes is a box.
inline bool do_continue(const box& a, const box& b) {
	return do_touch(a, b) && is_same_interval(a, b, 0) + is_same_interval(a, b, 1) + is_same_interval(a, b, 2) == 2;
}
/// If the union of two boxes that touch is exactly a box, sets `a` to it.
inline bool try_merge_touching(box& a, const box& b) {
	const bool same_0 = is_same_interval(a, b, 0);
	const bool same_1 = is_same_interval(a, b, 1);
	const bool same_2 = is_same_interval(a, b, 2);
	if(same_0 + same_1 + same_2 >= 2) {
		a = bounding_box(a, b);
		return true;
	}
	if(a.covers(b)) return true;
	if(!b.covers(a)) return false;
	a = b;
	return true;
}

} // namespace celerity
