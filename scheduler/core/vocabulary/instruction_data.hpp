// SPDX-License-Identifier: MIT
// The data of an instruction of any kind, found by the names of its fields: the boxes it works on, its bytes, and the copies it makes.
#pragma once

#include <cstdint>
#include <span>

#include "instruction.hpp"

namespace celerity {

/// Calls f(box) for each box that the operation works on.
template <typename Operation, typename F>
void for_each_box(const Operation& operation, F&& f) {
	if constexpr(requires { operation.chunk; }) {
		f(operation.chunk);
	} else if constexpr(requires { operation.sent_box; }) {
		f(operation.sent_box);
	} else if constexpr(requires { operation.boxes; }) {
		for(const box& b : operation.boxes) f(b);
	} else if constexpr(requires { operation.sources.front().boxes; }) {
		for(const auto& source : operation.sources) for_each_box(source, f);
	} else if constexpr(requires { operation.allocated_box; }) {
		f(operation.allocated_box);
	}
}

inline std::uint64_t size_bytes_of(const std::span<const box> boxes, const std::size_t element_size_bytes) {
	std::uint64_t elements = 0;
	for(const box& b : boxes) elements += static_cast<std::uint64_t>(b.area());
	return elements * element_size_bytes;
}

/// 0 for a kind that neither holds nor moves data by itself.
template <typename Operation>
std::uint64_t size_bytes_of(const Operation& operation) {
	if constexpr(requires { operation.size_bytes; }) return operation.size_bytes;
	if constexpr(requires { operation.bytes_per_slot; }) return operation.bytes_per_slot * operation.sources.size();
	std::uint64_t elements = 0;
	if constexpr(requires { operation.element_size_bytes; }) {
		for_each_box(operation, [&](const box& b) { elements += static_cast<std::uint64_t>(b.area()); });
		elements *= operation.element_size_bytes;
	}
	return elements;
}

/// Calls f(source, destination, bytes) for each pair of allocations between which the operation copies data within this rank.
template <typename Operation, typename F>
void for_each_copy(const Operation& operation, F&& f) {
	if constexpr(Operation::traits.category == instruction_category::copy) {
		if constexpr(requires { operation.sources; }) {
			for(const auto& source : operation.sources) {
				f(source.allocation, operation.destination, size_bytes_of(source.boxes, operation.element_size_bytes));
			}
		} else if constexpr(requires { operation.source; }) {
			f(operation.source, operation.destination, size_bytes_of(operation));
		}
	}
}

/// Of a copy.
template <typename Operation>
copy_reason reason_of(const Operation& operation) {
	if constexpr(requires { operation.reason; }) return operation.reason;
	return copy_reason::coherence;
}

} // namespace celerity
