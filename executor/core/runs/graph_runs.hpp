// SPDX-License-Identifier: MIT
// Runs: periods of replays, or segments of long ones, that devices carry out as graphs. With direct peers, a batch is staged until the peers have announced
// the data of its receives.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dispatch/executor_state.hpp"
#include "period_graphs.hpp"
#include "run_operations.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"
#include "threads/event_count.hpp"

namespace celerity {

/// A batch that waits, and all later ones with it, until other ranks have announced the data that its graphs fetch. The numbers are of instructions.
struct staged_batch {
	instruction_batch batch;
	bool runs_as_graphs = false;
	std::size_t num_begun = 0;     ///< whose transfers have begun
	std::size_t num_submitted = 0; ///< to the engine
	std::size_t num_announced = 0; ///< up to the first transfer that is not announced

	bool has_begun() const { return num_begun == batch.instructions.size(); }
	instruction_span left() const { return instruction_span(batch.instructions).subspan(num_submitted); }
	instruction_id first_id() const { return left().front()->id; }
};

/// Executor thread, with the loop's state mutex.
class graph_runs {
  public:
	explicit graph_runs(executor_state& state) : m_state(state) {}
	graph_runs(const graph_runs&) = delete;
	graph_runs& operator=(const graph_runs&) = delete;

	/// Whether periods may run as graphs; once direct transfers have started.
	bool are_possible() const;
	/// Takes a batch that runs as graphs, or that has to wait behind one that does. Otherwise false.
	bool take(const instruction_batch& batch);
	/// Lets the engine issue the transfers that peers have announced.
	void release_held();
	/// Announces the sends of staged batches. Whether there were any.
	bool begin_staged();
	/// Hands the engine the staged batches that need not wait. Whether there were any.
	bool submit_staged();
	/// A deadline for the next call of submit_staged(); 0: there is none.
	event_count::clock::time_point staged_until() const { return m_staged_until; }
	/// The instruction for which the first staged batch waits; null: none is staged.
	const instruction* next_staged() const;

	void issue(const celerity::issue& item, const lane_waits& waits);
	const graph_run& find(const instruction_id first) const { return m_graphs.find(first); }
	/// All instructions that the engine carries out as this one.
	instruction_span instructions_of(const out_of_order_engine::live_instruction& live) const {
		return live.num_ids > 1 ? instruction_span(find(live.id).instructions) : instruction_span(&live.payload, 1);
	}
	/// Of the first transfer that waits, if the instructions are several.
	std::optional<transfer_status> find_status(const out_of_order_engine::live_instruction& live) const;
	std::vector<submission_id> kernels_in_flight() const;
	/// The run is complete.
	void erase(const instruction_id first) { m_graphs.erase(first); }
	/// Destroys the graphs, before their devices.
	void clear() { m_graphs = {}; }

  private:
	executor_state& m_state;
	period_graphs m_graphs;
	std::deque<staged_batch> m_staged;
	std::unordered_map<instruction_id, bool> m_released_early; ///< transfers of staged batches; whether the data is ready
	event_count::clock::time_point m_staged_since{};           ///< the first batch waits for more periods; 0: it does not
	event_count::clock::time_point m_staged_until{};           ///< so long the first batch waits for more periods; 0: it does not
	std::vector<graph_flag> m_flags;                           ///< of the latest run

	void release(const released_instruction& released);
	/// Of the first staged batch, now. Of size 0: none yet, or the batch does not run as graphs.
	batch_part part_to_run(staged_batch& staged);
	bool fetches_as_before(const batch_part& part, const period_graph& graph) const;
	std::vector<begun_step> begin_run(const graph_run& run);
	void note_scalars(const graph_run& run, graph_values& values);
};

} // namespace celerity
