// SPDX-License-Identifier: MIT
// Calls of user functions that wait for a thread, by the priority of their queue. A call lets at most 32 later ones pass, so that none waits for ever.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>

#include "scheduler/core/vocabulary/task.hpp"

namespace celerity {

/// Calls for threads that block until there is one. Those of a higher queue go first; each call lets a limited number of later ones pass.
template <typename Call>
class call_queue {
  public:
	/// Ignored after close().
	void push(Call&& call, const queue_priority queue) {
		{
			const std::lock_guard lock(m_mutex);
			if(m_is_discarding) return;
			auto place = m_calls.end();
			while(place != m_calls.begin() && std::prev(place)->queue < queue && std::prev(place)->num_passed < most_passes) ++(--place)->num_passed;
			m_calls.insert(place, {std::move(call), queue});
		}
		m_wake.notify_one();
	}

	/// Blocks; nothing after close().
	std::optional<Call> pop() {
		std::unique_lock lock(m_mutex);
		m_wake.wait(lock, [&] { return m_is_closed || !m_calls.empty(); });
		if(m_is_closed) return std::nullopt;
		std::optional<Call> call(std::move(m_calls.front().call));
		m_calls.pop_front();
		return call;
	}

	/// The next call if there is one and `may_begin(call)`; nothing after close().
	template <typename MayBegin>
	std::optional<Call> try_pop(MayBegin&& may_begin) {
		const std::lock_guard lock(m_mutex);
		if(m_is_closed || m_calls.empty() || !may_begin(m_calls.front().call)) return std::nullopt;
		std::optional<Call> call(std::move(m_calls.front().call));
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
	static constexpr std::uint32_t most_passes = 32;

	struct entry {
		Call call;
		queue_priority queue = 0;
		std::uint32_t num_passed = 0; ///< later calls that go before it
	};

	std::mutex m_mutex;
	std::condition_variable m_wake;
	std::deque<entry> m_calls;
	bool m_is_discarding = false;
	bool m_is_closed = false;
};

} // namespace celerity
