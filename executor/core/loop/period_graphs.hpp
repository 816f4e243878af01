// SPDX-License-Identifier: MIT
// Whole periods of a replay, which each device carries out as one graph. The instructions of a run complete together, and count one by one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "backends/backend.hpp"
#include "engine/out_of_order_engine.hpp"
#include "engine_requests.hpp"
#include "events/executor_statistics.hpp"
#include "scheduler/core/base/small_vector.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"

namespace celerity {

using instruction_span = std::span<const instruction* const>;

/// The form of a graph: equal for all runs of as many periods of the same template. Places are numbers of instructions in the run.
struct period_graph {
	struct step {
		std::uint32_t place = 0;
		device_id device;
		small_vector<std::uint32_t, 4> after; ///< steps; no step of these is before another one of them
	};

	period_graph(instruction_span run, const request_rules& rules);
	/// After a run.
	void add_counts(executor_statistics& sums) const;

	std::vector<step> steps;              ///< copies, gathers and kernels
	std::vector<std::uint32_t> entrances; ///< places of the instructions with dependencies before the run
	executor_statistics counts;                  ///< of each run: its instructions and copies
	std::unique_ptr<operation_graph> operations; ///< null until the first run is issued
};

/// Instructions with consecutive ids that one graph carries out.
struct graph_run {
	std::vector<const instruction*> instructions;
	std::shared_ptr<period_graph> graph;
};

/// The graphs of this rank, and the runs that are not complete. Executor thread.
class period_graphs {
  public:
	/// Cuts the batch into runs, and calls submit(request) for each of them. Returns false, without a call, if graphs cannot carry out the batch.
	template <typename Submit>
	bool take(const instruction_batch& batch, const request_rules& rules, Submit&& submit);

	graph_run& find(const instruction_id first) { return m_runs.at(first); }
	const graph_run& find(const instruction_id first) const { return m_runs.at(first); }
	void erase(const instruction_id first) { m_runs.erase(first); }
	std::size_t num_graphs() const { return m_graphs.size(); }

  private:
	/// A template of the scheduler. It has at most one graph per number of periods.
	struct known_template {
		std::weak_ptr<const void> identity;
		const void* address = nullptr; ///< of the template, which may be gone
		bool is_eligible = false;
	};
	struct cached_graph {
		const void* identity = nullptr;
		std::size_t num_periods = 0;
		std::shared_ptr<period_graph> graph;
		std::uint64_t last_use = 0;
	};

	std::vector<known_template> m_templates;
	std::vector<cached_graph> m_graphs;
	std::unordered_map<instruction_id, graph_run> m_runs; ///< by the first id
	std::uint64_t m_num_uses = 0;
	std::vector<instruction_id> m_dependencies; ///< of the latest request

	void forget_dead_templates();
	bool is_eligible(const instruction_batch& batch, const request_rules& rules);
	std::shared_ptr<period_graph> graph_of(const void* identity, std::size_t num_periods, instruction_span run, const request_rules& rules);
	engine_request add_run(const instruction_batch& batch, std::size_t first_period, std::size_t num_periods, const request_rules& rules);
};

/// The number of periods of the next run, if `num_left` are left. Few different numbers: each takes a graph.
std::size_t periods_of_next_run(std::size_t num_left, std::size_t period_size);

template <typename Submit>
bool period_graphs::take(const instruction_batch& batch, const request_rules& rules, Submit&& submit) {
	forget_dead_templates();
	if(batch.replayed == nullptr || !is_eligible(batch, rules)) return false;
	const std::size_t period_size = batch.instructions.size() / batch.num_periods;
	for(std::size_t first = 0; first < batch.num_periods;) {
		const std::size_t num_periods = periods_of_next_run(batch.num_periods - first, period_size);
		submit(add_run(batch, first, num_periods, rules));
		first += num_periods;
	}
	return true;
}

} // namespace celerity
