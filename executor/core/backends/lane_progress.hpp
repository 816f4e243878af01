// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace celerity {

/// The progress of a lane of the host: its operations up to this sequence number are complete. One thread at a time publishes, others may wait.
class lane_progress {
  public:
	std::uint64_t completed() const { return m_completed.load(std::memory_order_acquire); }

	void publish(const std::uint64_t sequence) {
		m_completed.store(sequence, std::memory_order_seq_cst);
		if(m_num_waiting.load(std::memory_order_seq_cst) == 0) return;
		{ const std::lock_guard lock(m_mutex); }
		m_changed.notify_all();
	}

	/// Blocks until `sequence` is complete; false if cancel() came first.
	bool wait(const std::uint64_t sequence) {
		if(completed() >= sequence) return !is_cancelled();
		m_num_waiting.fetch_add(1, std::memory_order_seq_cst);
		{
			std::unique_lock lock(m_mutex);
			m_changed.wait(lock, [&] { return m_completed.load(std::memory_order_seq_cst) >= sequence || is_cancelled(); });
		}
		m_num_waiting.fetch_sub(1, std::memory_order_relaxed);
		return !is_cancelled();
	}

	bool is_cancelled() const { return m_is_cancelled.load(std::memory_order_relaxed); }
	/// From now on no thread blocks.
	void cancel() {
		{
			const std::lock_guard lock(m_mutex);
			m_is_cancelled.store(true, std::memory_order_relaxed);
		}
		m_changed.notify_all();
	}

  private:
	std::atomic<std::uint64_t> m_completed{0};
	std::atomic<std::uint32_t> m_num_waiting{0};
	std::atomic<bool> m_is_cancelled{false};
	std::mutex m_mutex;
	std::condition_variable m_changed;
};

} // namespace celerity
