// SPDX-License-Identifier: MIT
// Finds loops in the stream of submitted tasks. What it finds is a guess about where to look for a template: no plan depends on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "vocabulary/task.hpp"

namespace celerity {

/// Whether planning both tasks in the same state has the same result, apart from ids and the memory that receives the data of a fence, and whether the program
/// log describes both by the same words. Plain values, lines and submissions may differ.
bool are_repeated(const task& a, const task& b);
/// Equal for such tasks, and rarely for others.
std::uint64_t stream_digest(const task& node);

/// The latest tasks of the program, by their digests.
class task_stream {
  public:
	/// Of the loops that it finds.
	static constexpr std::size_t max_period = 4096;

	void add(std::uint64_t digest);
	/// The latest tasks repeat those so many before; 0: they do not, or too few of them.
	std::size_t period() const { return m_longest.settled(); }
	/// The same with the nearest such tasks: those of the inner loop, where a long loop has another one inside.
	std::size_t shortest_period() const { return m_nearest.settled(); }

  private:
	/// A loop of fewer tasks in all is over before it pays.
	static constexpr std::size_t min_repeated = 8;
	/// Earlier places of a task that are compared.
	static constexpr unsigned max_candidates = 8;
	static constexpr std::size_t num_kept = 2 * max_period;

	/// So many of the latest tasks equal those a period before.
	struct repetition {
		std::size_t period = 0;
		std::size_t num_tasks = 0;
		std::size_t settled() const { return num_tasks >= period && num_tasks >= min_repeated ? period : 0; }
	};

	struct entry {
		std::uint64_t digest = 0;
		std::uint64_t previous = 0; ///< the last task before with this digest; 0: none
	};

	std::vector<entry> m_latest; ///< of task n at n modulo num_kept
	std::unordered_map<std::uint64_t, std::uint64_t> m_last; ///< task by digest
	std::uint64_t m_size = 0;
	repetition m_longest;
	repetition m_nearest;

	entry& at(const std::uint64_t number) { return m_latest[number % num_kept]; }
	/// Whether the latest task equals that a period before.
	bool goes_on(const repetition& known) { return known.num_tasks > 0 && at(m_size - known.period).digest == at(m_size).digest; }
	void find_longest();
	void follow_nearest();
};

} // namespace celerity
