// SPDX-License-Identifier: MIT
// A function from the elements of an index space to values, constant on boxes.
//
// Boxes and values lie in two arrays, which are searched from front to back. Most maps have fewer than 32 entries, and for them this is faster than any tree.
// A larger map has several such pairs of arrays ("leaves"). Each leaf and each group of leaves has a bounding box, so that a search looks at few leaves.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/ensure.hpp"
#include "box_lists.hpp"
#include "box_predicates.hpp"
#include "grid.hpp"
#include "leaf_groups.hpp"

namespace celerity {

/// Maps every element of `domain` to a value. Two neighbours with equal values whose union is a box are merged when one of them is written, or when the map
/// has grown for a while. A map with the same value everywhere is a single entry.
/// V is copyable, comparable with ==, and not bool. Values may own heap memory.
template <typename V>
class region_map {
  public:
	region_map(const box& domain, const V& initial) : m_domain(domain) {
		if(domain.empty()) return;
		m_root.boxes.push_back(domain);
		m_root.values.push_back(initial);
		m_size = 1;
	}

	const box& domain() const { return m_domain; }

	/// Calls f(const box& part, const V& value) for each stored entry that intersects `where` (clamped to `where`), in an order that depends only on the
	/// history of updates. f must not touch the map.
	template <typename F>
	void query(const box& where, F&& f) const {
		const box target = intersection(where, m_domain);
		if(target.empty()) return;
		std::uint64_t missing = area_of(target);
		const std::span<const leaf> all = leaves();
		for(std::size_t n = overlapping_leaf(0, target); n < all.size(); n = overlapping_leaf(n + 1, target)) {
			const leaf& l = all[n];
			for(std::size_t i = 0; i < l.boxes.size(); ++i) {
				if(!do_overlap(l.boxes[i], target)) continue;
				const box part = intersection(l.boxes[i], target);
				f(part, l.values[i]);
				missing -= area_of(part);
				if(missing == 0) return;
			}
		}
	}
	template <typename F>
	void query(const region& where, F&& f) const {
		for(const box& b : where) query(b, f);
	}

	/// Sets all elements of `where` (clamped to the domain).
	void update(const box& where, const V& value) {
		const box target = intersection(where, m_domain);
		if(target.empty()) return;
		if(m_size == 1) return update_uniform(target, value);
		V copy = value; // `value` may lie in this map
		std::size_t home = no_leaf;
		std::uint64_t missing = area_of(target);
		const std::span<leaf> all = leaves();
		for(std::size_t n = overlapping_leaf(0, target); n < all.size() && missing > 0; n = overlapping_leaf(n + 1, target)) {
			leaf& l = all[n];
			for(std::size_t i = 0; i < l.boxes.size() && missing > 0;) {
				if(!do_overlap(l.boxes[i], target)) {
					++i;
					continue;
				}
				if(l.boxes[i] == target) {
					l.values[i] = std::move(copy);
					return merge_around(n, i);
				}
				if(home == no_leaf) home = n;
				missing -= area_of(intersection(l.boxes[i], target));
				if(target.covers(l.boxes[i])) {
					remove(l, i);
				} else {
					if(l.boxes[i].covers(target) && l.values[i] == copy) return;
					cut_out(l, i++, target);
				}
			}
			if(!is_flat()) l.find_bounds();
		}
		leaf& l = all[home];
		l.boxes.push_back(target);
		l.values.push_back(std::move(copy));
		m_has_large_leaf |= l.boxes.size() > max_leaf_size;
		widen(home, target);
		++m_size;
		merge_around(home, l.boxes.size() - 1);
	}
	void update(const region& where, const V& value) {
		if(where.is_single_box()) return update(where.boxes()[0], value);
		const V copy = value;
		for(const box& b : where) update(b, copy);
	}

	/// Cuts entries at the border of `where`, calls f(V&) for the value of each part inside, and merges neighbours. f may return a bool: false promises that the
	/// value equals no value that it differed from before. If all calls return false and no entry is cut, the search for neighbours is left out.
	template <typename F>
	void modify(const box& where, F&& f) {
		const box target = intersection(where, m_domain);
		if(target.empty()) return;
		small_vector<box, 4> changed;
		std::uint64_t missing = area_of(target);
		const std::span<leaf> all = leaves();
		std::size_t last_leaf = 0;
		std::size_t last_entry = 0;
		bool may_merge = false;
		for(std::size_t n = overlapping_leaf(0, target); n < all.size() && missing > 0; n = overlapping_leaf(n + 1, target)) {
			leaf& l = all[n];
			const std::size_t count = l.boxes.size(); // a cut appends the parts outside of `target`
			for(std::size_t i = 0; i < count && missing > 0; ++i) {
				if(!do_overlap(l.boxes[i], target)) continue;
				const box inside = intersection(l.boxes[i], target);
				missing -= area_of(inside);
				if(inside != l.boxes[i]) {
					cut_off(l, i, inside);
					may_merge = true;
				}
				if constexpr(std::is_same_v<std::invoke_result_t<F, V&>, bool>) {
					may_merge |= f(l.values[i]);
				} else {
					f(l.values[i]);
					may_merge = true;
				}
				changed.push_back(inside);
				last_leaf = n;
				last_entry = i;
			}
		}
		if(!may_merge) return tidy();
		if(changed.size() == 1) return merge_around(last_leaf, last_entry);
		merge_changed(changed, target);
	}
	template <typename F>
	void modify(const region& where, F&& f) {
		for(const box& b : where) modify(b, f);
	}

