// SPDX-License-Identifier: MIT
// Replays: repetitions of a recording are planned until the state has become periodic, and repeated from then on.
#include "scheduling_pipeline.hpp"

#include <algorithm>
#include <utility>

namespace celerity {

namespace {

/// Of one batch: the executor may carry out a batch as a whole, and the horizons in it end together.
constexpr std::size_t max_periods = 16;
constexpr std::size_t max_instructions = 256;
constexpr std::size_t max_horizons = 8;

std::size_t periods_per_batch(const replay_template& known) {
	const std::size_t by_instructions = max_instructions / std::max<std::size_t>(known.num_instructions, 1);
	const std::size_t by_horizons = max_horizons / std::max<std::size_t>(known.num_horizons, 1);
	return std::max<std::size_t>(std::min({max_periods, by_instructions, by_horizons}), 1);
}

} // namespace

plan_position scheduling_pipeline::position() const {
	plan_position now;
	m_tasks.note_position(now);
	m_commands.note_position(now);
	m_instructions.note_position(now);
	return now + m_replays.ahead;
}

void scheduling_pipeline::catch_up() {
	const auto by = std::exchange(m_replays.ahead, plan_position());
	if(by == plan_position()) return;
	const std::span<const buffer_id> buffers(m_replays.current()->program->buffers);
	m_tasks.move(by, buffers);
	m_commands.move(by, buffers);
	m_instructions.move(by, buffers);
}

void scheduling_pipeline::end_replay() {
	if(!m_replays.is_replaying()) return; // ordinary tasks cost nothing more
	catch_up();
	m_replays.forget_steps();
}

std::uint32_t scheduling_pipeline::replay(const std::shared_ptr<const recorded_program>& program, const submission_id first, const std::uint32_t repetitions,
    const std::uint64_t site, const bool may_leave_rest) {
	std::uint32_t done = 0;
	const auto next = [&] { return submission_id(first.value + done * program->tasks.size()); };
	while(done < repetitions) {
		if(m_replays.current() != nullptr && m_replays.current()->program != program) end_replay();
		const bool is_searching = m_uses_templates && m_replays.is_searching(*program);
		if(is_searching && m_replays.current() == nullptr && !m_replays.has_start()) look_for_template(program);
		if(const auto known = m_replays.current()) {
			const auto num_periods = (repetitions - done) / known->repetitions.size();
			const bool is_next = position().submissions + 1 == next().value;
			if(num_periods > 0 && is_next) {
				expand(*known, num_periods, site);
				done += static_cast<std::uint32_t>(num_periods * known->repetitions.size());
				continue;
			}
			if(is_next && may_leave_rest) return done;
			catch_up();
			m_replays.leave_template();
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
	return done;
}

void scheduling_pipeline::plan_repetition(const recorded_program& program, const submission_id first, const std::uint64_t site) {
	for(std::size_t i = 0; i < program.tasks.size(); ++i) {
		auto node = std::make_shared<task>(program.tasks[i]);
		node->submission = submission_id(first.value + i);
		node->site = site;
		plan(std::move(node));
	}
}

bool scheduling_pipeline::read_state(const std::span<const buffer_id> buffers) {
	if(!m_held.empty() || m_num_flushing > 0) return false;
	auto& state = m_replays.next_state();
	state_reader reader(state, position());
	m_tasks.walk_state(reader, buffers);
	m_commands.walk_state(reader, buffers);
	m_instructions.walk_state(reader, buffers);
	reader.number(std::min(m_horizons_since_want, horizons_until_release));
	return true;
}

void scheduling_pipeline::look_for_template(const std::shared_ptr<const recorded_program>& program) {
	if(read_state(program->buffers)) {
		m_replays.add_state(program, position(), m_instructions.settled());
	} else {
		m_replays.forget_steps();
	}
}

void scheduling_pipeline::expand(const replay_template& known, std::uint64_t num_periods, const std::uint64_t site) {
	const std::size_t per_batch = periods_per_batch(known);
	plan_position by = position() - known.start;
	m_counts.expanded_repetitions += num_periods * known.repetitions.size();
	for(; num_periods > 0;) {
		const auto now = static_cast<std::uint32_t>(std::min<std::uint64_t>(num_periods, per_batch));
		instruction_batch batch;
		batch.instructions.reserve(now * known.num_instructions);
		batch.replayed = known.identity;
		batch.num_periods = now;
		for(std::uint32_t p = 0; p < now; ++p) {
			for(const auto& repetition : known.repetitions) {
				if(m_program != nullptr) log_again(*repetition, by, site);
				for(const auto& made : repetition->instructions) m_instructions.repeat(made, by, known.settled, batch);
			}
			by = by + known.length;
			m_replays.ahead = m_replays.ahead + known.length;
		}
		num_periods -= now;
		m_counts.tasks += now * known.length.submissions;
		m_counts.horizons += now * known.num_horizons;
		m_counts.commands += now * known.length.commands;
		m_counts.instructions += batch.instructions.size();
		m_num_released_horizons += now * known.num_horizons;
		m_sink.submit(std::move(batch));
	}
}

void scheduling_pipeline::log_again(const repetition_plan& repetition, const plan_position& by, const std::uint64_t site) {
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
