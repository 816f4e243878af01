// SPDX-License-Identifier: MIT
#include "replayer.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "batch_sizes.hpp"

namespace celerity {

namespace {

/// Fewer repetitions, in the middle between two stops, are no batch that the executor carries out as a whole. It keeps few graphs.
constexpr std::uint32_t min_repetitions = 4;

} // namespace

bool replayer::take(const std::shared_ptr<task>& submitted) {
	m_is_repeating = m_repeated != nullptr && can_be_stop(*submitted, *m_repeated);
	if(!m_is_repeating) m_repeated.reset();
	if(m_memory.current() != nullptr && expand_stop(submitted)) return true;
	if(m_memory.is_replaying() && can_be_stop(*submitted, *m_memory.program())) m_memory.note_stop();
	if(m_memory.is_searching_stop(*submitted)) {
		catch_up(); // leaves the template: it has repetitions only, and none has been expanded
		m_memory.begin_draft();
		m_planner.plan(submitted);
		look_for_template(m_memory.program(), submitted);
		return true;
	}
	end_replay();
	return false;
}

void replayer::catch_up() {
	const auto known = m_memory.current();
	if(known == nullptr) return;
	if(const auto by = std::exchange(m_memory.ahead, plan_position()); by != plan_position()) { m_graphs.move(by, known->program->buffers); }
	const auto num_legs = m_memory.next_leg;
	m_memory.leave_template(position().tasks);
	if(num_legs > 0) plan_again(*known, num_legs);
}

// The state in the middle of a period is known to nobody. Planning leads to it, and to the instructions that the executor has already.
void replayer::plan_again(const replay_template& known, const std::size_t num_legs) {
	const auto before = m_progress;
	[[maybe_unused]] const auto end = position() + known.legs[num_legs - 1].begin + known.legs[num_legs - 1].length;
	m_is_catching_up = true;
	for(std::size_t i = 0; i < num_legs; ++i) {
		const submission_id first(position().submissions + 1);
		if(const auto& stop = known.legs[i].stop) {
			auto node = std::make_shared<task>(*stop);
			node->submission = first;
			m_planner.plan(std::move(node));
		} else {
			plan_repetition(*known.program, first, 0, known.legs[i].phase);
		}
	}
	m_is_catching_up = false;
	m_progress = before;
	assert(position() == end);
}

void replayer::end_replay() {
	if(!m_memory.is_replaying()) return; // ordinary tasks cost nothing more
	catch_up();
	m_memory.forget_states();
}

void replayer::leave() {
	end_replay();
	m_repeated.reset();
}

std::uint32_t replayer::replay(const std::shared_ptr<const recorded_program>& program, const submission_id first, const std::uint32_t repetitions,
    const std::size_t phase, const std::uint64_t site, const bool may_leave_rest) {
	if(phase != m_phase) end_replay();
	m_repeated = program;
	m_phase = phase;
	std::uint32_t done = 0;
	const auto next = [&] { return submission_id(first.value + done * program->tasks_per_repetition()); };
	while(done < repetitions) {
		if(m_memory.current() != nullptr && m_memory.current()->program != program) end_replay();
		const bool is_searching = m_uses_templates && m_memory.is_searching(*program);
		if(is_searching && m_memory.current() == nullptr && !m_memory.has_start()) look_for_template(program);
		if(!m_memory.choose_for(repetitions - done)) {
			auto state = m_memory.current()->state;
			catch_up();
			m_memory.begin_states(std::move(state), position(), m_phase);
		}
		if(const auto known = m_memory.current()) {
			if(is_next(next()) && !(is_searching && m_memory.prefers_search(done))) {
				if(const auto expanded = expand(*known, repetitions - done, site); expanded > 0) {
					done += expanded;
					m_phase = program->phase_after(m_phase, expanded);
					continue;
				}
				if(may_leave_rest && !known->has_stops) break;
			}
			catch_up();
		}
		if(is_searching) m_memory.begin_draft();
		plan_repetition(*program, next(), site, m_phase);
		++done;
		m_phase = program->phase_after(m_phase, 1);
		if(is_searching) {
			look_for_template(program);
		} else {
			m_memory.forget_states();
		}
	}
	m_memory.note_repetitions(done);
	return done;
}

void replayer::plan_repetition(const recorded_program& program, const submission_id first, const std::uint64_t site, const std::size_t phase) {
	const bool was_repeating = std::exchange(m_is_repeating, true);
	const auto tasks = program.repetition(phase);
	for(std::size_t i = 0; i < tasks.size(); ++i) {
		auto node = std::make_shared<task>(tasks[i]);
		node->submission = submission_id(first.value + i);
		node->site = site;
		m_planner.plan(std::move(node));
	}
	m_is_repeating = was_repeating;
}

bool replayer::read_state(const std::span<const buffer_id> buffers) {
	if(m_planner.is_holding_back()) return false;
	auto& state = m_memory.next_state();
	state.push_back(m_phase);
	state_reader reader(state, position());
	m_graphs.read_state(reader, buffers);
	return true;
}

void replayer::look_for_template(const std::shared_ptr<const recorded_program>& program, std::shared_ptr<const task> stop) {
	if(read_state(program->buffers)) {
		m_memory.add_state(program, position(), m_graphs.instructions.settled(), m_phase, std::move(stop));
	} else {
		m_memory.forget_states();
	}
}

std::uint32_t replayer::expand(const replay_template& known, const std::uint32_t repetitions, const std::uint64_t site) {
	if(!known.has_stops) {
		const auto num_periods = repetitions / known.legs.size();
		expand_periods(known, num_periods, site);
		return static_cast<std::uint32_t>(num_periods * known.legs.size());
	}
	const std::size_t first = m_memory.next_leg;
	const auto num_before_stop = known.legs[first].num_repetitions;
	const auto expanded = std::min(repetitions, num_before_stop);
	if(expanded == 0) return 0;
	instruction_batch batch;
	if(expanded == num_before_stop || expanded >= min_repetitions) {
		batch.replayed = m_memory.identity_of_next(expanded);
		batch.num_periods = 1;
	}
	for(std::uint32_t i = 0; i < expanded; ++i) {
		if(m_log != nullptr) log_again(*known.legs[first + i].plan, m_graphs.position() + m_memory.ahead - known.start, site);
		append_leg(known, allocation_id{}, batch);
	}
	m_progress.counts.expanded_repetitions += expanded;
	m_sink.submit(std::move(batch));
	return expanded;
}

void replayer::expand_periods(const replay_template& known, std::uint64_t num_periods, const std::uint64_t site) {
	const std::size_t per_batch = periods_per_batch(known.length.instructions, known.num_horizons);
	m_progress.counts.expanded_repetitions += num_periods * known.legs.size();
	while(num_periods > 0) {
		const auto now = static_cast<std::uint32_t>(std::min<std::uint64_t>(num_periods, per_batch));
		instruction_batch batch;
		batch.instructions.reserve(now * known.length.instructions);
		batch.replayed = m_memory.identity_of_next(static_cast<std::uint32_t>(known.legs.size()));
		batch.num_periods = now;
		for(std::uint32_t p = 0; p < now; ++p) {
			const auto by = m_graphs.position() + m_memory.ahead - known.start;
			for(const auto& leg : known.legs) {
				if(m_log != nullptr) log_again(*leg.plan, by, site);
				append_leg(known, allocation_id{}, batch);
			}
		}
		num_periods -= now;
		m_sink.submit(std::move(batch));
	}
}

bool replayer::expand_stop(const std::shared_ptr<task>& submitted) {
	const auto known = m_memory.current();
	const auto& stop = known->legs[m_memory.next_leg].stop;
	if(stop == nullptr || !can_be_stop(*submitted, *known->program) || !are_equal_stops(*stop, *submitted) || !is_next(submitted->submission)) return false;
	submitted->id = task_id(position().tasks + 1);
	if(m_log != nullptr) m_log->add_task(m_log->entry_for(submitted), submitted->id);
	instruction_batch batch;
	append_leg(*known, submitted->fence_destination, batch);
	++m_progress.counts.lookahead_flushes;
	m_sink.submit(std::move(batch));
	return true;
}

void replayer::append_leg(const replay_template& known, const allocation_id fence_destination, instruction_batch& batch) {
	const auto& leg = known.legs[m_memory.next_leg];
	const auto by = m_graphs.position() + m_memory.ahead - known.start;
	m_repeater.repeat(leg.plan->instructions, by, known.settled, fence_destination, batch);
	m_progress.counts.tasks += leg.length.submissions;
	m_progress.counts.horizons += leg.plan->num_horizons;
	m_progress.counts.commands += leg.length.commands;
	m_progress.counts.instructions += leg.plan->instructions.size();
	m_progress.released_horizons += leg.plan->num_horizons;
	m_memory.advance();
}

void replayer::log_again(const recorded_plan& repetition, const plan_position& by, const std::uint64_t site) {
	for(const auto& entry : repetition.tasks) {
		const task_id id(entry.described->id.value + by.tasks);
		if(entry.described->site == site) {
			m_log->add_task(entry, id);
			continue;
		}
		auto described = std::make_shared<task>(*entry.described);
		described->site = site;
		m_log->add_task({entry.digest_without_values, std::move(described)}, id);
	}
}

} // namespace celerity
