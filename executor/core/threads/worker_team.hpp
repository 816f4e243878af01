// SPDX-License-Identifier: MIT
// Threads that share the parts of one job at a time with the thread that has it.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "start_thread.hpp"

namespace celerity {

class worker_team {
  public:
	/// `size`: with the thread that calls run(). The others start with the first job of several parts.
	explicit worker_team(const std::size_t size) : m_size(std::max<std::size_t>(size, 1)) {}
	~worker_team() {
		{
			const std::lock_guard lock(m_mutex);
			m_is_stopped = true;
		}
		m_wake.notify_all();
		for(auto& thread : m_threads) thread.join();
	}
	worker_team(const worker_team&) = delete;
	worker_team& operator=(const worker_team&) = delete;

	std::size_t size() const { return m_size; }

	/// Calls `part` with 0 to `count` - 1, on this thread and others, and returns when all calls have. `part` must not throw. One call at a time.
	void run(const std::size_t count, const std::function<void(std::size_t)>& part) {
		if(count > 1 && m_size > 1) {
			if(m_threads.empty()) start();
			{
				const std::lock_guard lock(m_mutex);
				m_part = &part;
				m_count = count;
				m_next.store(0, std::memory_order_relaxed);
				m_num_busy = m_threads.size();
				++m_job;
			}
			m_wake.notify_all();
			work(part, count);
			std::unique_lock lock(m_mutex);
			m_is_done.wait(lock, [&] { return m_num_busy == 0; });
			return;
		}
		for(std::size_t i = 0; i < count; ++i) part(i);
	}

  private:
	const std::size_t m_size;
	std::vector<std::thread> m_threads;
	std::mutex m_mutex;
	std::condition_variable m_wake;
	std::condition_variable m_is_done;
	const std::function<void(std::size_t)>* m_part = nullptr;
	std::size_t m_count = 0;
	std::atomic<std::size_t> m_next{0};
	std::size_t m_num_busy = 0; ///< threads that have not finished with the job
	std::size_t m_job = 0;      ///< the number of the latest one
	bool m_is_stopped = false;

	void start() {
		while(m_threads.size() + 1 < m_size) m_threads.push_back(start_thread("for the kernels of a CPU device", [this] { serve(); }));
	}

	void work(const std::function<void(std::size_t)>& part, const std::size_t count) {
		for(std::size_t i = m_next.fetch_add(1); i < count; i = m_next.fetch_add(1)) part(i);
	}

	void serve() {
		std::size_t done = 0;
		while(true) {
			const std::function<void(std::size_t)>* part = nullptr;
			std::size_t count = 0;
			{
				std::unique_lock lock(m_mutex);
				m_wake.wait(lock, [&] { return m_is_stopped || m_job != done; });
				if(m_is_stopped) return;
				done = m_job;
				part = m_part;
				count = m_count;
			}
			work(*part, count);
			const std::lock_guard lock(m_mutex);
			if(--m_num_busy == 0) m_is_done.notify_one();
		}
	}
};

} // namespace celerity
