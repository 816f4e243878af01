// SPDX-License-Identifier: MIT
// Lowers the commands of one rank to the operations of its memories, devices and links: allocations, copies, kernels, sends, receives.
// After the instruction graph of Knorr et al. (arXiv 2503.10516). Different from there, copies come over the best link from any memory that holds the
// data, and ranks that reach each other's device memory exchange data without host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "anticipation.hpp"
#include "base/ids.hpp"
#include "coherence.hpp"
#include "copy_sources.hpp"
#include "execution_plan.hpp"
#include "graphs/command_graph.hpp"
#include "instruction_builder.hpp"
#include "rank_memory.hpp"
#include "transfers.hpp"
#include "vocabulary/instruction.hpp"
#include "vocabulary/plan_position.hpp"
#include "vocabulary/planning_notice.hpp"
#include "vocabulary/task.hpp"

namespace celerity {

class instruction_graph_generator {
  public:
	using record_callback = instruction_history::record_callback;

	/// The callbacks may be empty.
	instruction_graph_generator(system_capabilities capabilities, record_callback record, notice_callback notify)
	    : m_capabilities(std::move(capabilities)), m_history{std::move(record)}, m_memory(m_capabilities, m_history, std::move(notify)),
	      m_anticipation(m_capabilities, m_memory), m_sources(m_capabilities), m_copies(m_capabilities, m_history, m_memory, m_sources),
	      m_transfers(m_capabilities, m_history, m_memory, m_sources, m_copies) {}

	instruction_graph_generator(const instruction_graph_generator&) = delete;
	instruction_graph_generator& operator=(const instruction_graph_generator&) = delete;

	void create_buffer(const buffer_info& info) { m_memory.create_buffer(info); }
	/// Frees the buffer's allocations after their last use.
	void destroy_buffer(buffer_id id, instruction_batch& out);

	/// Splits and maps `cmd`. Empty if `cmd` is no execution.
	execution_plan plan(const command& cmd);

	/// The lookahead: the memory of commands that are planned, not compiled yet.
	anticipation& wants() { return m_anticipation; }
	const anticipation& wants() const { return m_anticipation; }
	/// The program will not use the buffer in any further command; `destroy_buffer` follows.
	void announce_destruction(const buffer_id id) { m_memory.condemn(id); }
	const rank_memory& memory() const { return m_memory; }
	/// Appends the instructions of `cmd`, in topological order.
	void compile(const command& cmd, execution_plan&& plan, instruction_batch& out);

	/// Everything before the epoch or horizon `reached` has been executed.
	void notify_epoch_reached(const task_id reached) { m_history.store.notify_epoch_reached(reached); }
	/// There is a queue of this priority; as if it had submitted a task.
	void announce(const queue_priority queue) { m_queues |= queue_set_of(queue); }
	bool has_several_queues() const { return are_several(m_queues); }
	/// Whether the instructions that are compiled now may become a template, or repeat one. If so, planning must not look at how far the execution is.
	void set_repeating(const bool is_repeating) { m_is_repeating = is_repeating; }

	/// As in the task graph.
	void validate() const;
	void note_position(plan_position& now) const {
		now.instructions = m_history.window.current().value;
		now.held_horizons = m_anticipation.num_held_horizons();
		m_transfers.note_position(now);
	}
	template <typename Walk>
	void walk_state(Walk& walk, std::span<const buffer_id> buffers);
	/// The last epoch.
	instruction_id settled() const { return m_history.settled; }
	/// The memory of the instructions.
	instruction_store& store() { return m_history.store; }

  private:
	/// One reduction of the task that is compiled, and the place that collects this rank's partial results.
	struct local_reduction {
		const task_reduction* reduction;
		memory_id memory;                     ///< where the partial results meet
		std::size_t num_partials;             ///< of this rank, with the current value; a single one is the result
		staging_allocation* gather = nullptr; ///< since the first one has been collected
		std::size_t num_collected = 0;        ///< in `gather`
	};
	struct pending_horizon {
		instruction_id id;
		task_id task;
	};

