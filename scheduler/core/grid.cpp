// SPDX-License-Identifier: MIT
// Region algebra by plane sweeps.
//
// A set of disjoint boxes is in normal form exactly if no pair of them *conflicts* (see `conflict`). Most inputs do not conflict at all, and boxes that
// do not even touch can never influence each other; so the sweep, which does the real work, only sees small groups of touching boxes.
#include "grid.hpp"

#include <limits>
#include <numeric>

namespace celerity {

namespace {

/// A box seen along two dimensions, the third being the same for all boxes of a sweep.
struct rectangle {
	coordinate slow_min;
	coordinate slow_max;
	coordinate fast_min;
	coordinate fast_max;
};

constexpr coordinate never = std::numeric_limits<coordinate>::max();

/// Computes (union of `plus`) \ (union of `minus`) in normal form. Keeps its arrays from call to call.
class plane_sweep {
  public:
	std::vector<rectangle> plus;  ///< input: any rectangles, sorted by slow_min
	std::vector<rectangle> minus; ///< input: disjoint rectangles, sorted by slow_min
	std::vector<rectangle> out;	  ///< sorted by (slow_min, fast_min)

	void run() {
		out.clear();
		m_active.clear();
		m_holes.clear();
		m_open.clear();
		std::size_t next_plus = 0;
		std::size_t next_minus = 0;
		coordinate now = plus.front().slow_min;
		for(;;) {
			coordinate next = never;
			enter(m_active, plus, next_plus, now, next);
			enter(m_holes, minus, next_minus, now, next);
			emit_row(now, next);
			now = next;
			leave(m_active, now);
			leave(m_holes, now);
			if(!m_active.empty()) continue;
			if(next_plus == plus.size()) return;
			if(now == plus[next_plus].slow_min) continue;
			now = plus[next_plus].slow_min;
			m_open.clear();
			leave(m_holes, now);
		}
	}

  private:
	std::vector<rectangle> m_active; // sorted by fast_min
	std::vector<rectangle> m_holes;
	std::vector<std::uint32_t> m_open; // outputs that end at the current position, sorted by fast_min
	std::vector<std::uint32_t> m_still_open;

	/// Inserts what has begun, and lowers `next` to the next position where anything changes.
	static void enter(std::vector<rectangle>& active, const std::vector<rectangle>& from, std::size_t& position, const coordinate now, coordinate& next) {
		for(; position < from.size() && from[position].slow_min <= now; ++position) {
			const rectangle& r = from[position];
			if(r.slow_max <= now) continue;
			auto at = active.end();
			while(at != active.begin() && (at - 1)->fast_min > r.fast_min) --at;
			active.insert(at, r);
		}
		if(position < from.size()) next = std::min(next, from[position].slow_min);
		for(const rectangle& r : active) next = std::min(next, r.slow_max);
	}

	static void leave(std::vector<rectangle>& active, const coordinate now) {
		std::size_t kept = 0;
		for(std::size_t i = 0; i < active.size(); ++i) {
			if(active[i].slow_max > now) active[kept++] = active[i];
		}
		active.resize(kept);
	}

	void emit_row(const coordinate now, const coordinate next) {
		m_still_open.clear();
		std::size_t open = 0;
		std::size_t hole = 0;
		for(std::size_t i = 0; i < m_active.size();) {
			const coordinate begin = m_active[i].fast_min;
			coordinate end = m_active[i].fast_max;
			for(++i; i < m_active.size() && m_active[i].fast_min <= end; ++i) end = std::max(end, m_active[i].fast_max);
			emit_without_holes(begin, end, now, next, open, hole);
		}
		m_open.swap(m_still_open);
	}

	void emit_without_holes(coordinate begin, const coordinate end, const coordinate now, const coordinate next, std::size_t& open, std::size_t& hole) {
		while(hole < m_holes.size() && m_holes[hole].fast_max <= begin) ++hole;
		for(; hole < m_holes.size() && m_holes[hole].fast_min < end; ++hole) {
			if(begin < m_holes[hole].fast_min) emit(begin, m_holes[hole].fast_min, now, next, open);
			begin = m_holes[hole].fast_max;
			if(begin >= end) return; // this hole may reach into the next interval
		}
		emit(begin, end, now, next, open);
	}

