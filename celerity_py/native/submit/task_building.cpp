// SPDX-License-Identifier: MIT
#include "submit/task_building.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "look_up.hpp"

namespace nb = nanobind;

namespace celerity::native {

namespace {

task_geometry make_geometry(const user_box& space, const nb::handle granularity, const division& how) {
	task_geometry geometry;
	geometry.dims = space.dims;
	geometry.global = space.b;
	if(!granularity.is_none()) {
		int count = 0;
		geometry.granularity = to_point(granularity, 1, count, "constrain");
	}
	const auto& [split, oversubscription, border, block, weights, recompute] = how;
	geometry.split = static_cast<split_kind>(split);
	geometry.oversubscription = oversubscription;
	geometry.border = border;
	geometry.block = block;
	geometry.recompute = recompute;
	if(!weights.is_none()) geometry.weights = nb::cast<std::vector<double>>(weights);
	if(geometry.global.empty()) throw nb::value_error("the range of a kernel must not be empty");
	for(std::size_t d = 0; d < 3; ++d) {
		if(geometry.granularity[d] < 1) throw nb::value_error("constrain takes positive integers");
	}
	return geometry;
}

} // namespace

division no_hints() { return {0, 1, 0, 0, nb::none(), 0}; }

task make_kernel(const user_box& space, const nb::handle granularity, const division& how, const nb::handle reductions, const origin& from) {
	task result;
	result.kind = task_kind::device_kernel;
	result.geometry = make_geometry(space, granularity, how);
	for(const nb::handle item : reductions) {
		const auto entry = nb::cast<nb::tuple>(item);
		task_reduction reduction;
		reduction.buffer = buffer_id(nb::cast<std::uint64_t>(entry[0]));
		reduction.op = look_up<reduction_op>(nb::cast<std::string>(entry[1]), "a reduction's op");
		reduction.type = look_up<scalar_type>(nb::cast<std::string>(entry[2]), "a reduction's dtype");
		reduction.include_current = nb::cast<bool>(entry[3]);
		if(reduction.op == reduction_op::callable) {
			reduction.callable = nb::cast<std::uint64_t>(entry[4]);
			reduction.callable_name = nb::cast<std::string>(entry[5]);
			reduction.callable_digest = nb::cast<std::uint64_t>(entry[6]);
		}
		result.reductions.push_back(reduction);
	}
	std::tie(result.code_digest, result.values_digest) = from;
	return result;
}

task make_host_task(const user_box& space, const std::string& on, const bool unordered, const nb::handle granularity, const std::vector<std::uint64_t>& objects,
    const origin& from, const std::string& group) {
	task result;
	result.kind = task_kind::host_task;
	result.group = group;
	result.distribution = look_up<host_distribution>(on, "on");
	if(result.distribution == host_distribution::split) {
		result.geometry = make_geometry(space, granularity, no_hints());
	} else {
		result.geometry.can_split = false;
		if(!unordered) result.side_effects.push_back(outside_world);
	}
	for(const std::uint64_t object : objects) result.side_effects.emplace_back(object);
	std::tie(result.code_digest, result.values_digest) = from;
	return result;
}

task make_fence(const std::uint64_t buffer, const user_box& where, const std::uint64_t user_allocation, const bool on_all, const bool to_device) {
	task result;
	result.kind = task_kind::fence;
	result.geometry.dims = where.dims;
	result.geometry.can_split = false;
	result.name = "fence";
	result.accesses.push_back(buffer_access{buffer_id(buffer), access_mode::read, range_mapper::all()});
	result.fence_box = where.b;
	result.fence_destination = allocation_id::of_user(to_device ? memory_of(device_id(0)) : user_memory, user_allocation);
	result.fence_on_all_ranks = on_all;
	return result;
}

task make_object_fence(const std::uint64_t object, const bool on_all) {
	task result;
	result.kind = task_kind::fence;
	result.geometry.can_split = false;
	result.name = "fence";
	result.side_effects.emplace_back(object);
	result.fence_on_all_ranks = on_all;
	return result;
}

task make_epoch(const std::string& action) {
	task result;
	result.kind = task_kind::epoch;
	result.action = look_up<epoch_action>(action, "the action of an epoch");
	result.name = result.action == epoch_action::none ? "wait" : action;
	return result;
}

std::vector<user_box> with_dims(const std::vector<box>& boxes, const int dims) {
	std::vector<user_box> result;
	result.reserve(boxes.size());
	for(const box& b : boxes) result.push_back(user_box{b, dims});
	return result;
}

} // namespace celerity::native
