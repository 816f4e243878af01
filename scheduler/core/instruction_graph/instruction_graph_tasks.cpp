// SPDX-License-Identifier: MIT
// Kernels, host tasks, reductions and fences.
#include "instruction_graph.hpp"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

#include "instruction_priorities.hpp"

namespace celerity {

namespace {

/// Of the memory in which partial results meet, if more chunks than devices have some: enough that few instructions reduce them.
constexpr std::size_t most_slots = 8;

} // namespace

void instruction_graph_generator::satisfy(const command_phase& now, buffer_state& buffer, const buffer_requirements& requirements) {
	const auto receiving = now.in(instruction_key::phase_type::receive); // a receive may wait for a resize, which therefore has this phase, too
	for(const auto& read : requirements.reads) m_memory.materialize_initial_contents(receiving, buffer, read.where);
	m_memory.require_contiguous(receiving, buffer, requirements);
	if(!buffer.receives.empty()) m_transfers.commit_receives(receiving, buffer, requirements.reads);
	m_copies.make_coherent(now, buffer, requirements.reads);
}

void instruction_graph_generator::compile_execution(const command_phase& now, const task& node, const execution_command& execution,
    const execution_plan& plan) {
	const auto satisfy_once = [&](const std::size_t index, const buffer_id id) {
		for(std::size_t i = 0; i < index; ++i) {
			const buffer_id earlier = i < node.accesses.size() ? node.accesses[i].buffer : node.reductions[i - node.accesses.size()].buffer;
			if(earlier == id) return;
		}
		auto& buffer = m_memory.use(id);
		satisfy(now, buffer, collect_requirements(node, buffer, execution, plan));
	};
	for(std::size_t a = 0; a < node.accesses.size(); ++a) satisfy_once(a, node.accesses[a].buffer);
	for(std::size_t r = 0; r < node.reductions.size(); ++r) satisfy_once(node.accesses.size() + r, node.reductions[r].buffer);

	auto reductions = prepare_local_reductions(now, node, execution, plan);
	small_vector<instruction_id, 16> kernels;
	for(std::size_t c = 0; c < plan.chunks.size(); ++c) {
		kernels.push_back(emit_chunk(now, node, plan, c));
		for(auto& local : reductions) collect_partial(now, local, plan.chunks[c].memory);
	}
	if(node.geometry.is_replicated()) share_results(node, execution, plan, {kernels.data(), kernels.size()});
	for(auto& local : reductions) {
		auto& buffer = m_memory.at(local.reduction->buffer);
		if(local.num_partials > 1) emit_reduce(now, buffer, *local.reduction, *local.gather, local.num_collected, !execution.is_partial);
	}
}

const buffer_requirements& instruction_graph_generator::collect_requirements(const task& node, buffer_state& buffer, const execution_command& execution,
    const execution_plan& plan) {
	m_requirements.contiguous.clear();
	m_requirements.reads.clear();
	m_requirements.discarded = region();
	bool is_growing = false;
	const auto require = [&](const memory_id memory, const box& wanted) {
		m_requirements.contiguous.emplace_back(memory, wanted);
		is_growing |= find_allocation(buffer, memory, wanted) == nullptr;
	};
	for(std::size_t c = 0; c < plan.chunks.size(); ++c) {
		region read; // by all accesses of the chunk: it waits for all of them anyway
		for(std::size_t a = 0; a < node.accesses.size(); ++a) {
			if(node.accesses[a].buffer != buffer.info.id) continue;
			const region& where = plan.accessed(a, c);
			if(where.empty()) continue;
			for(const box& wanted : boxes_in_memory(node.accesses[a], where)) require(plan.chunks[c].memory, wanted);
			if(is_consumer(node.accesses[a].mode)) add_to(read, where);
		}
		if(!read.empty()) m_requirements.reads.push_back({plan.chunks[c].memory, std::move(read)});
	}
	for(const auto& reduction : node.reductions) {
		if(reduction.buffer != buffer.info.id) continue;
		const bool includes_current = reduction.include_current && execution.initializes_reductions;
		for(const auto& chunk : plan.chunks) require(chunk.memory, buffer.domain);
		const memory_id memory = plan.memory_to_reduce_in(reduction, m_capabilities);
		if(plan.chunks.size() > 1 || includes_current) require(memory, buffer.domain);
		if(includes_current) m_requirements.reads.push_back({memory, region(buffer.domain)});
	}
	if(!is_growing) return m_requirements;
	region produced;
	region consumed;
	for(std::size_t a = 0; a < node.accesses.size(); ++a) {
		if(node.accesses[a].buffer != buffer.info.id) continue;
		for(std::size_t c = 0; c < plan.chunks.size(); ++c) {
			const region& where = plan.accessed(a, c);
			add_to(is_consumer(node.accesses[a].mode) ? consumed : produced, where);
		}
	}
	m_requirements.discarded = region_difference(produced, consumed);
	return m_requirements;
}

access_binding instruction_graph_generator::bind(instruction_builder& execution, const buffer_access& access, const memory_id memory, const region& where) {
	auto& buffer = m_memory.at(access.buffer);
	access_binding binding{access.buffer, access.mode, allocation_id{memory, 0}, box(), {}, buffer.domain};
	if(where.empty()) return binding;
	binding.bounding_box = where.bounding_box();
	binding.accessed = m_history.nodes().copy(where.boxes());
	if(auto* const allocation = find_allocation(buffer, memory, binding.bounding_box)) {
		binding.allocation = allocation->id;
		execution.access(buffer, *allocation, where, access.mode);
		return binding;
	}
	std::vector<access_part> parts;
	for(const box& b : boxes_in_memory(access, where)) {
		auto* const allocation = find_allocation(buffer, memory, b);
		assert(allocation != nullptr);
		parts.push_back(access_part{allocation->id, b});
		m_bound_parts.push_back(region_intersection(where, b));
		execution.access(buffer, *allocation, m_bound_parts.back(), access.mode);
	}
	binding.parts = m_history.nodes().copy(parts);
	return binding;
}

instruction_id instruction_graph_generator::emit_chunk(const command_phase& now, const task& node, const execution_plan& plan, const std::size_t chunk_index) {
	const auto& [chunk, memory, is_border] = plan.chunks[chunk_index];
	m_access_bindings.clear();
	m_reduction_bindings.clear();
	m_bound_parts.clear();
	instruction_builder execution(m_history, now);
	execution.follow_side_effects(node);
	for(std::size_t a = 0; a < node.accesses.size(); ++a) {
		m_access_bindings.push_back(bind(execution, node.accesses[a], memory, plan.accessed(a, chunk_index)));
	}
	for(const auto& reduction : node.reductions) {
		auto& buffer = m_memory.at(reduction.buffer);
		auto* const allocation = find_allocation(buffer, memory, buffer.domain);
		assert(allocation != nullptr);
		m_reduction_bindings.push_back(reduction_binding{reduction.id, reduction.buffer, allocation->id, reduction.op, reduction.type});
		execution.produce(buffer, *allocation, buffer.whole);
	}
	const auto accesses = m_history.nodes().copy(m_access_bindings);
	if(node.kind == task_kind::device_kernel) {
		const auto reductions = m_history.nodes().copy(m_reduction_bindings);
		return execution.emit(device_kernel_instruction{device_of(memory), node.submission, chunk, accesses, reductions, is_border}, priorities::kernel);
	}
	return execution.emit(host_task_instruction{node.submission, chunk, accesses}, priorities::kernel);
}

void instruction_graph_generator::share_results(const task& node, const execution_command& execution, const execution_plan& plan,
    const std::span<const instruction_id> kernels) {
	const box_vector shares =
	    shares_of_devices(node.geometry, execution.chunk, {m_capabilities.num_ranks, m_capabilities.local_rank, m_capabilities.num_devices});
	for(std::size_t a = 0; a < node.accesses.size(); ++a) {
		const auto& access = node.accesses[a];
		if(!is_producer(access.mode)) continue;
		auto& buffer = m_memory.at(access.buffer);
		for(std::size_t c = 0; c < plan.chunks.size(); ++c) {
			const auto& part = plan.chunks[c];
			const box own_items = intersection(part.chunk, shares[device_of(part.memory).value]);
			const region own = access.mapper.map(own_items, node.geometry.global, node.geometry.dims, buffer.domain, buffer.info.dims);
			buffer.contents.modify(own, [&](content_state& state) {
				state.origin = kernels[c];
				state.origin_memory = part.memory;
			});
		}
		for(std::size_t c = 0; c < plan.chunks.size(); ++c) {
			buffer.contents.modify(plan.accessed(a, c), [&](content_state& state) { state.up_to_date |= bit_of(plan.chunks[c].memory); });
		}
	}
}

std::vector<instruction_graph_generator::local_reduction> instruction_graph_generator::prepare_local_reductions(const command_phase& now, const task& node,
    const execution_command& execution, const execution_plan& plan) {
	std::vector<local_reduction> locals;
	for(const auto& reduction : node.reductions) {
		const bool includes_current = reduction.include_current && execution.initializes_reductions;
		local_reduction local{&reduction, plan.memory_to_reduce_in(reduction, m_capabilities), plan.chunks.size() + (includes_current ? 1 : 0)};
		if(includes_current) collect_partial(now, local, local.memory); // before the kernel of this rank overwrites it
		locals.push_back(std::move(local));
	}
	return locals;
}

void instruction_graph_generator::collect_partial(const command_phase& now, local_reduction& local, const memory_id source) {
	if(local.num_partials < 2) return;
	auto& buffer = m_memory.at(local.reduction->buffer);
	// Not before it is filled: until then, another reduction of the task could get the same space.
	const std::size_t num_slots = std::min(local.num_partials, std::max(most_slots, m_capabilities.num_devices + 1));
	if(local.gather == nullptr) local.gather = &acquire_gather_space(now, buffer, local.memory, num_slots);
	if(local.num_collected == num_slots) { emit_reduce(now, buffer, *local.reduction, *local.gather, std::exchange(local.num_collected, 1), false, true); }
	copy_partial(now, buffer, source, *local.gather, local.num_collected++);
}

void instruction_graph_generator::copy_partial(const command_phase& now, buffer_state& buffer, const memory_id source, staging_allocation& gather,
    const std::size_t slot) {
	auto* const partial = find_allocation(buffer, source, buffer.domain);
	assert(partial != nullptr);
	instruction_builder copy(m_history, now);
	copy.fill(gather);
	copy.read(*partial, buffer.whole);
	emit_copy(copy, buffer, {partial->id}, {gather.id, slot * bytes_of_partial(buffer)}, m_history.nodes().copy(buffer.whole.boxes()), copy_reason::reduction);
}

void instruction_graph_generator::emit_reduce(const command_phase& now, buffer_state& buffer, const task_reduction& reduction, staging_allocation& gather,
    const std::size_t count, const bool is_complete, const bool goes_on) {
	auto* const result = find_allocation(buffer, gather.id.memory, buffer.domain);
	assert(result != nullptr);
	instruction_builder reduce(m_history, now);
	for(const instruction_id input : gather.uses) reduce.follow(input);
	reduce.drain(gather, gather.uses.back());
	if(!goes_on) reduce.produce(buffer, *result, buffer.whole);
	const bool is_all_of_it = is_complete && !reduction.include_current;
	const auto num_elements = static_cast<std::size_t>(buffer.domain.area());
	const auto destination = goes_on ? gather.id : result->id;
	const instruction_id self = reduce.emit(reduce_instruction{reduction.id, buffer.info.id, reduction.op, reduction.type, gather.id, count, num_elements,
	                                            destination, is_all_of_it, reduction.callable},
	    is_device_memory(gather.id.memory) ? priorities::kernel : priorities::reduce);
	if(!goes_on) return;
	gather.ready = self;
	gather.uses.clear();
}

void instruction_graph_generator::compile_reduction(const command_phase& now, const reduction_command& reduction) {
	auto& buffer = m_memory.use(reduction.transfer.buffer);
	const auto receiving = now.in(instruction_key::phase_type::receive);
	m_memory.require_on_host(receiving, buffer, buffer.whole);

	const auto& contributors = reduction.contributors;
	auto& gather = acquire_gather_space(receiving, buffer, host_memory, contributors.size());
	std::vector<rank_id> sources;
	std::vector<std::uint32_t> slots;
	std::optional<std::size_t> own_slot;
	for(std::size_t slot = 0; slot < contributors.size(); ++slot) {
		if(contributors[slot] == m_capabilities.local_rank) {
			own_slot = slot;
		} else {
			sources.push_back(contributors[slot]);
			slots.push_back(static_cast<std::uint32_t>(slot));
		}
	}
	instruction_builder receive(m_history, receiving);
	receive.fill(gather);
	receive.emit(
	    receive_partials_instruction{reduction.transfer, gather.id, bytes_of_partial(buffer), m_history.nodes().copy(sources), m_history.nodes().copy(slots)},
	    priorities::transfer);
	if(own_slot.has_value()) {
		content_state state;
		buffer.contents.query(buffer.domain, [&](const box&, const content_state& content) { state = content; });
		const bool is_on_host = (state.up_to_date & bit_of(host_memory)) != 0;
		copy_partial(now, buffer, is_on_host ? host_memory : state.origin_memory, gather, *own_slot);
	}
	emit_reduce(now, buffer, reduction.reduction, gather, contributors.size(), true);
}

void instruction_graph_generator::compile_fence(const command_phase& now, const task& node) {
	std::vector<instruction_id> copies;
	if(!node.accesses.empty()) copies = copy_to_fence(now, node);
	instruction_builder fence(m_history, now);
	for(const instruction_id copy : copies) fence.follow(copy);
	fence.follow_side_effects(node);
	fence.emit(fence_instruction{node.submission}, priorities::fence);
}

std::vector<instruction_id> instruction_graph_generator::copy_to_fence(const command_phase& now, const task& node) {
	auto& buffer = m_memory.use(node.accesses.front().buffer);
	const region where(node.fence_box);
	const memory_id destination = node.fence_destination.memory;
	const auto receiving = now.in(instruction_key::phase_type::receive);
	m_memory.materialize_initial_contents(receiving, buffer, where);
	if(!buffer.receives.empty()) {
		const bool is_reached = is_device_memory(destination) && m_capabilities.receives_where_read();
		const read_requirement arrival{is_reached ? destination : host_memory, where};
		for(const auto& receive : buffer.receives) m_memory.require_in(receiving, buffer, arrival.memory, receive.awaited); // one, as a fence is one task
		m_transfers.commit_receives(receiving, buffer, std::span(&arrival, 1));
	}
	// Data that no single copy moves to the user's array goes through the buffer's host allocation.
	box_vector indirect;
	buffer.contents.query(where, [&](const box& part, const content_state& state) {
		if(state.up_to_date != 0 && !m_sources.can_copy(state, m_sources.select(state, destination), destination)) indirect.push_back(part);
	});
	if(!indirect.empty()) {
		const read_requirement on_host_read{host_memory, region(std::move(indirect))};
		m_memory.require_on_host(receiving, buffer, on_host_read.where);
		m_copies.make_coherent(now, buffer, std::span(&on_host_read, 1));
	}
	std::vector<instruction_id> copies;
	const auto sources = m_sources.find_nearest(buffer, where, destination);
	for(const auto& found : sources) {
		for_each_part(buffer.memories[found.memory.value], found.where, [&](allocation_state& source, const region& part) {
			instruction_builder copy(m_history, now);
			copy.read(source, part);
			copies.push_back(emit_copy(copy, buffer, {source.id}, {node.fence_destination}, m_history.nodes().copy(part.boxes()), copy_reason::fence));
		});
	}
	return copies;
}

} // namespace celerity
