// SPDX-License-Identifier: MIT
#include "replay_template.hpp"

#include <algorithm>
#include <utility>

#include "base/overloaded.hpp"

namespace celerity {

namespace {

/// Horizons come every few tasks, so a period has at most as many repetitions as tasks lie between two horizons.
constexpr std::size_t max_steps = 64;
constexpr std::size_t max_templates = 16;
/// States to look at without finding a template, before a pause.
constexpr std::size_t max_patience = 512;
/// Repetitions that are planned without a look in the pause.
constexpr std::size_t pause_length = 8 * max_patience;

} // namespace

std::vector<buffer_id> buffers_of(const std::vector<task>& tasks) {
	std::vector<buffer_id> buffers;
	for(const auto& node : tasks) {
		for(const auto& access : node.accesses) buffers.push_back(access.buffer);
		for(const auto& reduction : node.reductions) buffers.push_back(reduction.buffer);
	}
	std::sort(buffers.begin(), buffers.end());
	buffers.erase(std::unique(buffers.begin(), buffers.end()), buffers.end());
	return buffers;
}

void repetition_plan::add(const instruction& made) {
	if(!is_repeatable) return;
	const auto keep = [this](auto& span) { span = m_memory.copy(span); };
	instruction kept = made;
	keep(kept.dependencies);
	const auto keep_accesses = [&](std::span<const access_binding>& accesses) {
		std::vector<access_binding> bindings(accesses.begin(), accesses.end());
		for(auto& binding : bindings) keep(binding.accessed);
		accesses = m_memory.copy(bindings);
	};
	std::visit(overloaded{
	               [&](copy_instruction& copy) { keep(copy.boxes); },
	               [&](gather_copy_instruction& gather) {
		               std::vector<copy_source> sources(gather.sources.begin(), gather.sources.end());
		               for(auto& source : sources) keep(source.boxes);
		               gather.sources = m_memory.copy(sources);
	               },
	               [&](device_kernel_instruction& kernel) {
		               keep_accesses(kernel.accesses);
		               keep(kernel.reductions);
	               },
	               [&](host_task_instruction& host_task) { keep_accesses(host_task.accesses); },
	               [](send_instruction&) {},
	               [&](receive_instruction& receive) { keep(receive.boxes); },
	               [&](split_receive_instruction& receive) { keep(receive.boxes); },
	               [&](await_receive_instruction& await) { keep(await.boxes); },
	               [&](receive_partials_instruction& receive) {
		               keep(receive.sources);
		               keep(receive.slots);
	               },
	               [](reduce_instruction&) {},
	               [this](horizon_instruction&) { ++num_horizons; },
	               [this](auto&) { is_repeatable = false; },
	           },
	    kept.operation);
	instructions.push_back(kept);
}

replay_memory::replay_memory() : m_patience(max_patience) {}

bool replay_memory::is_searching(const recorded_program& program) {
	if(m_program.get() != &program) forget_steps();
	if(m_pause == 0) return true;
	if(--m_pause == 0) m_patience = max_patience / 4;
	return false;
}

void replay_memory::add_state(const std::shared_ptr<const recorded_program>& program, const plan_position& now, const instruction_id settled) {
	m_program = program;
	auto plan = std::exchange(m_draft, nullptr);
	if(plan != nullptr && !plan->is_repeatable) {
		m_steps.clear();
		plan = nullptr;
	}
	if(find_known()) return;
	if(m_steps.size() == max_steps) m_steps.erase(m_steps.begin());
	m_steps.push_back({m_next_state, now, std::move(plan)});
	find_period(now, settled);
	if(m_current != nullptr) {
		m_patience = max_patience;
		m_steps.clear();
	} else if(--m_patience == 0) {
		m_pause = pause_length;
		m_steps.clear();
	}
}

bool replay_memory::find_known() {
	for(std::size_t i = m_templates.size(); i-- > 0;) {
		if(m_templates[i]->program != m_program || m_templates[i]->state != m_next_state) continue;
		std::rotate(m_templates.begin() + static_cast<std::ptrdiff_t>(i), m_templates.begin() + static_cast<std::ptrdiff_t>(i) + 1, m_templates.end());
		m_current = m_templates.back();
		m_patience = max_patience;
		m_steps.clear();
		return true;
	}
	return false;
}

void replay_memory::find_period(const plan_position& now, const instruction_id settled) {
	for(std::size_t first = m_steps.size() - 1; first-- > 0;) {
		if(m_steps[first].state != m_next_state) continue;
		replay_template made;
		made.program = m_program;
		made.state = m_next_state;
		made.start = m_steps[first].at;
		made.length = now - made.start;
		made.settled = settled;
		for(std::size_t i = first + 1; i < m_steps.size(); ++i) {
			made.num_instructions += m_steps[i].plan->instructions.size();
			made.num_horizons += m_steps[i].plan->num_horizons;
			made.repetitions.push_back(m_steps[i].plan);
		}
		if(made.num_instructions != made.length.instructions || made.length.submissions != made.repetitions.size() * m_program->tasks.size()) return;
		if(m_templates.size() == max_templates) drop(0, now.tasks);
		m_templates.push_back(std::make_shared<const replay_template>(std::move(made)));
		m_current = m_templates.back();
		return;
	}
}

void replay_memory::leave_template() {
	m_steps.clear();
	if(m_current == nullptr) return;
	m_current = nullptr;
}

void replay_memory::forget_steps() {
	m_steps.clear();
	m_program = nullptr;
	m_draft = nullptr;
	m_current = nullptr;
}

void replay_memory::drop(const std::size_t place, const std::uint64_t last_task) {
	m_dropped.push_back({std::move(m_templates[place]), last_task});
	m_templates.erase(m_templates.begin() + static_cast<std::ptrdiff_t>(place));
}

void replay_memory::forget_buffer(const buffer_id id, const std::uint64_t last_task) {
	for(std::size_t i = m_templates.size(); i-- > 0;) {
		const auto& buffers = m_templates[i]->program->buffers;
		if(std::find(buffers.begin(), buffers.end(), id) != buffers.end()) drop(i, last_task);
	}
}

void replay_memory::notify_epoch_reached(const task_id reached) {
	if(!m_dropped.empty()) std::erase_if(m_dropped, [this](const dropped_template& entry) { return entry.last_task < m_last_reached.value; });
	m_last_reached = reached;
}

} // namespace celerity
