// SPDX-License-Identifier: MIT
#include "executor_trace.hpp"

#include "events/labels.hpp"
#include "instruction_facts.hpp"

namespace celerity {

namespace {

/// The bytes that a task reads and writes. 0 if one of its accesses is to an array of the user, whose elements have no size here.
std::uint64_t touched_bytes(const std::span<const access_binding> accesses, const allocation_table& allocations) {
	std::uint64_t bytes = 0;
	for(const auto& access : accesses) {
		if(access.allocation.is_null()) continue;
		const auto found = allocations.entries().find(access.allocation);
		if(found == allocations.entries().end() || found->second.allocated_box.empty()) return 0;
		std::uint64_t elements = 0;
		for(const box& b : access.accessed) elements += static_cast<std::uint64_t>(b.area());
		const auto element_size_bytes = found->second.size_bytes / static_cast<std::uint64_t>(found->second.allocated_box.area());
		bytes += elements * element_size_bytes * (access.mode == access_mode::read_write ? 2 : 1);
	}
	return bytes;
}

} // namespace

void trace_handover(trace_recorder& trace, const instruction& item, const std::int64_t now) {
	traced_handover received{item.id, {}};
	auto& known = received.dependencies;
	for(const auto id : item.dependencies) {
		if(known.count == known.ids.size()) {
			trace.record({now, now, received});
			known.count = 0;
		}
		known.ids[known.count++] = id;
	}
	trace.record({now, now, received});
}

void trace_issue(trace_recorder& trace, const issue& item, const allocation_table& allocations, const std::int64_t start_ns) {
	const auto facts = facts_of(*item.payload);
	traced_issue issued;
	issued.instruction = item.id;
	issued.operation = kind_of(item.payload->operation);
	issued.reason = facts.reason;
	issued.submission = facts.submission;
	issued.buffer = facts.buffer;
	issued.size_bytes = facts.size_bytes;
	issued.peer = facts.peer;
	issued.position = item.sequence;
	issued.priority = queue_priority_of(item.payload->priority);
	if(item.lane != no_lane) issued.lane = item.lane;
	std::visit(
	    [&](const auto& operation) {
		    std::size_t num_copies = 0;
		    for_each_copy(operation, [&](const allocation_id source, const allocation_id destination, std::uint64_t) {
			    issued.source = ++num_copies == 1 ? std::optional(source.memory) : std::nullopt;
			    issued.destination = destination.memory;
		    });
		    if constexpr(requires { operation.allocation; }) {
			    if(!operation.allocation.is_of_user()) issued.allocation = operation.allocation;
		    }
		    if constexpr(requires { operation.accesses; }) issued.size_bytes = touched_bytes(operation.accesses, allocations);
	    },
	    item.payload->operation);
	trace.record({start_ns, now_ns(), issued});
}

std::string name_for_profiler(const instruction& item, const profiler_ranges& ranges) {
	const auto facts = facts_of(item);
	std::string text = label(item.key.task);
	text += ' ';
	text += name_of(kind_of(item.operation));
	if(facts.buffer != buffer_id{}) text += ' ' + label(facts.buffer);
	if(facts.reason.has_value()) text += std::string(" ") + name_of(*facts.reason);
	if(const auto name = ranges.name_of(facts.submission); !name.empty()) text += " \"" + name + '"';
	return text;
}

} // namespace celerity
