// SPDX-License-Identifier: MIT
// Instructions: the output of planning, and the operations of one rank's machine. They are trivially destructible, lie in an arena of the instruction graph,
// and do not change once the executor has them. They stay valid until the executor has reported the horizon or epoch after the next one.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "base/fields.hpp"
#include "base/ids.hpp"
#include "base/names.hpp"
#include "geometry/grid.hpp"
#include "task.hpp"

namespace celerity {

/// The order of lane instructions, which is the same on all ranks. (task, phase) sorts the instruction graphs of all ranks together topologically. The engine
/// issues a wait for another rank only when every lane instruction with a smaller key has been issued.
struct instruction_key {
	task_id task;
	enum class phase_type : std::uint8_t { send, receive, work } phase = phase_type::work;
	friend constexpr auto operator<=>(const instruction_key&, const instruction_key&) = default;
};
template <>
inline constexpr std::array<const char*, 3> names_of<instruction_key::phase_type>{"send", "receive", "work"};

enum class copy_reason : std::uint8_t { coherence, resize, staging, initial, fence, reduction };
template <>
inline constexpr std::array<const char*, 6> names_of<copy_reason>{"coherence", "resize", "staging", "initial", "fence", "reduction"};

/// The kind of work of an instruction: its colour in drawings and its part of the plan's totals.
enum class instruction_category : std::uint8_t { memory, copy, transfer, work, order };
template <>
inline constexpr std::array<const char*, 5> names_of<instruction_category>{"memory", "copy", "transfer", "work", "order"};

/// The facts that all instructions of a kind share. Each kind has them as `traits`; plans, replays, statistics, timelines and drawings follow from these and
/// from the fields.
struct instruction_traits {
	instruction_category category{};
	bool completes_at_issue = false; ///< unless it is issued to a lane
	bool is_repeatable = true;       ///< may be part of a template
	CELERITY_FIELDS(category, completes_at_issue, is_repeatable)
};

struct alloc_instruction {
	allocation_id allocation;
	std::size_t size_bytes;
	std::size_t alignment_bytes;
	buffer_id buffer; ///< 0 for staging and partial results
	box allocated_box; ///< in buffer coordinates: the allocation is a dense row-major array over it. Empty if data lies packed there.
	submission_id submission; ///< the first to want it
	static constexpr instruction_traits traits{.category = instruction_category::memory, .completes_at_issue = true, .is_repeatable = false};
	CELERITY_KIND(alloc, allocation, size_bytes, alignment_bytes, buffer, allocated_box, submission)
};
struct free_instruction {
	allocation_id allocation;
	std::size_t size_bytes;
	static constexpr instruction_traits traits{.category = instruction_category::memory, .completes_at_issue = true, .is_repeatable = false};
	CELERITY_KIND(free, allocation, size_bytes)
};
/// Data that lies packed in an allocation begins at an offset: the boxes one after the other, each row-major.
struct copy_instruction {
	allocation_id source;
	std::size_t source_offset_bytes; ///< zero unless packed
	allocation_id destination;
	std::size_t destination_offset_bytes; ///< zero unless packed
	std::span<const box> boxes; ///< disjoint, in buffer coordinates
	std::size_t element_size_bytes;
	copy_reason reason;
	buffer_id buffer;
	static constexpr instruction_traits traits{.category = instruction_category::copy};
	CELERITY_KIND(copy, source, source_offset_bytes, destination, destination_offset_bytes, boxes, element_size_bytes, reason, buffer)
};
/// The greatest number of boxes of all sources of a gather_copy_instruction together. A device can fetch so many at once.
inline constexpr std::size_t max_gathered_boxes = 8;
struct copy_source {
	allocation_id allocation;
	std::span<const box> boxes; ///< disjoint, in buffer coordinates
	CELERITY_FIELDS(allocation, boxes)
};
/// Copies little data from the memories of several devices into the memory of a device that reaches all of them, for coherence.
struct gather_copy_instruction {
	std::span<const copy_source> sources; ///< in different memories; none of the boxes of all overlap
	allocation_id destination;
	std::size_t element_size_bytes;
	buffer_id buffer;
	static constexpr instruction_traits traits{.category = instruction_category::copy};
	CELERITY_KIND(gather_copy, sources, destination, element_size_bytes, buffer)
};

/// Elements of a periodic access that lie together.
struct access_part {
	allocation_id allocation;
	box bounding_box; ///< of the elements
	CELERITY_FIELDS(allocation, bounding_box)
};
/// An access of a task, for one chunk on this rank.
struct access_binding {
	buffer_id buffer;
	access_mode mode;
	allocation_id allocation;      ///< null if the access is empty for this chunk, or has parts
	box bounding_box;              ///< of `accessed`
	std::span<const box> accessed; ///< the mapped region
	box whole = {};                ///< of the buffer
	std::span<const access_part> parts = {}; ///< of a periodic access whose bounding box no allocation covers; their bounding boxes are disjoint
	CELERITY_FIELDS(buffer, mode, allocation, bounding_box, accessed, whole, parts)
};
/// The allocation in which a kernel leaves its partial result of a reduction: as many elements as the buffer. The thread that
/// starts the kernel stores the identity there first.
struct reduction_binding {
	reduction_id reduction;
	buffer_id buffer;
	allocation_id allocation;
	reduction_op op;
	scalar_type type;
	CELERITY_FIELDS(reduction, buffer, allocation, op, type)
};

struct device_kernel_instruction {
	device_id device;
	submission_id submission;
	box chunk;
	std::span<const access_binding> accesses; ///< in the order of the task's accesses
	std::span<const reduction_binding> reductions;
	bool is_border = false; ///< goes before other kernels of the device, because other devices wait for its results
	static constexpr instruction_traits traits{.category = instruction_category::work};
	CELERITY_KIND(device_kernel, device, submission, chunk, accesses, reductions, is_border)
};
struct host_task_instruction {
	submission_id submission;
	box chunk;
	std::span<const access_binding> accesses;
	static constexpr instruction_traits traits{.category = instruction_category::work};
	CELERITY_KIND(host_task, submission, chunk, accesses)
};
/// Calls the buffer's `from_function` callback for each box and stores the result in host memory.
struct initialize_instruction {
	buffer_id buffer;
	allocation_id destination;
	std::span<const box> boxes;
	std::size_t element_size_bytes;
	static constexpr instruction_traits traits{.category = instruction_category::work, .is_repeatable = false};
	CELERITY_KIND(initialize, buffer, destination, boxes, element_size_bytes)
};
/// Reads `sent_box` out of an allocation; announced by the pilot with the same message id. `source` lies in host memory or, for a
/// direct peer, in the memory of a device. The boxes are in buffer coordinates.
struct send_instruction {
	rank_id destination_rank;
	message_id message;
	transfer_id transfer;
	allocation_id source;
	box sent_box;
	std::size_t element_size_bytes;
	static constexpr instruction_traits traits{.category = instruction_category::transfer};
	CELERITY_KIND(send, destination_rank, message, transfer, source, sent_box, element_size_bytes)
};
/// Completes when all of `boxes` have arrived for `transfer`. The boxes are in buffer coordinates.
struct receive_instruction {
	transfer_id transfer;
	std::span<const box> boxes;
	allocation_id destination;
	std::size_t element_size_bytes;
	static constexpr instruction_traits traits{.category = instruction_category::transfer};
	CELERITY_KIND(receive, transfer, boxes, destination, element_size_bytes)
};
/// Starts a receive whose parts are awaited one by one; completes at once.
struct split_receive_instruction {
	transfer_id transfer;
	std::span<const box> boxes;
	allocation_id destination;
	std::size_t element_size_bytes;
	static constexpr instruction_traits traits{.category = instruction_category::transfer, .completes_at_issue = true};
	CELERITY_KIND(split_receive, transfer, boxes, destination, element_size_bytes)
};
/// Completes when all of `boxes` of an earlier split receive into `destination` have arrived.
struct await_receive_instruction {
	transfer_id transfer;
	allocation_id destination;
	std::span<const box> boxes;
	static constexpr instruction_traits traits{.category = instruction_category::transfer};
	CELERITY_KIND(await_receive, transfer, destination, boxes)
};
/// Collects one partial result per contributing rank. The i-th entry of `sources` lands in slot `slots[i]`; this rank's own slot is not listed.
struct receive_partials_instruction {
	transfer_id transfer;
	allocation_id destination;
	std::size_t bytes_per_slot;
	std::span<const rank_id> sources;
	std::span<const std::uint32_t> slots;
	static constexpr instruction_traits traits{.category = instruction_category::transfer};
	CELERITY_KIND(receive_partials, transfer, destination, bytes_per_slot, sources, slots)
};
/// Reduces `count` arrays of `num_elements`, which lie one behind the other in `source`, into one array, in order: element by element, or by calls of the
/// application. Source and destination lie in the same memory. If that is the memory of a device, this device reduces; otherwise the host does.
struct reduce_instruction {
	reduction_id reduction;
	buffer_id buffer;
	reduction_op op;
	scalar_type type;
	allocation_id source;
	std::size_t count;
	std::size_t num_elements;
	allocation_id destination;
	bool is_all_of_it; ///< there are no further partial results, and the current value of the buffer is not included
	std::uint64_t callable; ///< see `task_reduction`
	static constexpr instruction_traits traits{.category = instruction_category::work, .completes_at_issue = true};
	CELERITY_KIND(reduce, reduction, buffer, op, type, source, count, num_elements, destination, is_all_of_it, callable)
};
/// Fulfils the future of `submission`: all data of the fence is in user memory.
struct fence_instruction {
	submission_id submission;
	static constexpr instruction_traits traits{.category = instruction_category::copy, .completes_at_issue = true};
	CELERITY_KIND(fence, submission)
};
struct horizon_instruction {
	task_id task;
	submission_id last_submission; ///< complete with all before it once the horizon is; their Python objects can then be dropped
	static constexpr instruction_traits traits{.category = instruction_category::order};
	CELERITY_KIND(horizon, task, last_submission)
};
struct epoch_instruction {
	task_id task;
	submission_id submission; ///< of the wait or barrier; 0 for the initial epoch
	epoch_action action;
	static constexpr instruction_traits traits{.category = instruction_category::order};
	CELERITY_KIND(epoch, task, submission, action)
};

using instruction_operation = std::variant<alloc_instruction, free_instruction, copy_instruction, gather_copy_instruction, device_kernel_instruction,
    host_task_instruction, initialize_instruction, send_instruction, receive_instruction, split_receive_instruction, await_receive_instruction,
    receive_partials_instruction, reduce_instruction, fence_instruction, horizon_instruction, epoch_instruction>;

inline constexpr std::size_t num_instruction_kinds = std::variant_size_v<instruction_operation>;
/// Index of an alternative of instruction_operation.
enum class instruction_kind : std::uint8_t {};
template <>
inline constexpr auto names_of<instruction_kind> = kind_names<instruction_operation>;
inline instruction_kind kind_of(const instruction_operation& operation) { return static_cast<instruction_kind>(operation.index()); }

/// Higher is issued first among ready instructions. The priority of the queue, in steps of `kinds_per_queue`, plus the priority of the kind.
using instruction_priority = std::uint32_t;
inline constexpr instruction_priority kinds_per_queue = 32;
constexpr queue_priority queue_priority_of(const instruction_priority priority) { return priority / kinds_per_queue; }
constexpr instruction_priority priority_of_queue(const queue_priority priority) { return priority * kinds_per_queue; }

struct instruction {
	instruction_id id;
	instruction_key key;
	instruction_priority priority;
	std::span<const instruction_id> dependencies; ///< distinct, all smaller than `id`; those below the applied epoch are left out
	instruction_operation operation;
	CELERITY_FIELDS(id, key, priority, dependencies, operation)
};

/// What recurs in a plain loop. Batches of it are equal apart from ids and from the scalars of kernels.
struct loop_stretch_identity {
	/// Set by the executor: devices do not carry out the batches as graphs. The scheduler need not collect them.
	mutable std::atomic<bool> is_refused{false};
};

/// One hand-over from the scheduler to the executor. Instructions are in topological order, also across batches.
struct instruction_batch {
	std::vector<const instruction*> instructions;
	/// The identity of a template, if the instructions are whole periods of it. Instruction i of each period is then the same operation on the same
	/// allocations, under other ids, which are consecutive in the batch. Null: an ordinary batch.
	std::shared_ptr<const void> replayed = nullptr;
	std::uint32_t num_periods = 0;
	/// The same identity, if it is of a plain loop; null: of a replay, in which scalars are the same, too.
	const loop_stretch_identity* loop = nullptr;
	bool empty() const { return instructions.empty(); }
};

/// The abilities of memories, devices and other ranks. All ranks agree on them at their start.
struct system_capabilities {
	static constexpr std::uint8_t worst_link = 255;

