// SPDX-License-Identifier: MIT
// The interface of a kind of device, as the executor uses it. direct_transfers.hpp and graph_devices.hpp have what only some kinds can do.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/lane_pool.hpp"
#include "events/executor_statistics.hpp"
#include "memory/nd_copy.hpp"
#include "native_launch.hpp"
#include "scheduler/core/base/ids.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"

namespace celerity {

/// A copy of boxes, which outlive it.
struct copy_operation {
	array_place source;
	array_place destination;
	std::span<const box> boxes;
	std::size_t element_size_bytes = 0;
	std::size_t size_bytes = 0;
};

/// Partial results in the memory of a device, which it reduces there; see reduce_partials().
struct reduce_operation {
	reduction_op op = reduction_op::sum;
	scalar_type type = scalar_type::float32;
	const std::byte* source = nullptr;
	std::size_t count = 0;
	std::size_t num_elements = 0;
	std::byte* destination = nullptr;
	/// In host memory: set to 1 unless the result is the minimum or maximum of nothing. Null: nobody asks.
	std::uint32_t* has_values = nullptr;
};

/// A word that one rank of a host writes, and for which another rank waits. The flag is reached when the word holds `value` or, modulo 2^32, a later one.
struct shared_flag {
	std::uint32_t* address = nullptr;
	std::uint32_t value = 0;
	friend bool operator==(const shared_flag&, const shared_flag&) = default;
};

/// The waits of an operation on a lane, besides those for the operations before it there.
struct lane_waits {
	std::span<const lane_position> positions;
	std::span<const shared_flag> answers; ///< of other ranks
};

/// A device has failed. Its latest operation need not be the cause.
class device_failure : public std::runtime_error {
  public:
	using std::runtime_error::runtime_error;
};

/// The first element outside of a declared region that a kernel with checked bounds would have accessed.
struct bounds_violation {
	const device_kernel_instruction* kernel = nullptr;
	std::uint32_t access = 0; ///< which of the kernel's
	point index;
};

class direct_transfers;
class graph_devices;

/// Devices whose kernels the executor thread launches by itself.
class kernel_launcher {
  public:
	/// The kernel of the launch is of the backend's own subclass of native_kernel.
	virtual void enqueue_launch(lane_position position, const lane_waits& waits, launch_operation&& launch) = 0;

  protected:
	~kernel_launcher() = default;
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
	/// `is_urgent`: other devices or ranks wait for the result. `queue`: where the lanes have priorities, lanes of this one.
	virtual std::uint32_t kernel_class(device_id device, bool is_urgent, queue_priority queue) const = 0;
	/// Makes lanes for the kernels of queues of this priority. Before their first instruction; any thread. `share`: of the multiprocessors of each GPU, on
	/// which alone these kernels run; 0: those that are in no share. The first call with a share comes before the first kernel, all shares of a backend are
	/// equal, and so are those of a priority. Throws std::invalid_argument if a device has no such part, and std::runtime_error if the driver refuses.
	virtual void prepare_queue(queue_priority /* queue */, double /* share */) {}
	/// By device; empty without a share. Any thread.
	virtual std::vector<multiprocessor_parts> parts() { return {}; }
	virtual std::uint32_t copy_class(memory_id from, memory_id to) const = 0;
	/// Of copies out of several devices into one, and of reductions in the memory of a device.
	virtual std::uint32_t gather_class(memory_id to) const = 0;
	/// Whether launcher threads report each kernel that they have enqueued. Otherwise a kernel counts as issued when its launcher gets it.
	virtual bool defers_kernels() const = 0;

	// What only some kinds of devices can do. Null if these cannot. Constant once the backend exists.

	virtual kernel_launcher* launcher() { return nullptr; }
	virtual direct_transfers* direct() { return nullptr; }
	virtual graph_devices* graphs() { return nullptr; }

	/// Whether allocate() returns soon. If not, another thread makes room and then signals the event count; ask again after that.
	virtual bool is_ready_to_allocate(memory_id /* memory */, std::size_t /* size_bytes */) { return true; }
	/// Of the memory of each device, that may be allocated; 0: all that there is.
	virtual std::size_t most_device_bytes() const { return 0; }
	/// Throws std::bad_alloc. Contents are undefined.
	virtual void* allocate(memory_id memory, std::size_t size_bytes, std::size_t alignment_bytes) = 0;
	virtual void deallocate(memory_id memory, void* address, std::size_t size_bytes, std::size_t alignment_bytes) = 0;

	virtual void enqueue_copy(lane_position position, const lane_waits& waits, const copy_operation& copy) = 0;
	/// All copies, in any order. Boxes outlive the completion of the position.
	virtual void enqueue_gather(lane_position position, const lane_waits& waits, std::span<const copy_operation> copies) = 0;

	virtual void enqueue_reduce(lane_position position, const lane_waits& waits, const reduce_operation& reduce) = 0;

	/// Sets every byte, and returns when that is done.
	virtual void fill(memory_id memory, void* address, std::size_t size_bytes, unsigned char value) = 0;
	/// The handle of the stream behind a lane; 0 if there is none.
	virtual std::uintptr_t stream_handle(lane_index /* lane */) const { return 0; }
	/// Whether no thread signals progress, so that the executor has to call completed().
	virtual bool must_poll() const { return false; }
	/// Of this process so far, by function. Any thread.
	virtual std::map<std::string, std::uint64_t> count_driver_calls() const { return {}; }

	/// On a launcher thread, before the kernel's body: makes the body run after the waits. False if cancelled: the body must not run.
	virtual bool begin_kernel(lane_position position, std::span<const lane_position> waits) = 0;
	/// On a launcher thread, after the body.
	virtual void end_kernel(lane_position position) = 0;

	/// Of a kernel that completed() counts as complete. To be called before its completion is reported.
	virtual std::optional<bounds_violation> take_violation() { return std::nullopt; }
	/// Throws device_failure.
	virtual std::uint64_t completed(lane_index lane) = 0;

	/// Whether everything that has been put on streams is complete, as completed() tells from then on. Not after stop().
	virtual bool are_streams_idle() { return true; }
	/// From now on no operation begins, and no thread blocks. Any thread.
	virtual void cancel() = 0;
	/// Cancels, and joins the backend's own threads. Idempotent.
	virtual void stop() = 0;
	/// After stop(): gives all memory and handles back, and returns true. Returns false, and changes nothing, while operations run; it does not wait for them.
	/// May be called again. No thread runs user code on the memory.
	virtual bool release() = 0;
};

} // namespace celerity
