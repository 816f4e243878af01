// SPDX-License-Identifier: MIT
// Events for the timeline. Any thread of both cores records them, and none waits for another: they lie in a ring, in which the newest events replace the
// oldest. Without a recorder, an event costs the test of a null pointer.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/clock.hpp"
#include "base/fields.hpp"
#include "base/ids.hpp"
#include "instruction.hpp"
#include "base/names.hpp"

namespace celerity {

enum class plan_input : std::uint8_t { task, replay, buffer, buffer_end, progress, flush, queue };
template <>
inline constexpr std::array<const char*, 7> names_of<plan_input>{"task", "replay", "buffer", "end of buffer", "progress", "flush", "queue"};
enum class application_call : std::uint8_t { submit, map, blocked, wait };
template <>
inline constexpr std::array<const char*, 4> names_of<application_call>{"submit", "map", "blocked", "wait"};

// The kinds of events. Ids are 0 where they do not apply.

/// Some of the instructions on which an instruction depends.
struct traced_dependencies {
	std::array<instruction_id, 8> ids{};
	std::uint8_t count = 0;
	const instruction_id* begin() const { return ids.data(); }
	const instruction_id* end() const { return ids.data() + count; }
};
/// The executor received an instruction from the scheduler. An instruction with many dependencies has several of these events.
struct traced_handover {
	instruction_id instruction;
	traced_dependencies dependencies;
	CELERITY_KIND(handover, instruction, dependencies)
};
/// The executor put an instruction on a lane, gave it to a thread, or carried it out itself.
struct traced_issue {
	instruction_id instruction;
	instruction_kind operation{};
	std::optional<copy_reason> reason;    ///< of a copy
	std::optional<memory_id> source;      ///< of a copy with a single source
	std::optional<memory_id> destination; ///< of a copy
	submission_id submission;
	buffer_id buffer;
	std::uint64_t size_bytes = 0; ///< of a task: read and written, once per access; 0 if that is not known
	std::optional<rank_id> peer; ///< of a send
	std::optional<std::uint32_t> lane;
	std::uint64_t position = 0; ///< on the lane
	allocation_id allocation{}; ///< that the instruction makes or frees; none if it gives an array back to the user
	queue_priority priority = 0; ///< of the queue
	CELERITY_KIND(issue, instruction, operation, reason, source, destination, submission, buffer, size_bytes, peer, lane, position, allocation, priority)
};
/// A lane worked on one of its positions. The traced_issue with the same lane and position names the instruction.
struct traced_lane {
	std::uint32_t lane = 0;
	std::uint64_t position = 0;
	CELERITY_KIND(lane, lane, position)
};
/// A thread was in a function of the user.
struct traced_call {
	instruction_id instruction;
	std::optional<device_id> device; ///< none: a host-task thread
	CELERITY_KIND(call, instruction, device)
};
/// Of a send from the request until the memory may be reused, of a receive from the request until the data has arrived.
template <bool IsSend>
struct traced_message {
	static constexpr const char* kind_name = IsSend ? "send" : "receive";
	instruction_id instruction;
	buffer_id buffer;
	std::uint64_t size_bytes = 0;
	message_id message;
	rank_id peer;
	CELERITY_FIELDS(instruction, buffer, size_bytes, message, peer)
};
using traced_send = traced_message<true>;
using traced_receive = traced_message<false>;
struct traced_barrier {
	instruction_id instruction;
	CELERITY_KIND(barrier, instruction)
};
/// The executor thread was at work.
struct traced_work {
	std::uint64_t instructions_issued = 0;
	CELERITY_KIND(work, instructions_issued)
};
/// The executor thread carried out requests in Python.
struct traced_python {
	CELERITY_KIND(python)
};
/// The scheduler worked on one input.
struct traced_plan {
	plan_input input{};
	submission_id submission;
	std::uint64_t instructions_generated = 0;
	CELERITY_KIND(plan, input, submission, instructions_generated)
};
/// The application was in a call of the runtime, or, during a submit, in Python functions that map chunks.
struct traced_application {
	application_call call{};
	submission_id submission;
	CELERITY_KIND(application, call, submission)
};

using traced_action = std::variant<traced_handover, traced_issue, traced_lane, traced_call, traced_send, traced_receive, traced_barrier, traced_work,
    traced_python, traced_plan, traced_application>;

struct trace_event {
	std::int64_t start_ns = 0; ///< by now_ns()
	std::int64_t end_ns = 0;
	traced_action action;
};
static_assert(std::is_trivially_copyable_v<trace_event>);

class trace_recorder {
  public:
	/// Keeps at least the latest `min_capacity` events.
	explicit trace_recorder(std::size_t min_capacity);
	trace_recorder(const trace_recorder&) = delete;
	trace_recorder& operator=(const trace_recorder&) = delete;

	std::size_t capacity() const { return m_mask + 1; }
	/// Any thread; never blocks.
	void record(const trace_event& event);
	/// The events in the ring, sorted by start. Of two that start together, the longer one comes first. Any thread.
	std::vector<trace_event> events() const;
	/// The number of events that newer ones have replaced, or that were dropped because another thread was writing at the same place.
	std::uint64_t num_lost() const;

  private:
	/// `ticket` is 0 while nothing is there, the number of the event in it (from 1), or `busy`.
	struct slot {
		std::atomic<std::uint64_t> ticket{0};
		trace_event event;
	};
	static constexpr std::uint64_t busy = ~std::uint64_t{0};

	std::size_t m_mask;
	std::unique_ptr<slot[]> m_slots;
	alignas(64) std::atomic<std::uint64_t> m_num_recorded{0};
	std::atomic<std::uint64_t> m_num_dropped{0};
};

} // namespace celerity
