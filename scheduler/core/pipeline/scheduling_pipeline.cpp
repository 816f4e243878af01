// SPDX-License-Identifier: MIT
#include "scheduling_pipeline.hpp"

#include <algorithm>
#include <utility>

#include "base/ensure.hpp"

namespace celerity {

namespace {

/// Held commands are bounded, so that an application that never stops asking for memory still runs; the same on every rank.
constexpr std::size_t max_held_commands = 65536;

bool is_flushing(const command& cmd) { return std::holds_alternative<epoch_command>(cmd.operation) || std::holds_alternative<fence_command>(cmd.operation); }

} // namespace

scheduling_pipeline::scheduling_pipeline(const pipeline_settings& settings, instruction_sink& sink, pipeline_observers observers)
    : m_sink(sink), m_notify(observers.notice), m_lookahead(settings.lookahead), m_program(settings.program),
      m_graphs{task_graph(settings.horizons, std::move(observers.task), observers.notice),
          command_graph_generator(settings.capabilities.num_ranks, settings.capabilities.local_rank, std::move(observers.command)),
          instruction_graph_generator(settings.capabilities, std::move(observers.instruction), std::move(observers.notice))},
      m_replayer(settings.templates, *this, m_graphs, m_program, m_sink, m_progress),
      m_loops(settings.templates && settings.loops, *this, m_graphs, m_program, m_sink, m_progress) {
	auto initial = std::make_shared<task>();
	initial->kind = task_kind::epoch;
	initial->action = epoch_action::init;
	initial->name = "init";
	submit(std::move(initial));
}

void scheduling_pipeline::create_buffer(const buffer_info& info) {
	leave();
	if(m_program != nullptr) m_program->add_buffer(info);
	m_graphs.tasks.create_buffer(info);
	m_graphs.commands.create_buffer(info);
	m_graphs.instructions.create_buffer(info); // not held back: anticipation must know it
}

void scheduling_pipeline::destroy_buffer(const buffer_id id) {
	leave();
	m_replayer.forget_buffer(id);
	m_loops.forget_buffer(id);
	m_graphs.tasks.destroy_buffer(id);
	m_graphs.commands.destroy_buffer(id);
	m_graphs.instructions.announce_destruction(id);
	m_held.emplace_back(destroy_event{id}); // commands that use it may still be held
	compile_ready();
}

void scheduling_pipeline::submit(std::shared_ptr<task> submitted) {
	if(!m_replayer.take(submitted)) m_loops.submit(submitted);
}

void scheduling_pipeline::leave() {
	m_replayer.leave();
	m_loops.leave();
}

void scheduling_pipeline::plan(std::shared_ptr<task> submitted) {
	m_graphs.instructions.set_repeating(m_replayer.is_repeating());
	m_new_tasks.clear();
	m_graphs.tasks.add(std::move(submitted), m_new_tasks);
	if(m_program != nullptr && !is_catching_up()) { // before there are instructions that exchange something for it
		auto entry = m_program->entry_for(m_new_tasks.front());
		m_program->add_task(entry, entry.described->id);
		m_loops.note(entry);
		m_replayer.note(std::move(entry));
	}
	for(const auto& node : m_new_tasks) {
		m_new_commands.clear();
		m_graphs.commands.lower(node, m_new_commands);
		m_progress.counts.tasks += node->kind != task_kind::horizon;
		m_progress.counts.horizons += node->kind == task_kind::horizon;
		m_progress.counts.commands += m_new_commands.size();
		for(auto& cmd : m_new_commands) hold(std::move(cmd));
	}
	compile_ready();
}

void scheduling_pipeline::flush() {
	leave();
	m_held.emplace_back(flush_event{});
	++m_num_flushing;
	compile_ready();
}

// The graphs have to know of the tasks that templates have repeated.
planned_places scheduling_pipeline::newest_places(const buffer_id id) {
	leave();
	return m_graphs.instructions.memory().newest_places(id);
}

void scheduling_pipeline::announce(const queue_priority queue) {
	leave();
	m_graphs.instructions.announce(queue);
}

void scheduling_pipeline::notify_epoch_reached(const task_id reached) {
	m_graphs.instructions.notify_epoch_reached(reached);
	m_replayer.notify_epoch_reached(reached);
	m_loops.notify_epoch_reached(reached);
}

void scheduling_pipeline::hold(command&& cmd) {
	auto plan = m_graphs.instructions.plan(cmd);
	std::vector<anticipation::place> wanted;
	if(m_lookahead != lookahead_mode::none) m_graphs.instructions.wants().anticipate(cmd, plan, wanted);
	const submission_id submission = cmd.node->submission;
	if(is_flushing(cmd)) ++m_num_flushing;
	if(m_lookahead == lookahead_mode::automatic && std::holds_alternative<horizon_command>(cmd.operation)) m_graphs.instructions.wants().foresee_growth();
	m_held.emplace_back(held_command{std::move(cmd), std::move(plan), std::move(wanted)});
	if(m_held.size() >= max_held_commands) {
		if(!m_warned_cap && m_notify) m_notify({.kind = planning_notice::kind_type::full_lookahead, .submission = submission, .number = max_held_commands});
		m_warned_cap = true;
		m_held.emplace_back(flush_event{});
		++m_num_flushing;
	}
}

bool scheduling_pipeline::may_compile_next() const {
	if(m_held.empty()) return false;                          // nothing to do
	if(m_lookahead == lookahead_mode::none) return true;      // never wait
	if(m_num_flushing > 0) return true;                       // somebody waits for the held commands
	const auto* const front = std::get_if<held_command>(&m_held.front());
	if(front == nullptr || front->wanted.empty()) return true; // compiling it cannot cause an allocation that waiting would enlarge
	if(m_lookahead == lookahead_mode::infinite) return false; // only a flush ends it
	return std::none_of(front->wanted.begin(), front->wanted.end(), [&](const auto& place) { return m_graphs.instructions.wants().may_grow(place); });
}

void scheduling_pipeline::compile_ready() {
	while(may_compile_next()) {
		held_event event = std::move(m_held.front());
		m_held.pop_front();
		compile_or_destroy(std::move(event));
		hand_over(); // one by one: the first of many that were held back need not wait for the plans of the others
	}
}

void scheduling_pipeline::compile_or_destroy(held_event&& event) {
	if(auto* const held = std::get_if<held_command>(&event)) {
		if(is_flushing(held->cmd)) {
			--m_num_flushing;
			++m_progress.counts.lookahead_flushes;
		}
		if(std::holds_alternative<horizon_command>(held->cmd.operation)) ++m_progress.released_horizons;
		m_graphs.instructions.compile(held->cmd, std::move(held->plan), m_batch);
	} else if(const auto* const destroyed = std::get_if<destroy_event>(&event)) {
		m_graphs.instructions.destroy_buffer(destroyed->buffer, m_batch);
	} else {
		--m_num_flushing;
		++m_progress.counts.lookahead_flushes;
	}
}

void scheduling_pipeline::hand_over() {
	if(m_batch.empty()) return;
	if(is_catching_up()) return m_batch.instructions.clear();
	m_progress.counts.instructions += m_batch.instructions.size();
	m_replayer.note(m_batch.instructions);
	m_loops.note(m_batch.instructions);
	m_sink.submit(std::exchange(m_batch, instruction_batch{}));
}

void scheduling_pipeline::validate() const {
	m_graphs.validate();
	m_replayer.validate();
	m_loops.validate();
	ensure(m_batch.empty(), "all instructions are handed over");
	ensure(!may_compile_next(), "commands are held for a reason");
	std::size_t num_flushing = 0;
	for(const auto& event : m_held) {
		const auto* const held = std::get_if<held_command>(&event);
		num_flushing += held != nullptr ? is_flushing(held->cmd) : std::holds_alternative<flush_event>(event);
	}
	ensure(num_flushing == m_num_flushing, "the held events that flush are counted");
	ensure(m_progress.released_horizons <= m_progress.counts.horizons, "a horizon is handed over once it has been planned");
}

} // namespace celerity
