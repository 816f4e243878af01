// SPDX-License-Identifier: MIT
#include "loop_replayer.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/ensure.hpp"
#include "replayer.hpp"

namespace celerity {

namespace {

constexpr std::size_t max_loop_templates = 16;
/// A template that so many times in a row did not lead to its end is none of the program any more.
constexpr unsigned max_loop_misses = 2;
/// A look at the state costs about as much as planning a few tasks. In a program whose states never come again, one planned task in so many is followed by one.
constexpr std::size_t tasks_per_look = 16;
constexpr std::size_t max_credit = 512 * tasks_per_look;
/// A longer loop, with a fence or wait in it, is looked for although a shorter one has a template: of at most so many tasks, for at most so many in all.
constexpr std::size_t max_preferred_period = 256;
constexpr std::size_t max_loop_hope = 16 * max_preferred_period;

bool can_be_leg(const task& submitted) {
	switch(submitted.kind) {
	case task_kind::device_kernel:
	case task_kind::host_task: return true;
	case task_kind::fence: return submitted.side_effects.empty() && submitted.accesses.size() == 1;
	case task_kind::epoch: return submitted.action == epoch_action::none || submitted.action == epoch_action::barrier;
	case task_kind::horizon: break;
	}
	return false;
}

} // namespace

void loop_replayer::submit(const std::shared_ptr<task>& submitted) {
	if(m_current != nullptr && repeat(submitted)) return;
	catch_up();
	if(m_uses_templates && can_be_leg(*submitted) && !m_graphs.instructions.has_several_queues()) return plan_and_search(submitted);
	m_search.restart(0);
	m_planner.plan(submitted);
}

// ---- repeated tasks -----------------------------------------------------------------------------------------------------------------

bool loop_replayer::repeat(const std::shared_ptr<task>& submitted) {
	const auto& known = *m_current;
	const auto& leg = known.legs[m_next];
	const auto by = m_begun - known.start;
	if(leg.node->submission.value + by.submissions != submitted->submission.value || !are_repeated(*leg.node, *submitted)) return false;
	submitted->id = task_id(leg.node->id.value + by.tasks);
	for(std::size_t i = 0; i < submitted->reductions.size(); ++i) {
		submitted->reductions[i].id = reduction_id(leg.node->reductions[i].id.value + by.reductions);
	}
	if(m_log != nullptr) m_log->add_task({known.plan->tasks[known.first_entry + m_next].digest_without_values, submitted}, submitted->id);
	const auto instructions = known.instructions_of(m_next);
	m_repeater.repeat(instructions, by, known.settled, submitted->fence_destination, m_batches.open());
	count(leg, known.leg_before(m_next));
	m_stream.add(leg.digest);
	m_batches.end_leg(known, m_next + 1);
	if(++m_next == known.legs.size()) {
		m_next = 0;
		m_begun = m_begun + known.length();
		m_templates.back().num_misses = 0;
	}
	return true;
}

void loop_replayer::count(const loop_leg& leg, const loop_leg& before) {
	const auto num_horizons = leg.num_horizons - before.num_horizons;
	auto& counts = m_progress.counts;
	++counts.tasks;
	++counts.repeated_tasks;
	counts.horizons += num_horizons;
	counts.commands += leg.end.commands - before.end.commands;
	counts.instructions += leg.num_instructions - before.num_instructions;
	counts.lookahead_flushes += leg.node->kind == task_kind::epoch || leg.node->kind == task_kind::fence;
	m_progress.released_horizons += num_horizons;
}

void loop_replayer::catch_up() {
	const auto known = std::exchange(m_current, nullptr);
	if(known == nullptr) return;
	m_batches.release();
	if(const auto by = m_begun - m_known; by != plan_position()) m_graphs.move(by, known->buffers);
	const auto num_legs = std::exchange(m_next, 0);
	if(num_legs == 0) return;
	// The state in the middle of a period is known to nobody. Planning leads to it, and to the instructions that the executor has already.
	const auto before = m_progress;
	m_is_catching_up = true;
	for(std::size_t i = 0; i < num_legs; ++i) {
		auto node = std::make_shared<task>(*known->legs[i].node);
		node->submission = submission_id(m_graphs.position().submissions + 1);
		m_planner.plan(std::move(node));
	}
	m_is_catching_up = false;
	m_progress = before;
	assert(m_graphs.position() == m_begun + known->legs[num_legs - 1].end - known->start);
	if(++m_templates.back().num_misses == max_loop_misses) drop(m_templates.size() - 1);
}

void loop_replayer::leave() {
	catch_up();
	m_search.restart(0);
}

// ---- the search for templates ----------------------------------------------------------------------------------------------------------

void loop_replayer::plan_and_search(const std::shared_ptr<task>& submitted) {
	const auto digest = stream_digest(*submitted);
	m_stream.add(digest);
	m_planner.plan(submitted);
	if(m_credit < max_credit) ++m_credit;
	if(m_is_pausing) m_is_pausing = m_credit < max_credit / 4;
	const auto period = period_to_search();
	if(m_planner.is_holding_back() || (m_is_pausing && period < tasks_per_look)) return m_search.restart(0);
	if(!m_is_pausing && find_known(digest)) return;
	if(period != m_search.period()) return m_search.restart(period);
	const auto now = m_graphs.position();
	if(!m_search.add(submitted, digest, now)) return;
	auto found = m_search.add_state(read_state(m_search.buffers()), now, m_graphs.instructions.settled());
	if(found == nullptr) return;
	if(m_templates.size() == max_loop_templates) drop(0);
	m_templates.push_back({std::move(found)});
	m_hope = max_loop_hope;
	begin(m_templates.size() - 1);
}

// A long loop is known late, and its states may never come again, as where waits lie between many steps. Then the loop of the steps inside of it pays.
std::size_t loop_replayer::period_to_search() const {
	const auto period = m_stream.period(), inside = m_stream.shortest_period();
	return period > max_preferred_period && inside != 0 ? inside : period;
}

program_state loop_replayer::read_state(const std::span<const buffer_id> buffers) {
	m_credit -= std::min(m_credit, tasks_per_look);
	m_is_pausing = m_credit == 0;
	program_state state;
	state_reader reader(state, m_graphs.position());
	m_graphs.read_state(reader, buffers);
	return state;
}

bool loop_replayer::find_known(const std::uint64_t digest) {
	for(std::size_t i = m_templates.size(); i-- > 0;) {
		const auto& known = *m_templates[i].known;
		if(known.legs.back().digest != digest || prefers_search(known) || read_state(known.buffers) != known.state) continue;
		begin(i);
		return true;
	}
	return false;
}

bool loop_replayer::prefers_search(const loop_template& known) {
	const auto period = m_search.period();
	if(period <= known.legs.size() || period > max_preferred_period || m_hope == 0) return false;
	--m_hope;
	return true;
}

void loop_replayer::begin(const std::size_t place) {
	const auto it = m_templates.begin() + static_cast<std::ptrdiff_t>(place);
	std::rotate(it, it + 1, m_templates.end());
	m_current = m_templates.back().known;
	m_begun = m_known = m_graphs.position();
	m_batches.begin(*m_current);
	m_credit = max_credit;
	m_is_pausing = false;
	m_search.restart(0);
}

void loop_replayer::drop(const std::size_t place) {
	m_retired.add(std::move(m_templates[place].known), m_graphs.position().tasks);
	m_templates.erase(m_templates.begin() + static_cast<std::ptrdiff_t>(place));
}

void loop_replayer::forget_buffer(const buffer_id id) {
	for(std::size_t i = m_templates.size(); i-- > 0;) {
		const auto& buffers = m_templates[i].known->buffers;
		if(std::binary_search(buffers.begin(), buffers.end(), id)) drop(i);
	}
}

void loop_replayer::validate() const {
	m_search.validate();
	ensure(m_current == nullptr || m_current == m_templates.back().known, "the current loop is the one used last");
	ensure(m_current == nullptr ? m_next == 0 : m_next < m_current->legs.size(), "the next task of a loop belongs to it");
	ensure(m_templates.size() <= max_loop_templates, "the templates of loops are bounded");
}

loop_replayer::loop_replayer(const bool uses_templates, planner& planner, plan_graphs& graphs, std::shared_ptr<program_log> log, instruction_sink& sink,
    planning_progress& progress)
    : m_uses_templates(uses_templates), m_planner(planner), m_graphs(graphs), m_log(std::move(log)), m_progress(progress), m_repeater(graphs),
      m_batches(sink, progress), m_credit(max_credit), m_hope(max_loop_hope) {}

} // namespace celerity
