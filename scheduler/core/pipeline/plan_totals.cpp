// SPDX-License-Identifier: MIT
#include "plan_totals.hpp"

#include <algorithm>
#include <span>
#include <variant>

namespace celerity {

namespace {

std::uint64_t size_bytes_of(const std::span<const box> boxes, const std::size_t element_size_bytes) {
	std::uint64_t elements = 0;
	for(const box& b : boxes) elements += static_cast<std::uint64_t>(b.area());
	return elements * element_size_bytes;
}

copy_link link_between(const memory_id source, const memory_id destination) {
	if(is_device_memory(source) && is_device_memory(destination)) return source == destination ? copy_link::on_device : copy_link::between_devices;
	if(is_device_memory(source)) return copy_link::device_to_host;
	return is_device_memory(destination) ? copy_link::host_to_device : copy_link::on_host;
}

} // namespace

void plan_totals::count(const instruction& node) {
	++instructions[kind_of(node.operation)];
	std::visit([this](const auto& operation) { count_operation(operation); }, node.operation);
}

plan_totals::memory_usage& plan_totals::usage_of(const memory_id memory) {
	if(memories.size() <= memory.value) memories.resize(memory.value + std::size_t{1});
	return memories[memory.value];
}

void plan_totals::count_operation(const alloc_instruction& alloc) {
	auto& usage = usage_of(alloc.allocation.memory);
	++usage.allocations;
	usage.current_bytes += alloc.size_bytes;
	usage.peak_bytes = std::max(usage.peak_bytes, usage.current_bytes);
}

void plan_totals::count_operation(const free_instruction& free) {
	if(!free.allocation.is_of_user()) usage_of(free.allocation.memory).current_bytes -= free.size_bytes;
}

void plan_totals::count_operation(const copy_instruction& copy) {
	copied_bytes[link_between(copy.source.memory, copy.destination.memory)] += size_bytes_of(copy.boxes, copy.element_size_bytes);
}

void plan_totals::count_operation(const gather_copy_instruction& gather) {
	for(const auto& source : gather.sources) {
		copied_bytes[link_between(source.allocation.memory, gather.destination.memory)] += size_bytes_of(source.boxes, gather.element_size_bytes);
	}
}

void plan_totals::count_operation(const send_instruction& send) {
	sent_bytes[send.destination_rank] += size_bytes_of({&send.sent_box, 1}, send.element_size_bytes);
}

void plan_totals::count_operation(const receive_instruction& receive) { received_bytes += size_bytes_of(receive.boxes, receive.element_size_bytes); }

void plan_totals::count_operation(const split_receive_instruction& receive) { received_bytes += size_bytes_of(receive.boxes, receive.element_size_bytes); }

void plan_totals::count_operation(const receive_partials_instruction& receive) { received_bytes += receive.bytes_per_slot * receive.sources.size(); }

} // namespace celerity
