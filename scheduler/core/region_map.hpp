// SPDX-License-Identifier: MIT
#pragma once

#include "grid.hpp"

namespace celerity {

// INTERFACE (owner: geometry). Maps every element of `domain` to a value; neighbouring boxes of equal value are merged.
// V: copyable, ==. Values may own heap memory (small_vector).
template <typename V>
class region_map {
  public:
	region_map(const box& domain, const V& initial);

	const box& domain() const;

	/// Calls f(const box& part, const V& value) for each stored entry that intersects `where` (clamped to `where`), in an order that depends only on the
	/// history of updates. f must not touch the map.
	template <typename F>
	void query(const box& where, F&& f) const;
	template <typename F>
	void query(const region& where, F&& f) const;

	/// Sets all elements of `where` (clamped to the domain).
	void update(const box& where, const V& value);
	void update(const region& where, const V& value);

	/// Cuts entries at the border of `where` and replaces the value v of each part inside by calling f(V& v); then merges.
	template <typename F>
	void modify(const box& where, F&& f);
	template <typename F>
	void modify(const region& where, F&& f);

	/// Calls f(V&) for every entry, then merges what became equal. For epochs.
	template <typename F>
	void transform(F&& f);

	template <typename F>
	void for_each(F&& f) const; // f(const box&, const V&)
	std::size_t size() const;   // number of entries
};

} // namespace celerity
