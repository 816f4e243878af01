// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <variant>
#include <vector>

#include "direct_receiver.hpp"
#include "events/executor_events.hpp"
#include "events/executor_statistics.hpp"
#include "memory/allocation_table.hpp"
#include "network/network_link.hpp"
#include "receive_arbiter.hpp"
#include "scheduler/core/vocabulary/trace_recorder.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"

namespace celerity {

/// Turns sends, receives and barriers into requests to the outside, and completed requests into completed instructions.
class message_requests {
  public:
	/// `direct` takes the parts of direct receives.
	message_requests(const allocation_table& allocations, executor_statistics& statistics, direct_receiver& direct, network_link& network,
	    trace_recorder* const trace)
	    : m_allocations(allocations), m_statistics(statistics), m_direct(direct), m_network(network), m_trace(trace) {}

	void send(instruction_id instruction, const send_instruction& send);
	/// Together with its pilot. Whether it is complete; otherwise a request is outstanding, as with send().
	bool send_small(instruction_id instruction, const send_instruction& send, const pilot_message& pilot);
	void barrier(instruction_id instruction);
	receive_arbiter& arbiter() { return m_arbiter; }
	const receive_arbiter& arbiter() const { return m_arbiter; }

	/// Emits the receives that the arbiter wants posted, and appends the instructions that are complete.
	void flush(std::vector<instruction_id>& completed);
	/// Appends the instructions that this completes. Throws std::logic_error for a request that is not outstanding.
	void complete(request_id request, std::vector<instruction_id>& completed);

	bool is_outstanding() const { return !m_requests.empty() || m_arbiter.num_open() > 0; }

  private:
	const allocation_table& m_allocations;
	executor_statistics& m_statistics;
	direct_receiver& m_direct;
	network_link& m_network;
	/// A send or barrier, one posted part, or a message of which several may be parts.
	using request_subject = std::variant<instruction_id, fragment_id, direct_receiver::message_key>;

	trace_recorder* const m_trace;
	std::unordered_map<request_id, trace_event> m_traced; ///< not complete
	receive_arbiter m_arbiter;
	std::unordered_map<request_id, request_subject> m_requests;
	std::uint64_t m_last_request = 0;
	std::vector<posted_receive> m_posts;
	std::vector<instruction_id> m_completed;

	void post(const posted_receive& post);
	void post_part(const posted_receive& post);
	traced_send count(instruction_id instruction, const send_instruction& send);
	payload payload_of(request_id request, const send_instruction& send) const;
	/// Throws std::logic_error if it is not outstanding.
	request_subject finish(request_id request);
	request_id add_request(const request_subject& subject, const traced_action& traced);
	static traced_receive describe(const posted_receive& post, const box& received);
};

} // namespace celerity
