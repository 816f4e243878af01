// SPDX-License-Identifier: MIT
// Region algebra.
//
// A set of disjoint boxes is in normal form exactly if no two of them *conflict* (see `conflict`). Most inputs do not conflict at all, and boxes that do
// not even touch can never influence each other; so the sweep, which does the real work, only sees small groups of touching boxes.
#include "grid.hpp"

#include <numeric>

#include "box_lists.hpp"
#include "box_predicates.hpp"
#include "plane_sweep.hpp"

namespace celerity {

namespace {

space_sweep& thread_sweep() {
	thread_local space_sweep sweep;
	return sweep;
}

/// Below this many boxes it pays to compare all pairs.
constexpr std::size_t min_boxes_for_groups = 17;

bool is_less(const point& a, const point& b) { return a[0] != b[0] ? a[0] < b[0] : a[1] != b[1] ? a[1] < b[1] : a[2] < b[2]; }

/// Disjoint boxes never begin at the same element.
void sort_disjoint(box_vector& boxes) {
	sort_few(boxes.begin(), boxes.end(), [](const box& a, const box& b) { return is_less(a.min(), b.min()); });
}

/// Whether two boxes that touch cannot both be in a region in normal form.
bool conflict(const box& a, const box& b) {
	const bool overlap_0 = intervals_overlap(a, b, 0);
	const bool overlap_1 = intervals_overlap(a, b, 1);
	if(overlap_0 && overlap_1) return true; // they overlap, or continue each other in the fastest dimension
	if(!is_same_interval(a, b, 2)) return false;
	return overlap_0 || is_same_interval(a, b, 1); // continue each other in dimension 1 or 0 (they touch, and share no element)
}

bool is_covered_by_any(const box& b, const std::span<const box> boxes) {
	return std::any_of(boxes.begin(), boxes.end(), [&](const box& other) { return other.covers(b); });
}

/// Resolves conflicts by merging two boxes into one while that works. Returns whether it was enough.
bool merge_conflicts(box_vector& boxes) {
	for(std::size_t i = 0; i < boxes.size();) {
		bool has_grown = false;
		for(std::size_t j = i + 1; j < boxes.size();) {
			if(!do_touch(boxes[i], boxes[j]) || !conflict(boxes[i], boxes[j])) {
				++j;
			} else if(try_merge_touching(boxes[i], boxes[j])) {
				boxes.swap_remove(j);
				has_grown = true;
			} else {
				return false;
			}
		}
		i = has_grown ? 0 : i + 1;
	}
	return true;
}

/// Groups of boxes that touch; those that conflict are replaced by their normal form.
class touching_groups {
  public:
	/// Returns whether anything conflicts. Sorts `boxes`.
	bool find(box_vector& boxes) {
		const std::size_t d = dimension_of_shortest_boxes(boxes);
		std::sort(boxes.begin(), boxes.end(),
		    [=](const box& a, const box& b) { return a.min(d) != b.min(d) ? a.min(d) < b.min(d) : is_less(a.min(), b.min()); });
		const std::uint32_t count = static_cast<std::uint32_t>(boxes.size());
		m_parent.resize(count);
		std::iota(m_parent.begin(), m_parent.end(), 0U);
		m_conflicts.assign(count, false);
		bool any = false;
		for(std::uint32_t i = 0; i < count; ++i) {
			const box& current = boxes[i];
			for(std::uint32_t j = i + 1; j < count && boxes[j].min(d) <= current.max(d); ++j) {
				if(!do_touch(current, boxes[j])) continue;
				m_parent[root(j)] = root(i);
				if(!conflict(current, boxes[j])) continue;
				m_conflicts[i] = true;
				any = true;
			}
		}
		return any;
	}

