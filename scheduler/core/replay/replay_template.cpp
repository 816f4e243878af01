// SPDX-License-Identifier: MIT
#include "replay_template.hpp"

#include <algorithm>
#include <utility>

#include "base/ensure.hpp"
#include "instruction_copies.hpp"

namespace celerity {

namespace {

/// Horizons come every few tasks, so a period has at most as many repetitions as tasks lie between two horizons.
constexpr std::size_t max_states = 64;
constexpr std::size_t max_templates = 16;
/// States to look at without finding a template, before a pause.
constexpr std::size_t max_patience = 512;
/// A template that so many times in a row did not lead to its end is none of the program any more.
constexpr unsigned max_misses = 2;
/// Repetitions that are planned although a template has them, without finding one that has the stops behind them as well.
constexpr std::size_t max_hope = 2 * max_states;
/// Repetitions that are planned without a look in the pause.
constexpr std::size_t pause_length = 8 * max_patience;

bool is_epoch(const std::shared_ptr<const task>& stop) { return stop != nullptr && stop->kind == task_kind::epoch; }

/// Ids older than the start do not move from period to period. Nothing refers to them behind an epoch.
bool starts_behind_stop(const replay_template& made) {
	if(!made.has_stops) return true;
	const bool has_epoch = std::any_of(made.legs.begin(), made.legs.end(), [](const template_leg& leg) { return is_epoch(leg.stop); });
	return has_epoch ? is_epoch(made.legs.back().stop) : made.legs.back().stop != nullptr;
}

} // namespace

recorded_program::recorded_program(std::vector<task> recorded, const std::size_t phases) : tasks(std::move(recorded)), num_phases(phases) {
	lowest_queue = tasks.empty() ? 0 : max_queue_priority;
	for(const auto& node : tasks) {
		for(const auto& access : node.accesses) buffers.push_back(access.buffer);
		for(const auto& reduction : node.reductions) buffers.push_back(reduction.buffer);
		lowest_queue = std::min(lowest_queue, node.priority);
	}
	std::sort(buffers.begin(), buffers.end());
	buffers.erase(std::unique(buffers.begin(), buffers.end()), buffers.end());
}

bool can_be_stop(const task& submitted, const recorded_program& program) {
	if(submitted.kind == task_kind::epoch) return submitted.action == epoch_action::none || submitted.action == epoch_action::barrier;
	return submitted.kind == task_kind::fence && submitted.side_effects.empty() && submitted.accesses.size() == 1
	       && std::binary_search(program.buffers.begin(), program.buffers.end(), submitted.accesses.front().buffer);
}

bool are_equal_stops(const task& a, const task& b) {
	if(a.kind != b.kind || a.action != b.action) return false;
	if(a.kind == task_kind::epoch) return true;
	return a.priority == b.priority && a.accesses.front().buffer == b.accesses.front().buffer && a.fence_box == b.fence_box
	       && a.fence_on_all_ranks == b.fence_on_all_ranks && a.fence_destination.memory == b.fence_destination.memory
	       && a.fence_destination.is_null() == b.fence_destination.is_null();
}

void recorded_plan::add(const instruction& made) {
	if(!is_repeatable) return;
	is_repeatable = std::visit([](const auto& operation) { return operation.traits.is_repeatable; }, made.operation);
	num_horizons += std::holds_alternative<horizon_instruction>(made.operation);
	instructions.push_back(copy_into(m_memory, made));
}

replay_memory::replay_memory() : m_patience(max_patience), m_hope(max_hope) {}

bool replay_memory::is_searching(const recorded_program& program) {
	if(m_program.get() != &program) forget_states();
	if(m_pause == 0) return true;
	if(--m_pause == 0) m_patience = max_patience / 4;
	return false;
}

bool replay_memory::prefers_search(const std::uint32_t done) {
	if(m_current->has_stops || m_states.empty() || m_before_stop >= max_states || m_since_stop + done >= m_before_stop || m_hope == 0) return false;
	--m_hope;
	return true;
}

std::shared_ptr<const void> replay_memory::identity_of_next(const std::uint32_t repetitions) {
	auto& identity = m_templates.back().identities[{next_leg, repetitions}];
	if(identity == nullptr) identity = std::make_shared<const char>();
	return identity;
}

void replay_memory::advance() {
	m_states.clear();
	if(++next_leg < m_current->legs.size()) return;
	next_leg = 0;
	ahead = ahead + m_current->length;
	m_templates.back().num_misses = 0;
}

bool replay_memory::choose_for(const std::uint32_t repetitions) {
	if(m_current == nullptr || !m_current->has_stops || next_leg > 0 || m_current->legs.front().num_repetitions == repetitions) return true;
	bool has_more = m_current->legs.front().num_repetitions > repetitions;
	for(std::size_t i = m_templates.size() - 1; i-- > 0;) {
		const auto& known = *m_templates[i].known;
		if(known.program != m_program || !known.has_stops || known.state != m_current->state) continue;
		const auto found = known.legs.front().num_repetitions;
		if(found < repetitions || (found > repetitions && has_more)) continue;
		has_more = true;
		make_current(i);
		if(found == repetitions) return true;
	}
	return has_more;
}

void replay_memory::make_current(const std::size_t place) {
	const auto it = m_templates.begin() + static_cast<std::ptrdiff_t>(place);
	std::rotate(it, it + 1, m_templates.end());
	m_current = m_templates.back().known;
}

void replay_memory::add_state(const std::shared_ptr<const recorded_program>& program, const plan_position& now, const instruction_id settled,
    const std::size_t phase, std::shared_ptr<const task> stop) {
	m_program = program;
	auto plan = std::exchange(m_draft, nullptr);
	if(plan != nullptr && !plan->is_repeatable) {
		m_states.clear();
		plan = nullptr;
	}
	find_known();
	const bool is_stop = stop != nullptr;
	if(m_states.size() == max_states * program->num_phases) m_states.erase(m_states.begin());
	m_states.push_back({m_next_state, now, std::move(plan), std::move(stop), phase});
	// A known template that starts here has other numbers of repetitions before its stops: these have been planned.
	if(m_current == nullptr || (is_stop && m_current->has_stops)) find_period(now, settled);
	if(m_current != nullptr) {
		m_patience = max_patience;
		// The template of repetitions alone is of no use if a wait follows now. Then a longer period may hold the wait.
		if(m_current->has_stops) m_states.clear();
	} else if(--m_patience == 0) {
		m_pause = pause_length;
		m_states.clear();
	}
}

void replay_memory::find_known() {
	for(std::size_t i = m_templates.size(); i-- > 0;) {
		const auto& known = *m_templates[i].known;
		if(known.program != m_program || known.state != m_next_state) continue;
		return make_current(i);
	}
}

void replay_memory::find_period(const plan_position& now, const instruction_id settled) {
	for(std::size_t first = m_states.size() - 1; first-- > 0;) {
		if(m_states[first].state != m_next_state) continue;
		auto made = make_template(first, now, settled);
		const auto is_whole = [&](const template_leg& leg) {
			return leg.plan->instructions.size() == leg.length.instructions
			       && leg.length.submissions == (leg.stop == nullptr ? m_program->tasks_per_repetition() : 1);
		};
		if(!std::all_of(made.legs.begin(), made.legs.end(), is_whole)) return;
		if(!starts_behind_stop(made)) continue; // the same period has another start, too
		if(m_templates.size() == max_templates) drop(0, now.tasks);
		if(made.has_stops) m_hope = max_hope;
		m_templates.push_back({std::make_shared<const replay_template>(std::move(made))});
		m_current = m_templates.back().known;
		return;
	}
}

replay_template replay_memory::make_template(const std::size_t first, const plan_position& now, const instruction_id settled) const {
	replay_template made;
	made.program = m_program;
	made.state = m_next_state;
	made.start = m_states[first].at;
	made.length = now - made.start;
	made.settled = settled;
	plan_position begin;
	for(std::size_t i = first + 1; i < m_states.size(); ++i) {
		const auto& seen = m_states[i];
		const auto length = seen.at - m_states[i - 1].at;
		made.legs.push_back({seen.plan, seen.stop, begin, length, 0, m_states[i - 1].phase});
		begin = begin + length;
		made.has_stops |= seen.stop != nullptr;
		made.num_horizons += seen.plan->num_horizons;
		if(is_epoch(seen.stop)) made.settled = instruction_id{};
	}
	for(std::size_t i = made.legs.size(); i-- > 0;) {
		auto& leg = made.legs[i];
		if(leg.stop != nullptr) continue;
		leg.num_repetitions = 1 + (i + 1 < made.legs.size() ? made.legs[i + 1].num_repetitions : 0);
	}
	return made;
}

void replay_memory::leave_template(const std::uint64_t last_task) {
	if(m_current == nullptr) return;
	m_current = nullptr;
	const bool is_miss = std::exchange(next_leg, 0) > 0;
	if(is_miss && ++m_templates.back().num_misses == max_misses) drop(m_templates.size() - 1, last_task);
}

void replay_memory::forget_states() {
	m_states.clear();
	m_program = nullptr;
	m_draft = nullptr;
	m_current = nullptr;
}

void replay_memory::drop(const std::size_t place, const std::uint64_t last_task) {
	m_retired.add(std::move(m_templates[place].known), last_task);
	m_templates.erase(m_templates.begin() + static_cast<std::ptrdiff_t>(place));
}

void replay_memory::validate() const {
	ensure(m_draft == nullptr, "no plan is being noted between two events");
	ensure(m_current != nullptr || (next_leg == 0 && ahead == plan_position()), "only a current template has been expanded");
	ensure(m_current == nullptr || m_current == m_templates.back().known, "the current template is the one used last");
	ensure(m_current == nullptr || next_leg < m_current->legs.size(), "the next leg belongs to the current template");
	const std::size_t most_states = m_program == nullptr ? max_states : max_states * m_program->num_phases;
	ensure(m_templates.size() <= max_templates && m_states.size() <= most_states, "templates and states are bounded");
	for(const auto& [known, num_misses, identities] : m_templates) {
		plan_position end;
		for(const auto& leg : known->legs) {
			ensure(leg.begin == end, "the legs of a template follow each other");
			end = leg.begin + leg.length;
		}
		ensure(end == known->length, "the legs of a template are a period");
	}
}

void replay_memory::forget_buffer(const buffer_id id, const std::uint64_t last_task) {
	for(std::size_t i = m_templates.size(); i-- > 0;) {
		const auto& buffers = m_templates[i].known->program->buffers;
		if(std::find(buffers.begin(), buffers.end(), id) != buffers.end()) drop(i, last_task);
	}
}

} // namespace celerity
