// SPDX-License-Identifier: MIT
// How long the scheduler collects the instructions of plain loops while it has no input.
#pragma once

#include <chrono>

#include "pacing.hpp"
#include "replay/loop_batches.hpp"

namespace celerity {

class batch_hold {
  public:
	using clock = std::chrono::steady_clock;

	/// Hands over what need not wait. To be called when there is no more input at present.
	void look(loop_batches& batches, const pacing& pace);
	/// Whether something waits, and until when at most.
	bool is_holding() const { return m_since != clock::time_point{}; }
	clock::time_point until() const { return m_until; }
	/// For so long something has waited so far.
	clock::duration held() const { return m_held; }

  private:
	clock::time_point m_since{}; ///< 0: nothing waits
	clock::time_point m_until{};
	clock::duration m_held{};

	void end();
	/// Whether what has been collected may go on waiting.
	bool may_wait(const loop_batches& batches, const pacing& pace);
};

} // namespace celerity
