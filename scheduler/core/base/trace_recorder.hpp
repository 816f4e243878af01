// SPDX-License-Identifier: MIT
// What happened when, for the timeline. Both cores write to it, from any thread, and none waits for another: a ring in which the newest events replace the
// oldest. Without a recorder all this costs is a test of a null pointer.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "names.hpp"

namespace celerity {

enum class trace_kind : std::uint8_t {
	issue,       ///< the executor put an instruction on a lane, gave it to a thread, or carried it out itself
	lane,        ///< a lane was at one of its positions; `issue` with the same lane and sequence tells with what
	call,        ///< a thread was in a function of the user, whose `issue` has the same instruction
	send,        ///< from the request until the memory may be reused
	receive,     ///< from the request until the data is there
	barrier,     ///< likewise
	work,        ///< the executor was at work
	python,      ///< the executor thread carried out in Python what it was asked for
	plan,        ///< the scheduler worked on one input
	application, ///< the application was in a call of the runtime
};
template <>
inline constexpr std::array<const char*, 10> names_of<trace_kind>{
    "issue", "lane", "call", "send", "receive", "barrier", "work", "python", "plan", "application"};

enum class plan_input : std::uint8_t { task, buffer, buffer_end, progress, flush };
template <>
inline constexpr std::array<const char*, 5> names_of<plan_input>{"task", "buffer", "end of buffer", "progress", "flush"};
enum class application_call : std::uint8_t { submit, blocked, wait };
template <>
inline constexpr std::array<const char*, 3> names_of<application_call>{"submit", "blocked", "wait"};

/// Ids are 0 where they do not apply.
struct trace_event {
	std::int64_t start_ns = 0; ///< of the steady clock
	std::int64_t end_ns = 0;
	std::uint64_t instruction = 0;
	std::uint64_t submission = 0;
	std::uint64_t buffer = 0;
	std::uint64_t bytes = 0;
	/// issue, lane: position on the lane. send, receive: message. work: instructions issued. plan: instructions generated.
	std::uint64_t sequence = 0;
	std::uint32_t track = 0; ///< issue, lane: the lane. call: the device.
	std::uint32_t peer = 0;  ///< rank
	trace_kind kind = trace_kind::issue;
	/// issue, call: index of the operation. plan: plan_input. application: application_call.
	std::uint8_t operation = 0;
	std::uint8_t reason = 0; ///< issue of a copy: copy_reason
};
static_assert(std::is_trivially_copyable_v<trace_event>);

/// Of the steady clock, which the processes of a host share.
inline std::int64_t trace_now() {
	return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class trace_recorder {
  public:
	/// Keeps at least the latest `min_capacity` events.
	explicit trace_recorder(std::size_t min_capacity);
	trace_recorder(const trace_recorder&) = delete;
	trace_recorder& operator=(const trace_recorder&) = delete;

	std::size_t capacity() const { return m_mask + 1; }
	/// Any thread; never blocks.
	void record(const trace_event& event);
	/// What is there now, by start; of two that start together the longer one first. Any thread.
	std::vector<trace_event> events() const;
	/// Replaced by newer ones, or dropped because another thread was writing at the same place.
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
