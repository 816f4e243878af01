// SPDX-License-Identifier: MIT
// Templates of plain loops, and the search for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "replay_template.hpp"
#include "vocabulary/instruction.hpp"
#include "vocabulary/plan_position.hpp"
#include "vocabulary/task.hpp"

namespace celerity {

/// One task of a period. Its instructions and entry in the log are those of `recorded_plan` behind the ones of the leg before.
struct loop_leg {
	std::shared_ptr<const task> node;
	std::uint64_t digest = 0; ///< as stream_digest
	plan_position end;        ///< the last ids behind it
	std::size_t num_instructions = 0; ///< of the plan, up to its end
	std::size_t num_horizons = 0;
};

/// Legs that follow each other, whose instructions are of kinds that graphs of devices have. They are handed over as one batch. If they are a whole period,
/// so are several periods.
struct loop_stretch {
	std::size_t end = 0;                                         ///< leg
	std::shared_ptr<const loop_stretch_identity> identity; ///< null: a leg that graphs do not have
};

/// One period of a loop: planning its tasks, in this state, leads to instructions that differ by nothing but ids, and to the same state.
struct loop_template {
	std::vector<buffer_id> buffers; ///< that the tasks access
	program_state state;
	plan_position start;
	/// As replay_template::settled.
	instruction_id settled;
	std::shared_ptr<const recorded_plan> plan;
	std::size_t first_entry = 0; ///< of the log, in the plan
	loop_leg before;             ///< the start; it is no task
	std::vector<loop_leg> legs;
	std::vector<loop_stretch> stretches; ///< one after the other

	const loop_leg& leg_before(const std::size_t i) const { return i == 0 ? before : legs[i - 1]; }
	plan_position length() const { return legs.back().end - start; }
	std::span<const instruction> instructions_of(const std::size_t i) const {
		const auto first = leg_before(i).num_instructions;
		return std::span(plan->instructions).subspan(first, legs[i].num_instructions - first);
	}
};

/// Collects the plans of a loop's repetitions until the state behind one of them equals that behind an earlier one.
class loop_search {
  public:
	/// The stream repeats after so many tasks, from the next one on; 0: there is no loop, or no search.
	void restart(const std::size_t period) { *this = loop_search(period); }
	std::size_t period() const { return m_period; }
	/// Gets the instructions of the next task, and its entry in the log; null if nobody wants to know.
	recorded_plan* draft() { return m_plan.get(); }
	/// This task has been planned. Returns whether the search looks at the state behind it.
	bool add(const std::shared_ptr<const task>& planned, std::uint64_t digest, const plan_position& now);
	const std::vector<buffer_id>& buffers() const { return m_buffers; }
	/// Returns the period if the state is known.
	std::shared_ptr<const loop_template> add_state(program_state&& state, const plan_position& now, instruction_id settled);

	/// Throws std::logic_error if the state contradicts itself. For tests.
	void validate() const;

  private:
	struct seen_state {
		program_state state;
		std::size_t num_legs = 0;
	};

	std::size_t m_period = 0;
	std::size_t m_num_gathered = 0; ///< tasks whose buffers are known
	bool m_has_epoch = false;
	std::vector<buffer_id> m_buffers; ///< of one period of the stream
	std::shared_ptr<recorded_plan> m_plan; ///< since the first state
	loop_leg m_before;                     ///< the first state
	std::vector<loop_leg> m_legs;
	std::vector<seen_state> m_states;

  public:
	explicit loop_search(const std::size_t period = 0) : m_period(period) {}

  private:
	void gather(const task& planned);
	bool has_all_buffers_of(const task& planned) const;
	std::shared_ptr<const loop_template> make_template(const seen_state& first, program_state&& state, instruction_id settled) const;
};

} // namespace celerity
