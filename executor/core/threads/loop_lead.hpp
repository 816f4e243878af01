// SPDX-License-Identifier: MIT
// Which thread carries out the rounds of a loop: the one that owns it, or a thread that calls short functions for the loop, between two of its calls.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace celerity {

/// To wake a thread takes as long as a short call. The thread that has made such a call therefore goes on with the loop, while the owner rests. The owner comes
/// back when it is wanted, or when a call takes longer than expected: nobody carries out the loop meanwhile.
class loop_lead {
  public:
	using clock = std::chrono::steady_clock;

	// ---- any thread

	/// A call is on its way to a thread that calls functions.
	void note_handed_out() { m_num_calls.fetch_add(1, std::memory_order_relaxed); }
	void note_returned(const std::chrono::nanoseconds duration) {
		m_num_calls.fetch_sub(1, std::memory_order_relaxed);
		m_num_long.store(duration <= longest_short ? 0 : m_num_long.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
	}

	// ---- the owner

	/// Whether calls are under way that seem to be short, so that rest() would rest.
	bool may_rest() const { return m_num_calls.load(std::memory_order_relaxed) > 0 && m_num_long.load(std::memory_order_relaxed) < most_long; }
	/// Returns when the owner has to carry out the loop: because `is_wanted()`, which is asked now and then, because the time is up, because the thread that
	/// leads gives the lead back, or because nobody has led for a while. `wake_leader()` lets that thread look at must_give_back().
	template <typename Wanted, typename Wake>
	void rest(const clock::time_point deadline, Wanted&& is_wanted, Wake&& wake_leader) {
		std::unique_lock lock(m_mutex);
		m_is_resting = true;
		m_left_at = clock::now();
		while(m_is_resting) {
			const auto now = clock::now();
			const bool must_come_back = now >= deadline || is_wanted();
			if(m_is_led) {
				if(must_come_back && !m_must_give_back.exchange(true, std::memory_order_relaxed)) {
					lock.unlock();
					wake_leader();
					lock.lock();
				}
			} else if(must_come_back || now - m_left_at >= patience || !may_rest()) {
				if(now - m_left_at >= patience) m_num_long.store(most_long, std::memory_order_relaxed);
				m_is_resting = false;
				break;
			}
			if(m_is_resting) m_comes_back.wait_until(lock, now >= deadline ? now + patience : std::min(deadline, now + patience));
		}
		m_must_give_back.store(false, std::memory_order_relaxed);
	}

	// ---- a thread that calls functions

	/// Whether the calling thread leads from now on: then it carries out the loop, until leave() or give_back().
	bool try_take() {
		const std::lock_guard lock(m_mutex);
		if(!m_is_resting || m_is_led) return false;
		return m_is_led = true;
	}
	/// Whether the owner wants the lead.
	bool must_give_back() const { return m_must_give_back.load(std::memory_order_relaxed); }
	/// The calling thread makes a short call.
	void leave() {
		const std::lock_guard lock(m_mutex);
		m_is_led = false;
		m_left_at = clock::now();
	}
	/// The owner goes on.
	void give_back() {
		{
			const std::lock_guard lock(m_mutex);
			m_is_led = m_is_resting = false;
		}
		m_comes_back.notify_one();
	}

  private:
	/// The rest of the loop's work may wait for so long.
	static constexpr std::chrono::microseconds longest_short{250};
	/// It waits for so long at most.
	static constexpr std::chrono::microseconds patience{1000};
	/// A thread may lose its core during a call that is short otherwise.
	static constexpr std::uint32_t most_long = 2;

	std::atomic<std::int64_t> m_num_calls{0}; ///< handed out, and not returned
	std::atomic<std::uint32_t> m_num_long{most_long}; ///< latest calls that were long, one after the other
	std::atomic<bool> m_must_give_back{false};
	std::mutex m_mutex;
	std::condition_variable m_comes_back;
	bool m_is_resting = false;
	bool m_is_led = false; ///< by another thread than the owner
	clock::time_point m_left_at{}; ///< while the owner rests and nobody leads: since then
};

} // namespace celerity
