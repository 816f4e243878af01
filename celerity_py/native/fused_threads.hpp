// SPDX-License-Identifier: MIT
// The threads of a pass of a fused kernel, as Python hands them over.
#pragma once

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "executor/core/devices/fused_kernel.hpp"

namespace celerity::native {

using extents = std::array<std::uint32_t, 3>;
/// (memory, first stride, dimensions, bytes of an item)
using flat_wide_memory = std::tuple<std::size_t, std::size_t, std::size_t, std::int64_t>;
/// (block, items)
using flat_shape = std::tuple<extents, extents>;
/// (shape, wide memories, margins, place of the bounds of vectors, shape of the function without vectors, most blocks)
using flat_threads =
    std::tuple<flat_shape, std::vector<flat_wide_memory>, std::array<std::int64_t, 2>, std::optional<std::size_t>, std::optional<flat_shape>, std::uint32_t>;

inline fused_threads to_threads(const flat_threads& flat) {
	const auto& [tiles, wide, margins, wide_bounds, single, most_blocks] = flat;
	const auto to_shape = [](const flat_shape& shape) { return fused_threads::shape{std::get<0>(shape), std::get<1>(shape)}; };
	fused_threads threads{to_shape(tiles), {}, margins, wide_bounds};
	if(single) threads.single = to_shape(*single);
	threads.most_blocks = most_blocks;
	if(wide_bounds && !single) throw std::invalid_argument("a pass with vectors has a function without them");
	for(const auto& [memory, first_stride, dims, size_bytes] : wide) threads.wide.push_back({memory, first_stride, dims, size_bytes});
	return threads;
}

} // namespace celerity::native
