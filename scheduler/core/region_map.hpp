// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "grid.hpp"

namespace celerity {

/// Maps every element of `domain` to a value; neighbouring boxes of equal value are merged.
/// V: copyable, ==. Values may own heap memory (small_vector).
template <typename V>
class region_map {
  public:
	region_map(const box& domain, const V& initial) : m_domain(domain) {
		if(!domain.empty()) insert(domain, initial);
	}

	const box& domain() const { return m_domain; }

	/// Calls f(const box& part, const V& value) for each stored entry that intersects `where` (clamped to `where`), in an order that depends only on the
	/// history of updates. f must not touch the map.
	template <typename F>
	void query(const box& where, F&& f) const {
		for(std::size_t i = 0; i < m_boxes.size(); ++i) {
			if(const box part = intersection(m_boxes[i], where); !part.empty()) f(part, m_values[i]);
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
		const V copy = value; // `value` may lie in this map
		cut(target);
		for(std::size_t i = 0; i < m_boxes.size();) {
			if(target.covers(m_boxes[i])) {
				remove(i);
			} else {
				++i;
			}
		}
		insert(target, copy);
		merge();
	}
	void update(const region& where, const V& value) {
		const V copy = value;
		for(const box& b : where) update(b, copy);
	}

	/// Cuts entries at the border of `where` and replaces the value v of each part inside by calling f(V& v); then merges.
	template <typename F>
	void modify(const box& where, F&& f) {
		const box target = intersection(where, m_domain);
		if(target.empty()) return;
		cut(target);
		for(std::size_t i = 0; i < m_boxes.size(); ++i) {
			if(target.covers(m_boxes[i])) f(m_values[i]);
		}
		merge();
	}
	template <typename F>
	void modify(const region& where, F&& f) {
		for(const box& b : where) modify(b, f);
	}

	/// Calls f(V&) for every entry, then merges what became equal. For epochs.
	template <typename F>
	void transform(F&& f) {
		for(V& value : m_values) f(value);
		merge();
	}

	template <typename F>
	void for_each(F&& f) const {
		for(std::size_t i = 0; i < m_boxes.size(); ++i) f(m_boxes[i], m_values[i]);
	}
	std::size_t size() const { return m_boxes.size(); }

  private:
	box m_domain;
	std::vector<box> m_boxes;
	std::vector<V> m_values;

	void insert(const box& b, const V& value) {
		m_boxes.push_back(b);
		m_values.push_back(value);
	}
	void remove(const std::size_t i) {
		m_boxes[i] = m_boxes.back();
		if(i + 1 != m_values.size()) m_values[i] = std::move(m_values.back());
		m_boxes.pop_back();
		m_values.pop_back();
	}
	void cut(const box& target) {
		const std::size_t count = m_boxes.size();
		for(std::size_t i = 0; i < count; ++i) {
			const box inside = intersection(m_boxes[i], target);
			if(inside.empty() || inside == m_boxes[i]) continue;
			box_vector outside;
			append_difference(outside, m_boxes[i], target);
			m_boxes[i] = inside;
			const V value = m_values[i];
			for(const box& b : outside) insert(b, value);
		}
	}
	void merge() {
		bool all_equal = true;
		for(const V& value : m_values) all_equal = all_equal && value == m_values.front();
		if(all_equal && m_boxes.size() > 1) {
			m_values.erase(m_values.begin() + 1, m_values.end());
			m_boxes.assign(1, m_domain);
		}
		for(bool merged = true; std::exchange(merged, false);) {
			for(std::size_t i = 0; i < m_boxes.size(); ++i) {
				for(std::size_t j = i + 1; j < m_boxes.size();) {
					const box both = bounding_box(m_boxes[i], m_boxes[j]);
					if(both.area() != m_boxes[i].area() + m_boxes[j].area() || !(m_values[i] == m_values[j])) {
						++j;
						continue;
					}
					m_boxes[i] = both;
					remove(j);
					merged = true;
				}
			}
		}
	}
};

} // namespace celerity
