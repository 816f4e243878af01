// SPDX-License-Identifier: MIT
// From submitted tasks to instructions, as a pure machine: events in, batches out. No thread, no clock, no I/O.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "base/fields.hpp"
#include "base/names.hpp"
#include "graphs/command_graph.hpp"
#include "graphs/program_log.hpp"
#include "graphs/task_graph.hpp"
#include "instruction_graph/instruction_graph.hpp"
#include "replay_template.hpp"
#include "vocabulary/instruction_sink.hpp"
#include "vocabulary/planning_notice.hpp"

namespace celerity {

enum class lookahead_mode : std::uint8_t {
	none,      ///< compile each command at once
	automatic, ///< hold commands back while the buffers whose memory they want may still grow
	infinite,  ///< hold everything back until something must be flushed
};
template <>
inline constexpr std::array<const char*, 3> names_of<lookahead_mode>{"none", "auto", "infinite"};

struct pipeline_settings {
	system_capabilities capabilities;
	horizon_policy horizons;
	lookahead_mode lookahead = lookahead_mode::automatic;
	std::shared_ptr<program_log> program = nullptr; ///< the log that the ranks compare; null if there is no other rank
	bool templates = true; ///< repeats the plan of a replay once it has become periodic; the instructions are the same without
};

/// All may be empty.
struct pipeline_observers {
	task_graph::record_callback task;
	command_graph_generator::record_callback command;
	instruction_graph_generator::record_callback instruction; ///< not of instructions that are repeated from a template
	notice_callback notice;
};

struct pipeline_counts {
	std::uint64_t tasks = 0;
	std::uint64_t horizons = 0;
	std::uint64_t commands = 0;
	std::uint64_t instructions = 0;
	std::uint64_t lookahead_flushes = 0; ///< by a fence, an epoch, the user, or a scheduler whose executor has nothing to do
	std::uint64_t expanded_repetitions = 0; ///< of recordings, from a template
	CELERITY_FIELDS(tasks, horizons, commands, instructions, lookahead_flushes, expanded_repetitions)
};

class scheduling_pipeline {
  public:
	/// Emits the initial epoch.
	scheduling_pipeline(const pipeline_settings& settings, instruction_sink& sink, pipeline_observers observers);

	scheduling_pipeline(const scheduling_pipeline&) = delete;
	scheduling_pipeline& operator=(const scheduling_pipeline&) = delete;

	void create_buffer(const buffer_info& info);
	void destroy_buffer(buffer_id id);
	void submit(std::shared_ptr<task> submitted);
	/// Like submits of all tasks of the program so many times; the first one has number `first`, and all come from line `site`. `may_leave_rest`: the last
	/// repetitions are left if they end no period of a template. Returns the number of repetitions that are planned.
	std::uint32_t replay(const std::shared_ptr<const recorded_program>& program, submission_id first, std::uint32_t repetitions, std::uint64_t site,
	    bool may_leave_rest);
	/// Compiles everything that is held back.
	void flush();
	/// There is a queue of this priority.
	void announce(queue_priority queue);
	/// The executor has passed this horizon or epoch. The graphs drop all that they keep of the time before it.
	void notify_epoch_reached(task_id reached);

	bool is_holding_back() const { return !m_held.empty(); }
	const pipeline_counts& counts() const { return m_counts; }
	/// Horizons handed to the sink so far.
	std::uint64_t num_released_horizons() const { return m_num_released_horizons; }

  private:
	struct destroy_event {
		buffer_id buffer;
	};
	struct flush_event {};
	struct held_command {
		command cmd;
		instruction_graph_generator::execution_plan plan;
		std::vector<instruction_graph_generator::place> wanted; ///< where it wants new memory
	};
	using held_event = std::variant<held_command, destroy_event, flush_event>;

	instruction_sink& m_sink;
	notice_callback m_notify;
	lookahead_mode m_lookahead;
	std::shared_ptr<program_log> m_program;
	task_graph m_tasks;
	command_graph_generator m_commands;
	instruction_graph_generator m_instructions;
	std::deque<held_event> m_held;
	std::size_t m_num_flushing = 0; ///< events in m_held that force everything before them out
	bool m_warned_cap = false;
	pipeline_counts m_counts;
	std::uint64_t m_num_released_horizons = 0;
	bool m_uses_templates;
	replay_memory m_replays;
	bool m_is_catching_up = false; ///< the executor has the instructions of what is planned now
	bool m_is_repeating = false;   ///< the present task, a repetition or a stop, is one that a template may repeat
	std::shared_ptr<const recorded_program> m_repeated; ///< the latest one, if only stops have come after its replay
	std::vector<std::shared_ptr<const task>> m_new_tasks;
	std::vector<command> m_new_commands;
	instruction_batch m_batch;

	void plan(std::shared_ptr<task> submitted);
	/// Something else than a repetition of a recording is about to be planned.
	void end_replay();
	/// Other work than a replay and its stops follows.
	void leave_replay();
	/// The last ids that the graphs know of.
	plan_position position_of_graphs() const;
	plan_position position() const { return position_of_graphs() + m_replays.expanded(); }
	bool is_next(const submission_id id) const { return position().submissions + 1 == id.value; }
	/// The graphs learn of the parts that have been expanded.
	void catch_up();
	void plan_again(const replay_template& known, std::size_t num_parts);
	void plan_repetition(const recorded_program& program, submission_id first, std::uint64_t site);
	void look_for_template(const std::shared_ptr<const recorded_program>& program, std::shared_ptr<const task> stop = nullptr);
	bool read_state(std::span<const buffer_id> buffers);
	/// Expands some of the next repetitions, if the template goes on with repetitions. Returns their number.
	std::uint32_t expand(const replay_template& known, std::uint32_t repetitions, std::uint64_t site);
	void expand_periods(const replay_template& known, std::uint64_t num_periods, std::uint64_t site);
	/// Expands the next part of the current template if it is a stop equal to this task.
	bool expand_stop(const std::shared_ptr<task>& submitted);
	/// `fence_destination`: of a fence.
	void append_part(const replay_template& known, allocation_id fence_destination, instruction_batch& batch);
	void log_again(const recorded_plan& repetition, const plan_position& by, std::uint64_t site);
	/// Appends the command to the lookahead queue, which `compile_ready` empties, often at once.
	void hold(command&& cmd);
	bool may_compile_next() const;
	void compile_ready();
	void compile_or_destroy(held_event&& event);
	void hand_over();
};

} // namespace celerity