	/// Lengthens the open output with the same interval, or opens a new one.
	void emit(const coordinate begin, const coordinate end, const coordinate now, const coordinate next, std::size_t& open) {
		while(open < m_open.size() && out[m_open[open]].fast_min < begin) ++open;
		if(open < m_open.size() && out[m_open[open]].fast_min == begin && out[m_open[open]].fast_max == end) {
			m_still_open.push_back(m_open[open]);
			out[m_open[open++]].slow_max = next;
		} else {
			m_still_open.push_back(static_cast<std::uint32_t>(out.size()));
			out.push_back(rectangle{now, next, begin, end});
		}
	}
};

struct by_min {
	bool operator()(const box& a, const box& b) const { return a < b; }
};

box with_interval(const box& b, const std::size_t dim, const coordinate min, const coordinate max) {
	point lower = b.min();
	point upper = b.max();
	lower[dim] = min;
	upper[dim] = max;
	return box(lower, upper);
}

/// Stacks plane sweeps along dimension 0.
class space_sweep {
  public:
	std::vector<box> plus;	///< input: any non-empty boxes, sorted by min
	std::vector<box> minus; ///< input: disjoint boxes inside the bounding box of `plus`, sorted by min

	/// Appends (union of `plus`) \ (union of `minus`) in normal form, sorted.
	void run(box_vector& out) {
		const box& first = plus.front();
		std::array<bool, 3> varies{};
		const auto compare = [&](const box& b) {
			for(std::size_t d = 0; d < 3; ++d) varies[d] |= b.min(d) != first.min(d) || b.max(d) != first.max(d);
		};
		for(const box& b : plus) compare(b);
		for(const box& b : minus) compare(b);
		if(!varies[2]) return run_in_plane(out, 0, 1);
		if(!varies[1]) return run_in_plane(out, 0, 2);
		if(!varies[0]) return run_in_plane(out, 1, 2);
		run_in_space(out);
	}

  private:
	plane_sweep m_plane;
	std::vector<box> m_active; // sorted by min in dimension 1
	std::vector<box> m_holes;
	std::vector<std::uint32_t> m_open; // outputs that end at the current position, sorted by min in dimensions 1 and 2
	std::vector<std::uint32_t> m_still_open;

	static void flatten(std::vector<rectangle>& to, const std::vector<box>& from, const std::size_t slow, const std::size_t fast) {
		to.clear();
		for(const box& b : from) to.push_back(rectangle{b.min(slow), b.max(slow), b.min(fast), b.max(fast)});
	}

	void run_in_plane(box_vector& out, const std::size_t slow, const std::size_t fast) {
		flatten(m_plane.plus, plus, slow, fast);
		flatten(m_plane.minus, minus, slow, fast);
		m_plane.run();
		const box pattern = plus.front();
		for(const rectangle& r : m_plane.out) {
			out.push_back(with_interval(with_interval(pattern, slow, r.slow_min, r.slow_max), fast, r.fast_min, r.fast_max));
		}
	}

	void run_in_space(box_vector& out) {
		m_active.clear();
		m_holes.clear();
		m_open.clear();
		std::size_t next_plus = 0;
		std::size_t next_minus = 0;
		coordinate now = plus.front().min(0);
		for(;;) {
			coordinate next = never;
			enter(m_active, plus, next_plus, now, next);
			enter(m_holes, minus, next_minus, now, next);
			emit_slab(out, now, next);
			now = next;
			leave(m_active, now);
			leave(m_holes, now);
			if(!m_active.empty()) continue;
			if(next_plus == plus.size()) return;
			if(now == plus[next_plus].min(0)) continue;
			now = plus[next_plus].min(0);
			m_open.clear();
			leave(m_holes, now);
		}
	}

	static void enter(std::vector<box>& active, const std::vector<box>& from, std::size_t& position, const coordinate now, coordinate& next) {
		for(; position < from.size() && from[position].min(0) <= now; ++position) {
			const box& b = from[position];
			if(b.max(0) <= now) continue;
			auto at = active.end();
			while(at != active.begin() && (at - 1)->min(1) > b.min(1)) --at;
			active.insert(at, b);
		}
		if(position < from.size()) next = std::min(next, from[position].min(0));
		for(const box& b : active) next = std::min(next, b.max(0));
	}

	static void leave(std::vector<box>& active, const coordinate now) {
		std::erase_if(active, [=](const box& b) { return b.max(0) <= now; });
	}

