// SPDX-License-Identifier: MIT
// Finds the periods of replays in the instructions on their way to the executor. A *segment* is a horizon with the instructions since the one before it. A
// *period* is a number of segments that recur: the same operations on the same allocations, with the same edges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "vocabulary/instruction_sink.hpp"
#include "vocabulary/task.hpp"

namespace celerity {

/// Hands all instructions on, in their order. It keeps those of a period back until the period is complete, and then marks it in the batch.
class period_finder final : public instruction_sink {
  public:
	explicit period_finder(instruction_sink& next) : m_next(next) {}

	/// Before the instructions of the task.
	void note_task(const task& node);
	void submit(instruction_batch&& batch) override;
	/// Hands on everything that is kept back.
	void flush();

	bool is_holding_back() const { return !m_held.empty(); }
	/// Horizons that are kept back.
	std::uint64_t num_held_horizons() const { return m_num_held_horizons; }

  private:
	/// An edge, seen from the later instruction: so many ids back, or from an instruction of long ago.
	struct edge {
		std::uint64_t from = 0;
		std::uint64_t to = 0;
		bool is_from_outside = false;
	};
	struct segment {
		std::uint64_t first = 0; ///< id
		bool can_recur = true;
		std::vector<std::uint64_t> words; ///< operations and numbers of edges
		std::vector<edge> edges;
	};
	struct period {
		std::shared_ptr<const void> identity;
		std::vector<segment> segments;
	};

	instruction_sink& m_next;
	bool m_is_active = false;
	std::deque<std::pair<submission_id, std::uint64_t>> m_recorded; ///< of submissions whose instructions may still come
	segment m_current;
	std::deque<segment> m_history; ///< complete segments, while no known period goes on
	std::size_t m_lag = 0;         ///< so many segments apart are equal
	std::size_t m_streak = 0;      ///< so many times in a row
	std::deque<std::shared_ptr<const period>> m_known; ///< the latest one first
	std::shared_ptr<const period> m_period;            ///< that goes on; null if none does
	std::size_t m_position = 0;                        ///< the next segment of it
	std::vector<const instruction*> m_held;
	std::size_t m_num_complete = 0; ///< of m_held, in whole periods
	std::uint32_t m_num_periods = 0;
	std::uint64_t m_num_held_horizons = 0;

	void add(const instruction& item);
	std::uint64_t recorded_of(submission_id submission);
	void end_segment();
	void go_on();
	void learn();
	void start(const std::shared_ptr<const period>& known);
	void stop();
	void forget_history();
	void hand_on_periods();
	void hand_on();
	/// Says of each edge of `now` where it comes from.
	static bool recurs(segment& now, const segment& before);
	/// `first_inside`: older instructions are outside.
	static bool is_like(const segment& now, const segment& known, std::uint64_t first_inside);
};

} // namespace celerity
