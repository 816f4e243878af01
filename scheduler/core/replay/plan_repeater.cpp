// SPDX-License-Identifier: MIT
#include "plan_repeater.hpp"

#include <variant>

#include "base/overloaded.hpp"
#include "instruction_copies.hpp"

namespace celerity {

void plan_repeater::repeat(const std::span<const instruction> known, const plan_position& by, const instruction_id settled,
    const allocation_id fence_destination, instruction_batch& out) {
	for(const auto& each : known) repeat(each, by, settled, fence_destination, out);
}

void plan_repeater::repeat(const instruction& known, const plan_position& by, const instruction_id settled, const allocation_id fence_destination,
    instruction_batch& out) {
	auto& store = m_graphs.instructions.store();
	std::visit(overloaded{
	               [&](const horizon_instruction& horizon) { store.open_bucket(task_id(horizon.task.value + by.tasks)); },
	               [&](const epoch_instruction& epoch) { store.open_bucket(task_id(epoch.task.value + by.tasks)); },
	               [](const auto&) {},
	           },
	    known.operation);
	auto* const made = store.nodes().create<instruction>(known);
	made->id.value += by.instructions;
	made->key.task.value += by.tasks;
	m_dependencies.clear();
	for(const instruction_id on : known.dependencies) {
		m_dependencies.push_back(on == settled ? m_graphs.instructions.settled() : instruction_id(on.value + by.instructions));
	}
	made->dependencies = store.nodes().copy(m_dependencies);
	move_ids(store.nodes(), made->operation, by);
	if(auto* const copy = std::get_if<copy_instruction>(&made->operation); copy != nullptr && copy->destination.is_of_user()) {
		copy->destination = fence_destination;
	}
	out.instructions.push_back(made);
}

} // namespace celerity
