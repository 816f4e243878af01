// SPDX-License-Identifier: MIT
// The GPUs of one rank: streams as lanes, events between them, memory from an arena per device and pinned host memory from a pool.
//
// Streams, events and memory are ours; modules and users' temporaries are CuPy's, in the same primary contexts.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/cpu_lane.hpp"
#include "cuda_copies.hpp"
#include "cuda_devices.hpp"
#include "cuda_driver.hpp"
#include "cuda_function.hpp"
#include "cuda_graph_launcher.hpp"
#include "cuda_issuer.hpp"
#include "cuda_lanes.hpp"
#include "cuda_pinned_pool.hpp"
#include "cuda_ranks.hpp"
#include "devices/backend.hpp"
#include "devices/lane_progress.hpp"
#include "threads/event_count.hpp"

namespace celerity {

class cuda_backend final : public backend, public kernel_launcher {
  public:
	/// `completions` is signalled when a lane of the host has got further; it outlives the backend. Throws std::runtime_error.
	cuda_backend(const cuda_options& options, event_count& completions);
	~cuda_backend() override;

	std::span<const lane_class> lane_classes() const override { return m_lanes.classes(); }
	std::uint32_t kernel_class(const device_id device, const bool is_urgent, const queue_priority queue) const override {
		return m_lanes.kernel_class(device, is_urgent, queue);
	}
	void prepare_queue(const queue_priority queue, const double share) override { m_lanes.prepare_queue(queue, share); }
	std::vector<multiprocessor_parts> parts() override { return m_lanes.parts(); }
	std::uint32_t copy_class(const memory_id from, const memory_id to) const override { return m_lanes.copy_class(from, to); }
	std::uint32_t gather_class(const memory_id to) const override { return m_lanes.gather_class(to); }
	bool defers_kernels() const override { return true; }
	bool must_poll() const override { return !m_issuer.has_workers(); }
	kernel_launcher* launcher() override { return this; }
	direct_transfers* direct() override { return &m_ranks; }
	graph_devices* graphs() override { return m_graphs.is_available() ? &m_graphs : nullptr; }

	std::size_t most_device_bytes() const override { return m_options.most_memory_bytes; }
	bool is_ready_to_allocate(memory_id memory, std::size_t size_bytes) override;
	void* allocate(memory_id memory, std::size_t size_bytes, std::size_t alignment_bytes) override;
	void deallocate(memory_id memory, void* address, std::size_t size_bytes, std::size_t alignment_bytes) override;
	void fill(memory_id memory, void* address, std::size_t size_bytes, unsigned char value) override;

	void enqueue_copy(lane_position position, const lane_waits& waits, const copy_operation& copy) override;
	void enqueue_gather(lane_position position, const lane_waits& waits, std::span<const copy_operation> copies) override;
	void enqueue_reduce(lane_position position, const lane_waits& waits, const reduce_operation& reduce) override;
	void enqueue_launch(lane_position position, const lane_waits& waits, launch_operation&& launch) override;
	bool begin_kernel(lane_position position, std::span<const lane_position> waits) override;
	void end_kernel(lane_position position) override;
	std::uintptr_t stream_handle(lane_index lane) const override;

	std::optional<bounds_violation> take_violation() override;
	std::uint64_t completed(lane_index lane) override;
	std::map<std::string, std::uint64_t> count_driver_calls() const override;
	bool are_streams_idle() override;
	void cancel() override;
	void stop() override;
	bool release() override;

  private:
	/// As the device header has it.
	struct violation_report {
		std::int32_t claimed;
		std::int32_t access;
		std::int64_t index[3];
	};
	/// A kernel that checks bounds. Executor thread.
	struct checked_launch {
		lane_position position;
		const device_kernel_instruction* kernel = nullptr;
		violation_report* report = nullptr;
	};

	const cuda::driver& m_driver;
	const cuda_options m_options;
	event_count& m_completions;
	std::atomic<bool> m_is_cancelled{false};
	cuda_devices m_devices;
	cuda_lanes m_lanes;
	cuda_copies m_copies;
	cuda_issuer m_issuer;
	cuda_ranks m_ranks;
	cuda_graph_launcher m_graphs;
	std::vector<lane_progress> m_host_progress; // by lane; used for the lane of the host
	std::unique_ptr<cpu_lane> m_host_lane;
	std::unique_ptr<cuda_pinned_pool> m_pinned;
	std::vector<checked_launch> m_checked;         // in flight
	std::vector<violation_report*> m_free_reports; // all zero, in pinned memory
	bool m_is_stopped = false;
	bool m_is_released = false;

	cuda_backend(const cuda_options& options, event_count& completions, const cuda::kept_context& kept);
	violation_report* take_report();
	/// Gives empty slabs back to the driver.
	void trim(memory_id memory);
};

} // namespace celerity
