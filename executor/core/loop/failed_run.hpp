// SPDX-License-Identifier: MIT
// What is left of a run with a single rank after its failure, for the contents of its buffers.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <unordered_set>
#include <variant>
#include <vector>

#include "dispatch/executor_inbox.hpp"
#include "dispatch/executor_state.hpp"
#include "lane_watch.hpp"
#include "last_contents.hpp"
#include "runs/graph_runs.hpp"

namespace celerity {

/// Keeps the instructions that matter after a failure. Those before the horizon or epoch before the last one are gone.
class failed_run {
  public:
	struct loop_parts {
		std::mutex& state_mutex;
		const std::atomic<bool>& has_failed;
		const std::atomic<bool>& is_stopping;
		executor_inbox& inbox;
		executor_state& state;
		graph_runs& runs;
		lane_watch& lanes;
	};
	explicit failed_run(const loop_parts& loop) : m_loop(loop) {}

	// Before the failure, with the state mutex.

	void note_complete(const instruction& item) {
		m_since.push_back(&item);
		if(std::holds_alternative<horizon_instruction>(item.operation) || std::holds_alternative<epoch_instruction>(item.operation)) begin_horizon(item.id);
	}
	/// What nobody has looked at.
	void keep(const executor_mail& mail);
	/// What it has written counts for nothing, even if it is complete.
	void note_failed(const submission_id submission) { m_failed.insert(submission); }

	// After the failure.

	/// Before executor_loop::stop(): waits until operations on streams have ended. False if that takes longer. Throws device_failure.
	bool settle(std::chrono::nanoseconds timeout);
	/// After settle() and executor_loop::stop(), when all threads have ended and the scheduler still lives. The contents of a buffer as far as the run has
	/// come. `failed`: the task whose failure has ended the run, 0 if it was none.
	last_contents find(buffer_id buffer, const planned_places& planned, submission_id failed);

  private:
	const loop_parts m_loop;
	std::vector<const instruction*> m_before, m_since; ///< complete before the last horizon, and since, in this order
	instruction_id m_last_horizon;                     ///< or epoch, the last one that is complete
	executor_mail m_left;                              ///< that nobody has looked at
	std::unordered_set<submission_id> m_failed;

	void begin_horizon(instruction_id horizon);
	/// Throws std::logic_error if the run has not failed, or has several ranks.
	void require_failure() const;
	/// Of calls that have returned since the failure.
	void take_ends();
	void take_completed();
};

} // namespace celerity
