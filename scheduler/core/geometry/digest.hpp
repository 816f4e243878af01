// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "grid.hpp"

namespace celerity {

/// A 64-bit hash of a sequence of values. Equal sequences have equal digests on all ranks.
/// Each step is the finaliser of splitmix64 (Steele, Lea and Flood, 2014).
class digest {
  public:
	digest() = default;
	explicit digest(const std::uint64_t seed) : m_value(seed) {}

	std::uint64_t value() const { return m_value; }

	void add(const std::uint64_t number) {
		std::uint64_t mixed = (m_value ^ number) + 0x9e3779b97f4a7c15ULL;
		mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9ULL;
		mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebULL;
		m_value = mixed ^ (mixed >> 31U);
	}
	void add(const std::string_view text) {
		add(text.size());
		for(std::size_t i = 0; i < text.size(); i += sizeof(std::uint64_t)) {
			std::uint64_t word = 0;
			std::memcpy(&word, text.data() + i, text.size() - i < sizeof word ? text.size() - i : sizeof word);
			add(word);
		}
	}
	void add(const point& p) {
		for(std::size_t d = 0; d < 3; ++d) add(static_cast<std::uint64_t>(p[d]));
	}
	void add(const box& b) {
		add(b.min());
		add(b.max());
	}
	void add(const region& r) {
		add(r.boxes().size());
		for(const box& b : r) add(b);
	}

  private:
	std::uint64_t m_value = 0;
};

} // namespace celerity
