// SPDX-License-Identifier: MIT
#include "execution_plan.hpp"

namespace celerity {

void plan_execution(const system_capabilities& capabilities, const rank_memory& memory, const task& node, const execution_command& execution,
    execution_plan& plan) {
	split_among_devices(node, execution.share(), {capabilities.num_ranks, capabilities.local_rank, capabilities.num_devices}, plan.chunks);
	plan.regions.clear();
	for(const auto& access : node.accesses) {
		const auto& buffer = memory.at(access.buffer);
		for(const auto& part : plan.chunks) {
			plan.regions.push_back(access.mapper.map(part.chunk, node.geometry.global, node.geometry.dims, buffer.domain, buffer.info.dims));
		}
	}
}

box_vector boxes_in_memory(const buffer_access& access, const region& where) {
	if(!access.mapper.wraps() || where.is_single_box()) return {where.bounding_box()};
	box_vector boxes = connected_bounding_boxes(where);
	merge_overlapping_bounding_boxes(boxes); // so that each element lies in one
	return boxes;
}
} // namespace celerity
