// SPDX-License-Identifier: MIT
#include "issue_turns.hpp"

#include <algorithm>

namespace celerity {

void issue_turns::refine_order(const slot_type slot, const std::size_t num_dependencies) {
	engine_node& n = m_nodes[slot];
	if(m_prefers_few) n.order += most_dependencies - static_cast<issue_order>(std::min<std::size_t>(num_dependencies, most_dependencies));
	if(queue_of(n.order) > 0 || m_prefers_paths) urge_predecessors(slot);
}

// Not past horizons and epochs, which would pass it on to everything. Paths have an end, so that a chain costs no more than its length times that.
void issue_turns::urge_predecessors(const slot_type slot) {
	m_urged.push_back(slot);
	while(!m_urged.empty()) {
		const engine_node& n = m_nodes[m_urged.back()];
		m_urged.pop_back();
		const queue_priority queue = queue_of(n.order);
		const issue_order path = m_prefers_paths ? std::min(path_of(n) + 1, longest_path) : 0;
		for(const auto id : n.predecessors) {
			const slot_type earlier = m_nodes.find(id);
			if(earlier == engine_nodes::no_slot) continue;
			engine_node& predecessor = m_nodes[earlier];
			if(predecessor.is_clock() || predecessor.state >= node_state::assigned) continue;
			const queue_priority lower = queue_of(predecessor.order);
			const issue_order shorter = path_of(predecessor);
			if(lower >= queue && shorter >= path) continue;
			if(lower < queue) predecessor.order += priority_of_queue(queue - lower) << order_bits_below_priority;
			if(shorter < path) predecessor.order += (path - shorter) << path_shift;
			m_urged.push_back(earlier);
			renew_entry(earlier);
		}
	}
}

void issue_turns::renew_entry(const slot_type slot) {
	const engine_node& n = m_nodes[slot];
	if(n.where == whereabouts::nowhere) return;
	++m_num_outdated;
	(n.where == whereabouts::in_ready ? m_ready : m_waiting[n.place_class]).push(entry_of(slot));
}

bool issue_turns::try_place(engine_node& n) {
	const std::uint32_t most_shared = m_lanes.class_info(n.lane_class).most_shared;
	if(most_shared == 0 || n.has_place) return true;
	const bool is_brief = n.place_class % 2 != 0;
	if(m_places[n.place_class] >= (is_brief ? most_brief : most_shared)) return false;
	++m_places[n.place_class];
	n.has_place = true;
	return true;
}

bool issue_turns::take_shared_place(const slot_type slot) {
	engine_node& n = m_nodes[slot];
	if(try_place(n)) return true;
	n.where = whereabouts::in_waiting;
	m_waiting[n.place_class].push(entry_of(slot));
	return false;
}

void issue_turns::leave_shared_place(engine_node& n) {
	n.has_place = false;
	--m_places[n.place_class];
	auto& waiting = m_waiting[n.place_class];
	ready_entry entry;
	while(waiting.pop(entry)) {
		if(drop_outdated(entry)) continue;
		try_place(m_nodes[entry.slot]);
		return push(entry.slot);
	}
}

std::size_t issue_turns::num_entries() const {
	std::size_t sum = m_ready.size();
	for(const auto& queue : m_waiting) sum += queue.size();
	return sum - m_num_outdated;
}

} // namespace celerity