	/// Calls f(V&) for every entry, then merges neighbours that have become equal. For epochs.
	template <typename F>
	void transform(F&& f) {
		for(leaf& l : leaves()) {
			for(V& value : l.values) f(value);
		}
		if(m_size > 1) merge_all(m_domain);
		m_search_at = std::max(min_size_for_search, 2 * m_size);
		tidy();
	}

	template <typename F>
	void for_each(F&& f) const {
		for(const leaf& l : leaves()) {
			for(std::size_t i = 0; i < l.boxes.size(); ++i) f(l.boxes[i], l.values[i]);
		}
	}
	std::size_t size() const { return m_size; }

	/// Throws std::logic_error unless the boxes divide the domain. For tests.
	void validate() const {
		coordinate area = 0;
		std::size_t num_boxes = 0;
		for_each([&](const box& part, const V&) {
			ensure(m_domain.covers(part), "each box of a region map lies in its domain");
			area += part.area();
			++num_boxes;
		});
		ensure(area == m_domain.area(), "the boxes of a region map divide its domain");
		ensure(num_boxes == m_size, "a region map counts its boxes");
	}

	/// Shows all that later calls depend on to the walk, and calls f(V&) for every value. f must keep equal values equal and others different.
	template <typename Walk, typename F>
	void walk_state(Walk& walk, F&& f) {
		walk.number(m_search_at);
		walk.number(leaves().size());
		for(leaf& l : leaves()) {
			if(!is_flat()) walk.boxes(std::span(&l.bounds, 1));
			walk.boxes(l.boxes);
			for(V& value : l.values) f(value);
		}
	}

  private:
	struct leaf {
		box bounds; ///< may be larger than need be; not maintained in a flat map
		std::vector<box> boxes;
		std::vector<V> values;

		void find_bounds() {
			bounds = box();
			for(const box& b : boxes) bounds = bounding_box(bounds, b);
		}
	};

	static constexpr std::size_t no_leaf = ~std::size_t{0};
	static constexpr std::size_t max_flat_size = 48;
	static constexpr std::size_t min_tree_size = 24; // hysteresis: no rebuilding back and forth
	static constexpr std::size_t max_leaf_size = 32;
	static constexpr std::size_t min_average_leaf_size = 6;
	/// The rests of entries that an update cuts may fit their neighbours, which only a search of the whole map finds. The first search comes before the map
	/// becomes a tree, and the next ones each time it has doubled: that costs a constant per entry.
	static constexpr std::size_t min_size_for_search = 40;
	/// From so many changed entries on, sorting all entries is cheaper than searching the neighbours of each.
	static constexpr std::size_t min_changes_for_sorting = 9;
	/// Compare values before boxes where that is a single instruction.
	static constexpr bool is_value_compared_first = sizeof(V) <= 8 && std::is_trivially_copyable_v<V>;

	box m_domain;
	std::size_t m_size = 0;
	std::size_t m_search_at = min_size_for_search; // size
	leaf m_root;                // a flat map has only this one
	std::vector<leaf> m_leaves; // otherwise `m_root` is empty
	leaf_groups m_groups;
	bool m_has_empty_leaf = false;
	bool m_has_large_leaf = false;

	bool is_flat() const { return m_leaves.empty(); }
	std::span<leaf> leaves() { return is_flat() ? std::span<leaf>(&m_root, 1) : std::span<leaf>(m_leaves); }
	std::span<const leaf> leaves() const { return is_flat() ? std::span<const leaf>(&m_root, 1) : std::span<const leaf>(m_leaves); }

	template <typename F>
	std::size_t next_leaf(const std::size_t n, F&& is_near) const {
		return is_flat() ? n : m_groups.next(m_leaves, n, is_near);
	}
	std::size_t overlapping_leaf(const std::size_t n, const box& b) const {
		return next_leaf(n, [&](const box& bounds) { return do_overlap(bounds, b); });
	}
	void widen(const std::size_t n, const box& b) {
		if(is_flat()) return;
		m_leaves[n].bounds = bounding_box(m_leaves[n].bounds, b);
		m_groups.widen(n, b);
	}

