// SPDX-License-Identifier: MIT
// Kernels that the executor thread launches by itself, without a launcher thread and without Python.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "memory/nd_copy.hpp"
#include "scheduler/core/base/small_vector.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"

namespace celerity {

class fused_kernel;

/// A kernel, compiled for all devices of this rank. Each backend has its own subclass.
class native_kernel {
  public:
	native_kernel() = default;
	native_kernel(const native_kernel&) = delete;
	native_kernel& operator=(const native_kernel&) = delete;
	virtual ~native_kernel() = default;

	/// Null for others. Each launch asks: a dynamic_cast would compare names of types.
	virtual const fused_kernel* as_fused() const { return nullptr; }
};

/// The launch of a submission, without its chunks.
struct native_launch {
	std::shared_ptr<const native_kernel> kernel;
	std::vector<std::byte> scalars; ///< one after the other, without padding
	box space;                      ///< the whole index space
};

/// A launch for one chunk. Launch and instruction outlive its completion.
struct launch_operation {
	const native_launch* launch = nullptr;
	const device_kernel_instruction* instruction = nullptr;
	small_vector<array_place, 6> access_places; ///< of the allocations, one per access or part of it; without address for empty accesses
	small_vector<array_place, 2> reduction_places; ///< of the partial results: whole buffers
	void* violation = nullptr; ///< for the backend: where a kernel that checks bounds reports
	queue_priority queue = 0; ///< in a graph, where no lane has a priority
};

/// Launches by submission. The application registers them in the order of submission, the executor looks them up and drops those that are over.
class launch_table {
  public:
	/// Before the submission itself.
	void add(const submission_id submission, native_launch&& launch) {
		const std::lock_guard lock(m_mutex);
		m_entries.emplace_back(submission, std::make_unique<const native_launch>(std::move(launch)));
	}

	/// Forgets the newest one, whose submission was refused.
	void take_back(const submission_id submission) {
		const std::lock_guard lock(m_mutex);
		if(!m_entries.empty() && m_entries.back().first == submission) m_entries.pop_back();
	}

	/// Null if the submission has none. Valid until it is dropped.
	const native_launch* find(const submission_id submission) const {
		const std::lock_guard lock(m_mutex);
		const auto found = std::lower_bound(m_entries.begin(), m_entries.end(), submission, [](const auto& entry, const auto id) { return entry.first < id; });
		return found == m_entries.end() || found->first != submission ? nullptr : found->second.get();
	}

	/// Forgets everything up to and including `last`.
	void drop(const submission_id last) {
		std::vector<std::unique_ptr<const native_launch>> dropped; // destroyed without the lock
		const std::lock_guard lock(m_mutex);
		while(!m_entries.empty() && m_entries.front().first <= last) {
			dropped.push_back(std::move(m_entries.front().second));
			m_entries.pop_front();
		}
	}

  private:
	mutable std::mutex m_mutex;
	std::deque<std::pair<submission_id, std::unique_ptr<const native_launch>>> m_entries; // ascending
};

} // namespace celerity
