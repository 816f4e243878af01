// SPDX-License-Identifier: MIT
// The order of issue: queues, ways to the end, and places on lanes that queues share.
#include <algorithm>
#include <stdexcept>

#include "out_of_order_engine.hpp"

namespace celerity {

void out_of_order_engine::order_among_others(const slot_type slot, const std::size_t num_dependencies) {
	node& n = m_nodes[slot];
	if(m_options.order != kernel_order::age)
		n.order += most_dependencies - static_cast<issue_order>(std::min<std::size_t>(num_dependencies, most_dependencies));
	if(queue_of(n.order) > 0 || m_options.order == kernel_order::path) urge_predecessors(slot);
}

// Not past horizons and epochs, which would pass it on to everything. Paths have an end, so that a chain costs no more than its length times that.
void out_of_order_engine::urge_predecessors(const slot_type slot) {
	m_urged.push_back(slot);
	while(!m_urged.empty()) {
		const node& n = m_nodes[m_urged.back()];
		m_urged.pop_back();
		const queue_priority queue = queue_of(n.order);
		const issue_order path = m_options.order == kernel_order::path ? std::min(path_of(n) + 1, longest_path) : 0;
		for(const auto id : n.predecessors) {
			const slot_type earlier = m_window.find(id);
			if(earlier == instruction_window::no_slot) continue;
			node& predecessor = m_nodes[earlier];
			if(predecessor.policy == issue_policy::clock || predecessor.state >= node_state::assigned) continue;
			const queue_priority lower = queue_of(predecessor.order);
			const issue_order shorter = path_of(predecessor);
			if(lower >= queue && shorter >= path) continue;
			if(lower < queue) predecessor.order += priority_of_queue(queue - lower) << order_bits_below_priority;
			if(shorter < path) predecessor.order += (path - shorter) << path_shift;
			m_urged.push_back(earlier);
			if(predecessor.where == whereabouts::nowhere) continue;
			++m_num_outdated;
			(predecessor.where == whereabouts::in_ready ? m_ready : m_waiting[predecessor.place_class]).push(entry_of(earlier));
		}
	}
}

// ---- places on lanes that queues share --------------------------------------------------------------------------------------------

void out_of_order_engine::announce(const queue_priority queue) {
	if(queue > max_queue_priority) throw std::invalid_argument("no such priority");
	m_queues |= queue_set_of(queue);
}

bool out_of_order_engine::take_place(node& n) {
	const std::uint32_t most_shared = m_lanes.class_info(n.lane_class).most_shared;
	if(most_shared == 0 || n.has_place) return true;
	const bool is_brief = n.place_class % 2 != 0;
	if(m_places[n.place_class] >= (is_brief ? most_brief : most_shared)) return false;
	++m_places[n.place_class];
	n.has_place = true;
	return true;
}

// The place is taken at once by the next instruction, so that no newcomer can take it again and again.
void out_of_order_engine::leave_place(node& n) {
	n.has_place = false;
	--m_places[n.place_class];
	auto& waiting = m_waiting[n.place_class];
	ready_entry entry;
	while(waiting.pop(entry)) {
		if(drop_outdated(entry)) continue;
		take_place(m_nodes[entry.slot]);
		return push_ready(entry.slot);
	}
}

} // namespace celerity
