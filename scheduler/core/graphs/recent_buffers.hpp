// SPDX-License-Identifier: MIT
// The buffers that a horizon or epoch has to visit.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.hpp"

namespace celerity {

/// Keeps the buffers whose state may name nodes that the next epochs replace. Other buffers need no visit: all nodes in their state are older than an applied
/// epoch, and `dependency_window::resolve` replaces those. A horizon thus costs nothing for buffers that nobody uses.
class recent_buffers {
  public:
	/// Kept with each buffer. 0: not used yet.
	using round = std::uint64_t;

	/// To be called whenever a node is about to enter the state of the buffer. `last_use` belongs to the buffer.
	void use(const buffer_id id, round& last_use) {
		if(last_use == m_round) return;
		last_use = m_round;
		m_in_this_round.push_back(id);
	}

	/// Calls f(buffer) for the buffers used in this round or the one before, and begins the next round. Two visits are necessary because a horizon is applied
	/// one round late: nodes of this round may survive the first one. `buffers` maps ids to buffers with a member `last_use`; destroyed buffers are left out.
	template <typename Buffers, typename F>
	void apply_epoch(Buffers& buffers, F&& f) {
		for(const buffer_id id : m_in_last_round) {
			if(const auto it = buffers.find(id); it != buffers.end() && it->second.last_use != m_round) f(it->second);
		}
		for(const buffer_id id : m_in_this_round) {
			if(const auto it = buffers.find(id); it != buffers.end()) f(it->second);
		}
		m_in_last_round.swap(m_in_this_round);
		m_in_this_round.clear();
		++m_round;
	}

	template <typename Walk>
	void walk_state(Walk& walk) const {
		for(const auto* const buffers : {&m_in_this_round, &m_in_last_round}) {
			walk.number(buffers->size());
			for(const buffer_id id : *buffers) walk.number(id.value);
		}
	}

  private:
	round m_round = 1;
	std::vector<buffer_id> m_in_this_round;
	std::vector<buffer_id> m_in_last_round;
};

} // namespace celerity
