// SPDX-License-Identifier: MIT
// Whole periods of a replay, or segments of a long one, which each device carries out as one graph. The instructions of a run complete together, and count
// one by one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "devices/graph_devices.hpp"
#include "devices/native_launch.hpp"
#include "engine/out_of_order_engine.hpp"
#include "dispatch/issue_requests.hpp"
#include "events/executor_statistics.hpp"
#include "scheduler/core/base/small_vector.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"

namespace celerity {

using instruction_span = std::span<const instruction* const>;

/// The form of a graph: equal for all runs of as many periods, or of the same segment, of a template. Places are numbers of instructions in the run.
struct period_graph {
	struct step {
		std::uint32_t place = 0;
		device_id device;
		small_vector<std::uint32_t, 4> after; ///< steps; no step of these is before another one of them
	};

	period_graph(instruction_span run, const request_rules& rules);
	/// After a run.
	void add_counts(executor_statistics& sums) const;

	std::vector<step> steps;              ///< copies, gathers, kernels, and direct sends and receives
	std::vector<std::uint32_t> entrances; ///< places of the instructions with dependencies before the run
	executor_statistics counts;                  ///< of each run: its instructions and copies
	bool has_transfers = false;                  ///< with other ranks
	instruction_id latest_run;
	std::unique_ptr<operation_graph> operations; ///< null until the first run is issued
	std::vector<std::vector<std::byte>> scalars; ///< of a plain loop: by step, those of the kernels in `operations`
	/// The places in the memory of other ranks out of which the operations fetch, and the boxes there.
	struct fetched_part {
		const void* source = nullptr;
		box array;
		box where;
		box inbox; ///< empty if the message comes into none
		friend bool operator==(const fetched_part&, const fetched_part&) = default;
	};
	std::vector<fetched_part> fetched;
};

/// Instructions with consecutive ids that one graph carries out.
struct graph_run {
	std::vector<const instruction*> instructions;
	std::shared_ptr<period_graph> graph;
	bool is_of_loop = false; ///< scalars of its kernels may differ from those of other runs
};

/// Some of the periods in a batch, or a segment of one of them.
struct batch_part {
	const instruction_batch& batch;
	std::size_t first = 0; ///< instruction
	std::size_t size = 0;  ///< instructions

	std::size_t period_size() const { return batch.instructions.size() / batch.num_periods; }
	std::size_t num_periods() const { return size / period_size(); } ///< 0 for a segment
	instruction_span instructions() const { return instruction_span(batch.instructions).subspan(first, size); }
};

/// The graphs of this rank, and the runs that are not complete. Executor thread.
class period_graphs {
  public:
	/// Whether graphs can carry out the batch, or any part of it.
	bool is_eligible(const instruction_batch& batch, const request_rules& rules);
	/// Of an eligible batch of a plain loop: whether its kernels differ from those of the first batch by nothing but scalars. If they do not several times, no
	/// graph carries out later batches.
	bool has_known_kernels(const instruction_batch& batch, const launch_table& launches);
	/// No graph carries out later batches of the same template.
	void forbid(const instruction_batch& batch);
	/// Whether each run of the batch is a segment of a period. The batch has been eligible.
	bool is_divided(const instruction_batch& batch) const { return find_template(batch)->segment_ends.size() > 1; }
	/// The run that begins with this instruction, the first one of a period or segment. The batch has been eligible.
	batch_part part_from(const instruction_batch& batch, std::size_t first) const;
	std::shared_ptr<period_graph> graph_of(const batch_part& part, const request_rules& rules);
	/// Makes a run out of the part.
	issue_request add_run(const batch_part& part, const request_rules& rules);

	graph_run& find(const instruction_id first) { return m_runs.at(first); }
	const graph_run& find(const instruction_id first) const { return m_runs.at(first); }
	void erase(const instruction_id first) { m_runs.erase(first); }
	std::size_t num_runs() const { return m_runs.size(); }
	/// Whether the graph of a run has yet to be made.
	bool has_unmade_run() const {
		return std::any_of(m_runs.begin(), m_runs.end(), [](const auto& run) { return run.second.graph->operations == nullptr; });
	}

  private:
	struct known_kernel {
		std::size_t place = 0; ///< in the period
		std::shared_ptr<const native_kernel> kernel;
		box space;
	};
	/// A template of the scheduler.
	struct known_template {
		std::weak_ptr<const void> identity;
		const void* address = nullptr; ///< of the template, which may be gone
		bool is_eligible = false;
		std::vector<std::size_t> segment_ends; ///< in a period; one if that is not divided
		std::vector<known_kernel> kernels{};   ///< of a plain loop, as those of its first batch were
		unsigned num_misfits = 0;              ///< batches with other kernels
	};
	/// The graphs of a template for one number of periods, or for the segments of a period. The segments follow each other, so that all of them stay or go.
	struct cached_graphs {
		const void* identity = nullptr;
		std::size_t num_periods = 0;                                   ///< 0: segments
		std::map<std::size_t, std::shared_ptr<period_graph>> by_first; ///< by the number of their first instruction in the period
		std::size_t num_instructions = 0;                              ///< of all of them
		std::uint64_t last_use = 0;
	};

	std::vector<known_template> m_templates;
	std::vector<cached_graphs> m_graphs;
	std::unordered_map<instruction_id, graph_run> m_runs; ///< by the first id
	std::uint64_t m_num_uses = 0;
	std::vector<instruction_id> m_dependencies; ///< of the latest request

	std::vector<known_template>::const_iterator find_template(const instruction_batch& batch) const;
	void forget_dead_templates();
	void make_room(std::size_t num_graphs, std::size_t num_instructions);
};

} // namespace celerity
