// SPDX-License-Identifier: MIT
// The interface of a kind of device, as the executor uses it.
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
#include <utility>
#include <variant>
#include <vector>

#include "engine/lane_pool.hpp"
#include "events/executor_statistics.hpp"
#include "events/pilot_message.hpp"
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

/// Partial results in the memory of a device, which it combines there; see fold().
struct fold_operation {
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

/// A flag between two ranks, or two devices of a rank, that a kernel of a graph raises, or for which it waits. Kernels read it in this layout.
struct graph_flag {
	std::uint64_t word = 0; ///< on the device that waits; reached when it holds `value` or a later one. 0: there is none
	std::uint64_t value = 0;
	/// Between ranks: raised as well, for ranks that wait otherwise; a rank that waits looks at it, too, as other ranks may not raise the word.
	std::uint32_t* host = nullptr;
	std::uint32_t host_value = 0;
	/// The number of the message whose data comes into an inbox, besides; 0: the one side does not put it there, or the other side does not look there.
	std::uint32_t put_number = 0;
};
static_assert(sizeof(graph_flag) == 32);

/// Memory of a device, into which a kernel of a graph on another device puts the data of a message. Behind each word of four bytes it writes the number of
/// the message, so that the data needs no flag: the device that waits looks at the words themselves. As in the protocol LL of NCCL. A
/// later message may overwrite one that has not been read.
struct graph_inbox {
	static constexpr std::size_t word_bytes = 4;
	/// Larger messages are fetched, which moves half of the bytes.
	static constexpr std::size_t most_bytes = std::size_t{1} << 14;
	static constexpr std::size_t size_bytes = 2 * most_bytes; ///< between ranks, where an inbox gets one message after the other

	std::uint64_t address = 0;
	std::uint32_t num_turns = 1; ///< message n uses inbox n % num_turns of those that follow each other from the address on
	box array;                   ///< whose elements lie there densely

	static std::size_t bytes_for(const box& array, const std::size_t element_size_bytes) {
		return 2 * static_cast<std::size_t>(array.area()) * element_size_bytes;
	}
	static bool is_for(const box& array, const std::size_t element_size_bytes) {
		return element_size_bytes % word_bytes == 0 && bytes_for(array, element_size_bytes) <= size_bytes;
	}
};

/// The waits of an operation on a lane, besides those for the operations before it there.
struct lane_waits {
	std::span<const lane_position> positions;
	std::span<const shared_flag> answers; ///< of other ranks
};

/// A fetch from another rank. The lane waits for `ready`, carries out `copy`, and writes `answer`. A flag without address is skipped.
struct pull_operation {
	shared_flag ready;
	copy_operation copy;
	shared_flag answer;
	std::span<const lane_position> answer_after; ///< further positions to wait for before `answer` is written; outlives the position
};

/// A copy into an inbox, at the moment when a flag is raised. `copy` has no destination.
struct graph_put {
	copy_operation copy;
	graph_inbox inbox;
	std::uint32_t flag = 0;
};

/// Where the data of a copy may be found as well, as soon as it is there, instead of at its source once the flag is reached.
struct graph_arrival {
	std::optional<graph_inbox> inbox;
	std::optional<std::uint32_t> flag; ///< of this copy alone
};

/// An operation of a graph. It begins when the operations of the graph that `after` numbers are complete, and flags of other ranks are reached. Flags are
/// numbered by launch.
struct graph_operation {
	device_id device;
	/// Several copies: a gather; no copy: nothing.
	std::variant<copy_operation, std::vector<copy_operation>, launch_operation, fold_operation> what;
	small_vector<std::uint32_t, 4> after; ///< smaller than the operation's own number
	small_vector<std::uint32_t, 2> awaited{};
	small_vector<std::uint32_t, 2> awaited_by_end{}; ///< need not be reached before it begins
	small_vector<std::uint32_t, 2> raised{}; ///< once the operation is complete
	bool is_urgent = false;                  ///< goes before other operations, because other devices wait for its results
	std::vector<graph_put> puts{};          ///< with some of the flags that it raises
	std::vector<graph_arrival> arrivals{};   ///< of each copy, in their order, or of none
	std::vector<memory_id> origins{};        ///< of each copy within the rank, in their order: the memory of its source
};

/// None of a kernel or a fold.
inline std::span<const copy_operation> copies_of(const decltype(graph_operation::what)& what) {
	if(const auto* const copy = std::get_if<copy_operation>(&what)) return {copy, 1};
	if(const auto* const gathered = std::get_if<std::vector<copy_operation>>(&what)) return *gathered;
	return {};
}

/// Operations of devices, which a lane carries out at once. Not destroyed while a lane carries it out.
class operation_graph {
  public:
	operation_graph() = default;
	operation_graph(const operation_graph&) = delete;
	operation_graph& operator=(const operation_graph&) = delete;
	virtual ~operation_graph() = default;
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
	/// Of copies out of several devices into one, and of folds in the memory of a device.
	virtual std::uint32_t gather_class(memory_id to) const = 0;
	/// Whether launcher threads report each kernel that they have enqueued. Otherwise a kernel counts as issued when its launcher gets it.
	virtual bool defers_kernels() const = 0;

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

