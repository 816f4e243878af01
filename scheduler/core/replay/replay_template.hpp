// SPDX-License-Identifier: MIT
// Templates of replays: planning a recording again and again leads to states that differ by nothing but ids, and to instructions that differ by nothing but
// ids. A template keeps the instructions of one such period, and the state at its start, which is that at its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/arena.hpp"
#include "base/ids.hpp"
#include "graphs/program_log.hpp"
#include "plan_repeater.hpp"
#include "vocabulary/instruction.hpp"
#include "vocabulary/plan_position.hpp"
#include "vocabulary/task.hpp"

namespace celerity {

/// The tasks that a replay repeats.
struct recorded_program {
	std::vector<task> tasks;         ///< without numbers; of all phases
	std::size_t num_phases = 1;      ///< repetitions until the same tasks come again. Those of a phase differ from others by their reach only
	std::vector<buffer_id> buffers;  ///< that they access, each once
	queue_priority lowest_queue = 0; ///< of the tasks

	explicit recorded_program(std::vector<task> recorded, std::size_t phases = 1);
	std::size_t tasks_per_repetition() const { return tasks.size() / num_phases; }
	std::span<const task> repetition(const std::size_t phase) const { return std::span(tasks).subspan(phase * tasks_per_repetition(), tasks_per_repetition()); }
	std::size_t phase_after(const std::size_t phase, const std::uint64_t repetitions) const { return (phase + repetitions) % num_phases; }
};

/// The plan of one repetition, or of one stop. Owns all data that its instructions refer to.
class recorded_plan {
  public:
	/// Nothing that allocates, frees or initializes is part of a template.
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

/// A wait or fence of the program is a *stop* if it may lie between the repetitions of a period: planning it depends on the state of these buffers only.
bool can_be_stop(const task& submitted, const recorded_program& program);
/// Whether planning both stops in the same state has the same result, apart from the memory that receives the data of a fence.
bool are_equal_stops(const task& a, const task& b);

/// One repetition or one stop of a period.
struct template_leg {
	std::shared_ptr<const recorded_plan> plan;
	std::shared_ptr<const task> stop; ///< null: a repetition
	plan_position begin;              ///< ids since the start of the period
	plan_position length;
	/// The number of repetitions from this one to the next stop or, without stops, to the end of the period.
	std::uint32_t num_repetitions = 0;
	std::size_t phase = 0; ///< of the repetition
};

/// A period of repetitions and stops. The program and the ids of a repetition or stop are the same in each period, apart from the start of the period.
struct replay_template {
	std::shared_ptr<const recorded_program> program;
	program_state state; ///< at the start and at the end
	plan_position start;
	plan_position length;
	/// The last epoch when it was planned. None if the template has an epoch itself, to which all older ids lead.
	instruction_id settled;
	bool has_stops = false; ///< then the last leg is a stop: an epoch, if there is one
	std::size_t num_horizons = 0;
	std::vector<template_leg> legs;
};

/// The templates of all recordings, and the search for new ones.
class replay_memory {
  public:
	/// Of the repetition that is planned now; null if nobody wants to know.
	recorded_plan* draft() { return m_draft.get(); }
	void begin_draft() { m_draft = std::make_shared<recorded_plan>(); }

	/// The template whose start is the current state; null: none is known.
	const std::shared_ptr<const replay_template>& current() const { return m_current; }
	/// The ids of expanded periods, as long as the graphs do not know of them.
	plan_position ahead;
	/// The first leg of the next period that is not expanded yet.
	std::size_t next_leg = 0;
	/// The ids of all expanded legs.
	plan_position expanded() const { return next_leg == 0 ? ahead : ahead + m_current->legs[next_leg].begin; }
	/// An identity of the next `repetitions` repetitions; the same whenever they recur. The executor keys its graphs by it, and does not own the template.
	std::shared_ptr<const void> identity_of_next(std::uint32_t repetitions);
	/// The next leg of the current template is expanded.
	void advance();
	/// So many repetitions follow. Chooses a template that starts in the current state. Its first stop comes after exactly `repetitions` repetitions, or else
	/// after more. Returns whether there is such a template, or nothing to choose.
	bool choose_for(std::uint32_t repetitions);
	/// The next state is one in which no template starts.
	void begin_states(program_state&& state, const plan_position& now, const std::size_t phase) {
		m_states.assign(1, {std::move(state), now, nullptr, nullptr, phase});
	}

