// SPDX-License-Identifier: MIT
// Division of an index space among ranks and devices.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <span>

#include "grid.hpp"

namespace celerity {

/// By dimension: the price of a cut across it, per item of the cut, in any unit. A dimension with an infinite price is not cut.
using cut_costs = std::array<double, 3>;
inline constexpr double never_cut = std::numeric_limits<double>::infinity();
inline constexpr cut_costs cut_rows{1, never_cut, never_cut};
inline constexpr cut_costs cut_tiles{1, 1, never_cut};
inline constexpr cut_costs cut_blocks{1, 1, 1};

/// Cuts `space` into a grid of at most `count` chunks, in row-major order, none of them empty. Their extents are multiples of the granularity; the last chunk of
/// a dimension also takes the remainder. Larger chunks come first. Of the grids with the most chunks, it takes the one with the cheapest cuts. If others are
/// less than 5 % cheaper, it takes the one with more cuts across the first dimensions.
box_vector split(const box& space, const point& granularity, const cut_costs& costs, std::size_t count);

/// How many chunks `split` can make by cuts across dimension 0.
inline coordinate max_rows(const box& space, const point& granularity) { return std::max<coordinate>(1, space.extent(0) / granularity[0]); }

/// Cuts dimension 0 into one chunk per weight, with extents proportional to the weights and as in `split`. A chunk with weight 0 is empty. Every other chunk
/// has items if there are enough; otherwise the first ones do. At least one weight must be positive.
box_vector split_by_weights(const box& space, const point& granularity, std::span<const double> weights);

/// Cuts dimension 0 into blocks of `extent` items, ascending. They are counted from coordinate 0, so that a block has the same number in each index space. The
/// extent is rounded up to a multiple of the granularity, and so that there are at most 65536 blocks and a part of one more. The first and the last block may
/// be shorter. If the space begins at no multiple of the granularity, the cuts are shifted with it.
box_vector split_into_blocks(const box& space, const point& granularity, coordinate extent);
/// The number of the first of these blocks. Block n begins at n times the extent of a block.
coordinate first_block_number(const box& space, const point& granularity, coordinate extent);

} // namespace celerity
