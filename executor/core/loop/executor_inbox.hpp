// SPDX-License-Identifier: MIT
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "events/executor_events.hpp"
#include "scheduler/core/vocabulary/instruction_sink.hpp"

namespace celerity {

/// Messages of other threads for the executor's thread.
struct executor_mail {
	std::vector<queue_priority> queues; ///< that exist
	std::vector<instruction_batch> batches;
	std::vector<std::pair<rank_id, pilot_message>> pilots;
	std::vector<request_id> requests;        ///< complete
	std::vector<instruction_id> waiting_calls; ///< host tasks that wait for other ranks
	std::vector<instruction_id> host_calls;  ///< complete
	std::vector<instruction_id> launches;    ///< of kernels, enqueued
	std::vector<std::string> failures;

	bool is_empty() const {
		return queues.empty() && batches.empty() && pilots.empty() && requests.empty() && waiting_calls.empty() && host_calls.empty() && launches.empty()
		       && failures.empty();
	}
	void clear() {
		queues.clear();
		batches.clear();
		pilots.clear();
		requests.clear();
		waiting_calls.clear();
		host_calls.clear();
		launches.clear();
		failures.clear();
	}
};

class executor_inbox {
  public:
	/// Calls add(mail). Any thread.
	template <typename F>
	void post(F&& add) {
		const std::lock_guard lock(m_mutex);
		add(m_mail);
	}
	/// The mail since the last call; valid until the next one. Executor thread.
	executor_mail& take() {
		m_taken.clear();
		const std::lock_guard lock(m_mutex);
		if(!m_mail.is_empty()) std::swap(m_mail, m_taken);
		return m_taken;
	}

  private:
	std::mutex m_mutex;
	executor_mail m_mail;
	executor_mail m_taken;
};

} // namespace celerity
