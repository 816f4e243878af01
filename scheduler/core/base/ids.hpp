// SPDX-License-Identifier: MIT
// Distinct id types, so that a task id can never be passed where a rank id is meant.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace celerity {

template <typename Tag, typename Rep>
struct strong_id {
	using rep = Rep;
	Rep value = 0;

	constexpr strong_id() = default;
	constexpr explicit strong_id(Rep v) : value(v) {}
	friend constexpr auto operator<=>(const strong_id&, const strong_id&) = default;
};

using rank_id = strong_id<struct rank_id_tag, std::uint32_t>;
using device_id = strong_id<struct device_id_tag, std::uint32_t>;
using memory_id = strong_id<struct memory_id_tag, std::uint8_t>;
using buffer_id = strong_id<struct buffer_id_tag, std::uint64_t>;
using task_id = strong_id<struct task_id_tag, std::uint64_t>;
using command_id = strong_id<struct command_id_tag, std::uint64_t>;
using instruction_id = strong_id<struct instruction_id_tag, std::uint64_t>;
using message_id = strong_id<struct message_id_tag, std::uint64_t>;
/// 0 means "no reduction" wherever a reduction is optional.
using reduction_id = strong_id<struct reduction_id_tag, std::uint64_t>;
/// An object of the program that host tasks use. 0 is the world outside: files, terminals, and all else that a host task reaches.
using host_object_id = strong_id<struct host_object_id_tag, std::uint64_t>;
inline constexpr host_object_id outside_world{0};
/// The application's handle on a submitted task: key of the Python-side table of callables, arguments and futures.
/// Counts every submission (kernel, host task, fence, epoch) in program order, starting at 1; 0 is "none".
using submission_id = strong_id<struct submission_id_tag, std::uint64_t>;

/// Memory 0 holds user-owned arrays, 1 is host memory owned by the runtime, 2 + d is the memory of local device d.
inline constexpr memory_id user_memory{0};
inline constexpr memory_id host_memory{1};
inline constexpr std::uint8_t first_device_memory_value = 2;
inline constexpr std::size_t max_memories = 64;

constexpr memory_id memory_of(const device_id device) { return memory_id(static_cast<std::uint8_t>(first_device_memory_value + device.value)); }
constexpr bool is_device_memory(const memory_id memory) { return memory.value >= first_device_memory_value; }
constexpr device_id device_of(const memory_id memory) { return device_id(memory.value - std::uint32_t{first_device_memory_value}); }
/// A set of memories is the bits of its members.
constexpr std::uint64_t bit_of(const memory_id memory) { return std::uint64_t{1} << memory.value; }

/// One allocation in one memory of this rank. `raw` counts from 1 per memory; raw 0 is the null allocation (empty access).
struct allocation_id {
	/// Arrays of the user have numbers from 1. Where they lie in a memory of the runtime, this is added, so that no allocation there has the same id.
	static constexpr std::uint64_t first_user_raw = std::uint64_t{1} << 48;

	memory_id memory;
	std::uint64_t raw = 0;

	/// An array of the user in user memory, or in the memory of a device.
	static constexpr allocation_id of_user(const memory_id memory, const std::uint64_t number) {
		return {memory, memory == user_memory || number == 0 ? number : first_user_raw + number};
	}
	constexpr bool is_null() const { return raw == 0; }
	constexpr bool is_of_user() const { return memory == user_memory || raw >= first_user_raw; }
	/// Of an array of the user.
	constexpr std::uint64_t user_number() const { return raw % first_user_raw; }
	friend constexpr auto operator<=>(const allocation_id&, const allocation_id&) = default;
};

/// Names the data that one consumer task needs of one buffer. Both sides of a transfer derive it without talking to each other.
struct transfer_id {
	task_id consumer;
	buffer_id buffer;
	reduction_id reduction; ///< 0 unless the transfer carries reduction partials

	friend constexpr auto operator<=>(const transfer_id&, const transfer_id&) = default;
};

} // namespace celerity

template <typename Tag, typename Rep>
struct std::hash<celerity::strong_id<Tag, Rep>> {
	std::size_t operator()(const celerity::strong_id<Tag, Rep> id) const noexcept { return std::hash<Rep>{}(id.value); }
};

template <>
struct std::hash<celerity::allocation_id> {
	std::size_t operator()(const celerity::allocation_id& id) const noexcept {
		return std::hash<std::uint64_t>{}((std::uint64_t{id.memory.value} << 56) ^ id.raw);
	}
};

template <>
struct std::hash<celerity::transfer_id> {
	std::size_t operator()(const celerity::transfer_id& id) const noexcept {
		std::uint64_t h = id.consumer.value * 0x9e3779b97f4a7c15ULL;
		h ^= id.buffer.value + 0x9e3779b97f4a7c15ULL + (h << 6) + (h >> 2);
		h ^= id.reduction.value + 0x9e3779b97f4a7c15ULL + (h << 6) + (h >> 2);
		return static_cast<std::size_t>(h);
	}
};
