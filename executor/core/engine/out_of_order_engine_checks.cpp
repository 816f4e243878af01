// SPDX-License-Identifier: MIT
// Whether the engine contradicts itself: for tests, which ask after each event.
#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

#include "out_of_order_engine.hpp"

namespace celerity {

namespace {

constexpr std::array<const char*, 7> state_names{"held", "blocked", "ready", "assigned", "issued", "passed", "answered"};

/// The states of a live instruction between two calls, by policy. An answered signal is no longer live, though it is still on its lane.
constexpr std::array<std::array<bool, 7>, 7> legal_states{{
    //               held   blocked ready assigned issued passed answered
    /* host     */ {false, true, true, false, true, false, false},
    /* clock    */ {false, true, false, false, true, false, false},
    /* plain    */ {false, true, true, false, true, false, false},
    /* launched */ {false, true, true, false, true, false, false},
    /* deferred */ {false, true, true, true, true, false, false},
    /* signal   */ {true, true, true, false, true, true, false},
    /* pull     */ {true, true, true, false, true, false, false},
}};

} // namespace

void out_of_order_engine::validate() const {
	m_window.for_each([&](const slot_type slot) {
		for(const auto* const found : {find_contradiction(slot), find_contradiction_in_edges(slot), find_contradiction_on_lane(slot)}) {
			if(found != nullptr) throw std::logic_error("the engine contradicts itself: " + describe(m_nodes[slot]) + ": " + found);
		}
	});
	if(const auto* const found = find_contradiction_in_counts()) throw std::logic_error(std::string("the engine contradicts itself: ") + found);
}

std::string out_of_order_engine::describe(const node& n) const {
	return "instruction " + std::to_string(n.id.value) + " (" + name_of(n.policy) + ", " + state_names[static_cast<std::size_t>(n.state)] + ", "
	       + std::to_string(n.num_blocking) + " blocking, " + std::to_string(n.num_incomplete) + " incomplete, " + std::to_string(n.num_remote) + " remote)";
}

const char* out_of_order_engine::find_contradiction(const slot_type slot) const {
	const node& n = m_nodes[slot];
	if(!legal_states[static_cast<std::size_t>(n.policy)][static_cast<std::size_t>(n.state)]) return "its policy has no such state";
	if(n.state >= node_state::ready && n.num_blocking > 0) return "it goes on, though predecessors keep it";
	if(n.state == node_state::blocked && n.num_blocking == 0) return "nothing keeps it, and it does not go on";
	if(n.policy == issue_policy::clock && n.state == node_state::issued && n.num_incomplete == 0) return "it should have completed";
	if(n.where != whereabouts::nowhere && n.state != node_state::ready) return "only ready instructions wait for their turn";
	if(n.has_place && (!is_on_lane(n.policy) || n.state < node_state::ready)) return "it has a place, and does not need one";
	if(n.state != node_state::ready || n.where != whereabouts::nowhere) return nullptr;
	const bool is_gated = std::any_of(m_gated.begin(), m_gated.end(), [&](const keyed_entry& entry) { return entry.id == n.id; });
	const bool is_parked = std::find(m_parked.begin(), m_parked.end(), slot) != m_parked.end();
	if(is_gated == is_parked) return "it is ready, and waits nowhere or twice";
	if(is_gated && n.num_remote == 0) return "it waits for its key, and for no other rank";
	if(is_gated && n.has_place) return "it waits for its key, and keeps a place on the lanes from others";
	return nullptr;
}

const char* out_of_order_engine::find_contradiction_in_edges(const slot_type slot) const {
	const node& n = m_nodes[slot];
	std::uint32_t num_incomplete = 0, num_blocking = 0, num_signals = 0;
	for(const auto id : n.predecessors) {
		const slot_type earlier = m_window.find(id);
		if(earlier == instruction_window::no_slot) continue;
		const node& predecessor = m_nodes[earlier];
		if(std::find(predecessor.successors.begin(), predecessor.successors.end(), slot) == predecessor.successors.end())
			return "a predecessor does not know it";
		++num_incomplete;
		if(!is_satisfied_by_issue(predecessor, n)) {
			++num_blocking;
		} else if(predecessor.policy == issue_policy::signal) {
			++num_signals;
		}
	}
	if(n.num_incomplete != num_incomplete) return "it counts other incomplete predecessors than there are";
	if(n.num_blocking != num_blocking) return "it counts other blocking predecessors than there are";
	// A pull counts the data that it fetches as well, until that is known to be ready.
	const bool may_count_data = n.policy == issue_policy::pull && n.num_remote == num_signals + 1;
	if(n.num_remote != num_signals && !may_count_data) return "it counts other signals than there are";
	return nullptr;
}

const char* out_of_order_engine::find_contradiction_on_lane(const slot_type slot) const {
	const node& n = m_nodes[slot];
	if(!is_on_lane(n.policy) || n.state < node_state::assigned) {
		if(n.lane != no_lane) return "it is on a lane before it is issued";
		const auto has_key = [&] {
			return std::any_of(m_unissued_keys.begin(), m_unissued_keys.end(), [&](const keyed_entry& entry) { return entry.id == n.id; });
		};
		return is_on_lane(n.policy) && tracks_keys() && !has_key() ? "no remote wait heeds its key" : nullptr;
	}
	if(n.lane == no_lane || m_lanes.class_of(n.lane) != n.lane_class) return "it is issued, and on no lane of its class";
	const bool is_behind = n.sequence <= m_lanes.completed(n.lane);
	if(is_behind != (n.state == node_state::passed)) return "its lane has come past it, or not, against its state";
	if(is_behind) return nullptr;
	return n.sequence > m_lanes.issued(n.lane) || m_lanes.at({n.lane, n.sequence}) != slot ? "its lane has something else in its position" : nullptr;
}

const char* out_of_order_engine::find_contradiction_in_counts() const {
	if(!m_unblocked_clocks.empty() || !m_completed_clocks.empty() || !m_completion_stack.empty() || !m_urged.empty()) return "a call has left work undone";
	std::size_t num_live = 0, num_on_lanes = 0, num_in_flight = 0, num_queued = 0;
	std::array<std::uint64_t, max_queue_priority + 1> num_of{};
	std::vector<std::uint32_t> places(m_places.size());
	m_window.for_each([&](const slot_type slot) {
		const node& n = m_nodes[slot];
		++num_live;
		num_on_lanes += is_on_lane(n.policy) ? 1 : 0;
		num_queued += n.where != whereabouts::nowhere ? 1 : 0;
		if(n.has_place) ++places[n.place_class];
		if(n.policy == issue_policy::clock) return;
		num_in_flight += n.state >= node_state::assigned ? 1 : 0;
		num_of[n.queue] += n.num_ids;
	});
	if(num_live != m_num_live) return "it counts other live instructions than there are";
	if(num_on_lanes != m_num_live_on_lanes) return "it counts other live instructions for lanes than there are";
	if(num_in_flight != m_num_in_flight) return "it counts other instructions in flight than there are";
	if(num_of != m_num_live_of) return "it counts other instructions of a queue than there are";
	if(places != m_places) return "it counts other places on shared lanes as taken than are";
	const auto num_entries =
	    std::accumulate(m_waiting.begin(), m_waiting.end(), m_ready.size(), [](const std::size_t sum, const ready_queue& queue) { return sum + queue.size(); });
	return num_entries != num_queued + m_num_outdated ? "it counts other outdated entries than there are" : nullptr;
}

} // namespace celerity
