// SPDX-License-Identifier: MIT
// The lanes of a CUDA backend: streams of its devices, and a lane of the host. They belong to classes, and kernels of queues have classes of their own.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "cuda_devices.hpp"
#include "cuda_lane.hpp"
#include "cuda_split.hpp"
#include "cuda_timeline.hpp"
#include "engine/lane_pool.hpp"
#include "events/executor_statistics.hpp"
#include "scheduler/core/vocabulary/trace_recorder.hpp"

namespace celerity {

class cuda_lanes {
  public:
	/// `trace` may be null.
	cuda_lanes(const cuda_devices& devices, std::uint32_t compute_lanes, trace_recorder* trace);

	/// Called when lanes of a queue have got their streams.
	void on_open(std::function<void()> callback) { m_on_open = std::move(callback); }
	/// A lane that is in no class. Before the first operation.
	lane_index add_for_graphs(std::uint32_t device);

	std::span<const lane_class> classes() const { return m_classes; }
	std::uint32_t kernel_class(device_id device, bool is_urgent, queue_priority queue) const;
	std::uint32_t copy_class(memory_id from, memory_id to) const;
	std::uint32_t gather_class(memory_id to) const;
	std::uint32_t pull_class(memory_id to) const;
	std::uint32_t signal_class(memory_id from) const;

	/// See backend::prepare_queue() and backend::parts(). Any thread.
	void prepare_queue(queue_priority queue, double share);
	std::vector<multiprocessor_parts> parts();
	/// Null if the multiprocessors are not divided.
	const cuda_split* split_of(const device_id device) const { return m_splits.empty() ? nullptr : &m_splits[device.value]; }
	/// Whether kernels of the queue run on the multiprocessors of the share.
	bool is_apart(const queue_priority queue) const { return m_queues[queue].load(std::memory_order_relaxed) == queue_state::apart; }

	std::size_t size() const { return m_lanes.size(); }
	cuda_lane& operator[](const lane_index lane) const { return *m_lanes[lane]; }
	/// By index; null for the lane of the host.
	std::span<const std::unique_ptr<cuda_lane>> all() const { return m_lanes; }
	lane_index host_lane() const { return m_host_lane; }
	std::uint32_t device_index(const lane_index lane) const { return m_device_of_lane[lane]; }
	/// The open ones first.
	std::vector<cuda_lane*> of_device(std::uint32_t device) const;

	/// Makes the stream wait. False if cancelled.
	bool wait_for(cuda::stream stream, std::span<const lane_position> waits);
	/// See backend::begin_kernel() and backend::end_kernel().
	bool begin_kernel(lane_position position, std::span<const lane_position> waits);
	void end_kernel(lane_position position);

	/// No thread blocks from now on. Any thread.
	void cancel();
	/// Nothing is on any stream. Once no thread issues operations.
	bool are_idle();
	/// Leaves all to the end of the process.
	void forget();
	void release();

  private:
	enum class queue_state : std::uint8_t {
		absent,   ///< its kernels, if there are any, run on the lanes of queue 0
		together, ///< it has lanes of its own
		apart,    ///< likewise, on the multiprocessors of the share
	};

	const cuda::driver& m_driver;
	const cuda_devices& m_devices;
	std::vector<lane_class> m_classes;                       // see class_index()
	std::vector<std::unique_ptr<cuda_timeline>> m_timelines; // by device; none without a trace
	std::vector<std::unique_ptr<cuda_lane>> m_lanes;         // null for the lane of the host
	std::vector<std::uint32_t> m_device_of_lane;
	lane_index m_host_lane = 0;
	std::function<void()> m_on_open;
	std::mutex m_queues_mutex;
	std::array<std::atomic<queue_state>, max_queue_priority + 1> m_queues{};
	std::vector<cuda_split> m_splits; ///< by device; empty if the multiprocessors are not divided. Constant from the first kernel on
	double m_share = 0;               ///< for which m_splits have been made

	/// A class of lanes, and its lanes.
	void add_lanes(const lane_class& lanes, int stream_priority, cuda_timeline* timeline, bool are_open);
	/// Before the first kernel.
	void divide_multiprocessors(double share);
	/// A kernel that failed may have put work on a stream. From now on a position stands for it.
	void record_unfinished_kernels();
};

} // namespace celerity
