// SPDX-License-Identifier: MIT
// Repeats instructions of a template.
#include "instruction_graph.hpp"

#include <variant>

#include "base/overloaded.hpp"
#include "vocabulary/instruction_copies.hpp"

namespace celerity {

void instruction_graph_generator::note_position(plan_position& now) const {
	now.instructions = m_window.current().value;
	now.messages = m_last_message;
	now.held_horizons = m_num_held_horizons;
}

void instruction_graph_generator::move(const plan_position& by, const std::span<const buffer_id> buffers) {
	state_mover mover(by, by.instructions);
	walk_state(mover, buffers);
	m_last_message += by.messages;
	m_num_held_horizons += by.held_horizons;
}

void instruction_graph_generator::repeat(const instruction& known, const plan_position& by, const instruction_id settled, const allocation_id fence_destination,
    instruction_batch& out) {
	std::visit(overloaded{
	               [&](const horizon_instruction& horizon) { open_bucket(task_id(horizon.task.value + by.tasks)); },
	               [&](const epoch_instruction& epoch) { open_bucket(task_id(epoch.task.value + by.tasks)); },
	               [](const auto&) {},
	           },
	    known.operation);
	auto* const made = nodes().create<instruction>(known);
	made->id.value += by.instructions;
	made->key.task.value += by.tasks;
	m_repeated_dependencies.clear();
	for(const instruction_id on : known.dependencies) {
		m_repeated_dependencies.push_back(on == settled ? m_settled : instruction_id(on.value + by.instructions));
	}
	made->dependencies = nodes().copy(m_repeated_dependencies);
	move_ids(nodes(), made->operation, by);
	if(auto* const copy = std::get_if<copy_instruction>(&made->operation); copy != nullptr && copy->destination.memory == user_memory) {
		copy->destination = fence_destination;
	}
	out.instructions.push_back(made);
}

} // namespace celerity
