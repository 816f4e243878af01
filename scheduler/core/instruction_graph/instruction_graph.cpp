// SPDX-License-Identifier: MIT
// Emission of instructions, horizons and epochs, buffers, and the lookahead's view of memory.
#include "instruction_graph.hpp"

#include <optional>

#include "base/overloaded.hpp"
#include "instruction_priorities.hpp"

namespace celerity {

namespace {

/// The history that work without end of one queue may keep while another one stands still.
constexpr std::size_t most_unexecuted_horizons = 4096;
/// A growth that pauses for so many horizons is taken to have ended.
constexpr std::uint64_t horizons_until_settled = 2;

} // namespace

instruction_graph_generator::instruction_graph_generator(system_capabilities capabilities, record_callback record, notice_callback notify)
    : m_capabilities(std::move(capabilities)), m_record(std::move(record)), m_notify(std::move(notify)), m_staging(m_capabilities.num_memories()),
      m_foreseen_bytes(m_capabilities.num_memories()), m_planned_bytes(m_capabilities.num_memories()) {
	m_arenas.push_back(arena_bucket{task_id{}, arena(m_block_pool)});
}

instruction_graph_generator::~instruction_graph_generator() = default;

void instruction_graph_generator::create_buffer(const buffer_info& info) {
	const box domain = box::full(info.extents);
	content_state initial{0, m_window.epoch(), user_memory};
	if(info.initial == buffer_info::initial_contents::user_function) initial.up_to_date = bit_of(user_memory);
	buffer_state buffer{info, domain, domain, region_map<content_state>(domain, initial), std::vector<memory_state>(m_capabilities.num_memories()), {}, {}};
	for(const auto& [where, allocation] : info.arrays) {
		const std::size_t size_bytes = static_cast<std::size_t>(where.area()) * info.element_size_bytes;
		buffer.memories[user_memory.value].allocations.push_back(allocation_state{
		    allocation, where, size_bytes, region_map<front>(where, front{m_window.epoch(), {}})});
		buffer.contents.update(where, content_state{bit_of(user_memory), m_window.epoch(), user_memory, allocation.memory});
	}
	m_buffers.emplace(info.id, std::move(buffer));
}

void instruction_graph_generator::destroy_buffer(const buffer_id id, instruction_batch& out) {
	const command_phase now{out, {m_last_compiled, phase::work}, {}};
	const auto it = m_buffers.find(id);
	assert(it != m_buffers.end());
	for(std::size_t m = 0; m < it->second.memories.size(); ++m) {
		for(const auto& allocation : it->second.memories[m].allocations) free_allocation(now, allocation);
		m_foreseen_bytes[m] -= it->second.memories[m].foreseen_bytes;
	}
	m_buffers.erase(it);
}

void instruction_graph_generator::compile(const command& cmd, execution_plan&& plan, instruction_batch& out) {
	const task& node = *cmd.node;
	const instruction_priority of_queue = priority_of_queue(node.priority);
	const command_phase now{out, {node.id, phase::work}, node.submission, of_queue};
	const command_phase sending{out, {node.id, phase::send}, node.submission, of_queue + priorities::push_boost};
	if(m_last_compiled != node.id) std::fill(m_planned_bytes.begin(), m_planned_bytes.end(), 0); // older tasks must not influence the plan, which repeats
	m_last_compiled = node.id;
	if(node.kind != task_kind::epoch && node.kind != task_kind::horizon) announce(node.priority);
	std::visit(overloaded{
	               [&](const epoch_command&) { compile_epoch(now, node); },
	               [&](const horizon_command&) { compile_horizon(now, node); },
	               [&](const execution_command& execution) { compile_execution(now, node, execution, plan); },
	               [&](const push_command& push) { compile_push(sending, push); },
	               [&](const await_push_command& await) { compile_await_push(await); },
	               [&](const reduction_command& reduction) { compile_reduction(now, reduction); },
	               [&](const fence_command&) { compile_fence(now, node); },
	           },
	    cmd.operation);
	if(!plan.chunks.empty()) m_spare_plan = std::move(plan);
}

void instruction_graph_generator::instruction_builder::note(allocation_state& allocation, const region& where, const access_mode mode,
    buffer_state* const produced) {
	allocation.accesses.query(where, [&](const box&, const front& f) {
		if(is_consumer(mode)) f.depend_for_read(window());
		if(is_producer(mode)) f.depend_for_write(window());
	});
	m_accesses.push_back(noted_access{&allocation, &where, produced, is_producer(mode)});
}

instruction_id instruction_graph_generator::instruction_builder::emit(instruction_operation&& operation, const instruction_priority priority) {
	assert(!m_is_emitted);
	m_is_emitted = true;
	window().depend_on_epoch_if_alone(true);
	const instruction_id self = window().current();
	arena& nodes = m_graph.nodes();
	m_now.out.instructions.push_back(nodes.create<instruction>(self, m_now.key, priority + m_now.boost, nodes.copy(window().edges()), std::move(operation)));
	if(m_graph.m_record) m_graph.m_record(*m_now.out.instructions.back(), window().kinds());
	// Reads first: where an instruction reads and writes the same element, it counts as its writer.
	for(const auto& [allocation, where, produced, is_write] : m_accesses) {
		if(!is_write) allocation->accesses.modify(*where, [&](front& f) { return f.add_reader(self); });
	}
	for(const auto& [allocation, where, produced, is_write] : m_accesses) {
		if(!is_write) continue;
		allocation->accesses.update(*where, front{self, {}});
		const memory_id memory = allocation->id.memory;
		if(produced != nullptr) produced->contents.update(*where, content_state{bit_of(memory), self, memory});
	}
	for(auto* const staging : m_staging) staging->uses.push_back(self);
	return self;
}

void instruction_graph_generator::compile_epoch(const command_phase& now, const task& node) {
	if(node.action == epoch_action::shutdown) free_staging(now);
	open_bucket(node.id);
	instruction_builder epoch(*this, now);
	epoch.follow_all();
	m_settled = epoch.emit(epoch_instruction{node.id, node.submission, node.action}, priorities::horizon_or_epoch);
	apply_epoch(m_settled);
	m_pending_horizons.clear();
}

// An applied horizon makes its successors wait for all work before it, that of lower queues as well. With queues of several priorities, a horizon is therefore
// applied when it has been executed, or when there are too many to remember. Templates need plans that do not depend on the execution. In a replay, a horizon
// is applied so late that it has been executed by then, unless some work takes long.
bool instruction_graph_generator::must_apply_horizon() const {
	const std::size_t num_pending = m_pending_horizons.size();
	if(!are_several(m_queues)) return num_pending > 1;
	if(num_pending <= m_capabilities.most_horizons_ahead) return false;
	return m_is_repeating || m_pending_horizons.front().task <= m_last_reached || num_pending > most_unexecuted_horizons;
}

void instruction_graph_generator::compile_horizon(const command_phase& now, const task& node) {
	open_bucket(node.id);
	instruction_builder horizon(*this, now);
	horizon.follow_all();
	const instruction_id self = horizon.emit(horizon_instruction{node.id, node.submission}, priorities::horizon_or_epoch);
	m_pending_horizons.push_back({self, node.id});
	std::optional<instruction_id> applied;
	for(; must_apply_horizon(); m_pending_horizons.pop_front()) applied = m_pending_horizons.front().id;
	if(applied.has_value()) apply_epoch(*applied);
}

// Data written before the last epoch keeps this epoch as its writer. With a horizon as the writer, each reader of a constant would wait for all instructions
// before the horizon. Only one epoch is kept, which bounds history as well.
void instruction_graph_generator::apply_epoch(const instruction_id epoch) {
	m_window.apply_epoch(epoch, m_settled);
	m_side_effects.apply_epoch(epoch);
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

instruction_graph_generator::execution_plan instruction_graph_generator::plan(const command& cmd) {
	const auto* const execution = std::get_if<execution_command>(&cmd.operation);
	if(execution == nullptr) return {};
	auto plan = std::exchange(m_spare_plan, {});
	plan_execution(*cmd.node, *execution, plan);
	return plan;
}

void instruction_graph_generator::plan_execution(const task& node, const execution_command& execution, execution_plan& plan) const {
	split_among_devices(node, execution.share(), {m_capabilities.num_ranks, m_capabilities.local_rank, m_capabilities.num_devices}, plan.chunks);
	plan.regions.clear();
	for(const auto& access : node.accesses) {
		const auto& buffer = m_buffers.at(access.buffer);
		for(const auto& part : plan.chunks) {
			plan.regions.push_back(access.mapper.map(part.chunk, node.geometry.global, node.geometry.dims, buffer.domain, buffer.info.dims));
		}
	}
}

void instruction_graph_generator::anticipate(const command& cmd, const execution_plan& plan, std::vector<place>& wanted) {
	const auto anticipate_on_host = [&](const transfer_id& transfer, const region& where) {
		auto& buffer = m_buffers.at(transfer.buffer);
		anticipate_boxes(buffer, host_memory, contiguous_boxes(where), wanted);
	};
	std::visit(overloaded{
	               [](const epoch_command&) {},
	               [](const horizon_command&) {},
	               [&](const execution_command&) { anticipate_execution(*cmd.node, plan, wanted); },
	               [&](const push_command& push) { for_each_sent_from_host(push, [&](const region& where) { anticipate_on_host(push.transfer, where); }); },
	               [&](const await_push_command& await) {
		               const memory_id fenced = cmd.node->fence_destination.memory;
		               if(is_device_memory(fenced) && m_capabilities.has_direct_peer()) {
			               anticipate_boxes(m_buffers.at(await.transfer.buffer), fenced, contiguous_boxes(await.awaited), wanted);
			               return;
		               }
		               anticipate_on_host(await.transfer, m_capabilities.has_direct_peer() ? find_unread(*cmd.node, await) : await.awaited);
	               },
	               [&](const reduction_command& reduction) { anticipate_on_host(reduction.transfer, m_buffers.at(reduction.transfer.buffer).domain); },
	               [&](const fence_command&) {
		               const memory_id destination = cmd.node->fence_destination.memory;
		               const memory_id last = memory_of(device_id(static_cast<std::uint32_t>(m_capabilities.num_devices) - 1));
		               if(m_capabilities.can_copy(last, destination) || cmd.node->accesses.empty() || cmd.node->fence_box.empty()) return;
		               anticipate_box(m_buffers.at(cmd.node->accesses.front().buffer), host_memory, cmd.node->fence_box, wanted);
	               },
	           },
	    cmd.operation);
}

void instruction_graph_generator::anticipate_boxes(buffer_state& buffer, const memory_id memory, const std::span<const box> boxes, std::vector<place>& wanted) {
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

bool instruction_graph_generator::may_grow(const place& at) const {
	const auto& buffer = m_buffers.at(at.buffer);
	const auto& state = buffer.memories[at.memory.value];
	if(buffer.is_dropped || state.num_allocations_made != at.num_allocations_made) return false;
	if(state.anticipated.size() == 1 && state.anticipated.front().covers(buffer.domain)) return false;
	return m_num_held_horizons < state.last_growth + horizons_until_settled;
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

/// The data that arrives although no device reads it, because a mapper returns more for the rank's chunk than for its parts together.
region instruction_graph_generator::find_unread(const task& node, const await_push_command& await) const {
	const buffer_id id = await.transfer.buffer;
	const auto reads = [=](const buffer_access& access) { return access.buffer == id && is_consumer(access.mode); };
	const bool is_exact =
	    std::none_of(node.accesses.begin(), node.accesses.end(), [&](const auto& access) { return reads(access) && !access.mapper.is_additive(); });
	if(is_exact || node.kind == task_kind::fence) return {};
	execution_plan plan;
	plan_execution(node, await.reader, plan);
	box_vector read;
	for(std::size_t a = 0; a < node.accesses.size(); ++a) {
		if(!reads(node.accesses[a])) continue;
		for(std::size_t c = 0; c < plan.chunks.size(); ++c) read.append(plan.accessed(a, c).boxes());
	}
	return region_difference(await.awaited, region(std::move(read)));
}

void instruction_graph_generator::anticipate_execution(const task& node, const execution_plan& plan, std::vector<place>& wanted) {
	for(std::size_t a = 0; a < node.accesses.size(); ++a) {
		auto& buffer = m_buffers.at(node.accesses[a].buffer);
		for(std::size_t c = 0; c < plan.chunks.size(); ++c) {
			anticipate_boxes(buffer, plan.chunks[c].memory, boxes_in_memory(node.accesses[a], plan.accessed(a, c)), wanted);
		}
	}
	for(const auto& reduction : node.reductions) {
		auto& buffer = m_buffers.at(reduction.buffer);
		for(const auto& chunk : plan.chunks) anticipate_box(buffer, chunk.memory, buffer.domain, wanted);
		if(plan.chunks.size() > 1 || reduction.include_current) anticipate_box(buffer, memory_to_combine_in(reduction, plan), buffer.domain, wanted);
	}
}

} // namespace celerity
