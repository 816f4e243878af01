// SPDX-License-Identifier: MIT
// How many periods of a template, of a recording or of a plain loop, go to the executor as one batch.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

namespace celerity {

/// The executor may carry out a batch as a whole, and the horizons in it end together. A power of two: otherwise graphs of several sizes carry a batch out.
inline std::size_t periods_per_batch(const std::size_t num_instructions, const std::size_t num_horizons) {
	constexpr std::size_t max_periods = 16;
	constexpr std::size_t max_instructions = 1024;
	constexpr std::size_t max_horizons = 8;
	const std::size_t by_instructions = max_instructions / std::max<std::size_t>(num_instructions, 1);
	const std::size_t by_horizons = max_horizons / std::max<std::size_t>(num_horizons, 1);
	return std::bit_floor(std::max<std::size_t>(std::min({max_periods, by_instructions, by_horizons}), 1));
}

} // namespace celerity
