// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace celerity {

enum class lookahead_mode : std::uint8_t {
	none,      ///< compile each command at once
	automatic, ///< hold commands back while they still want new memory, until two horizons pass without
	infinite,  ///< hold everything back until something must be flushed
};

} // namespace celerity
