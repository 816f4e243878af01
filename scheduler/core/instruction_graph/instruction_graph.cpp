// SPDX-License-Identifier: MIT
// Commands, horizons and epochs.
#include "instruction_graph.hpp"

#include <optional>
#include <utility>
#include <variant>

#include "base/overloaded.hpp"
#include "instruction_priorities.hpp"

namespace celerity {

namespace {

/// The history that work without end of one queue may keep while another one stands still.
constexpr std::size_t most_unexecuted_horizons = 4096;

} // namespace

void instruction_graph_generator::destroy_buffer(const buffer_id id, instruction_batch& out) {
	m_anticipation.forget(m_memory.at(id));
	m_memory.destroy_buffer({out, {m_last_compiled, instruction_key::phase_type::work}, {}}, id);
}

void instruction_graph_generator::compile(const command& cmd, execution_plan&& plan, instruction_batch& out) {
	const task& node = *cmd.node;
	const instruction_priority of_queue = priority_of_queue(node.priority);
	const command_phase now{out, {node.id, instruction_key::phase_type::work}, node.submission, of_queue};
	const command_phase sending{out, {node.id, instruction_key::phase_type::send}, node.submission, of_queue + priorities::push_boost};
	if(node.id != m_last_compiled) m_sources.begin_task();
	m_last_compiled = node.id;
	if(node.kind != task_kind::epoch && node.kind != task_kind::horizon) announce(node.priority);
	std::visit(overloaded{
	               [&](const epoch_command&) { compile_epoch(now, node); },
	               [&](const horizon_command&) { compile_horizon(now, node); },
	               [&](const execution_command& execution) { compile_execution(now, node, execution, plan); },
	               [&](const push_command& push) { m_transfers.compile_push(sending, push); },
	               [&](const await_push_command& await) { m_transfers.compile_await_push(await); },
	               [&](const reduction_command& reduction) { compile_reduction(now, reduction); },
	               [&](const fence_command&) { compile_fence(now, node); },
	           },
	    cmd.operation);
	if(!plan.chunks.empty()) m_spare_plan = std::move(plan);
}

void instruction_graph_generator::compile_epoch(const command_phase& now, const task& node) {
	if(node.action == epoch_action::shutdown) m_memory.free_staging(now);
	m_history.store.open_bucket(node.id);
	instruction_builder epoch(m_history, now);
	epoch.follow_all();
	m_history.settled = epoch.emit(epoch_instruction{node.id, node.submission, node.action}, priorities::horizon_or_epoch);
	apply_epoch(m_history.settled);
	m_pending_horizons.clear();
}

// An applied horizon makes its successors wait for all work before it, that of lower queues as well. With queues of several priorities, a horizon is therefore
// applied when it has been executed, or when there are too many to remember. Templates need plans that do not depend on the execution. In a replay, a horizon
// is applied so late that it has been executed by then, unless some work takes long.
bool instruction_graph_generator::must_apply_horizon() const {
	const std::size_t num_pending = m_pending_horizons.size();
	if(!are_several(m_queues)) return num_pending > 1;
	if(num_pending <= m_capabilities.most_horizons_ahead) return false;
	return m_is_repeating || m_pending_horizons.front().task <= m_history.store.last_reached() || num_pending > most_unexecuted_horizons;
}

void instruction_graph_generator::compile_horizon(const command_phase& now, const task& node) {
	m_history.store.open_bucket(node.id);
	instruction_builder horizon(m_history, now);
	horizon.follow_all();
	const instruction_id self = horizon.emit(horizon_instruction{node.id, node.submission}, priorities::horizon_or_epoch);
	m_pending_horizons.push_back({self, node.id});
	std::optional<instruction_id> applied;
	for(; must_apply_horizon(); m_pending_horizons.pop_front()) applied = m_pending_horizons.front().id;
	if(applied.has_value()) apply_epoch(*applied);
}

execution_plan instruction_graph_generator::plan(const command& cmd) {
	const auto* const execution = std::get_if<execution_command>(&cmd.operation);
	if(execution == nullptr) return {};
	auto plan = std::exchange(m_spare_plan, {});
	plan_execution(m_capabilities, m_memory, *cmd.node, *execution, plan);
	return plan;
}

void instruction_graph_generator::apply_epoch(const instruction_id epoch) {
	m_history.apply_epoch(epoch);
	m_memory.apply_epoch(epoch);
}

void instruction_graph_generator::validate() const {
	m_history.window.validate();
	m_memory.validate();
	m_anticipation.validate();
	instruction_id last;
	for(const auto& horizon : m_pending_horizons) {
		ensure(last < horizon.id && horizon.id <= m_history.window.current(), "the pending horizons of the instructions are in order");
		last = horizon.id;
	}
	ensure(m_history.settled <= m_history.window.current(), "the last epoch has been made");
}

} // namespace celerity
