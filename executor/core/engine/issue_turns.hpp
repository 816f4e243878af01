// SPDX-License-Identifier: MIT
// Whose turn it is among ready instructions: the order of queues and kinds, ways to the end, and places on lanes that queues share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine_nodes.hpp"

namespace celerity {

/// The order of issue among instructions of one kind and one queue.
enum class kernel_order : std::uint8_t {
	age,          ///< The oldest goes first.
	path,         ///< The one with the longest way to the end goes first, as far as later instructions are known; then as `predecessors`.
	predecessors, ///< The one with the fewest dependencies goes first; then the oldest.
};
template <>
inline constexpr std::array<const char*, 3> names_of<kernel_order>{"age", "path", "predecessors"};

class issue_turns {
  public:
	using slot_type = engine_nodes::slot_type;
	/// Places of a class of lanes for brief instructions; see issue_request::is_brief.
	static constexpr std::uint32_t most_brief = 16;

	issue_turns(engine_nodes& nodes, const lane_pool& lanes, const kernel_order order)
	    : m_nodes(nodes), m_lanes(lanes), m_prefers_few(order != kernel_order::age), m_prefers_paths(order == kernel_order::path),
	      m_waiting(2 * lanes.num_classes()), m_places(2 * lanes.num_classes()) {}

	/// There is a queue of this priority. From the second priority on, lanes keep places free of lower queues, for work that may yet come.
	void announce(const queue_priority queue) { m_queues |= queue_set_of(queue); }
	/// There are queues of several priorities.
	bool is_shared() const { return are_several(m_queues); }
	/// There is a queue of a lower priority.
	bool is_raised(const queue_priority queue) const { return (m_queues & (queue_set_of(queue) - 1)) != 0; }

	/// A new node has its edges. If there is more to its order than age: the rest of its order, and what that means for its predecessors.
	void order_among_others(const slot_type slot, const std::size_t num_dependencies) {
		if(m_nodes[slot].order >= least_of_raised_queues || m_prefers_few) [[unlikely]]
			refine_order(slot, num_dependencies);
	}

	/// The node waits for its turn.
	void push(const slot_type slot) {
		engine_node& n = m_nodes[slot];
		n.state = node_state::ready;
		n.where = whereabouts::in_ready;
		m_ready.push(entry_of(slot));
	}
	/// False if nothing waits for its turn.
	bool pop(slot_type& out) {
		ready_entry entry;
		while(m_ready.pop(entry)) {
			if(drop_outdated(entry)) continue;
			out = entry.slot;
			m_nodes[out].where = whereabouts::nowhere;
			return true;
		}
		return false;
	}

	/// Before the node goes to a lane. False if no place is free: then it waits for one.
	bool take_place(const slot_type slot) { return !is_shared() || take_shared_place(slot); }
	/// The place is taken at once by the next instruction, so that no newcomer can take it again and again.
	void leave_place(engine_node& n) {
		if(n.has_place) leave_shared_place(n);
	}

	// For validation.

	const std::vector<std::uint32_t>& places() const { return m_places; }
	/// Nodes that wait for a turn or a place.
	std::size_t num_entries() const;
	/// No call has left work undone.
	bool is_settled() const { return m_urged.empty(); }

  private:
	static constexpr issue_order longest_path = UINT8_MAX;
	static constexpr unsigned path_shift = 8;
	static constexpr issue_order most_dependencies = UINT8_MAX; ///< that count

	engine_nodes& m_nodes;
	const lane_pool& m_lanes;
	const bool m_prefers_few;   ///< dependencies
	const bool m_prefers_paths; ///< long ways to the end
	ready_queue m_ready;
	std::vector<ready_queue> m_waiting;  ///< by class of places: ready, but the class is full
	std::vector<std::uint32_t> m_places; ///< by class of places: taken while lanes were shared
	std::size_t m_num_outdated = 0;      ///< entries in m_ready and m_waiting
	std::vector<slot_type> m_urged;      ///< nodes whose predecessors have yet to hear of it
	queue_set m_queues = 0;              ///< those that were announced, or have submitted work for lanes

	static issue_order path_of(const engine_node& n) { return n.order >> path_shift & longest_path; }
	ready_entry entry_of(const slot_type slot) const {
		const engine_node& n = m_nodes[slot];
		return {n.order, slot, n.id};
	}
	/// Whether the entry is older than the node's present order, for which there is another entry.
	bool drop_outdated(const ready_entry& entry) {
		if(m_num_outdated == 0) return false;
		const engine_node& n = m_nodes[entry.slot];
		if(n.id == entry.id && n.order == entry.order && n.where != whereabouts::nowhere) return false;
		--m_num_outdated;
		return true;
	}
	void refine_order(slot_type slot, std::size_t num_dependencies);
	/// Passes the queue of the node, and the length of its way to the end, on to the predecessors that are not issued.
	void urge_predecessors(slot_type slot);
	/// The node has a later order than the one that it waits by.
	void renew_entry(slot_type slot);
	bool try_place(engine_node& n);
	bool take_shared_place(slot_type slot);
	void leave_shared_place(engine_node& n);
};

} // namespace celerity