	system_capabilities m_capabilities;
	instruction_history m_history;
	rank_memory m_memory;
	anticipation m_anticipation;
	copy_sources m_sources;
	coherence m_copies;
	transfers m_transfers;
	std::deque<pending_horizon> m_pending_horizons; ///< made, not yet applied; the oldest first
	queue_set m_queues = 0; ///< those that were announced, or have submitted a task
	bool m_is_repeating = false;
	task_id m_last_compiled;

	// Scratch, kept to avoid allocation per task.
	execution_plan m_spare_plan;
	buffer_requirements m_requirements;
	std::vector<access_binding> m_access_bindings;
	std::vector<reduction_binding> m_reduction_bindings;
	std::deque<region> m_bound_parts; ///< of the instruction under construction

	// instruction_graph.cpp: commands, epochs and horizons
	/// Whether the oldest pending horizon is to be applied now.
	bool must_apply_horizon() const;
	void compile_epoch(const command_phase& now, const task& node);
	void compile_horizon(const command_phase& now, const task& node);
	void apply_epoch(instruction_id epoch);

	// instruction_graph_tasks.cpp: kernels, host tasks, fences, reductions
	/// Allocates the memory, and brings the data there.
	void satisfy(const command_phase& now, buffer_state& buffer, const buffer_requirements& requirements);
	void compile_execution(const command_phase& now, const task& node, const execution_command& execution, const execution_plan& plan);
	const buffer_requirements& collect_requirements(const task& node, buffer_state& buffer, const execution_command& execution, const execution_plan& plan);
	access_binding bind(instruction_builder& execution, const buffer_access& access, memory_id memory, const region& where);
	instruction_id emit_chunk(const command_phase& now, const task& node, const execution_plan& plan, std::size_t chunk_index);
	/// Several memories have computed an element. All of them hold its value, and that of the device with the share counts as its origin. `kernels`: by chunk.
	void share_results(const task& node, const execution_command& execution, const execution_plan& plan, std::span<const instruction_id> kernels);
	std::vector<local_reduction> prepare_local_reductions(const command_phase& now, const task& node, const execution_command& execution,
	    const execution_plan& plan);
	void compile_reduction(const command_phase& now, const reduction_command& reduction);
	staging_allocation& acquire_gather_space(const command_phase& now, const buffer_state& buffer, const memory_id memory, const std::size_t count) {
		return m_memory.acquire_staging(now, memory, count * bytes_of_partial(buffer), buffer.info.element_alignment_bytes);
	}
	static std::size_t bytes_of_partial(const buffer_state& buffer) { return static_cast<std::size_t>(buffer.domain.area()) * buffer.info.element_size_bytes; }
	/// Copies the value in `source` behind those that have been collected.
	void collect_partial(const command_phase& now, local_reduction& local, memory_id source);
	void copy_partial(const command_phase& now, buffer_state& buffer, memory_id source, staging_allocation& gather, std::size_t slot);
	/// The result lies in the memory of `gather`: it is the value of the buffer or, if the collection goes on, the first partial result.
	void emit_reduce(const command_phase& now, buffer_state& buffer, const task_reduction& reduction, staging_allocation& gather, std::size_t count,
	    bool is_complete, bool goes_on = false);
	void compile_fence(const command_phase& now, const task& node);
	std::vector<instruction_id> copy_to_fence(const command_phase& now, const task& node);
};

template <typename Walk>
void instruction_graph_generator::walk_state(Walk& walk, const std::span<const buffer_id> buffers) {
	m_history.walk_state(walk);
	walk.number(m_pending_horizons.size());
	for(auto& horizon : m_pending_horizons) {
		walk.id(horizon.id);
		walk.task(horizon.task);
	}
	walk.number(m_queues);
	walk.task(m_last_compiled);
	m_memory.walk_state(walk, buffers, m_anticipation.num_held_horizons());
	m_anticipation.walk_state(walk);
	m_transfers.walk_state(walk);
}

} // namespace celerity
