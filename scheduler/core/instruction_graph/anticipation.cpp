// SPDX-License-Identifier: MIT
#include "anticipation.hpp"

#include <algorithm>
#include <utility>

#include "base/overloaded.hpp"
#include "transfers.hpp"

namespace celerity {

namespace {

/// A growth that pauses for so many horizons is taken to have ended.
constexpr std::uint64_t horizons_until_settled = 2;

} // namespace

void anticipation::forget(const buffer_state& buffer) {
	for(std::size_t m = 0; m < buffer.memories.size(); ++m) m_foreseen_bytes[m] -= buffer.memories[m].foreseen_bytes;
}

void anticipation::validate() const {
	ensure(m_foreseen_bytes == m_memory.foreseen_bytes(), "the memory for expected growth is that of the buffers");
	for(const auto& [id, memory] : m_growing) {
		const auto* const buffer = std::as_const(m_memory).find(id);
		ensure(buffer == nullptr || buffer->memories[memory.value].has_grown, "growing memory has grown since the last horizon");
	}
}

void anticipation::anticipate(const command& cmd, const execution_plan& plan, std::vector<place>& wanted) {
	const auto anticipate_on_host = [&](const transfer_id& transfer, const region& where) {
		auto& buffer = m_memory.at(transfer.buffer);
		anticipate_boxes(buffer, host_memory, contiguous_boxes(where), wanted);
	};
	std::visit(overloaded{
	               [](const epoch_command&) {},
	               [](const horizon_command&) {},
	               [&](const execution_command&) { anticipate_execution(*cmd.node, plan, wanted); },
	               [&](const push_command& push) {
		               for_each_sent_from_host(m_capabilities, push, [&](const region& where) { anticipate_on_host(push.transfer, where); });
	               },
	               [&](const await_push_command& await) {
		               const memory_id fenced = cmd.node->fence_destination.memory;
		               if(is_device_memory(fenced) && m_capabilities.receives_where_read()) {
			               anticipate_boxes(m_memory.at(await.transfer.buffer), fenced, contiguous_boxes(await.awaited), wanted);
			               return;
		               }
		               anticipate_on_host(await.transfer, m_capabilities.receives_where_read() ? find_unread(*cmd.node, await) : await.awaited);
	               },
	               [&](const reduction_command& reduction) { anticipate_on_host(reduction.transfer, m_memory.at(reduction.transfer.buffer).domain); },
	               [&](const fence_command&) {
		               const memory_id destination = cmd.node->fence_destination.memory;
		               const memory_id last = memory_of(device_id(static_cast<std::uint32_t>(m_capabilities.num_devices) - 1));
		               if(m_capabilities.can_copy(last, destination) || cmd.node->accesses.empty() || cmd.node->fence_box.empty()) return;
		               anticipate_box(m_memory.at(cmd.node->accesses.front().buffer), host_memory, cmd.node->fence_box, wanted);
	               },
	           },
	    cmd.operation);
}

void anticipation::anticipate_boxes(buffer_state& buffer, const memory_id memory, const std::span<const box> boxes, std::vector<place>& wanted) {
	auto& state = buffer.memories[memory.value];
	// Looked up one by one if they are few, else in an index; merged accordingly.
	const bool are_many = boxes.size() >= box_index::min_size;
	const box_index anticipated = are_many ? box_index(state.anticipated) : box_index();
	const auto is_anticipated = [&](const box& b) {
		return are_many ? anticipated.covers(b)
		                : std::any_of(state.anticipated.begin(), state.anticipated.end(), [&](const box& other) { return other.covers(b); });
	};
	bool is_new = false;
	for(const box& b : boxes) {
		if(b.empty() || find_allocation(buffer, memory, b) != nullptr || is_anticipated(b)) continue;
		is_new = true;
		if(are_many) {
			state.anticipated.push_back(b);
		} else {
			merge_into(state.anticipated, b);
		}
	}
	if(!is_new) return;
	if(are_many) {
		merge_overlapping_bounding_boxes(state.anticipated);
		merge_connected_boxes(state.anticipated);
	}
	wanted.push_back({buffer.info.id, memory, state.num_allocations_made});
	state.last_growth = m_num_held_horizons;
	if(!std::exchange(state.has_grown, true)) m_growing.emplace_back(buffer.info.id, memory);
}

bool anticipation::may_grow(const place& at) const {
	const auto& buffer = m_memory.at(at.buffer);
	const auto& state = buffer.memories[at.memory.value];
	if(buffer.is_dropped || state.num_allocations_made != at.num_allocations_made) return false;
	if(state.anticipated.size() == 1 && state.anticipated.front().covers(buffer.domain)) return false;
	return m_num_held_horizons < state.last_growth + horizons_until_settled;
}

void anticipation::foresee_growth() {
	++m_num_held_horizons;
	for(const auto& [id, memory] : m_growing) {
		if(auto* const buffer = m_memory.find(id)) foresee_growth(*buffer, memory);
	}
	m_growing.clear();
}

void anticipation::foresee_growth(buffer_state& buffer, const memory_id memory) {
	auto& state = buffer.memories[memory.value];
	state.has_grown = false;
	box wanted;
	coordinate wanted_area = 0;
	const auto add = [&](const box& part) {
		wanted = bounding_box(wanted, part);
		wanted_area += part.area();
	};
	for(const auto& allocation : state.allocations) add(allocation.allocated);
	for(const box& anticipated : state.anticipated) add(anticipated);

	const box foreseen = state.forecast.observe(wanted, m_num_held_horizons, buffer.domain);
	if(foreseen == wanted || wanted_area >= foreseen.area()) return;
	const std::size_t more_bytes = static_cast<std::size_t>(foreseen.area() - wanted_area) * buffer.info.element_size_bytes;
	if(m_foreseen_bytes[memory.value] + more_bytes > m_capabilities.foreseeable_bytes) return;
	state.anticipated = {foreseen};
	state.foreseen_bytes += more_bytes;
	m_foreseen_bytes[memory.value] += more_bytes;
}

/// The data that arrives although no device reads it, because a mapper returns more for the rank's chunk than for its parts together.
region anticipation::find_unread(const task& node, const await_push_command& await) const {
	const buffer_id id = await.transfer.buffer;
	const auto reads = [=](const buffer_access& access) { return access.buffer == id && is_consumer(access.mode); };
	const bool is_exact =
	    std::none_of(node.accesses.begin(), node.accesses.end(), [&](const auto& access) { return reads(access) && !access.mapper.is_additive(); });
	if(is_exact || node.kind == task_kind::fence) return {};
	execution_plan plan;
	plan_execution(m_capabilities, m_memory, node, await.reader, plan);
	box_vector read;
	for(std::size_t a = 0; a < node.accesses.size(); ++a) {
		if(!reads(node.accesses[a])) continue;
		for(std::size_t c = 0; c < plan.chunks.size(); ++c) read.append(plan.accessed(a, c).boxes());
	}
	return region_difference(await.awaited, region(std::move(read)));
}

void anticipation::anticipate_execution(const task& node, const execution_plan& plan, std::vector<place>& wanted) {
	for(std::size_t a = 0; a < node.accesses.size(); ++a) {
		auto& buffer = m_memory.at(node.accesses[a].buffer);
		for(std::size_t c = 0; c < plan.chunks.size(); ++c) {
			anticipate_boxes(buffer, plan.chunks[c].memory, boxes_in_memory(node.accesses[a], plan.accessed(a, c)), wanted);
		}
	}
	for(const auto& reduction : node.reductions) {
		auto& buffer = m_memory.at(reduction.buffer);
		for(const auto& chunk : plan.chunks) anticipate_box(buffer, chunk.memory, buffer.domain, wanted);
		if(plan.chunks.size() > 1 || reduction.include_current)
			anticipate_box(buffer, plan.memory_to_reduce_in(reduction, m_capabilities), buffer.domain, wanted);
	}
}
} // namespace celerity