	std::size_t num_ranks = 1;
	rank_id local_rank;
	std::size_t num_devices = 1; ///< of this rank
	bool device_peers = true;      ///< one copy instruction moves data from device to device
	bool user_device_peers = true; ///< ... between user memory and devices
	/// By source and destination device, row by row: 0 for the best links, more for worse ones. Empty: all memories of this rank are equally far apart.
	std::vector<std::uint8_t> link_grades;
	/// By rank: whether data moves directly between the memories of the devices of that rank and this one. Otherwise it passes through host memory of both.
	std::vector<bool> direct_ranks;
	/// Messages leave and arrive in the memories of devices, too, as those of CPU devices. Otherwise in host memory only.
	bool messages_reach_devices = false;
	/// The part of each memory that may be allocated for growth that is only expected.
	std::size_t foreseeable_bytes = 0;
	/// Data of several producers that one copy or message can take: up to this size it leaves together, beyond it leaves producer by producer.
	std::size_t joined_bytes = 0;
	/// Data that a device lacks of several others: up to this size it arrives by one gather, beyond it by one copy from each of them.
	std::size_t gathered_bytes = 0;
	/// Horizons that the program is ahead of the execution, unless some work takes long. Matters once there are queues of several priorities.
	std::size_t most_horizons_ahead = 34;

