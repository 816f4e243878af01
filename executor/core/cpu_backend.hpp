// SPDX-License-Identifier: MIT
// Devices that are parts of the host: separate memories, a compute lane per device that a launcher thread serves, and copy lanes with their own threads.
#pragma once

#include <memory>
#include <vector>

#include "backend.hpp"
#include "cpu_copy_lane.hpp"
#include "event_count.hpp"
#include "lane_progress.hpp"

namespace celerity {

class cpu_backend final : public backend {
  public:
	/// `completions` is signalled when a lane has got further; it outlives the backend.
	cpu_backend(std::size_t num_devices, event_count& completions);
	~cpu_backend() override;

	std::span<const lane_class> lane_classes() const override { return m_classes; }
	std::uint32_t kernel_class(const device_id device) const override { return device.value; }
	std::uint32_t copy_class(memory_id from, memory_id to) const override;
	bool defers_kernels() const override { return false; }

	void* allocate(memory_id memory, std::size_t size_bytes, std::size_t alignment_bytes) override;
	void deallocate(memory_id memory, void* address, std::size_t size_bytes, std::size_t alignment_bytes) override;
	void enqueue_copy(lane_position position, std::span<const lane_position> waits, const copy_operation& copy) override;
	bool begin_kernel(lane_position position, std::span<const lane_position> waits) override;
	void end_kernel(lane_position position) override;
	void fill(memory_id memory, void* address, std::size_t size_bytes, unsigned char value) override;
	std::uint64_t completed(const lane_index lane) override { return m_progress[lane].completed(); }
	void cancel() override;
	void stop() override;

  private:
	std::size_t m_num_devices;
	event_count& m_completions;
	std::vector<lane_class> m_classes; // compute lanes of all devices, copy lanes of all devices, the host's copy lane: one lane each
	std::vector<lane_progress> m_progress;
	std::vector<std::unique_ptr<cpu_copy_lane>> m_copy_lanes; // by lane, null for compute lanes
};

} // namespace celerity
