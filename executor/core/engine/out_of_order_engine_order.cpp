// SPDX-License-Identifier: MIT
// The order of issue: queues, ways to the end, and places on lanes that queues share.
#include <algorithm>
#include <stdexcept>

#include "out_of_order_engine.hpp"

namespace celerity {

// Not past horizons and epochs, which would pass it on to everything. Paths have an end, so that a chain costs no more than its length times that.
void out_of_order_engine::urge_predecessors(const slot_type slot) {
	m_urged.push_back(slot);
	while(!m_urged.empty()) {
		const node& n = m_nodes[m_urged.back()];
		m_urged.pop_back();
		const auto path = static_cast<std::uint8_t>(m_options.order == kernel_order::path ? std::min<unsigned>(n.path + 1U, longest_path) : 0U);
		for(const auto id : n.predecessors) {
			const slot_type earlier = m_window.find(id);
			if(earlier == instruction_window::no_slot) continue;
			node& predecessor = m_nodes[earlier];
			if(predecessor.policy == issue_policy::clock || predecessor.state >= node_state::assigned) continue;
			if(predecessor.queue >= n.queue && predecessor.path >= path) continue;
			predecessor.queue = std::max(predecessor.queue, n.queue);
			predecessor.path = std::max(predecessor.path, path);
			if(m_options.order != kernel_order::age) predecessor.rank = rank_of(predecessor);
			m_urged.push_back(earlier);
			if(predecessor.where == whereabouts::nowhere) continue;
			++m_num_outdated;
			(predecessor.where == whereabouts::in_ready ? m_ready : m_waiting[predecessor.lane_class]).push(entry_of(earlier));
		}
	}
}

// ---- places on lanes that queues share --------------------------------------------------------------------------------------------

void out_of_order_engine::announce(const queue_priority queue) {
	if(queue > max_queue_priority) throw std::invalid_argument("no such priority");
	m_num_queues += m_live_by_queue[queue] == 0 && !m_is_announced[queue];
	m_is_announced[queue] = true;
}

bool out_of_order_engine::take_place(node& n) {
	const std::uint32_t most = m_lanes.class_info(n.lane_class).most_shared;
	if(most == 0 || n.has_place) return true;
	if(m_places[n.lane_class] >= most) return false;
	++m_places[n.lane_class];
	n.has_place = true;
	return true;
}

// The place is taken at once by the next instruction, so that no newcomer can take it again and again.
void out_of_order_engine::leave_place(node& n) {
	n.has_place = false;
	--m_places[n.lane_class];
	auto& waiting = m_waiting[n.lane_class];
	ready_entry entry;
	while(waiting.pop(entry)) {
		if(drop_outdated(entry)) continue;
		--m_num_waiting;
		take_place(m_nodes[entry.slot]);
		return push_ready(entry.slot);
	}
}

void out_of_order_engine::end_sharing() {
	ready_entry entry;
	for(auto& waiting : m_waiting) {
		while(waiting.pop(entry)) {
			if(!drop_outdated(entry)) push_ready(entry.slot);
		}
	}
	m_num_waiting = 0;
}

} // namespace celerity
