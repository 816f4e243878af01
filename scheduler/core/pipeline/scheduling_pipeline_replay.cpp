// SPDX-License-Identifier: MIT
// Replays: repetitions of a recording are planned until the state has become periodic, and repeated from then on.
#include "scheduling_pipeline.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace celerity {

namespace {

/// Of one batch: the executor may carry out a batch as a whole, and the horizons in it end together.
constexpr std::size_t max_periods = 16;
constexpr std::size_t max_instructions = 1024;
constexpr std::size_t max_horizons = 8;
/// Fewer repetitions, in the middle between two stops, are no batch that the executor carries out as a whole. It keeps few graphs.
constexpr std::uint32_t min_repetitions = 4;

std::size_t periods_per_batch(const replay_template& known) {
	const std::size_t by_instructions = max_instructions / std::max<std::size_t>(known.length.instructions, 1);
	const std::size_t by_horizons = max_horizons / std::max<std::size_t>(known.num_horizons, 1);
	return std::bit_floor(std::max<std::size_t>(std::min({max_periods, by_instructions, by_horizons}), 1)); // otherwise graphs of several sizes carry it out
}

} // namespace

plan_position scheduling_pipeline::position_of_graphs() const {
	plan_position now;
	m_tasks.note_position(now);
	m_commands.note_position(now);
	m_instructions.note_position(now);
	return now;
}

void scheduling_pipeline::catch_up() {
	const auto known = m_replays.current();
	if(known == nullptr) return;
	if(const auto by = std::exchange(m_replays.ahead, plan_position()); by != plan_position()) {
		const std::span<const buffer_id> buffers(known->program->buffers);
		m_tasks.move(by, buffers);
		m_commands.move(by, buffers);
		m_instructions.move(by, buffers);
	}
	const auto num_parts = m_replays.next_part;
	m_replays.leave_template(position().tasks);
	if(num_parts > 0) plan_again(*known, num_parts);
}

// The state in the middle of a period is known to nobody. Planning leads to it, and to the instructions that the executor has already.
void scheduling_pipeline::plan_again(const replay_template& known, const std::size_t num_parts) {
	const auto counts = m_counts;
	const auto num_released_horizons = m_num_released_horizons;
	[[maybe_unused]] const auto end = position() + known.parts[num_parts - 1].begin + known.parts[num_parts - 1].length;
	m_is_catching_up = true;
	for(std::size_t i = 0; i < num_parts; ++i) {
		const submission_id first(position().submissions + 1);
		if(const auto& stop = known.parts[i].stop) {
			auto node = std::make_shared<task>(*stop);
			node->submission = first;
			plan(std::move(node));
		} else {
			plan_repetition(*known.program, first, 0);
		}
	}
	m_is_catching_up = false;
	m_counts = counts;
	m_num_released_horizons = num_released_horizons;
	assert(position() == end);
}

void scheduling_pipeline::end_replay() {
	if(!m_replays.is_replaying()) return; // ordinary tasks cost nothing more
	catch_up();
	m_replays.forget_steps();
}

void scheduling_pipeline::leave_replay() {
	end_replay();
	m_repeated.reset();
}

std::uint32_t scheduling_pipeline::replay(const std::shared_ptr<const recorded_program>& program, const submission_id first, const std::uint32_t repetitions,
    const std::uint64_t site, const bool may_leave_rest) {
	m_repeated = program;
	std::uint32_t done = 0;
	const auto next = [&] { return submission_id(first.value + done * program->tasks.size()); };
	while(done < repetitions) {
		if(m_replays.current() != nullptr && m_replays.current()->program != program) end_replay();
		const bool is_searching = m_uses_templates && m_replays.is_searching(*program);
		if(is_searching && m_replays.current() == nullptr && !m_replays.has_start()) look_for_template(program);
		if(!m_replays.choose_for(repetitions - done)) {
			auto state = m_replays.current()->state;
			catch_up();
			m_replays.begin_steps(std::move(state), position());
		}
		if(const auto known = m_replays.current()) {
			if(is_next(next()) && !(is_searching && m_replays.prefers_steps(done))) {
				if(const auto expanded = expand(*known, repetitions - done, site); expanded > 0) {
					done += expanded;
					continue;
				}
				if(may_leave_rest && !known->has_stops) break;
			}
			catch_up();
		}
		if(is_searching) m_replays.begin_draft();
		plan_repetition(*program, next(), site);
		++done;
		if(is_searching) {
			look_for_template(program);
		} else {
			m_replays.forget_steps();
		}
	}
	m_replays.note_repetitions(done);
	return done;
}

void scheduling_pipeline::plan_repetition(const recorded_program& program, const submission_id first, const std::uint64_t site) {
	const bool was_repeating = std::exchange(m_is_repeating, true);
	for(std::size_t i = 0; i < program.tasks.size(); ++i) {
		auto node = std::make_shared<task>(program.tasks[i]);
		node->submission = submission_id(first.value + i);
		node->site = site;
		plan(std::move(node));
	}
	m_is_repeating = was_repeating;
}

