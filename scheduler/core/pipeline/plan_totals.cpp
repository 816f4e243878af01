// SPDX-License-Identifier: MIT
#include "plan_totals.hpp"

#include <algorithm>
#include <variant>

#include "vocabulary/instruction_data.hpp"

namespace celerity {

namespace {

copy_link link_between(const memory_id source, const memory_id destination) {
	if(is_device_memory(source) && is_device_memory(destination)) return source == destination ? copy_link::on_device : copy_link::between_devices;
	if(is_device_memory(source)) return copy_link::device_to_host;
	return is_device_memory(destination) ? copy_link::host_to_device : copy_link::on_host;
}

} // namespace

void plan_totals::count(const instruction& node) {
	++instructions[kind_of(node.operation)];
	std::visit(
	    [this]<typename Operation>(const Operation& operation) {
		    for_each_copy(operation, [this](const allocation_id source, const allocation_id destination, const std::uint64_t bytes) {
			    copied_bytes[link_between(source.memory, destination.memory)] += bytes;
		    });
		    if constexpr(Operation::traits.category == instruction_category::memory) count_memory(operation);
		    if constexpr(Operation::traits.category == instruction_category::transfer) {
			    if constexpr(requires { operation.destination_rank; }) {
				    sent_bytes[operation.destination_rank] += size_bytes_of(operation);
			    } else {
				    received_bytes += size_bytes_of(operation);
			    }
		    }
	    },
	    node.operation);
}

plan_totals::memory_usage& plan_totals::usage_of(const memory_id memory) {
	if(memories.size() <= memory.value) memories.resize(memory.value + std::size_t{1});
	return memories[memory.value];
}

void plan_totals::count_memory(const alloc_instruction& alloc) {
	auto& usage = usage_of(alloc.allocation.memory);
	++usage.allocations;
	usage.current_bytes += alloc.size_bytes;
	usage.peak_bytes = std::max(usage.peak_bytes, usage.current_bytes);
}

void plan_totals::count_memory(const free_instruction& free) {
	if(!free.allocation.is_of_user()) usage_of(free.allocation.memory).current_bytes -= free.size_bytes;
}

} // namespace celerity
