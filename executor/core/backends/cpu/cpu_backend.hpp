// SPDX-License-Identifier: MIT
// Devices that are parts of the host: separate memories, a compute lane per device, and copy lanes. Each lane has a thread; a launcher thread besides runs the
// Python kernels of a compute lane.
// With direct transfers the memories of the devices lie in slabs that other ranks of the host map.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "devices/backend.hpp"
#include "devices/direct_transfers.hpp"
#include "devices/lane_progress.hpp"
#include "cpu_kernels.hpp"
#include "cpu_lane.hpp"
#include "memory/shared_memory.hpp"
#include "memory/slab_arena.hpp"
#include "threads/event_count.hpp"
#include "transfers/flag_memory.hpp"
#include "waiting_operations.hpp"

namespace celerity {

class cpu_backend final : public backend, public direct_transfers, public kernel_launcher {
  public:
	/// `completions` is signalled when a lane has got further; it outlives the backend. `kernel_threads`: of each device, for fused kernels.
	cpu_backend(std::size_t num_devices, event_count& completions, bool can_be_direct = false, trace_recorder* trace = nullptr, std::size_t kernel_threads = 1);
	~cpu_backend() override;

	std::span<const lane_class> lane_classes() const override { return m_classes; }
	std::uint32_t kernel_class(const device_id device, const bool /* is_urgent */, const queue_priority /* queue */) const override { return device.value; }
	std::uint32_t copy_class(memory_id from, memory_id to) const override;
	std::uint32_t gather_class(const memory_id to) const override { return copy_class(to, to); }
	bool defers_kernels() const override { return false; }

	void* allocate(memory_id memory, std::size_t size_bytes, std::size_t alignment_bytes) override;
	void deallocate(memory_id memory, void* address, std::size_t size_bytes, std::size_t alignment_bytes) override;
	void enqueue_copy(lane_position position, const lane_waits& waits, const copy_operation& copy) override;
	void enqueue_gather(lane_position position, const lane_waits& waits, std::span<const copy_operation> copies) override;
	void enqueue_reduce(lane_position position, const lane_waits& waits, const reduce_operation& reduce) override;
	bool begin_kernel(lane_position position, std::span<const lane_position> waits) override;
	void end_kernel(lane_position position) override;
	void fill(memory_id memory, void* address, std::size_t size_bytes, unsigned char value) override;

	kernel_launcher* launcher() override { return this; }
	void enqueue_launch(lane_position position, const lane_waits& waits, launch_operation&& launch) override;
	direct_transfers* direct() override { return m_can_be_direct ? this : nullptr; }
	bool signals_flags() const override { return true; }
	std::uint32_t pull_class(memory_id to) const override;
	std::uint32_t signal_class(memory_id from) const override;
	shared_location locate(memory_id memory, const void* address) const override;
	void* open_peer_slab(const shared_location& location) override;
	void close_peers() override {}
	void adopt_flags(void* address, std::size_t size_bytes) override;
	void enqueue_signal(lane_position position, const lane_waits& waits, const shared_flag& flag, bool depends_on_one) override;
	void flush() override {}
	void enqueue_pulls(lane_position position, const lane_waits& waits, std::span<const pull_operation> pulls) override;

	std::uint64_t completed(const lane_index lane) override {
		m_waiting.carry_out(lane);
		return m_progress[lane].completed();
	}
	void cancel() override;
	void stop() override;
	bool release() override;

  private:
	std::size_t m_num_devices;
	event_count& m_completions;
	const bool m_can_be_direct;
	trace_recorder* const m_trace; ///< null if there is no timeline
	// Compute lanes of all devices, copy lanes of all devices, the host's copy lane; and if transfers can be direct, signal lanes of all devices, pull
	// lanes of all devices, the pull lane of the host: one lane each.
	std::vector<lane_class> m_classes;
	std::vector<lane_progress> m_progress;
	waiting_operations m_waiting;
	std::vector<std::int64_t> m_kernel_starts_ns; ///< by device, of the kernel that runs; with a timeline
	flag_board m_flags;
	std::vector<std::unique_ptr<kernel_workshop>> m_kernels; // by device
	std::vector<std::unique_ptr<cpu_lane>> m_lane_threads;  // by lane

	std::unique_ptr<slab_arena> m_arena; // once there are peers
	std::vector<shared_memory> m_slabs;  // as numbered by the arena
	std::map<std::array<std::byte, 64>, shared_memory> m_peer_slabs; // by handle
	std::atomic<bool> m_is_cancelled{false};
	bool m_is_stopped = false;
	std::thread m_listener; // for answers of peers

	void* make_slab(std::size_t size_bytes);
	bool lies_in_arena(const memory_id memory) const { return m_arena != nullptr && is_device_memory(memory); }
	/// `size_bytes` is a measure of the work.
	void enqueue(lane_position position, const lane_waits& waits, std::span<const pull_operation> pulls, std::size_t size_bytes,
	    const reduce_operation& reduce = {});
	/// Pulls whose flags are reached.
	void carry_out(std::span<const pull_operation> pulls, const reduce_operation& reduce);
	void listen(void* own_flags);
};

} // namespace celerity
