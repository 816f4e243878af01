// SPDX-License-Identifier: MIT
// Plain loops: tasks that the program submits again and again are planned until the state of the graphs has become periodic. From then on their instructions
// come from a template, task by task, as long as the program submits what the template says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graphs/program_log.hpp"
#include "loop_batches.hpp"
#include "loop_search.hpp"
#include "pipeline_counts.hpp"
#include "plan_graphs.hpp"
#include "plan_repeater.hpp"
#include "task_stream.hpp"
#include "vocabulary/instruction.hpp"
#include "vocabulary/instruction_sink.hpp"

namespace celerity {

class planner;

class loop_replayer {
  public:
	/// `log`: null if there is no other rank.
	loop_replayer(bool uses_templates, planner& planner, plan_graphs& graphs, std::shared_ptr<program_log> log, instruction_sink& sink,
	    planning_progress& progress);

	loop_replayer(const loop_replayer&) = delete;
	loop_replayer& operator=(const loop_replayer&) = delete;

	/// Plans a submitted task, or repeats a plan.
	void submit(const std::shared_ptr<task>& submitted);
	/// The instructions that have been repeated and not handed over.
	loop_batches& batches() { return m_batches; }
	/// Something else than a task follows.
	void leave();
	/// Throws std::logic_error if the state contradicts itself. For tests.
	void validate() const;
	void forget_buffer(buffer_id id);
	void notify_epoch_reached(const task_id reached) { m_retired.notify_epoch_reached(reached); }

	/// The sink has the instructions of the present task, and the log its entry.
	bool is_catching_up() const { return m_is_catching_up; }
	void note(const program_log::task_entry& entry) {
		if(auto* const draft = m_search.draft()) draft->tasks.push_back(entry);
	}
	void note(const std::span<const instruction* const> made) {
		if(auto* const draft = m_search.draft()) {
			for(const auto* const each : made) draft->add(*each);
		}
	}

  private:
	struct kept_template {
		std::shared_ptr<const loop_template> known;
		unsigned num_misses = 0; ///< since the last whole period
	};

	bool m_uses_templates;
	planner& m_planner;
	plan_graphs& m_graphs;
	std::shared_ptr<program_log> m_log;
	planning_progress& m_progress;
	plan_repeater m_repeater;
	task_stream m_stream;
	loop_search m_search;
	std::vector<kept_template> m_templates; ///< the least recently used one first
	retired_templates m_retired;
	std::shared_ptr<const loop_template> m_current; ///< null: the next task is planned
	std::size_t m_next = 0;                         ///< the leg of the next task
	plan_position m_begun;                          ///< of the current period
	plan_position m_known;                          ///< the graphs know of the time before
	loop_batches m_batches;
	bool m_is_catching_up = false;
	std::size_t m_credit; ///< for looks at the state
	bool m_is_pausing = false;
	std::size_t m_hope; ///< tasks to plan in search of a longer loop

	bool repeat(const std::shared_ptr<task>& submitted);
	void count(const loop_leg& leg, const loop_leg& before);
	/// The graphs learn of the tasks that have been repeated.
	void catch_up();
	void plan_and_search(const std::shared_ptr<task>& submitted);
	/// Whether a template begins behind the latest task.
	bool find_known(std::uint64_t digest);
	bool prefers_search(const loop_template& known);
	std::size_t period_to_search() const;
	program_state read_state(std::span<const buffer_id> buffers);
	void begin(std::size_t place);
	void drop(std::size_t place);
};

} // namespace celerity
