// SPDX-License-Identifier: MIT
#include "graph_log.hpp"

#include "replay/instruction_copies.hpp"

namespace celerity {

namespace {

/// Arenas share a pool, which must outlive them.
struct pooled_arena {
	arena_block_pool pool;
	arena memory{pool};
};

std::shared_ptr<arena> make_arena() {
	auto made = std::make_shared<pooled_arena>();
	return {made, &made->memory};
}

} // namespace

graph_log::graph_log(const std::size_t num_ranks, const rank_id local_rank, const range& tasks)
    : m_num_ranks(num_ranks), m_local_rank(local_rank), m_range(tasks) {
	if(!knows_all_ranks()) return;
	m_other_ranks.reserve(num_ranks);
	for(std::uint32_t value = 0; value < num_ranks; ++value) {
		const rank_id rank(value);
		if(rank == local_rank) continue;
		m_other_ranks.emplace_back(rank, command_graph_generator(num_ranks, rank, [this, rank](command_record&& record) { keep(rank, std::move(record)); }));
	}
}

void graph_log::create_buffer(const buffer_info& info) {
	const std::lock_guard lock(m_mutex);
	for(auto& [rank, generator] : m_other_ranks) generator.create_buffer(info);
	m_buffers.emplace(info.id, kept_buffer{info, {}});
}

void graph_log::destroy_buffer(const buffer_id id) {
	const std::lock_guard lock(m_mutex);
	for(auto& [rank, generator] : m_other_ranks) generator.destroy_buffer(id);
	m_buffers.at(id).last = m_newest;
	drop_old();
}

void graph_log::add(task_record&& record) {
	const std::lock_guard lock(m_mutex);
	const auto node = record.node;
	m_newest = node->id;
	m_num_horizons += node->kind == task_kind::horizon;
	if(node->id >= m_range.first && node->id < m_range.end) m_tasks.push_back({std::move(record), m_num_horizons, {}, {}, {}});
	for(auto& [rank, generator] : m_other_ranks) {
		m_generated.clear();
		generator.lower(node, m_generated);
	}
	drop_old();
}

void graph_log::add(command_record&& record) {
	const std::lock_guard lock(m_mutex);
	keep(m_local_rank, std::move(record));
}

void graph_log::add(const instruction& made, const std::span<const dependency_kind> kinds) {
	const std::lock_guard lock(m_mutex);
	auto* const task = find(made.key.task);
	if(task == nullptr) return;
	if(m_memory == nullptr || m_num_in_memory == instructions_per_arena) {
		m_memory = make_arena();
		m_num_in_memory = 0;
	}
	++m_num_in_memory;
	++m_num_nodes;
	task->instructions.push_back({copy_into(*m_memory, made), {kinds.begin(), kinds.end()}});
	if(task->memory.empty() || task->memory.back() != m_memory) task->memory.push_back(m_memory);
}

void graph_log::keep(const rank_id rank, command_record&& record) {
	auto* const task = find(record.node.node->id);
	if(task == nullptr) return;
	++m_num_nodes;
	task->commands.push_back({rank, std::move(record)});
}

graph_log::kept_task* graph_log::find(const task_id id) {
	if(m_tasks.empty()) return nullptr;
	const auto first = m_tasks.front().record.node->id.value;
	return id.value < first || id.value - first >= m_tasks.size() ? nullptr : &m_tasks[id.value - first];
}

void graph_log::drop_old() {
	while(m_tasks.size() > max_tasks || (m_num_nodes > max_nodes && m_tasks.size() > 1)) {
		m_num_nodes -= m_tasks.front().commands.size() + m_tasks.front().instructions.size();
		m_tasks.pop_front();
	}
	const auto oldest = m_tasks.empty() ? m_newest : m_tasks.front().record.node->id;
	std::erase_if(m_buffers, [&](const auto& entry) { return entry.second.last != task_id{} && entry.second.last < oldest; });
}

} // namespace celerity
