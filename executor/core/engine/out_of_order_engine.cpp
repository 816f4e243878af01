// SPDX-License-Identifier: MIT
#include "out_of_order_engine.hpp"

#include <algorithm>
#include <stdexcept>

namespace celerity {

namespace {

// Heaps of the standard library have the greatest element on top.
constexpr auto has_greater_key = [](const auto& a, const auto& b) { return a.key != b.key ? a.key > b.key : a.id > b.id; };

} // namespace

out_of_order_engine::out_of_order_engine(const std::span<const lane_class> classes, const engine_options& options)
    : m_lanes(classes), m_num_lanes(m_lanes.num_lanes()), m_options(options), m_waiting(2 * classes.size()), m_places(2 * classes.size()) {}

void out_of_order_engine::submit(const engine_request& request) {
	const bool goes_to_lane = is_on_lane(request.policy);
	const bool is_pull = request.policy == issue_policy::pull;
	if(goes_to_lane && request.lane_class >= m_lanes.num_classes()) throw std::invalid_argument("no such lane class");
	if(is_pull && !tracks_keys()) throw std::invalid_argument("pulls are remote waits, and this engine has none");
	if(request.priority >= priority_of_queue(max_queue_priority + 1)) throw std::invalid_argument("no such priority");

	const slot_type slot = allocate_slot();
	m_window.insert(request.id, slot, request.num_ids);
	++m_num_live;
	m_num_submitted += request.num_ids;
	const queue_priority queue = queue_priority_of(request.priority);
	if(request.policy != issue_policy::clock) m_num_live_of[queue] += request.num_ids;
	if(goes_to_lane) {
		++m_num_live_on_lanes;
		m_queues |= queue_set_of(queue);
	}

	node& n = m_nodes[slot];
	n.id = request.id;
	n.queue = queue;
	n.num_ids = request.num_ids;
	n.payload = request.payload;
	n.key = request.key;
	n.order = request.priority << order_bits_below_priority;
	n.policy = request.policy;
	n.state = is_pull || request.policy == issue_policy::signal ? node_state::held : node_state::blocked;
	n.where = whereabouts::nowhere;
	n.inherited = false;
	n.has_place = false;
	n.lane_class = request.lane_class;
	n.place_class = 2 * request.lane_class + (request.is_brief ? 1 : 0);
	n.domain = goes_to_lane ? m_lanes.class_info(request.lane_class).domain : mixed_domains;
	n.lane = no_lane;
	n.sequence = 0;
	n.num_blocking = 0;
	n.num_incomplete = 0;
	n.num_remote = is_pull ? 1 : 0;
	n.predecessors.clear();
	n.successors.clear();
	n.frontier.clear();

	for(const auto id : request.dependencies) {
		const slot_type predecessor_slot = m_window.find(id);
		if(predecessor_slot == instruction_window::no_slot || predecessor_slot == slot) continue;
		node& predecessor = m_nodes[predecessor_slot];
		if(!predecessor.successors.empty() && predecessor.successors.back() == slot) continue; // several ids lead to the predecessor
		n.predecessors.push_back(id);
		predecessor.successors.push_back(slot);
		++n.num_incomplete;
		if(!is_satisfied_by_issue(predecessor, n)) {
			++n.num_blocking;
		} else if(predecessor.policy == issue_policy::signal) {
			++n.num_remote;
		}
	}
	// By age: choose_lane() and collect_waits() begin with the youngest.
	if(!std::is_sorted(n.predecessors.begin(), n.predecessors.end())) std::sort(n.predecessors.begin(), n.predecessors.end());
	if(goes_to_lane && tracks_keys()) {
		m_unissued_keys.push_back({n.key, n.id});
		std::push_heap(m_unissued_keys.begin(), m_unissued_keys.end(), has_greater_key);
	}
	if(n.order >= least_of_raised_queues || m_options.order != kernel_order::age) [[unlikely]]
		order_among_others(slot, request.dependencies.size());
	if(n.num_blocking == 0) {
		make_issuable(slot);
		settle_clocks();
	}
}

bool out_of_order_engine::next(issue& out, const std::uint64_t stamp) {
	if(tracks_keys()) retry_gated();
	ready_entry entry;
	while(m_ready.pop(entry)) {
		if(drop_outdated(entry)) continue;
		const slot_type slot = entry.slot;
		node& n = m_nodes[slot];
		n.where = whereabouts::nowhere;

		m_waits.clear();
		m_signals.clear();
		if(n.policy == issue_policy::host) {
			n.state = node_state::issued;
		} else if(!m_allows_lanes) {
			m_parked.push_back(slot);
			continue;
		} else if(must_stay_gated(n)) {
			if(n.has_place) leave_place(n); // an instruction with a smaller key may need it
			push_gated(slot);
			continue;
		} else if(is_shared() && !take_place(n)) {
			n.where = whereabouts::in_waiting;
			m_waiting[n.place_class].push(entry_of(slot));
			continue;
		} else {
			const lane_index lane = choose_lane(n);
			if(lane == no_lane) {
				m_parked.push_back(slot);
				continue;
			}
			issue_to_lane(slot, lane);
		}
		++m_num_in_flight;
		n.stamp = stamp;
		const bool depends_on_one = n.policy == issue_policy::signal && name_the_only_producer(n);
		out = issue{n.id, n.num_ids, n.payload, n.lane, n.sequence, m_waits, m_signals, depends_on_one};
		return true;
	}
	return false;
}

// The position is named even if the lane has waited for it before. Otherwise only the first flag of each lane would know its producer.
bool out_of_order_engine::name_the_only_producer(const node& n) {
	if(n.num_incomplete != 1) return false;
	for(const auto id : n.predecessors) {
		const slot_type slot = m_window.find(id);
		if(slot == instruction_window::no_slot) continue;
		const node& predecessor = m_nodes[slot];
		if(!is_on_lane(predecessor.policy) || predecessor.policy == issue_policy::signal || predecessor.lane == n.lane) return false;
		m_waits.clear();
		m_waits.push_back({predecessor.lane, predecessor.sequence});
		return true;
	}
	return false;
}

void out_of_order_engine::notify_issued(const instruction_id id) {
	const slot_type slot = m_window.find(id);
	if(slot == instruction_window::no_slot) return; // complete already
	node& n = m_nodes[slot];
	if(n.state != node_state::assigned) return;
	n.state = node_state::issued;
	m_lanes.remove_deferred(n.lane);
	retry_parked();
	propagate_issue(slot);
	settle_clocks();
}

void out_of_order_engine::release(const instruction_id id, const bool is_ready) {
	const slot_type slot = m_window.find(id);
	if(slot == instruction_window::no_slot || m_nodes[slot].state != node_state::held) return;
	m_nodes[slot].state = node_state::blocked;
	if(is_ready && m_nodes[slot].policy == issue_policy::pull) --m_nodes[slot].num_remote;
	if(m_nodes[slot].num_blocking == 0) make_issuable(slot);
}

void out_of_order_engine::allow_remote_waits(const bool allowed) { m_allows_remote_waits = allowed; }

void out_of_order_engine::allow_lanes(const bool allowed) {
	if(allowed && !m_allows_lanes) retry_parked();
	m_allows_lanes = allowed;
}

void out_of_order_engine::complete(const instruction_id id) {
	const slot_type slot = m_window.find(id);
	if(slot == instruction_window::no_slot) return; // a later instruction on its lane has completed it
	if(m_nodes[slot].policy == issue_policy::clock) throw std::logic_error("horizons and epochs complete by themselves");
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

out_of_order_engine::slot_type out_of_order_engine::allocate_slot() {
	if(!m_free_slots.empty()) {
		const slot_type slot = m_free_slots.back();
		m_free_slots.pop_back();
		return slot;
	}
	m_nodes.emplace_back();
	m_node_clocks.resize(m_nodes.size() * m_num_lanes);
	return static_cast<slot_type>(m_nodes.size() - 1);
}

std::span<std::uint64_t> out_of_order_engine::node_clock(const slot_type slot) { return {m_node_clocks.data() + slot * m_num_lanes, m_lanes.num_open()}; }

std::span<const std::uint64_t> out_of_order_engine::node_clock(const slot_type slot) const {
	return {m_node_clocks.data() + slot * m_num_lanes, m_lanes.num_open()};
}

bool out_of_order_engine::is_satisfied_by_issue(const node& predecessor, const node& successor) const {
	if(predecessor.state < node_state::issued || predecessor.policy == issue_policy::host) return false;
	if(predecessor.policy == issue_policy::signal && !waits_for_answers(successor)) return false;
	if(successor.policy == issue_policy::host) return false;
	return successor.policy == issue_policy::clock || (m_options.lanes_wait && predecessor.domain == successor.domain);
}

void out_of_order_engine::make_issuable(const slot_type slot) {
	node& n = m_nodes[slot];
	if(n.state == node_state::held) return; // until release()
	if(n.policy == issue_policy::clock) {
		m_unblocked_clocks.push_back(slot);
	} else if(n.num_remote > 0) {
		push_gated(slot);
	} else {
		push_ready(slot);
	}
}

void out_of_order_engine::push_ready(const slot_type slot) {
	node& n = m_nodes[slot];
	n.state = node_state::ready;
	n.where = whereabouts::in_ready;
	m_ready.push(entry_of(slot));
}

void out_of_order_engine::push_gated(const slot_type slot) {
	node& n = m_nodes[slot];
	n.state = node_state::ready;
	m_gated.push_back({n.key, n.id});
	std::push_heap(m_gated.begin(), m_gated.end(), has_greater_key);
}

void out_of_order_engine::settle_remote(const slot_type slot) {
	node& n = m_nodes[slot];
	if(--n.num_remote > 0 || n.state != node_state::ready) return;
	const auto gated = std::find_if(m_gated.begin(), m_gated.end(), [&](const keyed_entry& entry) { return entry.id == n.id; });
	if(gated == m_gated.end()) return;
	m_gated.erase(gated);
	std::make_heap(m_gated.begin(), m_gated.end(), has_greater_key);
	push_ready(slot);
}

void out_of_order_engine::retry_parked() {
	for(const slot_type slot : m_parked) push_ready(slot);
	m_parked.clear();
}

void out_of_order_engine::retry_gated() {
	if(!m_allows_remote_waits) return;
	while(!m_unissued_keys.empty()) {
		const slot_type slot = m_window.find(m_unissued_keys.front().id);
		if(slot != instruction_window::no_slot && m_nodes[slot].state < node_state::issued) break;
		std::pop_heap(m_unissued_keys.begin(), m_unissued_keys.end(), has_greater_key);
		m_unissued_keys.pop_back();
	}
	// A gated instruction is unissued itself, so its key is never below the smallest one.
	while(!m_gated.empty() && m_gated.front().key == m_unissued_keys.front().key) {
		const slot_type slot = m_window.find(m_gated.front().id);
		std::pop_heap(m_gated.begin(), m_gated.end(), has_greater_key);
		m_gated.pop_back();
		push_ready(slot);
	}
}

// An instruction with a smaller key may have been submitted after the gate had opened.
bool out_of_order_engine::must_stay_gated(const node& n) const { return n.num_remote > 0 && (!m_allows_remote_waits || m_unissued_keys.front().key < n.key); }

lane_index out_of_order_engine::choose_lane(node& n) {
	const std::uint32_t cls = n.lane_class;
	const bool is_deferred = n.policy == issue_policy::deferred;
	node* parent = nullptr;
	for(std::size_t i = n.predecessors.size(); i-- > 0;) {
		const slot_type slot = m_window.find(n.predecessors[i]);
		if(slot == instruction_window::no_slot) continue;
		node& predecessor = m_nodes[slot];
		if(predecessor.lane == no_lane || predecessor.inherited || m_lanes.class_of(predecessor.lane) != cls) continue;
		if(!m_lanes.accepts(predecessor.lane, is_deferred)) continue;
		if(m_lanes.issued(predecessor.lane) == predecessor.sequence) { // nothing lies between the two
			predecessor.inherited = true;
			return predecessor.lane;
		}
		if(parent == nullptr) parent = &predecessor;
	}
	if(const lane_index idle = m_lanes.find_idle(cls); idle != no_lane) return idle;
	if(parent != nullptr) {
		parent->inherited = true;
		return parent->lane;
	}
	return m_lanes.find_least_loaded(cls, is_deferred);
}

template <typename Waits>
void out_of_order_engine::collect_waits(const node& n, const lane_index own_lane, const std::span<std::uint64_t> clock, Waits& waits) const {
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
		const slot_type slot = m_window.find(n.predecessors[i]);
		if(slot == instruction_window::no_slot) continue;
		const node& predecessor = m_nodes[slot];
		// The answer says that the predecessors of the signal are complete. It says nothing of other waits of its lane.
		if(predecessor.policy == issue_policy::signal) continue;
		if(is_on_lane(predecessor.policy)) {
			add({predecessor.lane, predecessor.sequence});
		} else {
			for(const auto& position : predecessor.frontier) add(position);
		}
		merge_clock(clock, node_clock(slot));
	}
}

void out_of_order_engine::issue_to_lane(const slot_type slot, const lane_index lane) {
	node& n = m_nodes[slot];
	m_lanes.open(lane);
	const auto clock = m_lanes.clock(lane);
	if(n.num_incomplete > 0) {
		collect_waits(n, lane, clock, m_waits);
		if(n.num_remote > 0) {
			for(const auto id : n.predecessors) {
				const slot_type predecessor = m_window.find(id);
				if(predecessor != instruction_window::no_slot && m_nodes[predecessor].policy == issue_policy::signal) m_signals.push_back(id);
			}
		}
		++m_counters.issued_early;
		m_counters.waits += m_waits.size();
	}
	n.lane = lane;
	n.sequence = m_lanes.push(lane, slot);
	std::copy(clock.begin(), clock.end(), node_clock(slot).begin());
	if(n.policy == issue_policy::deferred) {
		n.state = node_state::assigned;
		m_lanes.add_deferred(lane);
	} else {
		n.state = node_state::issued;
		propagate_issue(slot);
		settle_clocks();
	}
}

void out_of_order_engine::issue_clock(const slot_type slot) {
	node& n = m_nodes[slot];
	const auto clock = node_clock(slot);
	std::fill(clock.begin(), clock.end(), 0);
	collect_waits(n, no_lane, clock, n.frontier);
	n.domain = n.frontier.empty() ? mixed_domains : m_lanes.domain_of(n.frontier.front().lane);
	for(const auto& position : n.frontier) {
		if(m_lanes.domain_of(position.lane) != n.domain) n.domain = mixed_domains;
	}
	n.state = node_state::issued;
	propagate_issue(slot);
}

void out_of_order_engine::propagate_issue(const slot_type slot) {
	const node& n = m_nodes[slot];
	for(const slot_type successor : n.successors) {
		node& s = m_nodes[successor];
		if(!is_satisfied_by_issue(n, s)) continue;
		if(n.policy == issue_policy::signal) ++s.num_remote;
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
		issue_clock(slot);
		if(m_nodes[slot].num_incomplete == 0) m_completed_clocks.push_back(slot);
	}
}

// An explicit stack, since predecessors on other lanes may form long chains. Each entry was issued before the entries below it.
void out_of_order_engine::complete_slot(const slot_type target, const bool is_passed) {
	m_completion_stack.push_back({target, is_passed});
	while(!m_completion_stack.empty()) {
		const auto item = m_completion_stack.back();
		const auto prerequisite = find_prerequisite(m_nodes[item.slot], item.is_passed);
		if(prerequisite.slot != instruction_window::no_slot) {
			m_completion_stack.push_back(prerequisite);
			continue;
		}
		m_completion_stack.pop_back();
		node& n = m_nodes[item.slot];
		if(n.policy == issue_policy::signal && item.is_passed) {
			m_lanes.pop_front(n.lane);
			if(n.state == node_state::answered) {
				free_slot(item.slot);
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

out_of_order_engine::completion out_of_order_engine::find_prerequisite(const node& n, const bool is_passed) const {
	// The answer to a signal does not complete the instructions before it on its lane.
	if(is_on_lane(n.policy) && (is_passed || n.policy != issue_policy::signal)) {
		if(const slot_type front = m_lanes.front(n.lane); m_lanes.completed(n.lane) + 1 < n.sequence) return {front, true};
	}
	if(n.num_incomplete == 0) return {instruction_window::no_slot, false};
	for(const auto id : n.predecessors) {
		if(const slot_type slot = m_window.find(id); slot != instruction_window::no_slot) return {slot, false};
	}
	return {instruction_window::no_slot, false};
}

void out_of_order_engine::free_slot(const slot_type slot) {
	m_nodes[slot].state = node_state::blocked;
	m_free_slots.push_back(slot);
}

void out_of_order_engine::finalize(const slot_type slot) {
	node& n = m_nodes[slot];
	const bool is_signal = n.policy == issue_policy::signal;
	if(is_on_lane(n.policy) && !is_signal) {
		m_lanes.pop_front(n.lane);
		if(n.state == node_state::assigned) { // its lane has passed it, so that it was enqueued
			m_lanes.remove_deferred(n.lane);
			retry_parked();
		}
	}
	if(n.policy != issue_policy::clock) {
		--m_num_in_flight;
		m_num_live_of[n.queue] -= n.num_ids;
	}
	m_completed.push_back({n.id, n.num_ids, n.payload});
	m_window.erase(n.id, n.num_ids);
	--m_num_live;
	if(is_on_lane(n.policy)) {
		--m_num_live_on_lanes;
		if(n.has_place) leave_place(n);
	}

	for(const slot_type successor : n.successors) {
		node& s = m_nodes[successor];
		--s.num_incomplete;
		if(!is_satisfied_by_issue(n, s)) {
			if(--s.num_blocking == 0) make_issuable(successor);
		} else if(is_signal) {
			settle_remote(successor);
		}
		if(s.policy == issue_policy::clock && s.state == node_state::issued && s.num_incomplete == 0) m_completed_clocks.push_back(successor);
	}
	if(is_signal && n.state != node_state::passed) {
		n.state = node_state::answered;
	} else {
		free_slot(slot);
	}
}

} // namespace celerity
