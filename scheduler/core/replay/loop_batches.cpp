// SPDX-License-Identifier: MIT
#include "loop_batches.hpp"

#include <utility>

#include "batch_sizes.hpp"

namespace celerity {

namespace {

/// The executor need not wait for more that no graph carries out.
constexpr std::size_t most_kept_back = 256;

std::size_t most_periods_of(const loop_template& known) {
	const auto num_instructions = known.legs.back().num_instructions - known.before.num_instructions;
	const auto num_horizons = known.legs.back().num_horizons - known.before.num_horizons;
	return periods_per_batch(num_instructions, num_horizons);
}

} // namespace

void loop_batches::begin(const loop_template& known) {
	release();
	m_stretch = 0;
	begin_stretch(known);
}

void loop_batches::begin_stretch(const loop_template& known) {
	const auto& identity = known.stretches[m_stretch].identity;
	m_is_collecting = identity != nullptr && !identity->is_refused.load(std::memory_order_relaxed) && m_sink.takes_periods();
	if(m_is_collecting && !m_open.empty()) hand_over(std::exchange(m_open, {}), m_progress.released_horizons);
}

void loop_batches::end_leg(const loop_template& known, const std::size_t next) {
	const auto& stretch = known.stretches[m_stretch];
	const auto num_legs = stretch.end - (m_stretch == 0 ? 0 : known.stretches[m_stretch - 1].end);
	if(next != stretch.end) {
		if(!m_is_collecting && m_open.instructions.size() >= most_kept_back) hand_over(std::exchange(m_open, {}), m_progress.released_horizons);
		return;
	}
	m_stretch = next == known.legs.size() ? 0 : m_stretch + 1;
	if(!m_is_collecting) {
		if(m_open.instructions.size() >= most_kept_back) hand_over(std::exchange(m_open, {}), m_progress.released_horizons);
		return begin_stretch(known);
	}
	m_open.replayed = stretch.identity;
	m_open.loop = stretch.identity.get();
	++m_open.num_periods;
	m_num_whole = m_open.instructions.size();
	m_horizons_of_whole = m_progress.released_horizons;
	m_progress.counts.batched_tasks += num_legs;
	const bool may_grow = known.stretches.size() == 1 && m_open.num_periods < most_periods_of(known) && !stretch.identity->is_refused;
	if(may_grow) return;
	release_whole();
	begin_stretch(known);
}

void loop_batches::release_whole() {
	if(m_open.num_periods == 0) return;
	instruction_batch rest;
	const auto end_of_whole = m_open.instructions.begin() + static_cast<std::ptrdiff_t>(m_num_whole);
	rest.instructions.assign(end_of_whole, m_open.instructions.end());
	m_open.instructions.erase(end_of_whole, m_open.instructions.end());
	++m_progress.counts.loop_batches;
	hand_over(std::exchange(m_open, std::move(rest)), m_horizons_of_whole);
	m_num_whole = 0;
}

void loop_batches::release() {
	release_whole();
	if(m_open.empty()) return;
	m_is_collecting = false;
	hand_over(std::exchange(m_open, {}), m_progress.released_horizons);
}

void loop_batches::hand_over(instruction_batch&& batch, const std::uint64_t horizons) {
	m_last_horizons = {m_last_horizons[1], horizons};
	m_sink.submit(std::move(batch));
}

} // namespace celerity
