// SPDX-License-Identifier: MIT
// Emission of instructions, horizons and epochs, buffers, and the lookahead's view of memory.
#include "instruction_graph.hpp"

#include <algorithm>
#include <cassert>

#include "instruction_priorities.hpp"

namespace celerity {

instruction_graph_generator::instruction_graph_generator(system_capabilities capabilities, notice_callback notify)
    : m_capabilities(std::move(capabilities)), m_notify(std::move(notify)), m_staging(m_capabilities.num_memories()),
      m_foreseen_bytes(m_capabilities.num_memories()) {
	m_arenas.push_back(arena_bucket{task_id{}, arena(m_block_pool)});
}

instruction_graph_generator::~instruction_graph_generator() = default;

void instruction_graph_generator::create_buffer(const buffer_info& info) {
	const box domain = box::full(info.extents);
	const bool has_contents = info.initial != buffer_info::initial_contents::none;
	const content_state initial{has_contents ? std::uint64_t{1} << user_memory.value : 0, m_window.epoch(), user_memory};
	buffer_state buffer{info, domain, region_map<content_state>(domain, initial), std::vector<memory_state>(m_capabilities.num_memories()), {}, {}};
	if(info.initial == buffer_info::initial_contents::user_array) {
		const std::size_t size_bytes = static_cast<std::size_t>(domain.area()) * info.element_size_bytes;
		buffer.memories[user_memory.value].allocations.push_back(
		    allocation_state{info.user_allocation, domain, size_bytes, region_map<front>(domain, front{m_window.epoch(), {}})});
	}
	m_buffers.emplace(info.id, std::move(buffer));
}

void instruction_graph_generator::destroy_buffer(const buffer_id id, instruction_batch& out) {
	m_out = &out;
	const auto it = m_buffers.find(id);
	assert(it != m_buffers.end());
	for(std::size_t m = 0; m < it->second.memories.size(); ++m) {
		for(const auto& allocation : it->second.memories[m].allocations) free_allocation(allocation);
		m_foreseen_bytes[m] -= it->second.memories[m].foreseen_bytes;
	}
	m_buffers.erase(it);
	m_out = nullptr;
}

void instruction_graph_generator::compile(const command& cmd, instruction_batch& out) {
	m_out = &out;
	m_key = {cmd.node->id, phase::work};
	m_submission = cmd.node->submission;
	m_priority_boost = 0;
	std::visit(
	    [&](const auto& operation) {
		    using type = std::decay_t<decltype(operation)>;
		    if constexpr(std::is_same_v<type, epoch_command> || std::is_same_v<type, horizon_command>) {
			    compile_epoch_or_horizon(cmd);
		    } else if constexpr(std::is_same_v<type, execution_command>) {
			    compile_execution(cmd, operation);
		    } else if constexpr(std::is_same_v<type, push_command>) {
			    compile_push(cmd, operation);
		    } else if constexpr(std::is_same_v<type, await_push_command>) {
			    compile_await_push(operation);
		    } else if constexpr(std::is_same_v<type, reduction_command>) {
			    compile_reduction(cmd, operation);
		    } else {
			    static_assert(std::is_same_v<type, fence_command>);
			    compile_fence(cmd);
		    }
	    },
	    cmd.operation);
	m_out = nullptr;
}

instruction_id instruction_graph_generator::emit(instruction_operation&& operation, const instruction_priority priority) {
	m_window.depend_on_epoch_if_alone(false);
	const instruction_id id = m_window.current();
	const instruction* const node =
	    nodes().create<instruction>(id, m_key, priority + m_priority_boost, nodes().copy(m_window.edges()), std::move(operation));
	m_out->instructions.push_back(node);
	return id;
}

void instruction_graph_generator::compile_epoch_or_horizon(const command& cmd) {
	const bool is_epoch = cmd.node->kind == task_kind::epoch;
	if(is_epoch && cmd.node->action == epoch_action::shutdown) free_staging();
	m_arenas.push_back(arena_bucket{cmd.node->id, arena(m_block_pool)});
	begin();
	m_window.depend_on_front();
	if(is_epoch) {
		const instruction_id self = emit(
		    epoch_instruction{cmd.node->id, cmd.node->submission, cmd.node->submission, cmd.node->action}, priorities::horizon_or_epoch);
		m_settled = self;
		apply_epoch(self);
		m_pending_horizon = instruction_id{};
	} else {
		const instruction_id self = emit(horizon_instruction{cmd.node->id, cmd.node->submission}, priorities::horizon_or_epoch);
		if(m_pending_horizon != instruction_id{}) apply_epoch(m_pending_horizon);
		m_pending_horizon = self;
	}
}

// What was written before the last epoch keeps it as its writer: with a horizon instead, whoever reads a constant would wait for all that came before
// the horizon. Only one epoch is kept, which bounds history as well.
void instruction_graph_generator::apply_epoch(const instruction_id epoch) {
	m_window.apply_epoch(epoch, m_settled);
	m_recent.apply_epoch(m_buffers, [&](buffer_state& buffer) {
		buffer.contents.transform([&](content_state& state) {
			if(state.origin < epoch) state.origin = epoch;
		});
		for(auto& memory : buffer.memories) {
			for(auto& allocation : memory.allocations) allocation.accesses.transform([&](front& f) { f.apply_epoch(epoch, m_settled); });
		}
	});
}

instruction_graph_generator::buffer_state& instruction_graph_generator::use_buffer(const buffer_id id) {
	auto& buffer = m_buffers.at(id);
	m_recent.use(id, buffer.last_use);
	return buffer;
}

void instruction_graph_generator::notify_epoch_reached(const task_id reached) {
	// Until a further report the executor may still look at instructions right before the one it has just reported.
	while(m_arenas.size() > 1 && m_arenas[1].opened_by <= m_last_reached) m_arenas.pop_front();
	m_last_reached = reached;
}

void instruction_graph_generator::free_staging() {
	for(auto& pool : m_staging) {
		for(const auto& staging : pool) {
			begin();
			m_window.depend(staging.ready);
			for(const instruction_id use : staging.uses) m_window.depend(use);
			emit(free_instruction{staging.id, staging.size_bytes}, priorities::free);
		}
		pool.clear();
	}
}

bool instruction_graph_generator::anticipate(const command& cmd) {
	bool found_new = false;
	const auto anticipate_on_host = [&](const transfer_id& transfer, const region& where) {
		auto& buffer = m_buffers.at(transfer.buffer);
		anticipate_boxes(buffer, host_memory, contiguous_boxes(where), found_new);
	};
	if(const auto* const execution = std::get_if<execution_command>(&cmd.operation)) {
		anticipate_execution(cmd, *execution, found_new);
	} else if(const auto* const push = std::get_if<push_command>(&cmd.operation)) {
		const region* last = nullptr;
		for(const auto& [rank, where] : push->targets) {
			if((m_capabilities.is_direct(rank) && push->transfer.reduction == reduction_id{}) || (last != nullptr && *last == where)) continue;
			last = &where;
			anticipate_on_host(push->transfer, where);
		}
	} else if(const auto* const await = std::get_if<await_push_command>(&cmd.operation)) {
		anticipate_on_host(await->transfer, m_capabilities.has_direct_peer() ? find_unread(*cmd.node, *await) : await->awaited);
	} else if(const auto* const reduction = std::get_if<reduction_command>(&cmd.operation)) {
		anticipate_on_host(reduction->transfer, m_buffers.at(reduction->transfer.buffer).domain);
	} else if(std::holds_alternative<fence_command>(cmd.operation)) {
		if(!m_capabilities.can_copy(memory_of(device_id(0)), user_memory) && !cmd.node->fence_box.empty()) {
			anticipate_box(m_buffers.at(cmd.node->accesses.front().buffer), host_memory, cmd.node->fence_box, found_new);
		}
	}
	return found_new;
}

void instruction_graph_generator::anticipate_boxes(
    buffer_state& buffer, const memory_id memory, const std::span<const box> wanted, bool& found_new) {
	auto& state = buffer.memories[memory.value];
	// Looked up one by one if they are few, else in an index; merged accordingly.
	const bool are_many = wanted.size() >= box_index::min_size;
	const box_index anticipated = are_many ? box_index(state.anticipated) : box_index();
	const auto is_anticipated = [&](const box& b) {
		return are_many ? anticipated.covers(b)
		                : std::any_of(state.anticipated.begin(), state.anticipated.end(), [&](const box& other) { return other.covers(b); });
	};
	bool is_new = false;
	for(const box& b : wanted) {
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
	found_new = true;
	if(!std::exchange(state.has_grown, true)) m_growing.emplace_back(buffer.info.id, memory);
}

void instruction_graph_generator::foresee_growth() {
	++m_num_held_horizons;
	for(const auto& [id, memory] : m_growing) {
		if(const auto it = m_buffers.find(id); it != m_buffers.end()) foresee_growth(it->second, memory);
	}
	m_growing.clear();
}

void instruction_graph_generator::foresee_growth(buffer_state& buffer, const memory_id memory) {
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

/// What arrives though no device reads it, because a mapper returns more for the rank's chunk than for its parts together.
region instruction_graph_generator::find_unread(const task& node, const await_push_command& await) {
	const buffer_id id = await.transfer.buffer;
	const auto reads = [=](const buffer_access& access) { return access.buffer == id && is_consumer(access.mode); };
	const bool is_exact = std::none_of(node.accesses.begin(), node.accesses.end(), [&](const auto& access) { return reads(access) && !access.mapper.is_additive(); });
	if(is_exact || node.kind == task_kind::fence) return {};
	const auto& buffer = m_buffers.at(id);
	plan_local_chunks(node, await.chunk);
	box_vector read;
	for(const auto& access : node.accesses) {
		if(!reads(access)) continue;
		for(const auto& part : m_chunks) {
			const region where = access.mapper.map(part.chunk, node.geometry.global, node.geometry.dims, buffer.domain, buffer.info.dims);
			read.append(where.boxes().data(), where.boxes().data() + where.boxes().size());
		}
	}
	return region_difference(await.awaited, region(std::move(read)));
}

void instruction_graph_generator::anticipate_execution(const command& cmd, const execution_command& execution, bool& found_new) {
	const task& node = *cmd.node;
	plan_local_chunks(node, execution.chunk);
	map_accesses(node);
	for(std::size_t a = 0; a < node.accesses.size(); ++a) {
		auto& buffer = m_buffers.at(node.accesses[a].buffer);
		for(std::size_t c = 0; c < m_chunks.size(); ++c) {
			anticipate_box(buffer, m_chunks[c].memory, m_regions[a * m_chunks.size() + c].bounding_box(), found_new);
		}
	}
	for(const auto& reduction : node.reductions) {
		auto& buffer = m_buffers.at(reduction.buffer);
		for(const auto& chunk : m_chunks) anticipate_box(buffer, chunk.memory, buffer.domain, found_new);
		if(m_chunks.size() > 1 || reduction.include_current) anticipate_box(buffer, host_memory, buffer.domain, found_new);
	}
}

} // namespace celerity
