// SPDX-License-Identifier: MIT
// Facts about an instruction of any kind, for reports, timelines and graphs of replays. Most are found by the names of its fields.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "events/executor_statistics.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"
#include "scheduler/core/vocabulary/instruction_data.hpp"

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

template <typename Operation>
void count_copies(executor_statistics& counts, const Operation& operation) {
	for_each_copy(operation, [&](const allocation_id&, const allocation_id&, const std::uint64_t bytes) {
		++counts.copies[reason_of(operation)];
		counts.copied_bytes[reason_of(operation)] += bytes;
	});
}

} // namespace celerity
