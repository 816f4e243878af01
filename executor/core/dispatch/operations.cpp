// SPDX-License-Identifier: MIT
#include "operations.hpp"

#include "instruction_facts.hpp"

namespace celerity {

namespace {

/// The place of data that begins at an offset in the allocation.
array_place place_at(const allocation_table& allocations, const allocation_id allocation, const std::size_t offset_bytes) {
	auto place = allocations.place(allocation);
	place.address += offset_bytes;
	return place;
}

} // namespace

copy_operation operation_of(const allocation_table& allocations, const copy_instruction& copy) {
	return {place_at(allocations, copy.source, copy.source_offset_bytes), place_at(allocations, copy.destination, copy.destination_offset_bytes), copy.boxes,
	    copy.element_size_bytes, size_bytes_of(copy)};
}

std::vector<copy_operation> operation_of(const allocation_table& allocations, const gather_copy_instruction& gather) {
	const auto destination = allocations.place(gather.destination);
	std::vector<copy_operation> copies;
	for(const auto& source : gather.sources) {
		copies.push_back({allocations.place(source.allocation), destination, source.boxes, gather.element_size_bytes, 0});
		for(const box& b : source.boxes) copies.back().size_bytes += static_cast<std::size_t>(b.area()) * gather.element_size_bytes;
	}
	return copies;
}

reduce_operation operation_of(const allocation_table& allocations, const reduce_instruction& reduce) {
	return {reduce.op, reduce.type, allocations.place(reduce.source).address, reduce.count, reduce.num_elements, allocations.place(reduce.destination).address,
	    nullptr};
}

launch_operation operation_of(const allocation_table& allocations, const device_kernel_instruction& kernel, const native_launch& launch) {
	launch_operation operation;
	operation.launch = &launch;
	operation.instruction = &kernel;
	for(const auto& access : kernel.accesses) {
		if(access.parts.empty()) operation.access_places.push_back(allocations.place(access.allocation));
		for(const auto& part : access.parts) operation.access_places.push_back(allocations.place(part.allocation));
	}
	for(const auto& reduction : kernel.reductions) operation.reduction_places.push_back(allocations.place(reduction.allocation));
	return operation;
}

} // namespace celerity