	virtual void enqueue_fold(lane_position position, const lane_waits& waits, const fold_operation& fold) = 0;

	/// Only for launches whose kernel is of this backend's subclass of native_kernel.
	virtual void enqueue_launch(lane_position /* position */, const lane_waits& /* waits */, launch_operation&& /* launch */) {
		throw std::logic_error("this backend launches no kernels by itself");
	}
	/// Whether the functions for graphs can be called.
	virtual bool has_graphs() const { return false; }
	/// Whether operations of graphs may wait for flags of other ranks, and raise such flags.
	virtual bool do_graphs_exchange() const { return false; }
	/// The operations and their memory stay as they are for as long as the graph is used. No launch checks bounds.
	virtual std::unique_ptr<operation_graph> make_graph(std::span<const graph_operation> /* operations */, std::size_t /* num_flags */) {
		throw std::logic_error("this backend has no graphs");
	}
	/// On a lane of any device of the graph. The graph outlives the completion of the position. `flags` are those of this launch. Not before the latest launch
	/// with flags is complete, unless a wait sees to that.
	virtual void enqueue_graph(lane_position /* position */, const lane_waits& /* waits */, operation_graph& /* graph */,
	    std::span<const graph_flag> /* flags */) {
		throw std::logic_error("this backend has no graphs");
	}
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

	// Transfers between the ranks of a host, for backends that have them.

	/// Whether the functions below can be called.
	virtual bool has_direct_transfers() const { return false; }
	/// Whether the event count is signalled when a peer writes a flag into this rank's segment. Otherwise the executor has to look.
	virtual bool signals_flags() const { return false; }
	/// The class of lanes for operations that begin with a wait for another rank.
	virtual std::uint32_t pull_class(memory_id /* to */) const { throw std::logic_error("this backend has no direct transfers"); }
	/// The class of lanes for flags that say that data in a memory is ready.
	virtual std::uint32_t signal_class(memory_id /* from */) const { throw std::logic_error("this backend has no direct transfers"); }
	virtual shared_location locate(memory_id /* memory */, const void* /* address */) const { throw std::logic_error("this backend has no direct transfers"); }
	/// The address of a peer's slab here; the same slab is opened once. Throws std::runtime_error.
	virtual void* open_peer_slab(const shared_location& /* location */) { throw std::logic_error("this backend has no direct transfers"); }
	/// Lets lanes write the flags of a flag_segment and wait for them, until stop(). Before the first instruction: with this rank's segment first, and
	/// then with those of its peers.
	virtual void adopt_flags(void* /* address */, std::size_t /* size_bytes */) { throw std::logic_error("this backend has no direct transfers"); }
	/// The backend may keep a signal back until flush(): flags behind one producer go together. A flag without address is written by another signal.
	/// `depends_on_one`: on the one position in `waits`, and on nothing older on the lane. The lane may have waited for that position before.
	virtual void enqueue_signal(lane_position /* position */, const lane_waits& /* waits */, const shared_flag& /* flag */, bool /* depends_on_one */) {
		throw std::logic_error("this backend has no direct transfers");
	}
	/// To be called before anything but signals is enqueued, allocated or freed, and before the thread waits for anything.
	virtual void flush() {}
	/// One after the other. Boxes outlive the completion of the position.
	virtual void enqueue_pulls(lane_position /* position */, const lane_waits& /* waits */, std::span<const pull_operation> /* pulls */) {
		throw std::logic_error("this backend has no direct transfers");
	}

	/// Of a kernel that completed() counts as complete. To be called before its completion is reported.
	virtual std::optional<bounds_violation> take_violation() { return std::nullopt; }
	/// Throws device_failure.
	virtual std::uint64_t completed(lane_index lane) = 0;

	/// From now on no operation begins, and no thread blocks. Any thread.
	virtual void cancel() = 0;
	/// Cancels, and joins the backend's own threads. Idempotent.
	virtual void stop() = 0;
	/// This rank has fetched all data of its peers: closes their memory, so that they may free it.
	virtual void close_peers() {}
	/// After stop(): gives all memory and handles back, and returns true. Returns false, and changes nothing, while operations run; it does not wait for them.
	/// May be called again. No thread runs user code on the memory.
	virtual bool release() = 0;
};

} // namespace celerity