	/// Unsigned: the area of a huge domain may overflow, and sums and differences are then still right.
	static std::uint64_t area_of(const box& b) {
		return static_cast<std::uint64_t>(b.extent(0)) * static_cast<std::uint64_t>(b.extent(1)) * static_cast<std::uint64_t>(b.extent(2));
	}

	void update_uniform(const box& target, const V& value) {
		if(m_root.values[0] == value) return;
		if(target == m_domain) {
			m_root.values[0] = value;
			return;
		}
		V copy = value;
		cut_off(m_root, 0, target);
		m_root.values[0] = std::move(copy);
	}

	void remove(leaf& l, const std::size_t i) {
		l.boxes[i] = l.boxes.back();
		if(i + 1 != l.values.size()) l.values[i] = std::move(l.values.back());
		l.boxes.pop_back();
		l.values.pop_back();
		m_has_empty_leaf |= l.boxes.empty();
		--m_size;
	}

	/// Reduces entry `i` to the boxes outside of `hole`, which intersects it but does not cover it.
	void cut_out(leaf& l, const std::size_t i, const box& hole) {
		box_vector outside;
		append_difference(outside, l.boxes[i], hole);
		l.boxes[i] = outside[0];
		append_copies(l, i, std::span<const box>(outside).subspan(1));
	}
	/// Reduces entry `i` to `inside`, which it covers, and gives the rest to new entries of the same value.
	void cut_off(leaf& l, const std::size_t i, const box& inside) {
		box_vector outside;
		append_difference(outside, l.boxes[i], inside);
		l.boxes[i] = inside;
		append_copies(l, i, outside);
	}
	void append_copies(leaf& l, const std::size_t i, const std::span<const box> boxes) {
		for(const box& b : boxes) {
			l.boxes.push_back(b);
			l.values.push_back(V(l.values[i])); // a copy first: push_back may move the array
		}
		m_size += boxes.size();
		m_has_large_leaf |= l.boxes.size() > max_leaf_size;
	}

	/// Merges entry `i` of leaf `home` with its neighbours, as long as it has one to merge with.
	void merge_around(const std::size_t home, std::size_t i) {
		while(m_size > 1 && absorb_neighbor(home, i)) {}
		tidy();
	}
	bool absorb_neighbor(const std::size_t home, std::size_t& i) {
		const std::span<leaf> all = leaves();
		const box own = all[home].boxes[i];
		const V& value = all[home].values[i];
		const auto is_near = [&](const box& bounds) { return do_touch(bounds, own); };
		for(std::size_t n = next_leaf(0, is_near); n < all.size(); n = next_leaf(n + 1, is_near)) {
			leaf& l = all[n];
			for(std::size_t j = 0; j < l.boxes.size(); ++j) {
				if constexpr(is_value_compared_first) {
					if(!(l.values[j] == value)) continue;
				}
				if(!do_continue(own, l.boxes[j])) continue;
				if constexpr(!is_value_compared_first) {
					if(!(l.values[j] == value)) continue;
				}
				all[home].boxes[i] = bounding_box(own, l.boxes[j]);
				widen(home, all[home].boxes[i]);
				const bool takes_the_gap = &l == &all[home] && i + 1 == l.boxes.size();
				remove(l, j);
				if(takes_the_gap) i = j;
				return true;
			}
		}
		return false;
	}

	void merge_changed(const std::span<const box> changed, const box& where) {
		if(changed.size() >= min_changes_for_sorting) {
			merge_all(where);
		} else {
			for(const box& b : changed) merge_around_box(b);
		}
		tidy();
	}
	/// Does nothing if a neighbour has already absorbed the entry with this box.
	void merge_around_box(const box& b) {
		const std::span<leaf> all = leaves();
		for(std::size_t n = overlapping_leaf(0, b); n < all.size(); n = overlapping_leaf(n + 1, b)) {
			const auto at = std::find(all[n].boxes.begin(), all[n].boxes.end(), b);
			if(at == all[n].boxes.end()) continue;
			std::size_t i = static_cast<std::size_t>(at - all[n].boxes.begin());
			while(m_size > 1 && absorb_neighbor(n, i)) {}
			return;
		}
	}

	struct entry_reference {
		box* where;
		V* value;
	};

