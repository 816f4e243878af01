// SPDX-License-Identifier: MIT
// Repeats instructions of a template.
#include "instruction_graph.hpp"

#include "base/overloaded.hpp"

namespace celerity {

namespace {

void move(submission_id& id, const plan_position& by) { id.value += by.submissions; }
void move(transfer_id& transfer, const plan_position& by) {
	transfer.consumer.value += by.tasks;
	if(transfer.reduction != reduction_id{}) transfer.reduction.value += by.reductions;
}

} // namespace

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
	std::visit(overloaded{
	               [&](device_kernel_instruction& kernel) {
		               celerity::move(kernel.submission, by);
		               if(kernel.reductions.empty()) return;
		               m_reduction_bindings.assign(kernel.reductions.begin(), kernel.reductions.end());
		               for(auto& binding : m_reduction_bindings) binding.reduction.value += by.reductions;
		               kernel.reductions = nodes().copy(m_reduction_bindings);
	               },
	               [&](host_task_instruction& host_task) { celerity::move(host_task.submission, by); },
	               [&](send_instruction& send) {
		               send.message.value += by.messages;
		               celerity::move(send.transfer, by);
	               },
	               [&](receive_instruction& receive) { celerity::move(receive.transfer, by); },
	               [&](split_receive_instruction& receive) { celerity::move(receive.transfer, by); },
	               [&](await_receive_instruction& await) { celerity::move(await.transfer, by); },
	               [&](receive_partials_instruction& receive) { celerity::move(receive.transfer, by); },
	               [&](reduce_instruction& reduce) { reduce.reduction.value += by.reductions; },
	               [&](horizon_instruction& made_horizon) {
		               made_horizon.task.value += by.tasks;
		               celerity::move(made_horizon.last_submission, by);
	               },
	               [&](copy_instruction& copy) {
		               if(copy.destination.memory == user_memory) copy.destination = fence_destination;
	               },
	               [&](fence_instruction& fence) { celerity::move(fence.submission, by); },
	               [&](epoch_instruction& epoch) {
		               epoch.task.value += by.tasks;
		               celerity::move(epoch.submission, by);
	               },
	               [](gather_copy_instruction&) {},
	               [](auto&) { assert(false && "not part of a template"); },
	           },
	    made->operation);
	out.instructions.push_back(made);
}

} // namespace celerity
