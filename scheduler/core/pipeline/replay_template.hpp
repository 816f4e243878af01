// SPDX-License-Identifier: MIT
// Templates of replays: planning a recording again and again leads to states that differ by nothing but ids, and to instructions that differ by nothing but
// ids. A template keeps the instructions of one such period, and the state at its start, which is that at its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/arena.hpp"
#include "base/ids.hpp"
#include "graphs/graph_state.hpp"
#include "graphs/program_log.hpp"
#include "vocabulary/instruction.hpp"
#include "vocabulary/task.hpp"

namespace celerity {

/// The tasks that a replay repeats.
struct recorded_program {
	std::vector<task> tasks;        ///< without numbers
	std::vector<buffer_id> buffers; ///< that they access, each once
};

std::vector<buffer_id> buffers_of(const std::vector<task>& tasks);

/// What planning has made of one repetition. Owns all that the instructions refer to.
class repetition_plan {
  public:
	/// A repetition that allocates, frees or initializes is no part of a template.
	bool is_repeatable = true;
	std::vector<instruction> instructions;
	std::vector<program_log::task_entry> tasks; ///< empty if there is no log
	std::size_t num_horizons = 0;

	void add(const instruction& made);

  private:
	arena_block_pool m_pool;
	arena m_memory{m_pool};
};

using program_state = std::vector<std::uint64_t>;

struct replay_template {
	std::shared_ptr<const recorded_program> program;
	program_state state; ///< at the start and at the end
	plan_position start;
	plan_position length; ///< ids per period
	instruction_id settled; ///< the last epoch when it was planned
	std::vector<std::shared_ptr<const repetition_plan>> repetitions;
	std::size_t num_instructions = 0;
	std::size_t num_horizons = 0;
	/// For the executor, which must not own the template.
	std::shared_ptr<const void> identity = std::make_shared<const char>();
};

/// The templates of all recordings, and the search for new ones.
class replay_memory {
  public:
	/// Of the repetition that is planned now; null if nobody wants to know.
	repetition_plan* draft() { return m_draft.get(); }
	void begin_draft() { m_draft = std::make_shared<repetition_plan>(); }

	/// The template whose start is the current state; null: none is known.
	const std::shared_ptr<const replay_template>& current() const { return m_current; }
	/// The ids that expanded periods have used, as long as the graphs do not know.
	plan_position ahead;

	/// Whether there is anything to forget.
	bool is_replaying() const { return m_program != nullptr; }
	/// Whether to look at the state after the next repetition; it costs about as much as planning it.
	bool is_searching(const recorded_program& program);
	bool has_start() const { return !m_steps.empty(); }
	/// Space for the numbers of the next state.
	program_state& next_state() {
		m_next_state.clear();
		return m_next_state;
	}
	/// Planning a repetition has led to the next state at this position.
	void add_state(const std::shared_ptr<const recorded_program>& program, const plan_position& now, instruction_id settled);
	/// The current state is not the start of the template any more, but a repetition after it.
	void leave_template();
	/// The next state follows from no earlier one.
	void forget_steps();

	void forget_buffer(buffer_id id, std::uint64_t last_task);
	void notify_epoch_reached(task_id reached);

  private:
	/// A state, and the repetition that has led to it.
	struct step {
		program_state state;
		plan_position at;
		std::shared_ptr<const repetition_plan> plan; ///< null: no repetition
	};
	struct dropped_template {
		std::shared_ptr<const replay_template> dropped;
		std::uint64_t last_task; ///< the executor may look at its instructions until a later horizon or epoch
	};

	std::shared_ptr<repetition_plan> m_draft;
	std::shared_ptr<const replay_template> m_current;
	std::shared_ptr<const recorded_program> m_program; ///< of the steps
	std::vector<step> m_steps;
	program_state m_next_state;
	std::vector<std::shared_ptr<const replay_template>> m_templates; ///< the least recently used one first
	std::vector<dropped_template> m_dropped;
	task_id m_last_reached;
	std::size_t m_patience;
	std::size_t m_pause = 0;

	bool find_known();
	void find_period(const plan_position& now, instruction_id settled);
	void drop(std::size_t place, std::uint64_t last_task);

  public:
	replay_memory();
};

} // namespace celerity
