// SPDX-License-Identifier: MIT
// Which buffers a horizon or epoch has to look at.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.hpp"

namespace celerity {

/// Buffers whose tracking may name nodes that the next epochs are to replace. The others need no visit: their nodes are older than an epoch that was applied,
/// and `dependency_window::resolve` lets the newest epoch stand for those. So horizons cost nothing for buffers that nobody uses.
class recent_buffers {
  public:
	/// Kept with each buffer. 0: not used yet.
	using round = std::uint64_t;

	/// To be called whenever a node is about to be noted in the buffer. `last_use` is the buffer's.
	void use(const buffer_id id, round& last_use) {
		if(last_use == m_round) return;
		last_use = m_round;
		m_in_this_round.push_back(id);
	}

	/// Calls f(buffer) for the buffers used in this round or the one before, and begins the next round. A horizon is applied one round late, so that nodes
	/// of this round may outlive the first visit. `buffers` maps ids to buffers with a member `last_use`; those that are gone are left out.
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

  private:
	round m_round = 1;
	std::vector<buffer_id> m_in_this_round;
	std::vector<buffer_id> m_in_last_round;
};

} // namespace celerity
