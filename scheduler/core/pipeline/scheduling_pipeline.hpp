// SPDX-License-Identifier: MIT
// From submitted tasks to instructions, as a pure machine: events in, batches out. No thread, no clock, no I/O.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <variant>
#include <vector>

#include "base/names.hpp"
#include "graphs/program_log.hpp"
#include "replay/loop_replayer.hpp"
#include "replay/pipeline_counts.hpp"
#include "replay/plan_graphs.hpp"
#include "replay/replayer.hpp"
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
	bool loops = true;     ///< repeats the plan of a plain loop likewise; only with templates
	bool templates = true; ///< repeats the plan of a replay once it has become periodic; the instructions are the same without
};

/// All may be empty.
struct pipeline_observers {
	task_graph::record_callback task;
	command_graph_generator::record_callback command;
	instruction_graph_generator::record_callback instruction; ///< not of instructions that are repeated from a template
	notice_callback notice;
};

class scheduling_pipeline : private planner {
  public:
	/// Emits the initial epoch.
	scheduling_pipeline(const pipeline_settings& settings, instruction_sink& sink, pipeline_observers observers);

	scheduling_pipeline(const scheduling_pipeline&) = delete;
	scheduling_pipeline& operator=(const scheduling_pipeline&) = delete;

	void create_buffer(const buffer_info& info);
	void destroy_buffer(buffer_id id);
	void submit(std::shared_ptr<task> submitted);
	/// Like submits of all tasks of the program so many times, beginning with `phase`; the first one has number `first`, and all come from line `site`. `may_leave_rest`: the last
	/// repetitions are left if they end no period of a template. Returns the number of repetitions that are planned.
	std::uint32_t replay(const std::shared_ptr<const recorded_program>& program, const submission_id first, const std::uint32_t repetitions,
	    const std::size_t phase, const std::uint64_t site, const bool may_leave_rest) {
		m_loops.leave();
		return m_replayer.replay(program, first, repetitions, phase, site, may_leave_rest);
	}
	/// What plain loops have repeated and hold back, which is handed over from there.
	loop_batches& batches() { return m_loops.batches(); }
	/// Compiles everything that is held back.
	void flush();
	/// See rank_memory. Hands all instructions over that the answer supposes.
	planned_places newest_places(buffer_id id);
	/// There is a queue of this priority.
	void announce(queue_priority queue);
	/// The executor has passed this horizon or epoch. The graphs drop all that they keep of the time before it.
	void notify_epoch_reached(task_id reached);

	/// Throws std::logic_error if the state contradicts itself. For tests.
	void validate() const;

	/// See rank_memory.
	std::uint64_t num_condemned_bytes() const { return m_graphs.instructions.memory().num_condemned_bytes(); }
	bool is_holding_back() const override { return !m_held.empty(); }
	const pipeline_counts& counts() const { return m_progress.counts; }
	/// Horizons handed to the sink so far.
	std::uint64_t num_released_horizons() const { return m_progress.released_horizons; }

  private:
	struct destroy_event {
		buffer_id buffer;
	};
	struct flush_event {};
	struct held_command {
		command cmd;
		execution_plan plan;
		std::vector<anticipation::place> wanted; ///< where it wants new memory
	};
	using held_event = std::variant<held_command, destroy_event, flush_event>;

	instruction_sink& m_sink;
	notice_callback m_notify;
	lookahead_mode m_lookahead;
	std::shared_ptr<program_log> m_program;
	plan_graphs m_graphs;
	std::deque<held_event> m_held;
	std::size_t m_num_flushing = 0; ///< events in m_held that force everything before them out
	bool m_warned_cap = false;
	planning_progress m_progress;
	replayer m_replayer;
	loop_replayer m_loops;
	std::vector<std::shared_ptr<const task>> m_new_tasks;
	std::vector<command> m_new_commands;
	instruction_batch m_batch;

	void plan(std::shared_ptr<task> submitted) override;
	bool is_catching_up() const { return m_replayer.is_catching_up() || m_loops.is_catching_up(); }
	/// Something else than a task or a replay follows.
	void leave();
	/// Appends the command to the lookahead queue, which `compile_ready` empties, often at once.
	void hold(command&& cmd);
	bool may_compile_next() const;
	void compile_ready();
	void compile_or_destroy(held_event&& event);
	void hand_over();
};

} // namespace celerity
