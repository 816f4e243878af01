// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>

#include "base/ids.hpp"

namespace celerity {

/// Counts the bytes that the run keeps for tasks that are not done, although the program has let go of them: the contents of buffers that it has dropped, and
/// arrays that are arguments. A program that is ahead of the execution must not fill the memory with them. Any thread.
class kept_contents {
  public:
	explicit kept_contents(const std::uint64_t most_bytes) : m_most_bytes(most_bytes) {}

	void add(const std::uint64_t bytes) { m_bytes.fetch_add(bytes, std::memory_order_relaxed); }
	void remove(const std::uint64_t bytes) { m_bytes.fetch_sub(bytes, std::memory_order_relaxed); }
	/// Of the arguments of a task; ids ascend.
	void add_arguments(const submission_id submission, const std::uint64_t bytes) {
		add(bytes);
		const std::lock_guard lock(m_mutex);
		m_arguments.push_back({submission, bytes});
	}
	/// Everything up to this submission is done.
	void remove_arguments_until(const submission_id last) {
		const std::lock_guard lock(m_mutex);
		for(; !m_arguments.empty() && m_arguments.front().submission <= last; m_arguments.pop_front()) remove(m_arguments.front().bytes);
	}

	bool is_full() const { return m_bytes.load(std::memory_order_relaxed) > m_most_bytes; }
	/// After it has been full, there is room for many more.
	bool has_room() const { return m_bytes.load(std::memory_order_relaxed) <= m_most_bytes / 2; }

  private:
	struct arguments {
		submission_id submission;
		std::uint64_t bytes;
	};
	const std::uint64_t m_most_bytes;
	std::atomic<std::uint64_t> m_bytes{0};
	std::mutex m_mutex;
	std::deque<arguments> m_arguments;
};

} // namespace celerity
