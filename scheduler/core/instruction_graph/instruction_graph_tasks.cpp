// SPDX-License-Identifier: MIT
// Kernels, host tasks, reductions and fences.
#include "instruction_graph.hpp"

#include <algorithm>
#include <cassert>

#include "instruction_priorities.hpp"

namespace celerity {

void instruction_graph_generator::plan_local_chunks(const task& node, const box& chunk) {
	split_among_devices(node, chunk, m_capabilities.num_devices, m_chunks);
}

void instruction_graph_generator::map_accesses(const task& node) {
	m_regions.clear();
	for(const auto& access : node.accesses) {
		const auto& buffer = m_buffers.at(access.buffer);
		for(const auto& [chunk, memory, is_border] : m_chunks) {
			m_regions.push_back(access.mapper.map(chunk, node.geometry.global, node.geometry.dims, buffer.domain, buffer.info.dims));
		}
	}
}

void instruction_graph_generator::compile_execution(const command& cmd, const execution_command& execution) {
	const task& node = *cmd.node;
	plan_local_chunks(node, execution.chunk);
	map_accesses(node);
	const auto satisfy_once = [&](const std::size_t index, const buffer_id id) {
		for(std::size_t i = 0; i < index; ++i) {
			const buffer_id earlier = i < node.accesses.size() ? node.accesses[i].buffer : node.reductions[i - node.accesses.size()].buffer;
			if(earlier == id) return;
		}
		auto& buffer = use_buffer(id);
		collect_requirements(node, buffer, execution);
		satisfy(buffer, m_requirements);
	};
	for(std::size_t a = 0; a < node.accesses.size(); ++a) satisfy_once(a, node.accesses[a].buffer);
	for(std::size_t r = 0; r < node.reductions.size(); ++r) satisfy_once(node.accesses.size() + r, node.reductions[r].buffer);

	prepare_local_reductions(node, execution);
	for(std::size_t c = 0; c < m_chunks.size(); ++c) emit_chunk(node, c);
	finish_local_reductions();
}

void instruction_graph_generator::collect_requirements(const task& node, buffer_state& buffer, const execution_command& execution) {
	m_requirements.contiguous.clear();
	m_requirements.reads.clear();
	m_requirements.discarded = region();
	bool is_growing = false;
	const auto require = [&](const memory_id memory, const box& wanted) {
		m_requirements.contiguous.emplace_back(memory, wanted);
		is_growing |= find_allocation(buffer, memory, wanted) == nullptr;
	};
	for(std::size_t c = 0; c < m_chunks.size(); ++c) {
		region read; // by all accesses of the chunk: it waits for all of them anyway
		for(std::size_t a = 0; a < node.accesses.size(); ++a) {
			if(node.accesses[a].buffer != buffer.info.id) continue;
			const region& where = m_regions[a * m_chunks.size() + c];
			if(where.empty()) continue;
			require(m_chunks[c].memory, where.bounding_box());
			if(is_consumer(node.accesses[a].mode)) add_to(read, where);
		}
		if(!read.empty()) m_requirements.reads.push_back({m_chunks[c].memory, std::move(read)});
	}
	for(const auto& reduction : node.reductions) {
		if(reduction.buffer != buffer.info.id) continue;
		const bool includes_current = reduction.include_current && execution.initializes_reductions;
		for(const auto& chunk : m_chunks) require(chunk.memory, buffer.domain);
		if(m_chunks.size() > 1 || includes_current) require(host_memory, buffer.domain);
		if(includes_current) m_requirements.reads.push_back({host_memory, region(buffer.domain)});
	}
	if(!is_growing) return;
	region produced;
	region consumed;
	for(std::size_t a = 0; a < node.accesses.size(); ++a) {
		if(node.accesses[a].buffer != buffer.info.id) continue;
		for(std::size_t c = 0; c < m_chunks.size(); ++c) {
			const region& where = m_regions[a * m_chunks.size() + c];
			add_to(is_consumer(node.accesses[a].mode) ? consumed : produced, where);
		}
	}
	m_requirements.discarded = region_difference(produced, consumed);
}

void instruction_graph_generator::emit_chunk(const task& node, const std::size_t chunk_index) {
	const auto& [chunk, memory, is_border] = m_chunks[chunk_index];
	m_access_bindings.clear();
	m_reduction_bindings.clear();
	small_vector<allocation_state*, 8> allocations;
	small_vector<buffer_state*, 8> buffers;
	begin();
	if(node.is_ordered) m_side_effects.append_to(m_window);
	for(std::size_t a = 0; a < node.accesses.size(); ++a) {
		const auto& access = node.accesses[a];
		const region& where = m_regions[a * m_chunks.size() + chunk_index];
		auto& buffer = m_buffers.at(access.buffer);
		buffers.push_back(&buffer);
		if(where.empty()) {
			allocations.push_back(nullptr);
			m_access_bindings.push_back(access_binding{access.buffer, access.mode, allocation_id{memory, 0}, box(), box(), {}});
			continue;
		}
		auto* const allocation = find_allocation(buffer, memory, where.bounding_box());
		assert(allocation != nullptr);
		allocations.push_back(allocation);
		m_access_bindings.push_back(
		    access_binding{access.buffer, access.mode, allocation->id, allocation->allocated, where.bounding_box(), nodes().copy(where.boxes())});
		if(is_consumer(access.mode)) depend_for_read(*allocation, where);
		if(is_producer(access.mode)) depend_for_write(*allocation, where);
	}
	for(const auto& reduction : node.reductions) {
		auto& buffer = m_buffers.at(reduction.buffer);
		auto* const allocation = find_allocation(buffer, memory, buffer.domain);
		assert(allocation != nullptr);
		buffers.push_back(&buffer);
		allocations.push_back(allocation);
		m_reduction_bindings.push_back(reduction_binding{reduction.id, reduction.buffer, allocation->id, 0, reduction.op, reduction.type});
		depend_for_write(*allocation, buffer.domain);
	}

	instruction_id self;
	const auto accesses = nodes().copy(m_access_bindings);
	if(node.kind == task_kind::device_kernel) {
		const auto reductions = nodes().copy(m_reduction_bindings);
		self = emit(device_kernel_instruction{device_of(memory), node.submission, chunk, accesses, reductions, is_border}, priorities::kernel);
	} else {
		self = emit(host_task_instruction{node.submission, chunk, accesses}, priorities::kernel);
	}

	// Reads first: where a task reads and writes the same element, it counts as its writer.
	for(std::size_t a = 0; a < node.accesses.size(); ++a) {
		if(allocations[a] != nullptr && node.accesses[a].mode == access_mode::read) record_read(*allocations[a], m_regions[a * m_chunks.size() + chunk_index]);
	}
	for(std::size_t a = 0; a < node.accesses.size(); ++a) {
		if(allocations[a] == nullptr || !is_producer(node.accesses[a].mode)) continue;
		const region& where = m_regions[a * m_chunks.size() + chunk_index];
		record_write(*allocations[a], where);
		buffers[a]->contents.update(where, content_state{bit_of(memory), self, memory});
	}
	for(std::size_t r = 0; r < node.reductions.size(); ++r) {
		auto& buffer = *buffers[node.accesses.size() + r];
		record_write(*allocations[node.accesses.size() + r], buffer.domain);
		buffer.contents.update(buffer.domain, content_state{bit_of(memory), self, memory});
	}
}

allocation_id instruction_graph_generator::emit_gather_alloc(const std::size_t size_bytes, const std::size_t alignment_bytes, instruction_id& alloc) {
	const allocation_id id = next_allocation(host_memory);
	begin();
	alloc = emit(alloc_instruction{id, size_bytes, std::max<std::size_t>(alignment_bytes, 64), buffer_id{}, box(), m_submission}, priorities::alloc);
	return id;
}

void instruction_graph_generator::prepare_local_reductions(const task& node, const execution_command& execution) {
	m_local_reductions.clear();
	for(const auto& reduction : node.reductions) {
		auto& buffer = m_buffers.at(reduction.buffer);
		local_reduction local{&reduction, !execution.is_partial, reduction.include_current && execution.initializes_reductions, false, {}, {}, 0, {}};
		const std::size_t num_inputs = m_chunks.size() + (local.includes_current ? 1 : 0);
		local.gathers = num_inputs > 1;
		if(local.gathers) {
			local.gather_size_bytes = num_inputs * buffer.info.element_size_bytes;
			local.gather = emit_gather_alloc(local.gather_size_bytes, buffer.info.element_alignment_bytes, local.gather_alloc);
		}
		if(local.includes_current) { // before the kernel of this rank overwrites it
			auto* const current = find_allocation(buffer, host_memory, buffer.domain);
			begin();
			m_window.depend(local.gather_alloc);
			depend_for_read(*current, buffer.domain);
			emit(copy_instruction{current->id, copy_layout{false, current->allocated, 0}, local.gather, copy_layout{true, box(), 0},
			         nodes().copy(&buffer.domain, 1), buffer.info.element_size_bytes, copy_reason::reduction, buffer.info.id},
			    priorities::copy);
			record_read(*current, buffer.domain);
			local.last_gather_writes.push_back(m_window.current());
		}
		m_local_reductions.push_back(std::move(local));
	}
}

void instruction_graph_generator::finish_local_reductions() {
	for(auto& local : m_local_reductions) {
		if(!local.gathers) continue;
		auto& buffer = m_buffers.at(local.reduction->buffer);
		const std::size_t first_slot = local.includes_current ? 1 : 0;
		for(std::size_t c = 0; c < m_chunks.size(); ++c) {
			auto* const partial = find_allocation(buffer, m_chunks[c].memory, buffer.domain);
			begin();
			m_window.depend(local.gather_alloc);
			depend_for_read(*partial, buffer.domain);
			emit(copy_instruction{partial->id, copy_layout{false, partial->allocated, 0}, local.gather,
			         copy_layout{true, box(), (first_slot + c) * buffer.info.element_size_bytes}, nodes().copy(&buffer.domain, 1),
			         buffer.info.element_size_bytes, copy_reason::reduction, buffer.info.id},
			    priorities::copy);
			record_read(*partial, buffer.domain);
			local.last_gather_writes.push_back(m_window.current());
		}
		emit_reduce(buffer, *local.reduction, local.gather, first_slot + m_chunks.size(), local.last_gather_writes, local.gather_size_bytes,
		    local.is_complete);
	}
}

void instruction_graph_generator::emit_reduce(buffer_state& buffer, const task_reduction& reduction, const allocation_id gather, const std::size_t count,
    const std::span<const instruction_id> inputs, const std::size_t gather_size_bytes, const bool is_complete) {
	auto* const result = find_allocation(buffer, host_memory, buffer.domain);
	assert(result != nullptr);
	begin();
	for(const instruction_id input : inputs) m_window.depend(input);
	depend_for_write(*result, buffer.domain);
	const instruction_id self =
	    emit(reduce_instruction{reduction.id, reduction.op, reduction.type, gather, count, result->id, 0,
	             is_complete && !reduction.include_current},
	        priorities::reduce);
	record_write(*result, buffer.domain);
	buffer.contents.update(buffer.domain, content_state{bit_of(host_memory), self, host_memory});
	begin();
	m_window.depend(self);
	emit(free_instruction{gather, gather_size_bytes}, priorities::free);
}

void instruction_graph_generator::compile_reduction(const command& cmd, const reduction_command& reduction) {
	(void)cmd;
	auto& buffer = use_buffer(reduction.transfer.buffer);
	const std::size_t element_size_bytes = buffer.info.element_size_bytes;
	const std::uint32_t self_rank = m_capabilities.local_rank.value;
	m_key.phase = phase::receive;
	require_on_host(buffer, buffer.domain);

	instruction_id alloc;
	const std::size_t gather_size_bytes = reduction.num_contributors * element_size_bytes;
	const allocation_id gather = emit_gather_alloc(gather_size_bytes, buffer.info.element_alignment_bytes, alloc);
	std::vector<instruction_id> inputs;
	std::vector<rank_id> sources;
	std::vector<std::uint32_t> slots;
	for(std::uint32_t rank = 0; rank < reduction.num_contributors; ++rank) {
		if(rank == self_rank) continue;
		sources.emplace_back(rank);
		slots.push_back(rank);
	}
	begin();
	m_window.depend(alloc);
	inputs.push_back(emit(
	    gather_receive_instruction{reduction.transfer, gather, element_size_bytes, nodes().copy(sources), nodes().copy(slots)}, priorities::transfer));
	m_key.phase = phase::work;
	if(self_rank < reduction.num_contributors) {
		content_state state;
		buffer.contents.query(buffer.domain, [&](const box&, const content_state& content) { state = content; });
		const memory_id source = (state.up_to_date & bit_of(host_memory)) != 0 ? host_memory : state.origin_memory;
		auto* const partial = find_allocation(buffer, source, buffer.domain);
		assert(partial != nullptr);
		begin();
		m_window.depend(alloc);
		depend_for_read(*partial, buffer.domain);
		inputs.push_back(emit(copy_instruction{partial->id, copy_layout{false, partial->allocated, 0}, gather,
		                          copy_layout{true, box(), self_rank * element_size_bytes}, nodes().copy(&buffer.domain, 1), element_size_bytes,
		                          copy_reason::reduction, buffer.info.id},
		    priorities::copy));
		record_read(*partial, buffer.domain);
	}
	emit_reduce(buffer, reduction.reduction, gather, reduction.num_contributors, inputs, gather_size_bytes, true);
}

void instruction_graph_generator::compile_fence(const command& cmd) {
	const task& node = *cmd.node;
	auto& buffer = use_buffer(node.accesses.front().buffer);
	const region where(node.fence_box);
	m_key.phase = phase::receive;
	materialize_initial_contents(buffer, where);
	if(!buffer.receives.empty()) {
		for(const auto& receive : buffer.receives) require_on_host(buffer, receive.awaited); // one, as a fence is one task
		const read_requirement on_host_read{host_memory, where};
		commit_receives(buffer, std::span(&on_host_read, 1));
	}
	// What cannot be copied to the user's array in one step goes through the buffer's host allocation.
	box_vector indirect;
	buffer.contents.query(where, [&](const box& part, const content_state& state) {
		if(state.up_to_date != 0 && !m_capabilities.can_copy(select_source(state, user_memory), user_memory)) indirect.push_back(part);
	});
	if(!indirect.empty()) {
		const read_requirement on_host_read{host_memory, region(std::move(indirect))};
		require_on_host(buffer, on_host_read.where);
		m_key.phase = phase::work;
		make_coherent(buffer, std::span(&on_host_read, 1));
	}
	m_key.phase = phase::work;
	const std::vector<instruction_id> copies = copy_to_fence(buffer, where, node);
	begin();
	for(const instruction_id copy : copies) m_window.depend(copy);
	emit(fence_instruction{node.submission}, priorities::fence);
}

std::vector<instruction_id> instruction_graph_generator::copy_to_fence(buffer_state& buffer, const region& where, const task& node) {
	std::vector<instruction_id> copies;
	const auto sources = find_sources(buffer, where, [&](const content_state& state) { return select_source(state, user_memory); });
	for(const auto& found : sources) {
		for_each_part(buffer.memories[found.memory.value], found.where, [&](allocation_state& source, const region& part) {
			begin();
			depend_for_read(source, part);
			copies.push_back(emit(copy_instruction{source.id, copy_layout{false, source.allocated, 0}, node.fence_destination,
			                          copy_layout{false, node.fence_box, 0}, nodes().copy(part.boxes()), buffer.info.element_size_bytes,
			                          copy_reason::fence, buffer.info.id},
			    priorities::copy));
			record_read(source, part);
		});
	}
	return copies;
}

} // namespace celerity
