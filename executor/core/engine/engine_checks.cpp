// SPDX-License-Identifier: MIT
// Whether the engine contradicts itself: for tests, which ask after each event.
#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <vector>

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

std::string describe(const engine_node& n) {
	return "instruction " + std::to_string(n.id.value) + " (" + name_of(n.policy) + ", " + state_names[static_cast<std::size_t>(n.state)] + ", "
	       + std::to_string(n.num_blocking) + " blocking, " + std::to_string(n.num_incomplete) + " incomplete, " + std::to_string(n.num_remote) + " remote)";
}

} // namespace

/// Each function returns null if all is as it should be.
class engine_checks {
  public:
	using slot_type = engine_nodes::slot_type;
	explicit engine_checks(const out_of_order_engine& engine) : m_engine(engine), m_nodes(engine.m_nodes), m_lanes(engine.m_lanes) {}

	const char* find_contradiction(slot_type slot) const;
	const char* find_contradiction_in_edges(slot_type slot) const;
	const char* find_contradiction_on_lane(slot_type slot) const;
	/// Of the sums over all nodes.
	const char* find_contradiction_in_counts() const;

  private:
	const out_of_order_engine& m_engine;
	const engine_nodes& m_nodes;
	const lane_pool& m_lanes;
};

void out_of_order_engine::validate() const {
	const engine_checks checks(*this);
	m_nodes.for_each([&](const slot_type slot) {
		for(const auto* const found : {checks.find_contradiction(slot), checks.find_contradiction_in_edges(slot), checks.find_contradiction_on_lane(slot)}) {
			if(found != nullptr) throw std::logic_error("the engine contradicts itself: " + describe(m_nodes[slot]) + ": " + found);
		}
	});
	if(const auto* const found = checks.find_contradiction_in_counts()) throw std::logic_error(std::string("the engine contradicts itself: ") + found);
}

const char* engine_checks::find_contradiction(const slot_type slot) const {
	const engine_node& n = m_nodes[slot];
	if(!legal_states[static_cast<std::size_t>(n.policy)][static_cast<std::size_t>(n.state)]) return "its policy has no such state";
	if(n.state >= node_state::ready && n.num_blocking > 0) return "it goes on, though predecessors keep it";
	if(n.state == node_state::blocked && n.num_blocking == 0) return "nothing keeps it, and it does not go on";
	if(n.is_clock() && n.state == node_state::issued && n.num_incomplete == 0) return "it should have completed";
	if(n.where != whereabouts::nowhere && n.state != node_state::ready) return "only ready instructions wait for their turn";
	if(n.has_place && (!is_on_lane(n.policy) || n.state < node_state::ready)) return "it has a place, and does not need one";
	if(n.state != node_state::ready || n.where != whereabouts::nowhere) return nullptr;
	const bool is_gated = m_engine.m_gate.holds(n);
	const bool is_parked = std::find(m_engine.m_parked.begin(), m_engine.m_parked.end(), slot) != m_engine.m_parked.end();
	if(is_gated == is_parked) return "it is ready, and waits nowhere or twice";
	if(is_gated && n.num_remote == 0) return "it waits for its key, and for no other rank";
	if(is_gated && n.has_place) return "it waits for its key, and keeps a place on the lanes from others";
	return nullptr;
}

const char* engine_checks::find_contradiction_in_edges(const slot_type slot) const {
	const engine_node& n = m_nodes[slot];
	std::uint32_t num_incomplete = 0, num_blocking = 0, num_signals = 0;
	for(const auto id : n.predecessors) {
		const slot_type earlier = m_nodes.find(id);
		if(earlier == engine_nodes::no_slot) continue;
		const engine_node& predecessor = m_nodes[earlier];
		if(std::find(predecessor.successors.begin(), predecessor.successors.end(), slot) == predecessor.successors.end())
			return "a predecessor does not know it";
		++num_incomplete;
		if(!m_engine.is_satisfied_by_issue(predecessor, n)) {
			++num_blocking;
		} else if(predecessor.is_signal()) {
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

const char* engine_checks::find_contradiction_on_lane(const slot_type slot) const {
	const engine_node& n = m_nodes[slot];
	if(!is_on_lane(n.policy) || n.state < node_state::assigned) {
		if(n.lane != no_lane) return "it is on a lane before it is issued";
		return is_on_lane(n.policy) && m_engine.tracks_keys() && !m_engine.m_gate.heeds(n) ? "no remote wait heeds its key" : nullptr;
	}
	if(n.lane == no_lane || m_lanes.class_of(n.lane) != n.lane_class) return "it is issued, and on no lane of its class";
	const bool is_behind = n.sequence <= m_lanes.completed(n.lane);
	if(is_behind != (n.state == node_state::passed)) return "its lane has come past it, or not, against its state";
	if(is_behind) return nullptr;
	return n.sequence > m_lanes.issued(n.lane) || m_lanes.at({n.lane, n.sequence}) != slot ? "its lane has something else in its position" : nullptr;
}

const char* engine_checks::find_contradiction_in_counts() const {
	if(!m_engine.m_unblocked_clocks.empty() || !m_engine.m_completed_clocks.empty() || !m_engine.m_completion_stack.empty() || !m_engine.m_turns.is_settled())
		return "a call has left work undone";
	std::size_t num_live = 0, num_on_lanes = 0, num_in_flight = 0, num_queued = 0;
	std::array<std::uint64_t, max_queue_priority + 1> num_of{};
	std::vector<std::uint32_t> places(m_engine.m_turns.places().size());
	m_nodes.for_each([&](const slot_type slot) {
		const engine_node& n = m_nodes[slot];
		++num_live;
		num_on_lanes += is_on_lane(n.policy) ? 1 : 0;
		num_queued += n.where != whereabouts::nowhere ? 1 : 0;
		if(n.has_place) ++places[n.place_class];
		if(n.is_clock()) return;
		num_in_flight += n.state >= node_state::assigned ? 1 : 0;
		num_of[n.queue] += n.num_ids;
	});
	if(num_live != m_nodes.num_live()) return "it counts other live instructions than there are";
	if(num_on_lanes != m_nodes.num_live_on_lanes()) return "it counts other live instructions for lanes than there are";
	if(num_in_flight != m_engine.m_num_in_flight) return "it counts other instructions in flight than there are";
	if(num_of != m_nodes.num_live_by_queue()) return "it counts other instructions of a queue than there are";
	if(places != m_engine.m_turns.places()) return "it counts other places on shared lanes as taken than are";
	return num_queued != m_engine.m_turns.num_entries() ? "it counts other outdated entries than there are" : nullptr;
}

} // namespace celerity