	/// Calls f(indices of the group's boxes, whether the group conflicts).
	template <typename F>
	void for_each(F&& f) {
		m_order.resize(m_parent.size());
		std::iota(m_order.begin(), m_order.end(), 0U);
		for(std::uint32_t i = 0; i < m_parent.size(); ++i) m_parent[i] = root(i);
		std::sort(m_order.begin(), m_order.end(),
		    [&](const std::uint32_t a, const std::uint32_t b) { return m_parent[a] != m_parent[b] ? m_parent[a] < m_parent[b] : a < b; });
		for(std::size_t begin = 0; begin < m_order.size();) {
			std::size_t end = begin;
			bool conflicts = false;
			for(; end < m_order.size() && m_parent[m_order[end]] == m_parent[m_order[begin]]; ++end) conflicts |= m_conflicts[m_order[end]];
			f(std::span<const std::uint32_t>(m_order).subspan(begin, end - begin), conflicts);
			begin = end;
		}
	}

  private:
	std::vector<std::uint32_t> m_parent;
	std::vector<std::uint32_t> m_order;
	std::vector<bool> m_conflicts;

	std::uint32_t root(std::uint32_t i) {
		while(m_parent[i] != i) i = m_parent[i] = m_parent[m_parent[i]];
		return i;
	}
};

/// Brings any non-empty boxes into normal form.
void normalize(box_vector& boxes) {
	space_sweep* sweep = nullptr;
	if(boxes.size() < min_boxes_for_groups) {
		if(merge_conflicts(boxes)) return sort_disjoint(boxes);
		sweep = &thread_sweep();
		sweep->minus.clear();
		sweep->plus.assign(boxes.begin(), boxes.end());
		boxes.clear();
		return sweep->run(boxes);
	}
	thread_local touching_groups groups;
	if(!groups.find(boxes)) return sort_disjoint(boxes);
	sweep = &thread_sweep();
	sweep->minus.clear();
	box_vector result;
	result.reserve(boxes.size());
	std::size_t num_groups = 0;
	groups.for_each([&](const std::span<const std::uint32_t> group, const bool conflicts) {
		++num_groups;
		if(!conflicts) {
			for(const std::uint32_t i : group) result.push_back(boxes[i]);
			return;
		}
		sweep->plus.clear();
		for(const std::uint32_t i : group) sweep->plus.push_back(boxes[i]);
		sweep->run(result);
	});
	if(num_groups > 1) sort_disjoint(result);
	boxes = std::move(result);
}

/// The last dimension in which the boxes of both lists, none of them empty, do not all have the same interval.
std::size_t fastest_dimension(const std::span<const box> a, const std::span<const box> b) {
	for(std::size_t d = 2; d > 0; --d) {
		const auto differs = [&](const box& other) { return !is_same_interval(a[0], other, d); };
		if(std::any_of(a.begin(), a.end(), differs) || std::any_of(b.begin(), b.end(), differs)) return d;
	}
	return 0;
}

/// Brings disjoint boxes into normal form, given that each already reaches as far as possible in `fastest`, and that all are the same in the dimensions
/// after it.
void join_runs(box_vector& boxes, const std::size_t fastest) {
	if(fastest == 0 || boxes.size() <= 1 || (boxes.size() < 9 && merge_conflicts(boxes))) return sort_disjoint(boxes);
	const auto has_smaller_interval = [=](const box& a, const box& b) {
		return a.min(fastest) != b.min(fastest) ? a.min(fastest) < b.min(fastest) : a.max(fastest) < b.max(fastest);
	};
	std::sort(boxes.begin(), boxes.end(),
	    [&](const box& a, const box& b) { return is_same_interval(a, b, fastest) ? is_less(a.min(), b.min()) : has_smaller_interval(a, b); });
	space_sweep& sweep = thread_sweep();
	sweep.minus.clear();
	box_vector result;
	result.reserve(boxes.size());
	for(std::size_t begin = 0; begin < boxes.size();) {
		std::size_t end = begin + 1;
		while(end < boxes.size() && is_same_interval(boxes[begin], boxes[end], fastest)) ++end;
		if(fastest == 1) {
			for(; begin < end; ++begin) {
				box& last = result.empty() ? boxes[begin] : result.back();
				if(last.max(0) == boxes[begin].min(0) && is_same_interval(last, boxes[begin], 1)) {
					last = with_interval(last, 0, last.min(0), boxes[begin].max(0));
				} else {
					result.push_back(boxes[begin]);
				}
			}
		} else if(end - begin == 1) {
			result.push_back(boxes[begin]);
		} else {
			sweep.plus.assign(boxes.begin() + begin, boxes.begin() + end);
			sweep.run(result);
		}
		begin = end;
	}
	boxes = std::move(result);
	sort_disjoint(boxes);
}

/// Calls f(box of a, the boxes of b that overlap it), in the order of `a`. Both are boxes of a region.
template <typename F>
void for_each_overlap(const std::span<const box> a, const std::span<const box> b, F&& f) {
	// Regions are sorted along the first dimension in which their boxes differ; that bounds the candidates.
	std::size_t key = 0;
	const auto differs = [&](const box& other) { return !is_same_interval(a[0], other, key); };
	while(key < 2 && !a.empty() && std::none_of(a.begin(), a.end(), differs) && std::none_of(b.begin(), b.end(), differs)) ++key;
	box_vector found;
	const box* first = b.data();
	const box* const end = first + b.size();
	for(const box& box_a : a) {
		while(first != end && first->max(key) <= box_a.min(key)) ++first;
		found.clear();
		for(const box* candidate = first; candidate != end && candidate->min(key) < box_a.max(key); ++candidate) {
			if(intervals_overlap(box_a, *candidate, 0) & intervals_overlap(box_a, *candidate, 1) & intervals_overlap(box_a, *candidate, 2)) {
				found.push_back(*candidate);
			}
		}
		f(box_a, found);
	}
}

/// Appends `from` without the disjoint boxes `cuts`, each of which overlaps it, in normal form.
void append_difference_of_many(box_vector& out, const box& from, const std::span<const box> cuts) {
	if(cuts.empty()) return out.push_back(from);
	if(cuts.size() == 1) return append_difference(out, from, cuts[0]);
	space_sweep& sweep = thread_sweep();
	sweep.plus.assign(1, from);
	sweep.minus.clear();
	for(const box& cut : cuts) sweep.minus.push_back(intersection(from, cut));
	sweep.run(out);
}

} // namespace

region::region(box_vector boxes) : m_boxes(std::move(boxes)) {
	std::size_t kept = 0;
	for(const box& b : m_boxes) {
		if(!b.empty()) m_boxes[kept++] = b;
	}
	m_boxes.resize(kept);
	normalize(m_boxes);
}

coordinate region::area() const {
	coordinate sum = 0;
	for(const box& b : m_boxes) sum += b.area();
	return sum;
}

box region::bounding_box() const {
	box bounds;
	for(const box& b : m_boxes) bounds = celerity::bounding_box(bounds, b);
	return bounds;
}

bool region::covers(const box& b) const {
	if(b.empty()) return true;
	coordinate missing = b.area();
	for(const box& own : m_boxes) {
		missing -= intersection(own, b).area();
		if(missing == 0) return true;
	}
	return false;
}

bool region::covers(const region& r) const {
	return std::all_of(r.begin(), r.end(), [&](const box& b) { return covers(b); });
}

bool region::overlaps(const box& b) const {
	return std::any_of(begin(), end(), [&](const box& own) { return own.overlaps(b); });
}

bool region::overlaps(const region& r) const {
	if(r.is_single_box()) return overlaps(r.boxes()[0]);
	bool is_found = false;
	for_each_overlap(boxes(), r.boxes(), [&](const box&, const std::span<const box> parts) { is_found |= !parts.empty(); });
	return is_found;
}

region region_union(const region& a, const region& b) {
	if(a.empty()) return b;
	if(b.empty()) return a;
	if(a.is_single_box() && is_covered_by_any(a.boxes()[0], b.boxes())) return b;
	if(b.is_single_box() && is_covered_by_any(b.boxes()[0], a.boxes())) return a;
	box_vector boxes(a.boxes());
	boxes.append(b.boxes());
	normalize(boxes);
	return region::from_normalized(std::move(boxes));
}

region region_intersection(const region& a, const region& b) {
	if(a.is_single_box() && b.is_single_box()) return intersection(a.boxes()[0], b.boxes()[0]);
	box_vector boxes;
	for_each_overlap(a.boxes(), b.boxes(), [&](const box& box_a, const std::span<const box> parts_of_b) {
		for(const box& part : parts_of_b) boxes.push_back(intersection(box_a, part));
	});
	join_runs(boxes, fastest_dimension(a.boxes(), b.boxes()));
	return region::from_normalized(std::move(boxes));
}

region region_difference(const region& a, const region& b) {
	box_vector boxes;
	if(a.is_single_box() && b.is_single_box()) {
		append_difference(boxes, a.boxes()[0], b.boxes()[0]);
		return region::from_normalized(std::move(boxes));
	}
	bool has_cut = false;
	for_each_overlap(a.boxes(), b.boxes(), [&](const box& box_a, const std::span<const box> parts_of_b) {
		has_cut = has_cut || !parts_of_b.empty();
		append_difference_of_many(boxes, box_a, parts_of_b);
	});
	if(!has_cut) return a;
	if(!a.is_single_box()) join_runs(boxes, fastest_dimension(a.boxes(), b.boxes()));
	return region::from_normalized(std::move(boxes));
}

void append_difference(box_vector& out, const box& from, const box& cut) {
	const box hole = intersection(from, cut);
	if(hole.empty()) {
		if(!from.empty()) out.push_back(from);
		return;
	}
	// In this order the pieces are sorted, and in normal form.
	const auto append = [&](const point& min, const point& max) {
		if(const box piece(min, max); !piece.empty()) out.push_back(piece);
	};
	const point& f0 = from.min();
	const point& f1 = from.max();
	const point& h0 = hole.min();
	const point& h1 = hole.max();
	append(f0, point{{h0[0], f1[1], f1[2]}});
	append(point{{h0[0], f0[1], f0[2]}}, point{{h1[0], h0[1], f1[2]}});
	append(point{{h0[0], h0[1], f0[2]}}, point{{h1[0], h1[1], h0[2]}});
	append(point{{h0[0], h0[1], h1[2]}}, point{{h1[0], h1[1], f1[2]}});
	append(point{{h0[0], h1[1], f0[2]}}, point{{h1[0], f1[1], f1[2]}});
	append(point{{h1[0], f0[1], f0[2]}}, f1);
}

bool has_area(const box& b) {
	coordinate area = 1;
	for(std::size_t d = 0; d < 3; ++d) {
		coordinate extent = 0;
		if(__builtin_sub_overflow(b.max(d), b.min(d), &extent) || __builtin_mul_overflow(area, extent, &area)) return false;
	}
	return true;
}

std::string to_string(const box& b, const int dims) {
	std::string text = "[";
	for(std::size_t d = 0; d < static_cast<std::size_t>(dims); ++d) {
		if(d > 0) text += ", ";
		text += std::to_string(b.min(d)) + ":" + std::to_string(b.max(d));
	}
	return text + "]";
}

std::string to_string(const region& r, const int dims) {
	if(r.is_single_box()) return to_string(r.boxes()[0], dims);
	std::string text = "{";
	for(std::size_t i = 0; i < r.boxes().size(); ++i) {
		if(i > 0) text += ", ";
		text += to_string(r.boxes()[i], dims);
	}
	return text + "}";
}

} // namespace celerity
