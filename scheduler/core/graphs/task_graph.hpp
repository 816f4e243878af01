// SPDX-License-Identifier: MIT
// The task graph: one node per submission, the same on every rank. It numbers the tasks and decides where horizons go.
// Horizons after Thoman and Salzmann, "The Celerity High-level API" line of work (WAMTA'23, SN CS'24): made by depth or breadth of the graph,
// applied when the next one is made.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.hpp"
#include "dependency_window.hpp"
#include "geometry/region_map.hpp"
#include "node_record.hpp"
#include "recent_buffers.hpp"
#include "vocabulary/plan_position.hpp"
#include "vocabulary/planning_notice.hpp"
#include "vocabulary/task.hpp"

namespace celerity {

struct horizon_policy {
	std::size_t step = 4;             ///< a horizon after this much growth of the critical path
	std::size_t max_parallelism = 64; ///< a horizon once this many tasks have no dependents
};

using task_record = node_record<std::shared_ptr<const task>, task_id>;

class task_graph {
  public:
	using record_callback = std::function<void(task_record&&)>;

	task_graph(const horizon_policy& policy, record_callback record, notice_callback notify);

	void create_buffer(const buffer_info& info);
	void destroy_buffer(buffer_id id);

	/// Numbers the task and adds it; appends it, and the horizon it may have caused, to `out`.
	void add(std::shared_ptr<task> submitted, std::vector<std::shared_ptr<const task>>& out);

	/// Throws std::logic_error if the state contradicts itself. For tests.
	void validate() const;

	void note_position(plan_position& now) const;
	/// The state, as far as it concerns tasks that access these buffers only.
	template <typename Walk>
	void walk_state(Walk& walk, std::span<const buffer_id> buffers);

  private:
	using front = access_front<task_id>;

	struct buffer_state {
		buffer_info info;
		box domain;
		region_map<front> accesses;
		region uninitialized; ///< never written
		bool warned_uninitialized = false;
		recent_buffers::round last_use = 0;
	};

	horizon_policy m_policy;
	record_callback m_record;
	notice_callback m_notify;
	std::unordered_map<buffer_id, buffer_state> m_buffers;
	recent_buffers m_recent;
	dependency_window<task_id> m_window;
	side_effect_chains<task_id> m_side_effects;
	std::vector<std::size_t> m_path_lengths; ///< by task id, from m_path_base on
	std::uint64_t m_path_base = 1;
	std::size_t m_longest_path = 0;
	std::size_t m_longest_path_at_horizon = 0;
	task_id m_pending_horizon;      ///< made, not yet applied
	submission_id m_last_submission;
	std::uint64_t m_last_reduction = 0;

	void add_node(const std::shared_ptr<task>& node);
	std::vector<tracked_access<buffer_state>> map_accesses(const task& node);
	void track_path_length();
	void apply_epoch(task_id epoch);
	std::shared_ptr<const task> make_horizon();
	void check_initialized(const task& node, buffer_state& buffer, const region& read);
};

template <typename Walk>
void task_graph::walk_state(Walk& walk, const std::span<const buffer_id> buffers) {
	const std::uint64_t epoch = m_window.epoch().value;
	m_window.walk_state(walk);
	m_side_effects.walk_state(walk);
	m_recent.walk_state(walk);
	walk.id(m_pending_horizon);
	walk.number(m_longest_path - m_longest_path_at_horizon);
	for(std::size_t i = epoch - m_path_base; i < m_path_lengths.size(); ++i) walk.number(m_longest_path - m_path_lengths[i]);
	walk.hidden_base(m_path_base);
	walk.last(m_last_reduction, &plan_position::reductions);
	walk.last(m_last_submission.value, &plan_position::submissions);
	for(const buffer_id id : buffers) {
		auto& buffer = m_buffers.at(id);
		buffer.accesses.walk_state(walk, [&](front& f) { f.walk_state(walk); });
		walk.boxes(buffer.uninitialized.boxes());
		walk.number(buffer.warned_uninitialized);
	}
}

} // namespace celerity
