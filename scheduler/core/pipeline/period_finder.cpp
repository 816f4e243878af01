// SPDX-License-Identifier: MIT
#include "period_finder.hpp"

#include <algorithm>

#include "base/overloaded.hpp"

namespace celerity {

namespace {

constexpr std::size_t most_segments = 64; ///< of a period
constexpr std::size_t most_known = 16;
/// Horizons in a batch, unless a single period has more. Their completion is reported together.
constexpr std::uint64_t most_horizons = 8;

/// Appends the words by which equal operations are equal.
struct word_writer {
	std::vector<std::uint64_t>& out;

	template <typename Id>
	void put(const Id id)
	    requires requires { id.value; }
	{
		out.push_back(id.value);
	}
	void put(const std::uint64_t word) { out.push_back(word); }
	void put(const allocation_id& allocation) {
		put(allocation.memory);
		put(allocation.raw);
	}
	void put(const box& b) {
		for(int d = 0; d < 3; ++d) {
			out.push_back(static_cast<std::uint64_t>(b.min(d)));
			out.push_back(static_cast<std::uint64_t>(b.max(d)));
		}
	}
	void put(const std::span<const box> boxes) {
		put(boxes.size());
		for(const box& b : boxes) put(b);
	}
	void put(const copy_instruction& copy) {
		put(copy.source);
		put(copy.source_offset_bytes);
		put(copy.destination);
		put(copy.destination_offset_bytes);
		put(copy.boxes);
		put(copy.element_size_bytes);
		put(static_cast<std::uint64_t>(copy.reason));
	}
	void put(const gather_copy_instruction& gather) {
		put(gather.sources.size());
		for(const auto& source : gather.sources) {
			put(source.allocation);
			put(source.boxes);
		}
		put(gather.destination);
		put(gather.element_size_bytes);
	}
	void put(const device_kernel_instruction& kernel) {
		put(kernel.device);
		put(kernel.chunk);
		put(kernel.accesses.size());
		for(const auto& access : kernel.accesses) {
			put(static_cast<std::uint64_t>(access.mode));
			put(access.allocation);
			put(access.bounding_box);
			put(access.accessed);
		}
		put(kernel.reductions.size());
		for(const auto& reduction : kernel.reductions) put(reduction.allocation);
		put(std::uint64_t{kernel.is_border});
	}
};

} // namespace

void period_finder::note_task(const task& node) {
	const bool is_repeated = node.recorded != 0;
	if(!is_repeated && m_is_active) {
		flush();
		m_recorded.clear();
		m_current.can_recur = false; // its other instructions do not come by
	}
	m_is_active = is_repeated;
	if(is_repeated) m_recorded.emplace_back(node.submission, node.recorded);
}

void period_finder::submit(instruction_batch&& batch) {
	if(!m_is_active) return m_next.submit(std::move(batch));
	for(const auto* const item : batch.instructions) {
		m_held.push_back(item);
		add(*item);
	}
	if(m_period == nullptr) hand_on();
}

void period_finder::flush() {
	if(m_period != nullptr) stop();
}

void period_finder::add(const instruction& item) {
	if(m_current.first == 0) m_current.first = item.id.value;
	word_writer writer{m_current.words};
	writer.put(item.operation.index());
	writer.put(item.dependencies.size());
	for(const auto dependency : item.dependencies) m_current.edges.push_back({item.id.value, dependency.value});
	std::visit(overloaded{
	               [](const horizon_instruction&) {},
	               [&](const copy_instruction& copy) { writer.put(copy); },
	               [&](const gather_copy_instruction& gather) { writer.put(gather); },
	               [&](const device_kernel_instruction& kernel) {
		               const std::uint64_t recorded = recorded_of(kernel.submission);
		               if(recorded == 0) m_current.can_recur = false;
		               writer.put(recorded);
		               writer.put(kernel);
	               },
	               [&](const auto&) { m_current.can_recur = false; },
	           },
	    item.operation);
	if(!std::holds_alternative<horizon_instruction>(item.operation)) return;
	++m_num_held_horizons;
	end_segment();
	m_current = {};
}

std::uint64_t period_finder::recorded_of(const submission_id submission) {
	while(!m_recorded.empty() && m_recorded.front().first < submission) m_recorded.pop_front();
	return !m_recorded.empty() && m_recorded.front().first == submission ? m_recorded.front().second : 0;
}

void period_finder::end_segment() {
	if(m_period != nullptr) {
		if(is_like(m_current, m_period->segments[m_position], m_held.front()->id.value)) return go_on();
		stop();
	}
	learn();
}

void period_finder::go_on() {
	const std::size_t size = m_period->segments.size();
	if(++m_position < size) return;
	m_position = 0;
	++m_num_periods;
	m_num_complete = m_held.size();
	if(m_num_held_horizons + size > most_horizons) hand_on_periods();
}

void period_finder::learn() {
	for(const auto& known : m_known) {
		if(is_like(m_current, known->segments.back(), m_current.first)) return start(known);
	}
	m_history.push_back(std::move(m_current));
	if(m_history.size() > 2 * most_segments) m_history.pop_front();
	auto& now = m_history.back();
	const auto recurs_after = [&](const std::size_t lag) { return lag > 0 && lag < m_history.size() && recurs(now, m_history[m_history.size() - 1 - lag]); };
	if(recurs_after(m_lag)) {
		++m_streak;
	} else {
		m_streak = 1;
		for(m_lag = 1; m_lag <= most_segments && !recurs_after(m_lag);) ++m_lag;
		if(m_lag > most_segments) m_lag = m_streak = 0;
	}
	if(m_lag == 0 || m_streak < m_lag) return;
	auto found = std::make_shared<period>(period{std::make_shared<char>(), {m_history.end() - static_cast<std::ptrdiff_t>(m_lag), m_history.end()}});
	m_known.push_front(found);
	if(m_known.size() > most_known) m_known.pop_back();
	start(found);
}

void period_finder::start(const std::shared_ptr<const period>& known) {
	hand_on();
	forget_history();
	m_period = known;
}

void period_finder::stop() {
	hand_on_periods();
	hand_on();
	forget_history();
	m_period = nullptr;
	m_position = 0;
}

void period_finder::forget_history() {
	m_history.clear();
	m_lag = m_streak = 0;
}

void period_finder::hand_on_periods() {
	if(m_num_periods == 0) return;
	instruction_batch batch{{m_held.begin(), m_held.begin() + static_cast<std::ptrdiff_t>(m_num_complete)}, m_period->identity, m_num_periods};
	m_held.erase(m_held.begin(), m_held.begin() + static_cast<std::ptrdiff_t>(m_num_complete));
	m_num_held_horizons -= m_num_periods * m_period->segments.size();
	m_num_complete = m_num_periods = 0;
	m_next.submit(std::move(batch));
}

void period_finder::hand_on() {
	m_num_held_horizons = 0;
	if(!m_held.empty()) m_next.submit({std::exchange(m_held, {})});
}

// An edge to the same instruction in both segments comes from outside: that instruction was complete before the replay, or is older than all of it.
bool period_finder::recurs(segment& now, const segment& before) {
	if(!now.can_recur || !before.can_recur || now.words != before.words) return false;
	return std::equal(now.edges.begin(), now.edges.end(), before.edges.begin(), before.edges.end(), [](edge& a, const edge& b) {
		a.is_from_outside = a.to == b.to;
		return a.is_from_outside || a.from - a.to == b.from - b.to;
	});
}

bool period_finder::is_like(const segment& now, const segment& known, const std::uint64_t first_inside) {
	if(!now.can_recur || now.words != known.words) return false;
	return std::equal(now.edges.begin(), now.edges.end(), known.edges.begin(), known.edges.end(),
	    [&](const edge& a, const edge& b) { return b.is_from_outside ? a.to < first_inside : a.from - a.to == b.from - b.to; });
}

} // namespace celerity