	void emit_slab(box_vector& out, const coordinate now, const coordinate next) {
		flatten(m_plane.plus, m_active, 1, 2);
		flatten(m_plane.minus, m_holes, 1, 2);
		m_plane.run();
		m_still_open.clear();
		std::size_t open = 0;
		for(const rectangle& r : m_plane.out) {
			const auto is_before = [&](const box& b) { return b.min(1) < r.slow_min || (b.min(1) == r.slow_min && b.min(2) < r.fast_min); };
			while(open < m_open.size() && is_before(out[m_open[open]])) ++open;
			if(open < m_open.size()) {
				box& candidate = out[m_open[open]];
				if(candidate.min(1) == r.slow_min && candidate.max(1) == r.slow_max && candidate.min(2) == r.fast_min && candidate.max(2) == r.fast_max) {
					candidate = with_interval(candidate, 0, candidate.min(0), next);
					m_still_open.push_back(m_open[open++]);
					continue;
				}
			}
			m_still_open.push_back(static_cast<std::uint32_t>(out.size()));
			out.push_back(box(point{{now, r.slow_min, r.fast_min}}, point{{next, r.slow_max, r.fast_max}}));
		}
		m_open.swap(m_still_open);
	}
};

space_sweep& thread_sweep() {
	thread_local space_sweep sweep;
	return sweep;
}

/// Whether the closures intersect: only then can the two matter to each other's normal form.
bool touch(const box& a, const box& b) {
	return (a.min(0) <= b.max(0)) & (b.min(0) <= a.max(0)) & (a.min(1) <= b.max(1)) & (b.min(1) <= a.max(1)) & (a.min(2) <= b.max(2)) & (b.min(2) <= a.max(2));
}

bool is_same_interval(const box& a, const box& b, const std::size_t d) { return a.min(d) == b.min(d) && a.max(d) == b.max(d); }
bool intervals_overlap(const box& a, const box& b, const std::size_t d) { return a.min(d) < b.max(d) && b.min(d) < a.max(d); }

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

/// If the union of the two is exactly a box, sets `a` to it.
bool try_merge(box& a, const box& b) {
	if(!touch(a, b)) return false;
	std::size_t different = 3;
	int num_different = 0;
	for(std::size_t d = 0; d < 3; ++d) {
		if(is_same_interval(a, b, d)) continue;
		different = d;
		++num_different;
	}
	if(num_different <= 1) {
		if(num_different == 1) a = with_interval(a, different, std::min(a.min(different), b.min(different)), std::max(a.max(different), b.max(different)));
		return true;
	}
	if(a.covers(b)) return true;
	if(!b.covers(a)) return false;
	a = b;
	return true;
}

/// Groups of boxes that touch; those that conflict are replaced by their normal form.
class touching_groups {
  public:
	/// `boxes` is sorted. Returns whether anything conflicts.
	bool find(const std::span<const box> boxes) {
		m_parent.resize(boxes.size());
		std::iota(m_parent.begin(), m_parent.end(), 0U);
		m_conflicts.assign(boxes.size(), false);
		bool any = false;
		for(std::uint32_t i = 0; i < boxes.size(); ++i) {
			for(std::uint32_t j = i + 1; j < boxes.size() && boxes[j].min(0) <= boxes[i].max(0); ++j) {
				if(!touch(boxes[i], boxes[j])) continue;
				m_parent[root(j)] = root(i);
				if(conflict(boxes[i], boxes[j])) {
					m_conflicts[i] = true;
					any = true;
				}
			}
		}
		return any;
	}

