// SPDX-License-Identifier: MIT
// The plan of one rank in numbers, for dry runs.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "base/fields.hpp"
#include "base/names.hpp"
#include "vocabulary/instruction.hpp"

namespace celerity {

/// The way of a copy within a rank. Arrays of the user belong to the host or to the device on which they lie.
enum class copy_link : std::uint8_t { on_host, host_to_device, device_to_host, between_devices, on_device };
template <>
inline constexpr std::array<const char*, 5> names_of<copy_link>{"on_host", "host_to_device", "device_to_host", "between_devices", "on_device"};

struct plan_totals {
	/// Allocations of the runtime, without arrays of the user.
	struct memory_usage {
		std::uint64_t allocations = 0; ///< so far
		std::uint64_t current_bytes = 0;
		std::uint64_t peak_bytes = 0; ///< if each instruction ran before the next one in the plan
		CELERITY_FIELDS(allocations, current_bytes, peak_bytes)
	};

	counts_of<instruction_kind> instructions{};
	counts_of<copy_link> copied_bytes{};
	std::map<rank_id, std::uint64_t> sent_bytes; ///< by destination
	std::uint64_t received_bytes = 0;
	std::vector<memory_usage> memories; ///< by memory_id
	CELERITY_FIELDS(instructions, copied_bytes, sent_bytes, received_bytes, memories)

	/// Instructions come in the order of the plan.
	void count(const instruction& node);

  private:
	memory_usage& usage_of(memory_id memory);
	void count_memory(const alloc_instruction& alloc);
	void count_memory(const free_instruction& free);
};

} // namespace celerity
