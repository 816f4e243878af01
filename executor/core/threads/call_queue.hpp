// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace celerity {

/// Calls for threads that block until there is one.
template <typename Call>
class call_queue {
  public:
	/// Ignored after close().
	void push(Call&& call) {
		{
			const std::lock_guard lock(m_mutex);
			if(m_is_discarding) return;
			m_calls.push_back(std::move(call));
		}
		m_wake.notify_one();
	}

	/// Blocks; nothing after close().
	std::optional<Call> pop() {
		std::unique_lock lock(m_mutex);
		m_wake.wait(lock, [&] { return m_is_closed || !m_calls.empty(); });
		if(m_is_closed) return std::nullopt;
		std::optional<Call> call(std::move(m_calls.front()));
		m_calls.pop_front();
		return call;
	}

	/// Whether pop() returns at once.
	bool has_call() {
		const std::lock_guard lock(m_mutex);
		return m_is_closed || !m_calls.empty();
	}

	/// Drops all calls that wait or come later; threads in pop() go on waiting for close().
	void discard() {
		const std::lock_guard lock(m_mutex);
		m_is_discarding = true;
		m_calls.clear();
	}

	void close() {
		{
			const std::lock_guard lock(m_mutex);
			m_is_closed = m_is_discarding = true;
			m_calls.clear();
		}
		m_wake.notify_all();
	}

  private:
	std::mutex m_mutex;
	std::condition_variable m_wake;
	std::deque<Call> m_calls;
	bool m_is_discarding = false;
	bool m_is_closed = false;
};

} // namespace celerity
