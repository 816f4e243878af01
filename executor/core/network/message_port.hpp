// SPDX-License-Identifier: MIT
// The interface of the executor to a network: pilots and payloads for the native loop, notices and the end of a run for Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "events/executor_events.hpp"
#include "scheduler/core/base/ids.hpp"

namespace celerity {

/// The library of the network has returned an error.
class network_failure : public std::runtime_error {
  public:
	using std::runtime_error::runtime_error;
};

/// Largest pilot and largest notice. MPI implementations send messages of these sizes without a handshake.
inline constexpr std::size_t pilot_limit_bytes = 316;
inline constexpr std::size_t notice_limit_bytes = 4092;
/// Largest payload that travels together with its pilot: a row of a thousand numbers. Each rank keeps memory for a few of them from every other rank.
inline constexpr std::size_t small_limit_bytes = 4096;

using frame_content = std::vector<std::byte>;

/// A control message about the run itself. Its content is for Python.
struct arrived_notice {
	std::uint8_t kind = 0; ///< not 255, and not 0
	rank_id source;
	frame_content content;
};

/// For the executor's loop.
struct arrived_messages {
	std::vector<std::pair<rank_id, frame_content>> pilots; ///< those of one source in the order in which it sent them
	std::vector<request_id> completed;
	bool is_empty() const { return pilots.empty() && completed.empty(); }
};

/// For Python.
struct arrived_control {
	std::vector<arrived_notice> notices; ///< those of one source in the order in which it sent them
	std::vector<std::int64_t> settled;   ///< see message_port::settle()
	bool is_empty() const { return notices.empty() && settled.empty(); }
};

/// Transport between the ranks of a run. One thread at a time; nothing blocks. Every function may throw network_failure.
class message_port {
  public:
	explicit message_port(const std::size_t largest_small_bytes) : m_largest_small_bytes(largest_small_bytes) {}
	message_port(const message_port&) = delete;
	message_port& operator=(const message_port&) = delete;
	virtual ~message_port() = default;

	/// Pilots between two ranks arrive in order; completion is not reported. They may wait until the receiver has room. Throws std::length_error beyond
	/// `pilot_limit_bytes`.
	virtual void send_pilot(rank_id to, std::span<const std::byte> pilot) = 0;
	/// Notices between two ranks arrive in order, but overtake pilots, and never wait. Throws std::length_error beyond `notice_limit_bytes`.
	virtual void send_notice(rank_id to, std::uint8_t kind, std::span<const std::byte> content) = 0;
	/// Of a message that travels together with its pilot.
	std::size_t largest_small_bytes() const { return m_largest_small_bytes; }
	/// Sends a pilot and its small message, both of which are copied, so that no request completes. The pilot may overtake others.
	/// False if the receiver has no room now: then nothing has been sent.
	virtual bool send_small(std::span<const std::byte> pilot, const payload& sent) = 0;
	/// Starts to send a box in place. It must not be written until its request completes.
	virtual void send(const payload& sent) = 0;
	/// Starts to receive a box in place, or takes it if it has come with its pilot. It must be neither read nor written until its request completes.
	virtual void receive(const payload& received) = 0;
	/// Enters a barrier, in the same order on all ranks. The request completes when every rank has entered.
	virtual void barrier(request_id request) = 0;
	/// Enters a barrier that completes when all pilots and notices sent before, by any rank, have arrived. Send no pilots afterwards.
	virtual void settle(std::int64_t number) = 0;

	/// Lets the transport progress, and keeps what arrives.
	virtual void poll() = 0;
	/// What poll() has found, each thing once.
	arrived_messages take_messages() { return std::exchange(m_messages, {}); }
	arrived_control take_control() { return std::exchange(m_control, {}); }
	bool has_messages() const { return !m_messages.is_empty(); }
	bool has_control() const { return !m_control.is_empty(); }
	/// Operations that have not completed, pilots that wait, and an end of the run under way: they progress only while poll() is called.
	virtual std::size_t outstanding() const = 0;

	/// By rank, its payloads to here without the receives from it, after settle(). Only where they differ.
	virtual std::vector<std::pair<std::uint32_t, std::int64_t>> unasked_payloads() const = 0;
	/// Gives all operations back. Returns whether no message may still be on its way here.
	virtual bool close() = 0;

  protected:
	arrived_messages m_messages;
	arrived_control m_control;

  private:
	const std::size_t m_largest_small_bytes;
};

} // namespace celerity