	/// Whether there is anything to forget.
	bool is_replaying() const { return m_program != nullptr; }
	/// Whether to look at the state after the next repetition; it costs about as much as planning it.
	bool is_searching(const recorded_program& program);
	bool has_start() const { return !m_states.empty(); }
	void note_repetitions(const std::uint32_t number) { m_since_stop += number; }
	/// A wait or fence follows a replay.
	void note_stop() { m_before_stop = std::exchange(m_since_stop, 0); }
	/// Whether the next repetition is planned although the current template has it: a template with the stops between replays may come of that. `done` of the
	/// replay's repetitions precede it.
	bool prefers_search(std::uint32_t done);
	/// Whether planning this task may lead to a state of a period, too.
	bool is_searching_stop(const task& submitted) const { return has_start() && m_pause == 0 && can_be_stop(submitted, *m_program); }
	/// Space for the numbers of the next state.
	program_state& next_state() {
		m_next_state.clear();
		return m_next_state;
	}
	/// Planning a repetition, or a stop, has led to the next state at this position. `phase`: of the next repetition.
	void add_state(const std::shared_ptr<const recorded_program>& program, const plan_position& now, instruction_id settled, std::size_t phase,
	    std::shared_ptr<const task> stop = nullptr);
	const std::shared_ptr<const recorded_program>& program() const { return m_program; }
	/// The program does not go on as the template does. The ids up to `last_task` are in use.
	void leave_template(std::uint64_t last_task);
	/// The next state follows from no earlier one.
	void forget_states();

	/// Throws std::logic_error if the state contradicts itself. For tests.
	void validate() const;
	void forget_buffer(buffer_id id, std::uint64_t last_task);
	void notify_epoch_reached(const task_id reached) { m_retired.notify_epoch_reached(reached); }

  private:
	/// A state, and the repetition or stop that has led to it.
	struct seen_state {
		program_state state;
		plan_position at;
		std::shared_ptr<const recorded_plan> plan; ///< null: neither
		std::shared_ptr<const task> stop;          ///< null: a repetition
		std::size_t phase = 0;                     ///< of the next repetition
	};
	struct kept_template {
		std::shared_ptr<const replay_template> known;
		unsigned num_misses = 0;                                                                 ///< since the last whole period
		std::map<std::pair<std::size_t, std::uint32_t>, std::shared_ptr<const void>> identities{}; ///< by first leg and number
	};

	std::shared_ptr<recorded_plan> m_draft;
	std::shared_ptr<const replay_template> m_current;
	std::shared_ptr<const recorded_program> m_program; ///< of the states
	std::vector<seen_state> m_states;
	program_state m_next_state;
	std::vector<kept_template> m_templates; ///< the least recently used one first
	retired_templates m_retired;
	std::size_t m_patience;
	std::size_t m_pause = 0;
	std::uint32_t m_since_stop = 0;  ///< repetitions since the last stop
	std::uint32_t m_before_stop = 0; ///< as many between the last two stops
	std::size_t m_hope; ///< repetitions to plan in search of stops

	void find_known();
	void make_current(std::size_t place);
	void find_period(const plan_position& now, instruction_id settled);
	replay_template make_template(std::size_t first, const plan_position& now, instruction_id settled) const;
	void drop(std::size_t place, std::uint64_t last_task);

  public:
	replay_memory();
};

} // namespace celerity
