// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ids.hpp"
#include "base/small_vector.hpp"

namespace celerity {

/// A set of ranks; up to 128 ranks need no heap memory. Trailing zero words are never stored, so that equal sets compare equal.
class rank_set {
  public:
	bool contains(const rank_id rank) const {
		const std::size_t word = rank.value / 64;
		return word < m_words.size() && (m_words[word] >> (rank.value % 64) & 1U) != 0;
	}
	void add(const rank_id rank) {
		const std::size_t word = rank.value / 64;
		if(word >= m_words.size()) m_words.resize(word + 1);
		m_words[word] |= std::uint64_t{1} << (rank.value % 64);
	}
	/// Adds the ranks 0 to count - 1.
	void add_first(const std::size_t count) {
		for(std::size_t i = 0; i < count; ++i) add(rank_id(static_cast<std::uint32_t>(i)));
	}
	template <typename Walk>
	void walk_state(Walk& walk) const {
		walk.number(m_words.size());
		for(const std::uint64_t word : m_words) walk.number(word);
	}
	friend bool operator==(const rank_set&, const rank_set&) = default;

  private:
	small_vector<std::uint64_t, 2> m_words;
};

} // namespace celerity
