// SPDX-License-Identifier: MIT
#include "loop_search.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/ensure.hpp"

namespace celerity {

namespace {

/// As in the search for templates of recordings.
constexpr std::size_t max_loop_states = 64;
/// Of a stretch, if the loop is not longer than so many of these.
constexpr std::size_t most_legs = 64;
constexpr std::size_t most_stretches = 24; ///< the executor keeps a few more graphs
constexpr std::size_t fewest_legs = 8;     ///< of the first one
/// About 25 MB.
constexpr std::size_t max_searched_instructions = 1U << 17U;

bool is_epoch_task(const task& node) { return node.kind == task_kind::epoch; }

template <typename F>
void for_each_buffer(const task& node, F&& f) {
	for(const auto& access : node.accesses) f(access.buffer);
	for(const auto& reduction : node.reductions) f(reduction.buffer);
}

bool is_for_graphs(const instruction& item) {
	const auto& what = item.operation;
	return std::holds_alternative<device_kernel_instruction>(what) || std::holds_alternative<copy_instruction>(what)
	       || std::holds_alternative<gather_copy_instruction>(what) || std::holds_alternative<reduce_instruction>(what)
	       || std::holds_alternative<send_instruction>(what) || std::holds_alternative<receive_instruction>(what)
	       || std::holds_alternative<horizon_instruction>(what);
}

// Devices wait for a stretch until the program has submitted all of it. So stretches are short at first, behind a fence or wait in particular.
std::vector<loop_stretch> divide(const loop_template& made) {
	std::vector<loop_stretch> stretches;
	const auto size = made.legs.size();
	const auto is_leg_for_graphs = [&](const std::size_t leg) {
		const auto instructions = made.instructions_of(leg);
		return std::all_of(instructions.begin(), instructions.end(), is_for_graphs);
	};
	const auto most = std::max(most_legs, size / most_stretches);
	for(std::size_t begin = 0; begin < size;) {
		std::size_t end = begin;
		while(end < size && is_leg_for_graphs(end)) ++end;
		if(end == begin) {
			stretches.push_back({++begin, nullptr});
			continue;
		}
		const bool is_whole = end - begin == size && size <= most_legs;
		for(auto length = is_whole ? size : fewest_legs; begin < end; length = std::min(2 * length, most)) {
			const auto left = end - begin;
			begin = left < length + length / 2 ? end : begin + length;
			stretches.push_back({begin, std::make_shared<loop_stretch_identity>()});
		}
	}
	return stretches;
}

} // namespace

void loop_search::gather(const task& planned) {
	for_each_buffer(planned, [this](const buffer_id id) { m_buffers.push_back(id); });
	m_has_epoch |= is_epoch_task(planned);
	if(++m_num_gathered < m_period) return;
	std::sort(m_buffers.begin(), m_buffers.end());
	m_buffers.erase(std::unique(m_buffers.begin(), m_buffers.end()), m_buffers.end());
}

bool loop_search::has_all_buffers_of(const task& planned) const {
	bool has_all = true;
	for_each_buffer(planned, [&](const buffer_id id) { has_all &= std::binary_search(m_buffers.begin(), m_buffers.end(), id); });
	return has_all;
}

bool loop_search::add(const std::shared_ptr<const task>& planned, const std::uint64_t digest, const plan_position& now) {
	if(m_period == 0) return false;
	if(m_num_gathered < m_period) gather(*planned);
	if(m_num_gathered < m_period) return false;
	if(m_plan == nullptr) return !m_has_epoch || is_epoch_task(*planned); // older ids do not move, and nothing refers to them behind an epoch
	if(!m_plan->is_repeatable || !has_all_buffers_of(*planned) || m_plan->instructions.size() > max_searched_instructions) {
		restart(m_period);
		return false;
	}
	m_legs.push_back({planned, digest, now, m_plan->instructions.size(), m_plan->num_horizons});
	return m_legs.size() % m_period == 0;
}

std::shared_ptr<const loop_template> loop_search::add_state(program_state&& state, const plan_position& now, const instruction_id settled) {
	const auto found = std::find_if(m_states.rbegin(), m_states.rend(), [&](const seen_state& seen) { return seen.state == state; });
	if(found != m_states.rend()) return make_template(*found, std::move(state), settled);
	if(m_states.size() == max_loop_states) {
		restart(m_period);
		return nullptr;
	}
	if(m_plan == nullptr) {
		m_plan = std::make_shared<recorded_plan>();
		m_before.end = now;
	}
	m_states.push_back({std::move(state), m_legs.size()});
	return nullptr;
}

std::shared_ptr<const loop_template> loop_search::make_template(const seen_state& first, program_state&& state, const instruction_id settled) const {
	auto made = std::make_shared<loop_template>();
	made->buffers = m_buffers;
	made->state = std::move(state);
	made->settled = m_has_epoch ? instruction_id{} : settled;
	made->plan = m_plan;
	made->first_entry = first.num_legs;
	made->before = first.num_legs == 0 ? m_before : m_legs[first.num_legs - 1];
	made->start = made->before.end;
	made->legs.assign(m_legs.begin() + static_cast<std::ptrdiff_t>(first.num_legs), m_legs.end());
	made->stretches = divide(*made);
	return made;
}

void loop_search::validate() const {
	ensure((m_plan == nullptr) == m_states.empty(), "a search for a loop keeps plans from its first state on");
	ensure(m_states.size() <= max_loop_states && m_num_gathered <= m_period, "a search for a loop is bounded");
	const auto* before = &m_before;
	for(const auto& leg : m_legs) {
		ensure(leg.end.instructions - before->end.instructions == leg.num_instructions - before->num_instructions, "the legs of a loop have all instructions");
		before = &leg;
	}
}

} // namespace celerity