bool scheduling_pipeline::read_state(const std::span<const buffer_id> buffers) {
	if(!m_held.empty() || m_num_flushing > 0) return false;
	auto& state = m_replays.next_state();
	state_reader reader(state, position());
	m_tasks.walk_state(reader, buffers);
	m_commands.walk_state(reader, buffers);
	m_instructions.walk_state(reader, buffers);
	return true;
}

void scheduling_pipeline::look_for_template(const std::shared_ptr<const recorded_program>& program, std::shared_ptr<const task> stop) {
	if(read_state(program->buffers)) {
		m_replays.add_state(program, position(), m_instructions.settled(), std::move(stop));
	} else {
		m_replays.forget_steps();
	}
}

std::uint32_t scheduling_pipeline::expand(const replay_template& known, const std::uint32_t repetitions, const std::uint64_t site) {
	if(!known.has_stops) {
		const auto num_periods = repetitions / known.parts.size();
		expand_periods(known, num_periods, site);
		return static_cast<std::uint32_t>(num_periods * known.parts.size());
	}
	const std::size_t first = m_replays.next_part;
	const auto num_before_stop = known.parts[first].num_repetitions;
	const auto expanded = std::min(repetitions, num_before_stop);
	if(expanded == 0) return 0;
	instruction_batch batch;
	if(expanded == num_before_stop || expanded >= min_repetitions) {
		batch.replayed = m_replays.identity_of_next(expanded);
		batch.num_periods = 1;
	}
	for(std::uint32_t i = 0; i < expanded; ++i) {
		if(m_program != nullptr) log_again(*known.parts[first + i].plan, position_of_graphs() + m_replays.ahead - known.start, site);
		append_part(known, allocation_id{}, batch);
	}
	m_counts.expanded_repetitions += expanded;
	m_sink.submit(std::move(batch));
	return expanded;
}

void scheduling_pipeline::expand_periods(const replay_template& known, std::uint64_t num_periods, const std::uint64_t site) {
	const std::size_t per_batch = periods_per_batch(known);
	m_counts.expanded_repetitions += num_periods * known.parts.size();
	while(num_periods > 0) {
		const auto now = static_cast<std::uint32_t>(std::min<std::uint64_t>(num_periods, per_batch));
		instruction_batch batch;
		batch.instructions.reserve(now * known.length.instructions);
		batch.replayed = m_replays.identity_of_next(static_cast<std::uint32_t>(known.parts.size()));
		batch.num_periods = now;
		for(std::uint32_t p = 0; p < now; ++p) {
			const auto by = position_of_graphs() + m_replays.ahead - known.start;
			for(const auto& part : known.parts) {
				if(m_program != nullptr) log_again(*part.plan, by, site);
				append_part(known, allocation_id{}, batch);
			}
		}
		num_periods -= now;
		m_sink.submit(std::move(batch));
	}
}

bool scheduling_pipeline::expand_stop(const std::shared_ptr<task>& submitted) {
	const auto known = m_replays.current();
	const auto& stop = known->parts[m_replays.next_part].stop;
	if(stop == nullptr || !can_be_stop(*submitted, *known->program) || !are_equal_stops(*stop, *submitted) || !is_next(submitted->submission)) return false;
	submitted->id = task_id(position().tasks + 1);
	if(m_program != nullptr) m_program->add_task(m_program->entry_for(submitted), submitted->id);
	instruction_batch batch;
	append_part(*known, submitted->fence_destination, batch);
	++m_counts.lookahead_flushes;
	m_sink.submit(std::move(batch));
	return true;
}

void scheduling_pipeline::append_part(const replay_template& known, const allocation_id fence_destination, instruction_batch& batch) {
	const auto& part = known.parts[m_replays.next_part];
	const auto by = position_of_graphs() + m_replays.ahead - known.start;
	for(const auto& made : part.plan->instructions) m_instructions.repeat(made, by, known.settled, fence_destination, batch);
	m_counts.tasks += part.length.submissions;
	m_counts.horizons += part.plan->num_horizons;
	m_counts.commands += part.length.commands;
	m_counts.instructions += part.plan->instructions.size();
	m_num_released_horizons += part.plan->num_horizons;
	m_replays.advance();
}

void scheduling_pipeline::log_again(const recorded_plan& repetition, const plan_position& by, const std::uint64_t site) {
	for(const auto& entry : repetition.tasks) {
		const task_id id(entry.described->id.value + by.tasks);
		if(entry.described->site == site) {
			m_program->add_task(entry, id);
			continue;
		}
		auto described = std::make_shared<task>(*entry.described);
		described->site = site;
		m_program->add_task({entry.digest, std::move(described)}, id);
	}
}

} // namespace celerity
