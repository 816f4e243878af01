// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>

#include "base/names.hpp"

namespace celerity {

enum class lookahead_mode : std::uint8_t {
	none,      ///< compile each command at once
	automatic, ///< hold commands back while they still want new memory, until two horizons pass without
	infinite,  ///< hold everything back until something must be flushed
};
template <>
inline constexpr std::array<const char*, 3> names_of<lookahead_mode>{"none", "auto", "infinite"};

} // namespace celerity
