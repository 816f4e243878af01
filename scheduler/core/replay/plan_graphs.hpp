// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "graph_state.hpp"
#include "graphs/command_graph.hpp"
#include "graphs/task_graph.hpp"
#include "instruction_graph/instruction_graph.hpp"
#include "vocabulary/plan_position.hpp"

namespace celerity {

/// The three graphs of a rank.
struct plan_graphs {
	task_graph tasks;
	command_graph_generator commands;
	instruction_graph_generator instructions;

	/// The last ids that the graphs know of.
	plan_position position() const {
		plan_position now;
		tasks.note_position(now);
		commands.note_position(now);
		instructions.note_position(now);
		return now;
	}
	/// Throws std::logic_error if the state contradicts itself. For tests.
	void validate() const {
		tasks.validate();
		commands.validate();
		instructions.validate();
	}
	/// The state, as far as it concerns tasks that access these buffers only.
	void read_state(state_reader& reader, const std::span<const buffer_id> buffers) {
		tasks.walk_state(reader, buffers);
		commands.walk_state(reader, buffers);
		instructions.walk_state(reader, buffers);
	}
	/// The graphs get the state after so much work, which has been repeated from a template.
	void move(const plan_position& by, const std::span<const buffer_id> buffers) {
		state_mover of_tasks(by, by.tasks);
		tasks.walk_state(of_tasks, buffers);
		state_mover of_commands(by, by.commands);
		commands.walk_state(of_commands, buffers);
		state_mover of_instructions(by, by.instructions);
		instructions.walk_state(of_instructions, buffers);
	}
};

} // namespace celerity
