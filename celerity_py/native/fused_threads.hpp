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
#include <tuple>
#include <vector>

#include "executor/core/devices/fused_kernel.hpp"

namespace celerity::native {

using extents = std::array<std::uint32_t, 3>;
/// (memory, first stride, dimensions, bytes of an item)
using flat_wide_memory = std::tuple<std::size_t, std::size_t, std::size_t, std::int64_t>;
/// (block, items, wide memories, margins, place of the bounds of vectors)
using flat_threads = std::tuple<extents, extents, std::vector<flat_wide_memory>, std::array<std::int64_t, 2>, std::optional<std::size_t>>;

inline fused_threads to_threads(const flat_threads& flat) {
	const auto& [block, items, wide, margins, wide_bounds] = flat;
	fused_threads threads{block, items, {}, margins, wide_bounds};
	for(const auto& [memory, first_stride, dims, size_bytes] : wide) threads.wide.push_back({memory, first_stride, dims, size_bytes});
	return threads;
}

} // namespace celerity::native
