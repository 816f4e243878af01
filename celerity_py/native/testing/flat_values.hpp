// SPDX-License-Identifier: MIT
// Structs of the cores from the values that stand for them in Python.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "instruction_conversion.hpp"

namespace celerity::native {

/// (task, phase)
using flat_key = std::tuple<std::uint64_t, std::string>;

inline std::vector<box> unflatten(const std::vector<flat_box>& flat) {
	std::vector<box> boxes;
	boxes.reserve(flat.size());
	for(const auto& f : flat) boxes.push_back(unflatten(f));
	return boxes;
}
inline allocation_id unflatten(const flat_allocation& flat) { return {memory_id(std::get<0>(flat)), std::get<1>(flat)}; }
inline transfer_id unflatten(const flat_transfer& flat) { return {task_id(std::get<0>(flat)), buffer_id(std::get<1>(flat)), reduction_id(std::get<2>(flat))}; }
inline instruction_key unflatten(const flat_key& flat) {
	return {task_id(std::get<0>(flat)), look_up<instruction_key::phase_type>(std::get<1>(flat), "a key's phase")};
}

} // namespace celerity::native
