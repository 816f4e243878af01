// SPDX-License-Identifier: MIT
// Instructions of templates under the ids of later tasks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "plan_graphs.hpp"
#include "vocabulary/instruction.hpp"
#include "vocabulary/plan_position.hpp"

namespace celerity {

class plan_repeater {
  public:
	explicit plan_repeater(plan_graphs& graphs) : m_graphs(graphs) {}

	/// Appends instructions of a template, moved by so many ids. `settled` was the last epoch when the template was planned. Boxes and bindings are shared.
	/// Copies to memory of the application go to `fence_destination`.
	void repeat(std::span<const instruction> known, const plan_position& by, instruction_id settled, allocation_id fence_destination, instruction_batch& out);

  private:
	plan_graphs& m_graphs;
	std::vector<instruction_id> m_dependencies; ///< scratch

	void repeat(const instruction& known, const plan_position& by, instruction_id settled, allocation_id fence_destination, instruction_batch& out);
};

/// Templates, or parts of them, that are out of use. The executor may look at their boxes until it has passed a horizon or epoch behind the last task.
class retired_templates {
  public:
	void add(std::shared_ptr<const void> retired, const std::uint64_t last_task) { m_retired.push_back({std::move(retired), last_task}); }
	void notify_epoch_reached(const task_id reached) {
		if(!m_retired.empty()) std::erase_if(m_retired, [this](const entry& each) { return each.last_task < m_last_reached.value; });
		m_last_reached = reached;
	}

  private:
	struct entry {
		std::shared_ptr<const void> retired;
		std::uint64_t last_task;
	};
	std::vector<entry> m_retired;
	task_id m_last_reached;
};

} // namespace celerity
