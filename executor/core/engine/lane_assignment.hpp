// SPDX-License-Identifier: MIT
// On which lane an instruction runs, and which positions of other lanes it waits for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine_nodes.hpp"
#include "lane_pool.hpp"

namespace celerity {

/// Chooses lanes, and asks for no wait that an earlier wait implies: a vector clock per lane tells what the lane has waited for.
class lane_assignment {
  public:
	using slot_type = engine_nodes::slot_type;
	struct counters {
		std::uint64_t issued_early = 0; ///< to a lane, before all predecessors were complete
		std::uint64_t waits = 0;        ///< cross-lane waits asked for
	};

	lane_assignment(engine_nodes& nodes, lane_pool& lanes) : m_nodes(nodes), m_lanes(lanes) {}

	/// `no_lane` if every lane of the class waits for a launcher thread. Prefers the lane of a predecessor, so that there is nothing to wait for.
	lane_index choose(const engine_node& n);
	/// Puts the node on the lane, and notes what it waits for.
	void append(slot_type slot, lane_index lane);
	/// Sets the clock and the frontier of a horizon or epoch.
	void set_clock(slot_type slot);
	/// If the node depends on one position only, this becomes the one wait, even if the lane has waited for it before. Otherwise only the first flag of each
	/// lane would know its producer.
	bool name_the_only_producer(const engine_node& n);

	void clear() {
		m_waits.clear();
		m_signals.clear();
	}
	std::span<const lane_position> waits() const { return m_waits; }
	std::span<const instruction_id> signals() const { return m_signals; }
	const counters& get_counters() const { return m_counters; }

  private:
	engine_nodes& m_nodes;
	lane_pool& m_lanes;
	std::vector<lane_position> m_waits;    ///< of the latest issue
	std::vector<instruction_id> m_signals; ///< likewise
	counters m_counters;

	/// Appends to `waits` the positions that are neither complete nor implied by `clock`, and raises `clock` by them.
	template <typename Waits>
	void collect_waits(const engine_node& n, lane_index own_lane, std::span<std::uint64_t> clock, Waits& waits) const;
};

} // namespace celerity
