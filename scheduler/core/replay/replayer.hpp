// SPDX-License-Identifier: MIT
// Replays. Repetitions of a recording are planned until the state of the graphs has become periodic. From then on their instructions come from a template.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "graphs/program_log.hpp"
#include "pipeline_counts.hpp"
#include "plan_graphs.hpp"
#include "plan_repeater.hpp"
#include "replay_template.hpp"
#include "vocabulary/instruction.hpp"
#include "vocabulary/instruction_sink.hpp"

namespace celerity {

/// The planning of single tasks, which a replayer repeats or leaves out.
class planner {
  public:
	/// Plans the task, and passes its log entry and its instructions to replayer::note.
	virtual void plan(std::shared_ptr<task> submitted) = 0;
	/// Whether the lookahead holds commands back. No period starts or ends then.
	virtual bool is_holding_back() const = 0;

  protected:
	~planner() = default;
};

class replayer {
  public:
	/// `log`: null if there is no other rank. Without templates, each repetition is planned.
	replayer(bool uses_templates, planner& planner, plan_graphs& graphs, std::shared_ptr<program_log> log, instruction_sink& sink, planning_progress& progress)
	    : m_uses_templates(uses_templates), m_planner(planner), m_graphs(graphs), m_log(std::move(log)), m_sink(sink), m_progress(progress),
	      m_repeater(graphs) {}

	replayer(const replayer&) = delete;
	replayer& operator=(const replayer&) = delete;

	/// As scheduling_pipeline::replay.
	std::uint32_t replay(const std::shared_ptr<const recorded_program>& program, submission_id first, std::uint32_t repetitions, std::size_t phase,
	    std::uint64_t site, bool may_leave_rest);
	/// Carries out a submitted task if it is a stop of the present replay. Otherwise returns false: the replay has ended, and the task is to be planned.
	bool take(const std::shared_ptr<task>& submitted);
	/// Other work than a replay and its stops follows.
	void leave();
	/// Throws std::logic_error if the state contradicts itself. For tests.
	void validate() const { m_memory.validate(); }
	void forget_buffer(const buffer_id id) { m_memory.forget_buffer(id, position().tasks); }
	void notify_epoch_reached(const task_id reached) { m_memory.notify_epoch_reached(reached); }

	/// The sink has the instructions of the present task, and the log its entry.
	bool is_catching_up() const { return m_is_catching_up; }
	/// The instructions of the present task may become a template, or repeat one.
	bool is_repeating() const { return m_is_repeating || m_is_catching_up; }
	void note(program_log::task_entry&& entry) {
		if(auto* const draft = m_memory.draft()) draft->tasks.push_back(std::move(entry));
	}
	void note(const std::span<const instruction* const> made) {
		if(auto* const draft = m_memory.draft()) {
			for(const auto* const each : made) draft->add(*each);
		}
	}

  private:
	bool m_uses_templates;
	planner& m_planner;
	plan_graphs& m_graphs;
	std::shared_ptr<program_log> m_log;
	instruction_sink& m_sink;
	planning_progress& m_progress;
	replay_memory m_memory;
	bool m_is_catching_up = false;
	bool m_is_repeating = false;
	std::shared_ptr<const recorded_program> m_repeated; ///< the latest one, if only stops have come after its replay
	std::size_t m_phase = 0;                            ///< of its next repetition, if the program goes on
	plan_repeater m_repeater;

	/// Something else than a repetition of a recording is about to be planned.
	void end_replay();
	plan_position position() const { return m_graphs.position() + m_memory.expanded(); }
	bool is_next(const submission_id id) const { return position().submissions + 1 == id.value; }
	/// The graphs learn of the legs that have been expanded.
	void catch_up();
	void plan_again(const replay_template& known, std::size_t num_legs);
	void plan_repetition(const recorded_program& program, submission_id first, std::uint64_t site, std::size_t phase);
	void look_for_template(const std::shared_ptr<const recorded_program>& program, std::shared_ptr<const task> stop = nullptr);
	bool read_state(std::span<const buffer_id> buffers);
	/// Expands some of the next repetitions, if the template goes on with repetitions. Returns their number.
	std::uint32_t expand(const replay_template& known, std::uint32_t repetitions, std::uint64_t site);
	void expand_periods(const replay_template& known, std::uint64_t num_periods, std::uint64_t site);
	/// Expands the next leg of the current template if it is a stop equal to this task.
	bool expand_stop(const std::shared_ptr<task>& submitted);
	/// `fence_destination`: of a fence.
	void append_leg(const replay_template& known, allocation_id fence_destination, instruction_batch& batch);
	void log_again(const recorded_plan& repetition, const plan_position& by, std::uint64_t site);
};

} // namespace celerity
