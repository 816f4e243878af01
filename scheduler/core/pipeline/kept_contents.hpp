// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

namespace celerity {

/// The bytes that the run keeps although the program has dropped them: contents and allocations of buffers whose destruction is not executed yet. A program
/// that is ahead of the execution must not fill the memory with them. Any thread.
class kept_contents {
  public:
	explicit kept_contents(const std::uint64_t most_bytes) : m_most_bytes(static_cast<std::int64_t>(most_bytes)) {}

	/// Negative: so many bytes less are kept. What is freed may be told before it is told of as kept.
	void add(const std::int64_t bytes) { m_bytes.fetch_add(bytes, std::memory_order_relaxed); }
	bool is_full() const { return m_bytes.load(std::memory_order_relaxed) > m_most_bytes.load(std::memory_order_relaxed); }
	/// After it has been full, there is room for several submits, so that each of them need not wait.
	bool has_room() const {
		const std::int64_t most_bytes = m_most_bytes.load(std::memory_order_relaxed);
		return m_bytes.load(std::memory_order_relaxed) <= most_bytes - most_bytes / 8;
	}
	/// It is never full again.
	void lift_bound() { m_most_bytes.store(std::numeric_limits<std::int64_t>::max(), std::memory_order_relaxed); }

  private:
	std::atomic<std::int64_t> m_most_bytes;
	std::atomic<std::int64_t> m_bytes{0};
};

} // namespace celerity