	/// Merges neighbours among all entries of the leaves that touch `where`.
	void merge_all(const box& where) {
		if(is_uniform()) return; // tidy() knows better
		std::vector<entry_reference> entries;
		entries.reserve(m_size);
		for(leaf& l : leaves()) {
			if(!is_flat() && !do_touch(l.bounds, where)) continue;
			for(std::size_t i = 0; i < l.boxes.size(); ++i) entries.push_back({&l.boxes[i], &l.values[i]});
		}
		const std::size_t before = entries.size();
		const auto box_of = [](const entry_reference& e) -> box& { return *e.where; };
		merge_along_all(entries, box_of, [](entry_reference& first, const entry_reference& second) {
			if(!(*first.value == *second.value)) return false;
			*first.where = bounding_box(*first.where, *second.where);
			*second.where = box();
			return true;
		});
		if(entries.size() != before) remove_absorbed();
	}
	void remove_absorbed() {
		for(leaf& l : leaves()) {
			for(std::size_t i = 0; i < l.boxes.size();) {
				if(l.boxes[i].empty()) {
					remove(l, i);
				} else {
					++i;
				}
			}
			if(!is_flat()) l.find_bounds();
		}
	}

	/// Whether all entries (at least one) have the same value.
	bool is_uniform() const {
		const std::span<const leaf> all = leaves();
		const leaf* first = all.data();
		while(first->boxes.empty()) ++first;
		const V& value = first->values.front();
		if(!(value == first->values.back())) return false; // mostly
		if(!all.back().values.empty() && !(value == all.back().values.back())) return false;
		for(const leaf& l : all) {
			for(const V& other : l.values) {
				if(!(value == other)) return false;
			}
		}
		return true;
	}

	/// Restores the invariants: a uniform map has one entry, and leaves are neither empty nor too large nor too many.
	void tidy() {
		if(m_size >= m_search_at) {
			merge_all(m_domain);
			m_search_at = std::max(min_size_for_search, 2 * m_size);
		}
		if(m_has_empty_leaf) remove_empty_leaves();
		if(m_size > 1 && is_uniform()) become_uniform();
		if(is_flat()) {
			if(m_size <= max_flat_size) return;
			m_leaves.push_back(std::move(m_root));
			m_root = leaf();
			m_leaves[0].find_bounds();
			m_groups.find(m_leaves);
			m_has_large_leaf = true;
		} else if(m_size <= min_tree_size || m_size < m_leaves.size() * min_average_leaf_size) {
			return rebuild();
		}
		if(m_has_large_leaf) split_large_leaves();
	}
	void remove_empty_leaves() {
		m_has_empty_leaf = false;
		if(is_flat()) return;
		std::erase_if(m_leaves, [](const leaf& l) { return l.boxes.empty(); });
		m_groups.find(m_leaves);
	}
	void split_large_leaves() {
		m_has_large_leaf = false;
		for(std::size_t n = 0; n < m_leaves.size(); ++n) {
			while(m_leaves[n].boxes.size() > max_leaf_size) {
				split(n);
				m_groups.note_split(m_leaves, n);
			}
		}
	}
	void become_uniform() {
		V value = std::move(leaves().front().values.front());
		m_leaves.clear();
		m_root.boxes.assign(1, m_domain);
		m_root.values.clear();
		m_root.values.push_back(std::move(value));
		m_size = 1;
	}
	void rebuild() {
		leaf all;
		for(leaf& l : m_leaves) {
			all.boxes.insert(all.boxes.end(), l.boxes.begin(), l.boxes.end());
			all.values.insert(all.values.end(), std::make_move_iterator(l.values.begin()), std::make_move_iterator(l.values.end()));
		}
		m_leaves.clear();
		m_root = std::move(all);
		tidy();
	}
	/// Moves half of the entries of leaf `n` into a new one behind it, along the dimension in which most of them lie one after the other.
	void split(const std::size_t n) {
		leaf old = std::move(m_leaves[n]);
		const std::size_t count = old.boxes.size();
		const std::size_t d = dimension_of_shortest_boxes(old.boxes);
		std::vector<std::uint32_t> order(count);
		std::iota(order.begin(), order.end(), 0U);
		std::sort(order.begin(), order.end(), [&](const std::uint32_t a, const std::uint32_t b) {
			const coordinate center_a = old.boxes[a].min(d) + old.boxes[a].max(d);
			const coordinate center_b = old.boxes[b].min(d) + old.boxes[b].max(d);
			return center_a != center_b ? center_a < center_b : a < b;
		});
		std::array<leaf, 2> halves;
		for(std::size_t i = 0; i < count; ++i) {
			leaf& half = halves[i < count / 2 ? 0 : 1];
			half.boxes.push_back(old.boxes[order[i]]);
			half.values.push_back(std::move(old.values[order[i]]));
		}
		for(leaf& half : halves) half.find_bounds();
		m_leaves[n] = std::move(halves[0]);
		m_leaves.insert(m_leaves.begin() + static_cast<std::ptrdiff_t>(n) + 1, std::move(halves[1]));
	}
};

} // namespace celerity
