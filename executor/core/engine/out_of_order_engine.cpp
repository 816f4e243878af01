// SPDX-License-Identifier: MIT
#include "out_of_order_engine.hpp"

#include <algorithm>
#include <stdexcept>

namespace celerity {

out_of_order_engine::out_of_order_engine(const std::span<const lane_class> classes, const engine_options& options)
    : m_lanes(classes), m_nodes(m_lanes.num_lanes()), m_options(options), m_turns(m_nodes, m_lanes, options.order), m_assignment(m_nodes, m_lanes) {}

// Inline functions of this file have one caller each, which is called for every instruction.

inline void out_of_order_engine::add_edges(const slot_type slot, const std::span<const instruction_id> dependencies) {
	engine_node& n = m_nodes[slot];
	for(const auto id : dependencies) {
		const slot_type predecessor_slot = m_nodes.find(id);
		if(predecessor_slot == engine_nodes::no_slot || predecessor_slot == slot) continue;
		engine_node& predecessor = m_nodes[predecessor_slot];
		if(!predecessor.successors.empty() && predecessor.successors.back() == slot) continue; // several ids lead to the predecessor
		n.predecessors.push_back(id);
		predecessor.successors.push_back(slot);
		++n.num_incomplete;
		if(!is_satisfied_by_issue(predecessor, n)) {
			++n.num_blocking;
		} else if(predecessor.is_signal()) {
			++n.num_remote;
		}
	}
	// By age: lane_assignment begins with the youngest.
	if(!std::is_sorted(n.predecessors.begin(), n.predecessors.end())) std::sort(n.predecessors.begin(), n.predecessors.end());
}

inline void out_of_order_engine::open_gate() {
	for(slot_type slot = m_gate.pop(m_nodes); slot != engine_nodes::no_slot; slot = m_gate.pop(m_nodes)) m_turns.push(slot);
}

inline void out_of_order_engine::issue_to_lane(const slot_type slot, const lane_index lane) {
	m_assignment.append(slot, lane);
	engine_node& n = m_nodes[slot];
	if(n.policy == issue_policy::deferred) {
		n.state = node_state::assigned;
		m_lanes.add_deferred(lane);
	} else {
		n.state = node_state::issued;
		propagate_issue(slot);
		settle_clocks();
	}
}

inline bool out_of_order_engine::try_lane(const slot_type slot) {
	engine_node& n = m_nodes[slot];
	if(!m_allows_lanes) {
		m_parked.push_back(slot);
		return false;
	}
	if(m_gate.must_hold(n)) {
		m_turns.leave_place(n); // an instruction with a smaller key may need it
		m_gate.hold(n);
		return false;
	}
	if(!m_turns.take_place(slot)) return false;
	const lane_index lane = m_assignment.choose(n);
	if(lane == no_lane) {
		m_parked.push_back(slot);
		return false;
	}
	issue_to_lane(slot, lane);
	return true;
}

void out_of_order_engine::submit(const issue_request& request) {
	const bool goes_to_lane = is_on_lane(request.policy);
	if(goes_to_lane && request.lane_class >= m_lanes.num_classes()) throw std::invalid_argument("no such lane class");
	if(request.policy == issue_policy::pull && !tracks_keys()) throw std::invalid_argument("pulls are remote waits, and this engine has none");
	if(request.priority >= priority_of_queue(max_queue_priority + 1)) throw std::invalid_argument("no such priority");

	const slot_type slot = m_nodes.add(request, goes_to_lane ? m_lanes.class_info(request.lane_class).domain : engine_node::mixed_domains);
	add_edges(slot, request.dependencies);
	engine_node& n = m_nodes[slot];
	if(goes_to_lane) {
		m_turns.announce(n.queue);
		if(tracks_keys()) m_gate.heed(n);
	}
	m_turns.order_among_others(slot, request.dependencies.size());
	if(n.num_blocking == 0) {
		make_issuable(slot);
		settle_clocks();
	}
}

bool out_of_order_engine::next(issue& out, const std::uint64_t stamp) {
	if(tracks_keys()) open_gate();
	slot_type slot = engine_nodes::no_slot;
	while(m_turns.pop(slot)) {
		engine_node& n = m_nodes[slot];
		m_assignment.clear();
		if(n.policy == issue_policy::host) {
			n.state = node_state::issued;
		} else if(!try_lane(slot)) {
			continue;
		}
		++m_num_in_flight;
		n.stamp = stamp;
		const bool depends_on_one = n.is_signal() && m_assignment.name_the_only_producer(n);
		out = issue{n.id, n.num_ids, n.payload, n.lane, n.sequence, m_assignment.waits(), m_assignment.signals(), depends_on_one};
		return true;
	}
	return false;
}

void out_of_order_engine::announce(const queue_priority queue) {
	if(queue > max_queue_priority) throw std::invalid_argument("no such priority");
	m_turns.announce(queue);
}

void out_of_order_engine::notify_issued(const instruction_id id) {
	const slot_type slot = m_nodes.find(id);
	if(slot == engine_nodes::no_slot) return; // complete already
	engine_node& n = m_nodes[slot];
	if(n.state != node_state::assigned) return;
	n.state = node_state::issued;
	m_lanes.remove_deferred(n.lane);
	retry_parked();
	propagate_issue(slot);
	settle_clocks();
}

void out_of_order_engine::release(const instruction_id id, const bool is_ready) {
	const slot_type slot = m_nodes.find(id);
	if(slot == engine_nodes::no_slot || m_nodes[slot].state != node_state::held) return;
	m_nodes[slot].state = node_state::blocked;
	if(is_ready && m_nodes[slot].policy == issue_policy::pull) --m_nodes[slot].num_remote;
	if(m_nodes[slot].num_blocking == 0) make_issuable(slot);
}

void out_of_order_engine::allow_lanes(const bool allowed) {
	if(allowed && !m_allows_lanes) retry_parked();
	m_allows_lanes = allowed;
}

void out_of_order_engine::complete(const instruction_id id) {
	const slot_type slot = m_nodes.find(id);
	if(slot == engine_nodes::no_slot) return; // a later instruction on its lane has completed it
	if(m_nodes[slot].is_clock()) throw std::logic_error("horizons and epochs complete by themselves");
	if(m_nodes[slot].state < node_state::assigned) throw std::logic_error("an instruction that was never issued cannot complete");
	complete_slot(slot, false);
}

void out_of_order_engine::complete_lane(const lane_index lane, const std::uint64_t sequence) {
	while(m_lanes.completed(lane) < sequence) complete_slot(m_lanes.front(lane), true);
}

void out_of_order_engine::take_completed(std::vector<completed_instruction>& out) {
	out.clear();
	std::swap(out, m_completed);
}

bool out_of_order_engine::is_satisfied_by_issue(const engine_node& predecessor, const engine_node& successor) const {
	if(predecessor.state < node_state::issued || predecessor.policy == issue_policy::host) return false;
	if(predecessor.is_signal() && !waits_for_answers(successor)) return false;
	if(successor.policy == issue_policy::host) return false;
	return successor.is_clock() || (m_options.lanes_wait && predecessor.domain == successor.domain);
}

void out_of_order_engine::make_issuable(const slot_type slot) {
	engine_node& n = m_nodes[slot];
	if(n.state == node_state::held) return; // until release()
	if(n.is_clock()) {
		m_unblocked_clocks.push_back(slot);
	} else if(n.num_remote > 0) {
		n.state = node_state::ready;
		m_gate.hold(n);
	} else {
		m_turns.push(slot);
	}
}

void out_of_order_engine::settle_remote(const slot_type slot) {
	engine_node& n = m_nodes[slot];
	if(--n.num_remote == 0 && n.state == node_state::ready && m_gate.withdraw(n)) m_turns.push(slot);
}

void out_of_order_engine::retry_parked() {
	for(const slot_type slot : m_parked) m_turns.push(slot);
	m_parked.clear();
}

void out_of_order_engine::propagate_issue(const slot_type slot) {
	const engine_node& n = m_nodes[slot];
	for(const slot_type successor : n.successors) {
		engine_node& s = m_nodes[successor];
		if(!is_satisfied_by_issue(n, s)) continue;
		if(n.is_signal()) ++s.num_remote;
		if(--s.num_blocking == 0) make_issuable(successor);
	}
}

void out_of_order_engine::settle_clocks() {
	while(!m_unblocked_clocks.empty() || !m_completed_clocks.empty()) {
		if(!m_completed_clocks.empty()) {
			const slot_type slot = m_completed_clocks.back();
			m_completed_clocks.pop_back();
			finalize(slot);
			continue;
		}
		const slot_type slot = m_unblocked_clocks.back();
		m_unblocked_clocks.pop_back();
		m_assignment.set_clock(slot);
		m_nodes[slot].state = node_state::issued;
		propagate_issue(slot);
		if(m_nodes[slot].num_incomplete == 0) m_completed_clocks.push_back(slot);
	}
}

// An explicit stack, since predecessors on other lanes may form long chains. Each entry was issued before the entries below it.
void out_of_order_engine::complete_slot(const slot_type target, const bool is_passed) {
	m_completion_stack.push_back({target, is_passed});
	while(!m_completion_stack.empty()) {
		const auto item = m_completion_stack.back();
		const auto prerequisite = find_prerequisite(m_nodes[item.slot], item.is_passed);
		if(prerequisite.slot != engine_nodes::no_slot) {
			m_completion_stack.push_back(prerequisite);
			continue;
		}
		m_completion_stack.pop_back();
		engine_node& n = m_nodes[item.slot];
		if(n.is_signal() && item.is_passed) {
			m_lanes.pop_front(n.lane);
			if(n.state == node_state::answered) {
				m_nodes.free(item.slot);
			} else {
				n.state = node_state::passed;
			}
			continue;
		}
		finalize(item.slot);
		settle_clocks();
		// Settling may have finished clock nodes that are still on the stack.
		while(!m_completion_stack.empty() && m_nodes[m_completion_stack.back().slot].state == node_state::blocked) m_completion_stack.pop_back();
	}
}

out_of_order_engine::completion out_of_order_engine::find_prerequisite(const engine_node& n, const bool is_passed) const {
	// The answer to a signal does not complete the instructions before it on its lane.
	if(is_on_lane(n.policy) && (is_passed || !n.is_signal())) {
		if(const slot_type front = m_lanes.front(n.lane); m_lanes.completed(n.lane) + 1 < n.sequence) return {front, true};
	}
	if(n.num_incomplete == 0) return {engine_nodes::no_slot, false};
	for(const auto id : n.predecessors) {
		if(const slot_type slot = m_nodes.find(id); slot != engine_nodes::no_slot) return {slot, false};
	}
	return {engine_nodes::no_slot, false};
}

void out_of_order_engine::finalize(const slot_type slot) {
	engine_node& n = m_nodes[slot];
	const bool is_signal = n.is_signal();
	if(is_on_lane(n.policy) && !is_signal) {
		m_lanes.pop_front(n.lane);
		if(n.state == node_state::assigned) { // its lane has passed it, so that it was enqueued
			m_lanes.remove_deferred(n.lane);
			retry_parked();
		}
	}
	if(!n.is_clock()) --m_num_in_flight;
	m_completed.push_back({n.id, n.num_ids, n.payload});
	m_nodes.retire(n);
	m_turns.leave_place(n);

	for(const slot_type successor : n.successors) {
		engine_node& s = m_nodes[successor];
		--s.num_incomplete;
		if(!is_satisfied_by_issue(n, s)) {
			if(--s.num_blocking == 0) make_issuable(successor);
		} else if(is_signal) {
			settle_remote(successor);
		}
		if(s.is_clock() && s.state == node_state::issued && s.num_incomplete == 0) m_completed_clocks.push_back(successor);
	}
	if(is_signal && n.state != node_state::passed) {
		n.state = node_state::answered;
	} else {
		m_nodes.free(slot);
	}
}

} // namespace celerity
