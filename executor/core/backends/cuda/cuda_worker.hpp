// SPDX-License-Identifier: MIT
// The thread that drives one of several GPUs of a rank.
//
// A call of the driver takes one to two microseconds. With several devices, one thread for all calls would limit small steps. Each
// device therefore has a thread of its own, to which the executor thread hands finished operations.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "devices/direct_transfers.hpp"
#include "cuda_graph.hpp"
#include "cuda_lane.hpp"
#include "cuda_signals.hpp"
#include "scheduler/core/base/small_vector.hpp"
#include "threads/event_count.hpp"

namespace celerity {

/// Something to put on a lane of a device, with everything it needs. Boxes and instructions outlive it.
struct cuda_operation {
	lane_position position; ///< of signals, the first one's
	small_vector<lane_position, 4> waits;
	small_vector<shared_flag, 2> answers; ///< of other ranks, to wait for
	/// A shared_flag is written, unless it has no address.
	std::variant<copy_operation, std::vector<copy_operation>, launch_operation, reduce_operation, cuda_graph_work, shared_flag, cuda_signals,
	    std::vector<pull_operation>>
	    what;
	/// How many operations each worker must have issued before this one; empty if that does not matter.
	small_vector<std::uint64_t, 8> behind;
};

class cuda_worker {
  public:
	using issue_function = std::function<void(cuda_operation&)>;

	/// `issue` puts an operation on its lane; `lanes` are those of this device, the open ones first; `completions` is signalled when one progresses.
	cuda_worker(issue_function issue, std::vector<cuda_lane*> lanes, event_count& completions, bool may_spin);
	~cuda_worker() { stop(); }
	cuda_worker(const cuda_worker&) = delete;
	cuda_worker& operator=(const cuda_worker&) = delete;

	/// One thread.
	void push(cuda_operation&& operation);
	/// Operations so far. The thread that pushes.
	std::uint64_t num_pushed() const { return m_pushed.load(std::memory_order_relaxed); }
	/// Blocks until so many operations are on their lanes. False if they never will be. Any other thread.
	bool wait_until_issued(std::uint64_t num_operations) const;
	/// Something has been put on a lane by another thread. Any thread.
	void wake() { m_wake_up.signal(); }
	/// More of the lanes are open now. Any thread.
	void watch_all() { m_num_watched.store(m_lanes.size(), std::memory_order_relaxed); }
	/// Throws the error of the thread if it has met one, at each call. Any thread.
	void rethrow() const;
	void stop();

  private:
	static constexpr std::size_t capacity = 1024;

	issue_function m_issue;
	std::vector<cuda_lane*> m_lanes;
	std::atomic<std::size_t> m_num_watched; ///< the first ones
	event_count& m_completions;
	const bool m_may_spin;
	event_count m_wake_up;
	std::array<cuda_operation, capacity> m_ring;
	alignas(64) std::atomic<std::uint64_t> m_pushed{0};
	alignas(64) std::atomic<std::uint64_t> m_popped{0};
	std::atomic<bool> m_is_stopping{false};
	std::atomic<bool> m_has_failed{false};
	std::exception_ptr m_error; ///< set before m_has_failed
	std::thread m_thread;

	void run();
	bool issue_pending();
	bool poll(bool& is_in_flight);
};

} // namespace celerity
