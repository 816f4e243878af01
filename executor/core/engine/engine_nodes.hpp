// SPDX-License-Identifier: MIT
// The live instructions of the engine, with their edges, clocks and counts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "issue_request.hpp"
#include "instruction_window.hpp"
#include "ready_queue.hpp"
#include "scheduler/core/base/small_vector.hpp"

namespace celerity {

enum class node_state : std::uint8_t {
	held, ///< signals and pulls
	blocked,
	ready,
	assigned, ///< deferred ones
	issued,
	passed,   ///< a signal that its lane has come past, without an answer
	answered, ///< a signal that is complete, and still on its lane
};

/// Of a node that is ready.
enum class whereabouts : std::uint8_t { nowhere, in_ready, in_waiting };

struct engine_node {
	static constexpr std::uint32_t mixed_domains = UINT32_MAX;

	instruction_id id;
	std::uint64_t num_ids = 1;
	const instruction* payload = nullptr;
	instruction_key key;
	issue_policy policy = issue_policy::host;
	node_state state = node_state::blocked;
	whereabouts where = whereabouts::nowhere;
	queue_priority queue = 0; ///< as requested; successors may lift `order`
	bool inherited = false; ///< a successor already runs on this lane behind it
	bool has_place = false; ///< on lanes that queues share
	/// The priority, with the highest queue of its own one and those of its successors. Below that, unless the oldest goes first, the way to the end,
	/// which is the number of successors one behind the other, and fewer dependencies.
	issue_order order = 0;
	std::uint32_t lane_class = 0;
	std::uint32_t place_class = 0; ///< twice the class of lanes, plus 1 for brief ones
	std::uint32_t domain = 0; ///< of the lane class; of an issued clock: the domain of all its positions, or `mixed_domains`
	lane_index lane = no_lane;
	std::uint64_t sequence = 0;
	std::uint64_t stamp = 0;
	std::uint32_t num_blocking = 0;   ///< predecessors that keep it from being issued
	std::uint32_t num_incomplete = 0; ///< predecessors that are not complete
	std::uint32_t num_remote = 0;     ///< waits for other ranks on its lane: answers, and the data of a pull that may not be ready
	small_vector<instruction_id, 4> predecessors; ///< those incomplete at submit
	small_vector<instruction_window::slot_type, 4> successors; ///< a successor outlives this node: completing it would complete this node first
	small_vector<lane_position, 2> frontier; ///< clock only: positions that a successor on a lane has to wait for

	bool is_clock() const { return policy == issue_policy::clock; }
	bool is_signal() const { return policy == issue_policy::signal; }
};

/// Nodes keep their slots until they are freed; references to them last until the next add().
class engine_nodes {
  public:
	using slot_type = instruction_window::slot_type;
	static constexpr slot_type no_slot = instruction_window::no_slot;

	explicit engine_nodes(const std::size_t num_lanes) : m_num_lanes(num_lanes) {}

	engine_node& operator[](const slot_type slot) { return m_nodes[slot]; }
	const engine_node& operator[](const slot_type slot) const { return m_nodes[slot]; }
	/// `no_slot` for an instruction that is complete.
	slot_type find(const instruction_id id) const { return m_window.find(id); }
	template <typename F>
	void for_each(F&& f) const {
		m_window.for_each(f);
	}

	/// Without edges.
	slot_type add(const issue_request& request, std::uint32_t domain);
	/// The node is complete: its id leads nowhere from now on.
	void retire(const engine_node& n) {
		m_window.erase(n.id, n.num_ids);
		--m_num_live;
		if(is_on_lane(n.policy)) --m_num_live_on_lanes;
		if(!n.is_clock()) m_num_live_of[n.queue] -= n.num_ids;
	}
	void free(const slot_type slot) {
		m_nodes[slot].state = node_state::blocked;
		m_free_slots.push_back(slot);
	}

	/// The clock of a lane instruction or clock node when it was issued; zero for lanes opened later.
	std::span<std::uint64_t> clock(const slot_type slot, const lane_pool& lanes) { return {m_clocks.data() + slot * m_num_lanes, lanes.num_open()}; }
	std::span<const std::uint64_t> clock(const slot_type slot, const lane_pool& lanes) const {
		return {m_clocks.data() + slot * m_num_lanes, lanes.num_open()};
	}

	std::size_t num_live() const { return m_num_live; }
	std::size_t num_live_on_lanes() const { return m_num_live_on_lanes; }
	const std::array<std::uint64_t, max_queue_priority + 1>& num_live_by_queue() const { return m_num_live_of; }
	std::uint64_t num_submitted() const { return m_num_submitted; }

  private:
	const std::size_t m_num_lanes;
	instruction_window m_window;
	std::vector<engine_node> m_nodes;
	std::vector<std::uint64_t> m_clocks; ///< by slot
	std::vector<slot_type> m_free_slots;
	std::size_t m_num_live = 0;
	std::size_t m_num_live_on_lanes = 0;
	std::array<std::uint64_t, max_queue_priority + 1> m_num_live_of{};
	std::uint64_t m_num_submitted = 0;

	slot_type allocate() {
		if(!m_free_slots.empty()) {
			const slot_type slot = m_free_slots.back();
			m_free_slots.pop_back();
			return slot;
		}
		m_nodes.emplace_back();
		m_clocks.resize(m_nodes.size() * m_num_lanes);
		return static_cast<slot_type>(m_nodes.size() - 1);
	}
};

inline engine_nodes::slot_type engine_nodes::add(const issue_request& request, const std::uint32_t domain) {
	const slot_type slot = allocate();
	m_window.insert(request.id, slot, request.num_ids);
	const bool is_pull = request.policy == issue_policy::pull;
	engine_node& n = m_nodes[slot];
	n.id = request.id;
	n.queue = queue_priority_of(request.priority);
	n.num_ids = request.num_ids;
	n.payload = request.payload;
	n.key = request.key;
	n.order = request.priority << order_bits_below_priority;
	n.policy = request.policy;
	n.state = is_pull || n.is_signal() ? node_state::held : node_state::blocked;
	n.where = whereabouts::nowhere;
	n.inherited = false;
	n.has_place = false;
	n.lane_class = request.lane_class;
	n.place_class = 2 * request.lane_class + (request.is_brief ? 1 : 0);
	n.domain = domain;
	n.lane = no_lane;
	n.sequence = 0;
	n.num_blocking = 0;
	n.num_incomplete = 0;
	n.num_remote = is_pull ? 1 : 0;
	n.predecessors.clear();
	n.successors.clear();
	n.frontier.clear();

	++m_num_live;
	m_num_submitted += request.num_ids;
	if(!n.is_clock()) m_num_live_of[n.queue] += request.num_ids;
	if(is_on_lane(n.policy)) ++m_num_live_on_lanes;
	return slot;
}

} // namespace celerity
