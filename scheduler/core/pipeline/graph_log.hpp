// SPDX-License-Identifier: MIT
// The newest part of the three graphs, kept for people who look at it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/arena.hpp"
#include "base/ids.hpp"
#include "graphs/command_graph.hpp"
#include "graphs/dependency_window.hpp"
#include "graphs/task_graph.hpp"
#include "vocabulary/instruction.hpp"
#include "vocabulary/task.hpp"

namespace celerity {

/// Keeps tasks with their commands and instructions. The commands of other ranks follow from the tasks: the log generates them, too. The scheduler thread
/// writes, and any thread reads.
class graph_log {
  public:
	/// Beyond that, the oldest tasks are dropped.
	static constexpr std::size_t max_tasks = 4096;
	static constexpr std::size_t max_nodes = std::size_t{1} << 17; ///< commands and instructions together
	/// Of runs with more ranks, only the commands of this rank are kept.
	static constexpr std::size_t max_generated_ranks = 64;

	/// Of the tasks, those with ids from `first` to before `end` are kept.
	struct range {
		task_id first;
		task_id end{std::numeric_limits<std::uint64_t>::max()};
	};
	struct kept_buffer {
		buffer_info info;
		task_id last; ///< the newest task when the buffer died; 0 while it lives
	};
	struct kept_command {
		rank_id rank;
		command_record record;
	};
	struct kept_instruction {
		instruction node;
		std::vector<dependency_kind> kinds; ///< of its dependencies
	};
	struct kept_task {
		task_record record;
		std::uint64_t num_horizons; ///< up to this task
		std::vector<kept_command> commands;
		std::vector<kept_instruction> instructions;
		std::vector<std::shared_ptr<const arena>> memory; ///< of the instructions
	};

	graph_log(std::size_t num_ranks, rank_id local_rank, const range& tasks);
	graph_log(const graph_log&) = delete;
	graph_log& operator=(const graph_log&) = delete;

	// By the scheduler thread, in program order; each before or while the graphs are generated.
	void create_buffer(const buffer_info& info);
	void destroy_buffer(buffer_id id);
	void add(task_record&& record);
	/// A command of this rank.
	void add(command_record&& record);
	void add(const instruction& made, std::span<const dependency_kind> kinds);

	/// Calls f(task) for each kept task in order, then g(buffer) for each buffer that they may access.
	template <typename F, typename G>
	void visit(F&& f, G&& g) const {
		const std::lock_guard lock(m_mutex);
		for(const auto& task : m_tasks) f(task);
		for(const auto& [id, buffer] : m_buffers) g(buffer);
	}
	template <typename F>
	void visit(F&& f) const {
		visit(std::forward<F>(f), [](const kept_buffer&) {});
	}
	std::size_t num_ranks() const { return m_num_ranks; }
	rank_id local_rank() const { return m_local_rank; }
	bool knows_all_ranks() const { return m_num_ranks <= max_generated_ranks; }

  private:
	static constexpr std::size_t instructions_per_arena = 256;

	const std::size_t m_num_ranks;
	const rank_id m_local_rank;
	const range m_range;
	std::vector<std::pair<rank_id, command_graph_generator>> m_other_ranks;
	std::vector<command> m_generated; // scratch

	mutable std::mutex m_mutex;
	std::deque<kept_task> m_tasks; ///< with consecutive ids
	std::map<buffer_id, kept_buffer> m_buffers;
	task_id m_newest;
	std::uint64_t m_num_horizons = 0;
	std::size_t m_num_nodes = 0;
	std::shared_ptr<arena> m_memory;
	std::size_t m_num_in_memory = 0;

	kept_task* find(task_id id);
	void keep(rank_id rank, command_record&& record);
	void drop_old();
};

} // namespace celerity
