// SPDX-License-Identifier: MIT
// Batches of plain loops: repeated instructions are collected until they are a whole stretch or period, which devices may carry out as a graph. How many are
// collected depends on time. Nothing but the division into batches does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "loop_search.hpp"
#include "pipeline_counts.hpp"
#include "vocabulary/instruction.hpp"
#include "vocabulary/instruction_sink.hpp"

namespace celerity {

class loop_batches {
  public:
	loop_batches(instruction_sink& sink, planning_progress& progress) : m_sink(sink), m_progress(progress) {}
	loop_batches(const loop_batches&) = delete;
	loop_batches& operator=(const loop_batches&) = delete;

	/// The first leg of a period follows.
	void begin(const loop_template& known);
	/// Gets the instructions of the next leg.
	instruction_batch& open() { return m_open; }
	/// The leg before `next` is complete.
	void end_leg(const loop_template& known, std::size_t next);

	bool is_empty() const { return m_open.empty(); }
	/// Whether there is a whole period at least.
	bool has_whole() const { return m_open.num_periods > 0; }
	/// Whether instructions wait for the end of their stretch or period.
	bool is_collecting() const { return m_is_collecting; }
	/// Of the last two batches, those in which horizons are left.
	unsigned num_in_flight(const std::uint64_t executed_horizons) const {
		return static_cast<unsigned>(m_last_horizons[0] > executed_horizons) + static_cast<unsigned>(m_last_horizons[1] > executed_horizons);
	}
	/// Hands the whole periods over.
	void release_whole();
	/// Hands all instructions over. The rest of a begun stretch follows one by one.
	void release();

  private:
	instruction_sink& m_sink;
	planning_progress& m_progress;
	instruction_batch m_open;
	std::size_t m_num_whole = 0;             ///< instructions of whole periods
	std::uint64_t m_horizons_of_whole = 0;   ///< released ones up to there
	std::size_t m_stretch = 0;               ///< of the next leg
	bool m_is_collecting = false;            ///< all instructions are of stretch m_stretch, from its begin on
	std::array<std::uint64_t, 2> m_last_horizons{}; ///< the last one of each of the last two batches, by number

	void begin_stretch(const loop_template& known);
	void hand_over(instruction_batch&& batch, std::uint64_t horizons);
};

} // namespace celerity
