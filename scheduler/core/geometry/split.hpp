// SPDX-License-Identifier: MIT
// Division of an index space among ranks and devices.
#pragma once

#include <cstddef>

#include "grid.hpp"

namespace celerity {

/// Cuts `space` in dimension 0 into at most `count` chunks whose extents are multiples of `granularity[0]`, except that the last one takes the
/// remainder if the extent itself is no multiple. Larger chunks come first; never returns an empty chunk.
box_vector split_1d(const box& space, const point& granularity, std::size_t count);

/// Cuts in dimensions 0 and 1 into at most `count` chunks that are as square as the factors of `count` allow.
box_vector split_2d(const box& space, const point& granularity, std::size_t count);

} // namespace celerity
