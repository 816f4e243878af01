// SPDX-License-Identifier: MIT
// The output of the executor: requests to communicate, notices, and calls of user functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "pilot_message.hpp"
#include "scheduler/core/base/fields.hpp"
#include "scheduler/core/base/ids.hpp"
#include "scheduler/core/base/names.hpp"
#include "scheduler/core/geometry/grid.hpp"
#include "scheduler/core/vocabulary/task.hpp"

namespace celerity {

/// One send, receive or barrier that the outside carries out and then reports as complete; counts from 1.
using request_id = strong_id<struct request_id_tag, std::uint64_t>;
using extents3 = std::array<std::size_t, 3>;

/// A box that is sent out of, or received into, a dense row-major array in host memory. Units are elements.
struct payload {
	request_id request; ///< reported as complete when the memory may be reused
	rank_id peer_rank;  ///< destination or source
	message_id message; ///< unique among the messages under way from that source to that destination; announced by a pilot
	void* address = nullptr; ///< of the array's first element
	extents3 allocated_shape{};
	extents3 offset{}; ///< of the box in the array
	extents3 extent{}; ///< of the box; the same on both sides, all else may differ; a zero makes an empty message
	std::size_t element_size_bytes = 0;
	CELERITY_FIELDS(request, peer_rank, message, address, allocated_shape, offset, extent, element_size_bytes)
};

struct pilot_event {
	rank_id to;
	pilot_message pilot;
	CELERITY_KIND(pilot, to, pilot)
};
struct send_event {
	payload message;
	CELERITY_KIND(send, message)
};
struct receive_event {
	payload message;
	CELERITY_KIND(receive, message)
};
struct barrier_event {
	request_id request;
	CELERITY_KIND(barrier, request)
};
/// A fence or an epoch is complete.
struct completed_event {
	submission_id submission;
	bool is_known = false; ///< watch() has told the thread that waited for it
	CELERITY_KIND(completed, submission, is_known)
};
/// Everything submitted up to here is complete.
struct retired_event {
	submission_id last_submission;
	CELERITY_KIND(retired, last_submission)
};
/// The runtime has no more use for an array of the user.
struct user_free_event {
	std::uint64_t raw = 0;
	CELERITY_KIND(user_free, raw)
};
/// The result of `min` or `max` is the identity: no kernel seems to have combined a value.
struct empty_reduction_event {
	reduction_id reduction;
	CELERITY_KIND(empty_reduction, reduction)
};
/// The holders of the memory that an allocation lacked. Buffer 0 is staging, or space for partial results.
struct memory_holders {
	buffer_id buffer; ///< of the allocation
	std::optional<device_id> device; ///< whose memory is short; none: that of the host
	std::size_t size_bytes = 0;      ///< of the allocation
	std::size_t held_bytes = 0;      ///< by this rank
	std::vector<std::pair<buffer_id, std::size_t>> largest;
	std::size_t most_bytes = 0; ///< of the memory, that the settings allow; 0: any number
	CELERITY_FIELDS(buffer, device, size_bytes, held_bytes, largest, most_bytes)
};
/// An error that ends the run: the executor issues nothing more. Fields are 0 or empty where they do not apply.
struct executor_failure {
	enum class kind_type : std::uint8_t {
		fault,  ///< of the executor itself, or of its input
		memory, ///< an allocation failed for good
		device, ///< a device has failed; its latest operation need not be the cause
		bounds, ///< a kernel left the declared region of one of its accesses
		peer,   ///< this rank could not reach the memory of another rank
		network, ///< the library of the network has returned an error
	};
	kind_type kind = kind_type::fault;
	std::string text;        ///< in the words of the part that has failed, such as a driver
	std::string instruction; ///< the instruction that was being issued, if any
	submission_id submission;
	std::uint32_t access = 0; ///< bounds: the number of the access, the element, and the declared boxes
	point element;
	box_vector declared;
	rank_id peer;                         ///< peer: the owner of the memory
	std::vector<submission_id> in_flight; ///< device: kernels any of which may be the cause
	memory_holders shortage;              ///< memory
	CELERITY_FIELDS(kind, text, instruction, submission, access, element, declared, peer, in_flight, shortage)
};
template <>
inline constexpr std::array<const char*, 6> names_of<executor_failure::kind_type>{"fault", "memory", "device", "bounds", "peer", "network"};
struct failed_event {
	executor_failure failure;
	CELERITY_KIND(failed, failure)
};
struct shutdown_event {
	CELERITY_KIND(shutdown)
};
struct stopped_event {
	CELERITY_KIND(stopped)
};

using executor_event = std::variant<pilot_event, send_event, receive_event, barrier_event, completed_event, retired_event, user_free_event,
    empty_reduction_event, failed_event, shutdown_event, stopped_event>;

/// An access_part with its address.
struct bound_part {
	allocation_id allocation;
	void* address = nullptr;
	box allocated_box;
	box bounding_box;
	CELERITY_FIELDS(allocation, address, allocated_box, bounding_box)
};
/// An access_binding with its address, and without ties to the instruction. The boxes are in buffer coordinates.
struct bound_access {
	buffer_id buffer;
	allocation_id allocation; ///< null if the access is empty, or has parts
	void* address = nullptr;
	box allocated_box;
	box bounding_box;
	box_vector accessed;
	std::vector<bound_part> parts;
	CELERITY_FIELDS(buffer, allocation, address, allocated_box, bounding_box, accessed, parts)
};
struct bound_reduction {
	void* address = nullptr;
	reduction_op op = reduction_op::sum;
	scalar_type type = scalar_type::float32;
	CELERITY_FIELDS(address, op, type)
};

/// Handle on a call that has been handed out.
using call_ticket = std::uint64_t;

struct kernel_call {
	call_ticket ticket = 0;
	submission_id submission;
	box chunk;
	std::vector<bound_access> accesses;
	std::vector<bound_reduction> reductions;
	std::uintptr_t stream = 0; ///< of the kernel; 0 if the backend has no streams
	CELERITY_FIELDS(ticket, submission, chunk, accesses, reductions, stream)
};

struct host_task_call {
	call_ticket ticket = 0;
	submission_id submission;
	box chunk;
	std::vector<bound_access> accesses;
	CELERITY_KIND(host_task, ticket, submission, chunk, accesses)
};
struct initialize_call {
	call_ticket ticket = 0;
	buffer_id buffer;
	void* address = nullptr;
	box allocated_box;
	box_vector boxes;
	CELERITY_KIND(initialize, ticket, buffer, address, allocated_box, boxes)
};
/// Partial results of a reduction by a callable: `num_partials` of them, one behind the other at `source`, to be reduced into `destination`.
struct combine_call {
	call_ticket ticket = 0;
	buffer_id buffer;
	reduction_id reduction;
	std::uint64_t callable = 0; ///< see `task_reduction`
	void* source = nullptr;
	std::size_t num_partials = 0;
	void* destination = nullptr;
	bool is_all_of_it = false; ///< see `reduce_instruction`
	CELERITY_KIND(combine, ticket, buffer, reduction, callable, source, num_partials, destination, is_all_of_it)
};
using host_call = std::variant<host_task_call, initialize_call, combine_call>;

} // namespace celerity
