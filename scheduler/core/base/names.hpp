// SPDX-License-Identifier: MIT
// The names of enumerators in messages, records, statistics, timelines and Python. One list stands below each enumeration, in the order of its values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace celerity {

template <typename Enum>
inline constexpr std::array<const char*, 0> names_of{};

template <typename Enum>
constexpr const char* name_of(const Enum value) {
	return names_of<Enum>.at(static_cast<std::size_t>(value));
}

template <typename Enum>
constexpr std::optional<Enum> find_named(const std::string_view name) {
	for(std::size_t i = 0; i < names_of<Enum>.size(); ++i) {
		if(name == names_of<Enum>[i]) return static_cast<Enum>(i);
	}
	return std::nullopt;
}

/// A count for each enumerator.
template <typename Enum>
struct counts_of : std::array<std::uint64_t, names_of<Enum>.size()> {
	using counted = Enum;
	constexpr std::uint64_t& operator[](const Enum value) { return this->data()[static_cast<std::size_t>(value)]; }
};

} // namespace celerity
