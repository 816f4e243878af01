// SPDX-License-Identifier: MIT
#include "trace_recorder.hpp"

#include <algorithm>
#include <bit>

namespace celerity {

trace_recorder::trace_recorder(const std::size_t min_capacity)
    : m_mask(std::bit_ceil(std::max<std::size_t>(min_capacity, 1)) - 1), m_slots(std::make_unique<slot[]>(m_mask + 1)) {}

void trace_recorder::record(const trace_event& event) {
	const std::uint64_t ticket = m_num_recorded.fetch_add(1, std::memory_order_relaxed) + 1;
	auto& own = m_slots[ticket & m_mask];
	std::uint64_t seen = own.ticket.load(std::memory_order_relaxed);
	// Busy, or newer: this thread was held up for as long as the others took to fill the whole ring.
	if(seen >= ticket || !own.ticket.compare_exchange_strong(seen, busy, std::memory_order_acquire, std::memory_order_relaxed)) {
		m_num_dropped.fetch_add(1, std::memory_order_relaxed);
		return;
	}
	own.event = event;
	own.ticket.store(ticket, std::memory_order_release);
}

std::vector<trace_event> trace_recorder::events() const {
	std::vector<trace_event> found;
	for(std::size_t i = 0; i <= m_mask; ++i) {
		auto& place = m_slots[i];
		std::uint64_t seen = place.ticket.load(std::memory_order_relaxed);
		if(seen == 0 || seen == busy || !place.ticket.compare_exchange_strong(seen, busy, std::memory_order_acquire, std::memory_order_relaxed)) continue;
		found.push_back(place.event);
		place.ticket.store(seen, std::memory_order_release);
	}
	std::sort(found.begin(), found.end(), [](const trace_event& a, const trace_event& b) {
		if(a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
		return a.end_ns > b.end_ns;
	});
	return found;
}

std::uint64_t trace_recorder::num_lost() const {
	const auto recorded = m_num_recorded.load(std::memory_order_relaxed);
	const auto replaced = recorded > capacity() ? recorded - capacity() : 0;
	return replaced + m_num_dropped.load(std::memory_order_relaxed);
}

} // namespace celerity
