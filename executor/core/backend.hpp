// SPDX-License-Identifier: MIT
// What the executor asks of a kind of device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lane_pool.hpp"
#include "scheduler/core/ids.hpp"
#include "scheduler/core/instruction.hpp"

namespace celerity {

/// A copy with its addresses. The boxes belong to the instruction, which outlives the copy.
struct copy_operation {
	const void* source = nullptr;
	void* destination = nullptr;
	const copy_instruction* instruction = nullptr;
	std::size_t size_bytes = 0;
};

/// Called from the executor thread, except where noted. Everything put on a lane runs in order, after its waits; completed() tells how far each lane is,
/// and the event count given to the backend is signalled when that changes.
class backend {
  public:
	backend() = default;
	backend(const backend&) = delete;
	backend& operator=(const backend&) = delete;
	virtual ~backend() = default;

	virtual std::span<const lane_class> lane_classes() const = 0;
	virtual std::uint32_t kernel_class(device_id device) const = 0;
	virtual std::uint32_t copy_class(memory_id from, memory_id to) const = 0;
	/// Whether a launcher thread reports when it has enqueued a kernel. Otherwise a kernel counts as issued when it is handed to the launcher.
	virtual bool defers_kernels() const = 0;

	/// Throws std::bad_alloc. Contents are undefined.
	virtual void* allocate(memory_id memory, std::size_t size_bytes, std::size_t alignment_bytes) = 0;
	virtual void deallocate(memory_id memory, void* address, std::size_t size_bytes, std::size_t alignment_bytes) = 0;

	virtual void enqueue_copy(lane_position position, std::span<const lane_position> waits, const copy_operation& copy) = 0;

	/// On a launcher thread, before the kernel's body: makes it run after its waits. False if cancelled: the body must not run.
	virtual bool begin_kernel(lane_position position, std::span<const lane_position> waits) = 0;
	/// On a launcher thread, after the body.
	virtual void end_kernel(lane_position position) = 0;

	virtual std::uint64_t completed(lane_index lane) const = 0;

	/// Nothing that has not begun will begin; nobody blocks any more. Any thread.
	virtual void cancel() = 0;
	/// Cancels, and joins the backend's own threads. Idempotent.
	virtual void stop() = 0;
};

} // namespace celerity
