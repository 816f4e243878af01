// SPDX-License-Identifier: MIT
// Facts about an instruction of any kind, for reports, timelines and graphs of replays. Most are found by the names of its fields.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "events/executor_statistics.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"

namespace celerity {

struct instruction_facts {
	submission_id submission; ///< 0 if it belongs to none
	buffer_id buffer;         ///< 0 if it concerns none
	std::uint64_t size_bytes = 0;
	std::optional<box> where; ///< the bounding box
	std::optional<transfer_id> transfer;
	std::optional<rank_id> peer;
	std::optional<copy_reason> reason;
};

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

template <typename Operation>
instruction_facts facts_of(const Operation& operation) {
	instruction_facts facts;
	facts.size_bytes = size_bytes_of(operation);
	for_each_box(operation, [&](const box& b) { facts.where = bounding_box(facts.where.value_or(box()), b); });
	if constexpr(requires { operation.submission; }) facts.submission = operation.submission;
	if constexpr(requires { operation.buffer; }) facts.buffer = operation.buffer;
	if constexpr(requires { operation.transfer; }) {
		facts.transfer = operation.transfer;
		facts.buffer = operation.transfer.buffer;
	}
	if constexpr(requires { operation.destination_rank; }) facts.peer = operation.destination_rank;
	if constexpr(requires { operation.reason; }) facts.reason = operation.reason;
	return facts;
}
inline instruction_facts facts_of(const instruction& item) {
	return std::visit([](const auto& operation) { return facts_of(operation); }, item.operation);
}

/// With another rank.
inline bool is_transfer(const instruction& item) {
	return std::holds_alternative<send_instruction>(item.operation) || std::holds_alternative<receive_instruction>(item.operation);
}

inline void count_copies(executor_statistics& counts, const copy_instruction& copy) {
	++counts.copies[copy.reason];
	counts.copied_bytes[copy.reason] += size_bytes_of(copy);
}
inline void count_copies(executor_statistics& counts, const gather_copy_instruction& gather) {
	counts.copies[copy_reason::coherence] += gather.sources.size();
	counts.copied_bytes[copy_reason::coherence] += size_bytes_of(gather);
}

} // namespace celerity