	/// Calls f(indices of the group's boxes in order, whether the group conflicts).
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

bool any_pair_conflicts(const std::span<const box> sorted) {
	for(std::size_t i = 0; i < sorted.size(); ++i) {
		for(std::size_t j = i + 1; j < sorted.size() && sorted[j].min(0) <= sorted[i].max(0); ++j) {
			if(touch(sorted[i], sorted[j]) && conflict(sorted[i], sorted[j])) return true;
		}
	}
	return false;
}

/// Below this many boxes finding the groups costs more than it saves.
constexpr std::size_t min_boxes_for_groups = 17;

/// Brings any non-empty boxes into normal form.
void normalize(box_vector& boxes) {
	if(boxes.size() <= 1) return;
	if(boxes.size() == 2 && try_merge(boxes[0], boxes[1])) return boxes.pop_back();
	std::sort(boxes.begin(), boxes.end(), by_min{});
	space_sweep& sweep = thread_sweep();
	sweep.minus.clear();
	if(boxes.size() < min_boxes_for_groups) {
		if(!any_pair_conflicts(boxes)) return;
		sweep.plus.assign(boxes.begin(), boxes.end());
		boxes.clear();
		return sweep.run(boxes);
	}
	thread_local touching_groups groups;
	if(!groups.find(boxes)) return;
	box_vector result;
	groups.for_each([&](const std::span<const std::uint32_t> group, const bool conflicts) {
		if(!conflicts) {
			for(const std::uint32_t i : group) result.push_back(boxes[i]);
			return;
		}
		sweep.plus.clear();
		for(const std::uint32_t i : group) sweep.plus.push_back(boxes[i]);
		sweep.run(result);
	});
	std::sort(result.begin(), result.end(), by_min{});
	boxes = std::move(result);
}

region difference_of_group(const std::span<const box> plus, const region& cut) {
	space_sweep& sweep = thread_sweep();
	sweep.plus.assign(plus.begin(), plus.end());
	sweep.minus.clear();
	box bounds;
	for(const box& b : plus) bounds = bounding_box(bounds, b);
	for(const box& b : cut) {
		if(const box part = intersection(b, bounds); !part.empty()) sweep.minus.push_back(part);
	}
	std::sort(sweep.minus.begin(), sweep.minus.end(), by_min{});
	box_vector result;
	sweep.run(result);
	return region::from_normalized(std::move(result));
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
	return std::any_of(r.begin(), r.end(), [&](const box& b) { return overlaps(b); });
}

region region_union(const region& a, const region& b) {
	if(a.empty()) return b;
	if(b.empty()) return a;
	if(a.is_single_box() && is_covered_by_any(a.boxes()[0], b.boxes())) return b;
	if(b.is_single_box() && is_covered_by_any(b.boxes()[0], a.boxes())) return a;
	box_vector boxes(a.boxes());
	boxes.append(b.boxes().data(), b.boxes().data() + b.boxes().size());
	normalize(boxes);
	return region::from_normalized(std::move(boxes));
}

region region_intersection(const region& a, const region& b) {
	if(a.is_single_box() && b.is_single_box()) return intersection(a.boxes()[0], b.boxes()[0]);
	box_vector boxes;
	for(const box& box_a : a) {
		for(const box& box_b : b) {
			if(const box common = intersection(box_a, box_b); !common.empty()) boxes.push_back(common);
		}
	}
	normalize(boxes);
	return region::from_normalized(std::move(boxes));
}

region region_difference(const region& a, const region& b) {
	if(!a.overlaps(b)) return a;
	if(a.is_single_box() && b.is_single_box()) {
		box_vector boxes;
		append_difference(boxes, a.boxes()[0], b.boxes()[0]);
		return region::from_normalized(std::move(boxes));
	}
	return difference_of_group(a.boxes(), b);
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

box_vector connected_bounding_boxes(const region& r) {
	const auto share_a_face = [](const box& a, const box& b) {
		if(!touch(a, b)) return false;
		int overlaps = 0;
		for(std::size_t d = 0; d < 3; ++d) overlaps += intervals_overlap(a, b, d) ? 1 : 0;
		return overlaps >= 2;
	};
	box_vector bounds;
	std::vector<box> left(r.begin(), r.end());
	std::vector<box> front;
	while(!left.empty()) {
		box whole = left.front();
		front.assign(1, whole);
		left.erase(left.begin());
		while(!front.empty()) {
			const box current = front.back();
			front.pop_back();
			const auto apart = std::stable_partition(left.begin(), left.end(), [&](const box& b) { return !share_a_face(current, b); });
			for(auto it = apart; it != left.end(); ++it) {
				whole = bounding_box(whole, *it);
				front.push_back(*it);
			}
			left.erase(apart, left.end());
		}
		bounds.push_back(whole);
	}
	return bounds;
}

void merge_overlapping_bounding_boxes(box_vector& boxes) {
	for(std::size_t i = 0; i < boxes.size();) {
		bool grown = false;
		for(std::size_t j = i + 1; j < boxes.size();) {
			if(!boxes[i].overlaps(boxes[j])) {
				++j;
				continue;
			}
			boxes[i] = bounding_box(boxes[i], boxes[j]);
			boxes.swap_remove(j);
			grown = true;
		}
		if(!grown) {
			++i;
		} else {
			i = 0; // the grown box may overlap any other
		}
	}
}

void merge_connected_boxes(box_vector& boxes) {
	for(std::size_t i = 0; i < boxes.size();) {
		bool grown = false;
		for(std::size_t j = i + 1; j < boxes.size();) {
			if(try_merge(boxes[i], boxes[j])) {
				boxes.swap_remove(j);
				grown = true;
			} else {
				++j;
			}
		}
		i = grown ? 0 : i + 1;
	}
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
