// SPDX-License-Identifier: MIT
// Ids, boxes and keys as the tuples that Python sees.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "look_up.hpp"
#include "scheduler/core/base/ids.hpp"
#include "scheduler/core/geometry/grid.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"

namespace celerity::native {

/// (min0, min1, min2, max0, max1, max2)
using flat_box = std::tuple<coordinate, coordinate, coordinate, coordinate, coordinate, coordinate>;
/// (memory, raw)
using flat_allocation = std::tuple<std::uint8_t, std::uint64_t>;
/// (consumer task, buffer, reduction)
using flat_transfer = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;
/// (task, phase)
using flat_key = std::tuple<std::uint64_t, std::string>;

inline flat_box flatten(const box& b) { return {b.min(0), b.min(1), b.min(2), b.max(0), b.max(1), b.max(2)}; }
inline box unflatten(const flat_box& f) {
	return {point{{std::get<0>(f), std::get<1>(f), std::get<2>(f)}}, point{{std::get<3>(f), std::get<4>(f), std::get<5>(f)}}};
}
inline std::vector<flat_box> flatten(const std::span<const box> boxes) {
	std::vector<flat_box> flat;
	flat.reserve(boxes.size());
	for(const box& b : boxes) flat.push_back(flatten(b));
	return flat;
}
inline std::vector<box> unflatten(const std::vector<flat_box>& flat) {
	std::vector<box> boxes;
	boxes.reserve(flat.size());
	for(const auto& f : flat) boxes.push_back(unflatten(f));
	return boxes;
}

inline flat_allocation flatten(const allocation_id& id) { return {id.memory.value, id.raw}; }
inline allocation_id unflatten(const flat_allocation& flat) { return {memory_id(std::get<0>(flat)), std::get<1>(flat)}; }

inline flat_transfer flatten(const transfer_id& id) { return {id.consumer.value, id.buffer.value, id.reduction.value}; }
inline transfer_id unflatten(const flat_transfer& flat) {
	return {task_id(std::get<0>(flat)), buffer_id(std::get<1>(flat)), reduction_id(std::get<2>(flat))};
}

inline instruction_key unflatten(const flat_key& flat) {
	return {task_id(std::get<0>(flat)), look_up<instruction_key::phase_type>(std::get<1>(flat), "a key's phase")};
}

} // namespace celerity::native