	std::size_t num_memories() const { return first_device_memory_value + num_devices; }
	/// Whether one copy instruction can move data from one memory to the other.
	bool can_copy(const memory_id from, const memory_id to) const {
		if(is_device_memory(from) && is_device_memory(to)) return device_peers || from == to;
		if(from != user_memory && to != user_memory) return true;
		return user_device_peers || (!is_device_memory(from) && !is_device_memory(to));
	}
	/// Less for a better link. Links between devices are better than those to the host.
	unsigned distance(const memory_id from, const memory_id to) const {
		if(link_grades.empty()) return 0;
		if(!is_device_memory(from) || !is_device_memory(to)) return worst_link + 1U;
		return link_grades[device_of(from).value * num_devices + device_of(to).value];
	}
	/// The memory where partial results of one rank meet; `first` is that of the first chunk. The application reduces in host memory.
	memory_id memory_to_reduce_in(const task_reduction& reduction, const memory_id first) const {
		return device_peers && reduction.op != reduction_op::callable ? first : host_memory;
	}
	bool is_direct(const rank_id rank) const { return rank != local_rank && rank.value < direct_ranks.size() && direct_ranks[rank.value]; }
	bool has_direct_peer() const {
		for(std::uint32_t rank = 0; rank < direct_ranks.size(); ++rank) {
			if(is_direct(rank_id(rank))) return true;
		}
		return false;
	}
	/// Data of other ranks arrives in the memories that read it. Otherwise all of it arrives in host memory.
	bool receives_where_read() const { return messages_reach_devices || has_direct_peer(); }
};

} // namespace celerity
