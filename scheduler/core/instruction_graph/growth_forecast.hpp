// SPDX-License-Identifier: MIT
// Predicts where a growing access pattern will end, from its growth so far.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "geometry/grid.hpp"

namespace celerity {

/// Watches, at every horizon, the box that is wanted of one buffer in one memory. If a side of the box has moved outwards in several horizons in a row, it
/// is expected to reach the end of the buffer. A program that writes one row per step is an example.
class growth_forecast {
  public:
	/// `wanted` is not empty and never shrinks; `horizon` counts the horizons of the program. Returns the box that the growth is expected to reach, or `wanted` if
	/// nothing can be expected yet. Need not be called when nothing has grown.
	box observe(const box& wanted, const std::uint64_t horizon, const box& domain) {
		const bool is_first = m_last.empty();
		if(horizon != m_last_horizon + 1) m_times = {}; // it has paused
		point min = wanted.min();
		point max = wanted.max();
		for(std::size_t d = 0; d < 3; ++d) {
			auto& [below, above] = m_times[d];
			below = !is_first && min[d] < m_last.min(d) ? below + 1 : 0;
			above = !is_first && max[d] > m_last.max(d) ? above + 1 : 0;
			if(below >= times_until_certain) min[d] = domain.min(d);
			if(above >= times_until_certain) max[d] = domain.max(d);
		}
		m_last = wanted;
		m_last_horizon = horizon;
		return box(min, max);
	}

	/// `horizon` as `observe` had it last, or since then.
	template <typename Walk>
	void walk_state(Walk& walk, const std::uint64_t horizon) const {
		walk.boxes(std::span(&m_last, 1));
		walk.number(horizon == m_last_horizon ? horizon + 1 : 0); // only a forecast without a pause depends on its horizon
		for(const auto& [below, above] : m_times) {
			walk.number(below);
			walk.number(above);
		}
	}

  private:
	/// A stencil's halos settle after two steps, and so within two horizons of any length.
	static constexpr std::uint32_t times_until_certain = 3;

	struct moves {
		std::uint32_t below = 0;
		std::uint32_t above = 0;
	};
	box m_last;
	std::uint64_t m_last_horizon = 0;
	std::array<moves, 3> m_times{}; ///< horizons in a row in which the side moved outwards
};

} // namespace celerity
