// SPDX-License-Identifier: MIT
#include "lane_assignment.hpp"

#include <algorithm>

namespace celerity {

lane_index lane_assignment::choose(const engine_node& n) {
	const std::uint32_t cls = n.lane_class;
	const bool is_deferred = n.policy == issue_policy::deferred;
	engine_node* parent = nullptr;
	for(std::size_t i = n.predecessors.size(); i-- > 0;) {
		const slot_type slot = m_nodes.find(n.predecessors[i]);
		if(slot == engine_nodes::no_slot) continue;
		engine_node& predecessor = m_nodes[slot];
		if(predecessor.lane == no_lane || predecessor.inherited || m_lanes.class_of(predecessor.lane) != cls) continue;
		if(!m_lanes.accepts(predecessor.lane, is_deferred)) continue;
		if(m_lanes.issued(predecessor.lane) == predecessor.sequence) { // nothing lies between the two
			predecessor.inherited = true;
			return predecessor.lane;
		}
		if(parent == nullptr) parent = &predecessor;
	}
	const lane_index best = m_lanes.find_least_loaded(cls, is_deferred);
	if(parent == nullptr || (best != no_lane && m_lanes.in_flight(best) == 0)) return best;
	parent->inherited = true;
	return parent->lane;
}

template <typename Waits>
void lane_assignment::collect_waits(const engine_node& n, const lane_index own_lane, const std::span<std::uint64_t> clock, Waits& waits) const {
	const auto add = [&](const lane_position position) {
		if(position.lane == own_lane) return;
		auto& known = clock[m_lanes.place_in_clocks(position.lane)];
		if(known >= position.sequence || m_lanes.completed(position.lane) >= position.sequence) return;
		known = position.sequence;
		const auto same_lane = std::find_if(waits.begin(), waits.end(), [&](const lane_position& wait) { return wait.lane == position.lane; });
		if(same_lane == waits.end()) {
			waits.push_back(position);
		} else {
			same_lane->sequence = position.sequence; // the clock showed a smaller one before
		}
	};
	// Youngest first: the waits of the youngest predecessor often imply the others.
	for(std::size_t i = n.predecessors.size(); i-- > 0;) {
		const slot_type slot = m_nodes.find(n.predecessors[i]);
		if(slot == engine_nodes::no_slot) continue;
		const engine_node& predecessor = m_nodes[slot];
		// The answer says that the predecessors of the signal are complete. It says nothing of other waits of its lane.
		if(predecessor.is_signal()) continue;
		if(is_on_lane(predecessor.policy)) {
			add({predecessor.lane, predecessor.sequence});
		} else {
			for(const auto& position : predecessor.frontier) add(position);
		}
		merge_clock(clock, m_nodes.clock(slot, m_lanes));
	}
}

void lane_assignment::append(const slot_type slot, const lane_index lane) {
	engine_node& n = m_nodes[slot];
	m_lanes.open(lane);
	const auto clock = m_lanes.clock(lane);
	if(n.num_incomplete > 0) {
		collect_waits(n, lane, clock, m_waits);
		if(n.num_remote > 0) {
			for(const auto id : n.predecessors) {
				const slot_type predecessor = m_nodes.find(id);
				if(predecessor != engine_nodes::no_slot && m_nodes[predecessor].is_signal()) m_signals.push_back(id);
			}
		}
		++m_counters.issued_early;
		m_counters.waits += m_waits.size();
	}
	n.lane = lane;
	n.sequence = m_lanes.push(lane, slot);
	std::copy(clock.begin(), clock.end(), m_nodes.clock(slot, m_lanes).begin());
}

void lane_assignment::set_clock(const slot_type slot) {
	engine_node& n = m_nodes[slot];
	const auto clock = m_nodes.clock(slot, m_lanes);
	std::fill(clock.begin(), clock.end(), 0);
	collect_waits(n, no_lane, clock, n.frontier);
	n.domain = n.frontier.empty() ? engine_node::mixed_domains : m_lanes.domain_of(n.frontier.front().lane);
	for(const auto& position : n.frontier) {
		if(m_lanes.domain_of(position.lane) != n.domain) n.domain = engine_node::mixed_domains;
	}
}

bool lane_assignment::name_the_only_producer(const engine_node& n) {
	if(n.num_incomplete != 1) return false;
	for(const auto id : n.predecessors) {
		const slot_type slot = m_nodes.find(id);
		if(slot == engine_nodes::no_slot) continue;
		const engine_node& predecessor = m_nodes[slot];
		if(!is_on_lane(predecessor.policy) || predecessor.is_signal() || predecessor.lane == n.lane) return false;
		m_waits.clear();
		m_waits.push_back({predecessor.lane, predecessor.sequence});
		return true;
	}
	return false;
}

} // namespace celerity
