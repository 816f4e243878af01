// SPDX-License-Identifier: MIT
// The gate of remote waits: one passes only after every lane instruction with a smaller key has been issued. Keys are ordered in the same way on all
// ranks, so that lanes of several ranks never wait for each other in a circle.
#pragma once

#include <algorithm>
#include <vector>

#include "engine_nodes.hpp"

namespace celerity {

class remote_gate {
  public:
	/// While remote waits are not allowed, none passes.
	void allow(const bool allowed) { m_is_allowed = allowed; }

	/// A lane instruction, not issued. Keys of issued ones are dropped when they reach the top.
	void heed(const engine_node& n) { push(m_unissued_keys, n); }
	/// The node waits here until pop() or withdraw().
	void hold(const engine_node& n) { push(m_held, n); }
	/// A node that pop() has given may have to wait again: an instruction with a smaller key may have been submitted since.
	bool must_hold(const engine_node& n) const { return n.num_remote > 0 && (!m_is_allowed || m_unissued_keys.front().key < n.key); }

	/// The next node that may pass; `no_slot` if there is none.
	engine_nodes::slot_type pop(const engine_nodes& nodes) {
		if(!m_is_allowed) return engine_nodes::no_slot;
		while(!m_unissued_keys.empty()) {
			const auto slot = nodes.find(m_unissued_keys.front().id);
			if(slot != engine_nodes::no_slot && nodes[slot].state < node_state::issued) break;
			pop_top(m_unissued_keys);
		}
		// A held instruction is unissued itself, so its key is never below the smallest one.
		if(m_held.empty() || m_held.front().key != m_unissued_keys.front().key) return engine_nodes::no_slot;
		const auto slot = nodes.find(m_held.front().id);
		pop_top(m_held);
		return slot;
	}

	/// The node waits for no other rank any more. False if it was not held.
	bool withdraw(const engine_node& n) {
		const auto held = std::find_if(m_held.begin(), m_held.end(), [&](const entry& e) { return e.id == n.id; });
		if(held == m_held.end()) return false;
		m_held.erase(held);
		std::make_heap(m_held.begin(), m_held.end(), has_greater_key);
		return true;
	}

	// For validation.

	bool holds(const engine_node& n) const { return has(m_held, n); }
	bool heeds(const engine_node& n) const { return has(m_unissued_keys, n); }

  private:
	struct entry {
		instruction_key key;
		instruction_id id;
	};
	bool m_is_allowed = true;
	std::vector<entry> m_held;          ///< heap of unblocked remote waits
	std::vector<entry> m_unissued_keys; ///< heap of lane instructions by key

	// Heaps of the standard library have the greatest element on top.
	static constexpr auto has_greater_key = [](const entry& a, const entry& b) { return a.key != b.key ? a.key > b.key : a.id > b.id; };

	static void push(std::vector<entry>& heap, const engine_node& n) {
		heap.push_back({n.key, n.id});
		std::push_heap(heap.begin(), heap.end(), has_greater_key);
	}
	static void pop_top(std::vector<entry>& heap) {
		std::pop_heap(heap.begin(), heap.end(), has_greater_key);
		heap.pop_back();
	}
	static bool has(const std::vector<entry>& heap, const engine_node& n) {
		return std::any_of(heap.begin(), heap.end(), [&](const entry& e) { return e.id == n.id; });
	}
};

} // namespace celerity
