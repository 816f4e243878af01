// SPDX-License-Identifier: MIT
// Tasks and buffers, as the application submits them: the input of planning.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.hpp"
#include "base/ids.hpp"
#include "base/names.hpp"
#include "geometry/grid.hpp"
#include "geometry/range_mapper.hpp"
#include "geometry/split.hpp"

namespace celerity {

/// `write` discards: the kernel overwrites all of the mapped region, old contents are neither transferred nor kept.
enum class access_mode : std::uint8_t { read, write, read_write };
template <>
inline constexpr std::array<const char*, 3> names_of<access_mode>{"read", "write", "read_write"};
constexpr bool is_consumer(const access_mode mode) { return mode != access_mode::write; }
constexpr bool is_producer(const access_mode mode) { return mode != access_mode::read; }

enum class task_kind : std::uint8_t {
	epoch,         ///< waits for everything before it; applied at once
	horizon,       ///< bounds the history that the graphs keep; made by the task graph itself, applied one late
	device_kernel, ///< split over ranks, their devices, and oversubscribed parts
	host_task,     ///< split over ranks (`host_distribution::split`) or run by rank 0 only
	fence,         ///< gives a copy of a part of a buffer, or a host object, to the application
};
template <>
inline constexpr std::array<const char*, 5> names_of<task_kind>{"epoch", "horizon", "device_kernel", "host_task", "fence"};
enum class epoch_action : std::uint8_t { none, init, barrier, shutdown };
template <>
inline constexpr std::array<const char*, 4> names_of<epoch_action>{"none", "init", "barrier", "shutdown"};
enum class host_distribution : std::uint8_t { once, master, split };
template <>
inline constexpr std::array<const char*, 3> names_of<host_distribution>{"once", "master", "split"};
/// Of these, `rows` alone is no hint: across dimension 0, and across others where dimension 0 is too short.
enum class split_kind : std::uint8_t { rows, split_1d, split_2d, split_3d, split_auto, weights, cyclic };
template <>
inline constexpr std::array<const char*, 7> names_of<split_kind>{"rows", "split_1d", "split_2d", "split_3d", "split_auto", "weights", "cyclic"};

/// Element types of reductions. Native code reduces all but `other`.
enum class scalar_type : std::uint8_t { int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64, complex64, complex128, boolean, other };
/// As NumPy calls them.
template <>
inline constexpr std::array<const char*, 14> names_of<scalar_type>{
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "complex64", "complex128", "bool", "other"};
/// The application reduces the partial results of `callable`, by a call on a host-task thread.
enum class reduction_op : std::uint8_t { sum, prod, min, max, logical_and, logical_or, bitwise_xor, callable };
template <>
inline constexpr std::array<const char*, 8> names_of<reduction_op>{"sum", "prod", "min", "max", "and", "or", "xor", "callable"};

/// Of a queue. Work of a queue with a higher priority goes first.
using queue_priority = std::uint32_t;
inline constexpr queue_priority max_queue_priority = 4;
/// Bit q: there is a queue of priority q.
using queue_set = std::uint32_t;
constexpr queue_set queue_set_of(const queue_priority queue) { return queue_set{1} << queue; }
constexpr bool are_several(const queue_set queues) { return (queues & (queues - 1)) != 0; }

struct task_geometry {
	int dims = 0;
	box global = box::full(point{{1, 1, 1}}); ///< the whole index space, with its offset
	point granularity{{1, 1, 1}};             ///< chunk extents are multiples of this
	split_kind split = split_kind::rows;
	std::uint32_t oversubscription = 1; ///< parts per device
	std::uint32_t border = 0;           ///< items next to another device's share that run as parts of their own, and first; 0: none
	bool can_split = true;              ///< false: one chunk, on rank 0
	cut_costs costs = cut_rows;         ///< of `rows` that are too few, and of `split_auto`; see choose_cuts()
	coordinate block = 0;               ///< of a cyclic split: items of dimension 0 per block
	std::vector<double> weights;        ///< of a weighted split: one per rank, or one per device of all ranks
	std::uint32_t recompute = 0;        ///< steps from one exchange of halos to the next, if the program asks for it; else 0
	/// By how many items each share grows at its sides to other shares. A replicated execution: it computes the borders of other shares as well.
	point reach{};

	bool is_replicated() const { return reach != point{}; }

	friend bool operator==(const task_geometry&, const task_geometry&) = default;
};

struct buffer_access {
	buffer_id buffer;
	access_mode mode = access_mode::read;
	range_mapper mapper;
};

struct task_reduction {
	buffer_id buffer; ///< all of it
	reduction_op op = reduction_op::sum;
	scalar_type type = scalar_type::float32;
	bool include_current = false;
	reduction_id id; ///< assigned by the task graph, in program order
	std::uint64_t callable = 0;      ///< of the operation `callable`: its number in this process
	std::string callable_name;       ///< and what the program calls it
	std::uint64_t callable_digest = 0; ///< of its code; the same on all ranks
	CELERITY_FIELDS(buffer, op, type, include_current, id, callable, callable_name, callable_digest)
};

/// Does not change once the task graph has numbered it and its reductions. The three graphs share it.
struct task {
	submission_id submission;
	task_id id; ///< assigned by the task graph
	task_kind kind = task_kind::device_kernel;
	task_geometry geometry;
	std::vector<buffer_access> accesses;
	std::vector<task_reduction> reductions;
	epoch_action action = epoch_action::none;
	host_distribution distribution = host_distribution::split;
	queue_priority priority = 0; ///< of the queue that has submitted it
	/// Host task or fence: it comes after all earlier ones with one of these objects, as if they shared a buffer. Distinct, ascending.
	std::vector<host_object_id> side_effects;
	bool fence_on_all_ranks = true; ///< fence: false = rank 0 only
	box fence_box;                  ///< fence: the box of accesses[0].buffer that is copied to the application; empty without an access
	/// Fence: the registered array of the user that receives the box, row-major; null on ranks left out. All ranks name the same memory: user memory, or that of
	/// the first device.
	allocation_id fence_destination;
	std::string name;
	std::string group; ///< of a collective host task, as the program names it; empty for others
	std::uint64_t code_digest = 0; ///< of the kernel's or host task's code; the same on all ranks
	std::uint64_t values_digest = 0; ///< of its plain arguments, if they are to be compared
	std::uint64_t site = 0; ///< the line of the program that has submitted it, in the numbering of the caller
};

/// A buffer, as the graphs know it.
struct buffer_info {
	buffer_id id;
	int dims = 0;
	point extents{{1, 1, 1}};
	std::size_t element_size_bytes = 0;
	std::size_t element_alignment_bytes = 1;
	/// Where the initial contents come from, if anywhere.
	enum class initial_contents : std::uint8_t { none, user_array, user_function, local_arrays } initial = initial_contents::none;
	/// A registered array of the user that holds a box of the buffer, row-major.
	struct user_array {
		box where;
		allocation_id allocation;
	};
	/// Of this rank, disjoint. initial_contents::user_array: one, with the full buffer.
	std::vector<user_array> arrays;
	/// local_arrays: by rank, the elements that only the arrays of this rank hold; disjoint. The rest of the buffer has no contents.
	std::vector<region> held_by_ranks;
	std::string name;
	std::string type_name; ///< of an element, for comparisons between ranks
	std::uint64_t contents_digest = 0; ///< of the initial contents, if they are to be compared
	std::uint64_t site = 0; ///< as `task::site`
};
template <>
inline constexpr std::array<const char*, 4> names_of<buffer_info::initial_contents>{"none", "array", "function", "local"};

} // namespace celerity
