// SPDX-License-Identifier: MIT
#include "lane_pool.hpp"

#include <stdexcept>
#include <utility>

namespace celerity {

lane_pool::lane_pool(const std::span<const lane_class> classes) : m_classes(classes.begin(), classes.end()) {
	for(std::uint32_t cls = 0; cls < m_classes.size(); ++cls) {
		if(m_classes[cls].size == 0) throw std::invalid_argument("a lane class needs at least one lane");
		m_first_lane.push_back(static_cast<lane_index>(m_lanes.size()));
		for(std::uint32_t i = 0; i < m_classes[cls].size; ++i) {
			auto& lane = m_lanes.emplace_back();
			lane.cls = cls;
			lane.domain = m_classes[cls].domain;
			lane.slots.resize(64);
		}
	}
	m_stride = m_lanes.size();
	m_places.resize(m_stride, not_open);
	m_clocks.resize(m_stride * m_stride);
}

lane_index lane_pool::find_least_loaded(const std::uint32_t cls, const bool deferred) const {
	const lane* const first = m_lanes.data() + m_first_lane[cls];
	const lane* best = nullptr;
	std::uint64_t least = UINT64_MAX;
	for(const lane* each = first; each < first + m_classes[cls].size && least > 0; ++each) {
		const std::uint64_t load = each->issued - each->completed;
		if(load >= least || (!deferred && each->pending_deferred > 0)) continue;
		best = each;
		least = load;
	}
	return best == nullptr ? no_lane : static_cast<lane_index>(best - m_lanes.data());
}

std::uint64_t lane_pool::push(const lane_index index, const std::uint32_t slot) {
	auto& lane = m_lanes[index];
	if(in_flight(index) == lane.slots.size()) {
		std::vector<std::uint32_t> slots(lane.slots.size() * 2);
		for(std::uint64_t s = lane.completed + 1; s <= lane.issued; ++s) slots[s & (slots.size() - 1)] = lane.slots[s & (lane.slots.size() - 1)];
		lane.slots = std::move(slots);
	}
	const std::uint64_t sequence = ++lane.issued;
	lane.slots[sequence & (lane.slots.size() - 1)] = slot;
	clock(index)[m_places[index]] = sequence;
	return sequence;
}

} // namespace celerity
