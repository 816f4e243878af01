// SPDX-License-Identifier: MIT
// All sends and receives of this rank: those that are direct, and those that are messages.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "message_requests.hpp"
#include "devices/backend.hpp"
#include "direct_context.hpp"
#include "direct_receiver.hpp"
#include "direct_sender.hpp"
#include "events/executor_events.hpp"
#include "events/executor_statistics.hpp"
#include "memory/allocation_table.hpp"
#include "scheduler/core/graphs/program_log.hpp"
#include "threads/event_count.hpp"
#include "scheduler/core/vocabulary/trace_recorder.hpp"

namespace celerity {

/// Belongs to the executor thread.
class rank_transfers {
  public:
	/// `program` may be null: then there is nobody to compare with.
	rank_transfers(rank_id own, backend& devices, const allocation_table& allocations, executor_statistics& statistics, network_link& network,
	    program_log* program, trace_recorder* trace, std::size_t least_direct_bytes = 0);

	direct_context& direct() { return m_direct; }
	const direct_context& direct() const { return m_direct; }
	direct_sender& sender() { return m_sender; }
	direct_receiver& receiver() { return m_receiver; }
	const direct_receiver& receiver() const { return m_receiver; }
	message_requests& messages() { return m_messages; }
	receive_arbiter& arbiter() { return m_messages.arbiter(); }

	/// Announces a send to the other rank, or expects the messages of a receive.
	void begin(const instruction& item, std::uint64_t stamp);
	void take_pilot(rank_id from, const pilot_message& pilot);
	/// A send that is not direct. Appends it if it is complete.
	void send(instruction_id id, const send_instruction& send, std::vector<instruction_id>& completed);
	/// Looks at what direct peers have written, and appends the instructions that are complete. Whether there was anything.
	bool poll(std::vector<instruction_id>& completed);
	/// The send or receive is complete.
	void retire(const instruction& item);

	/// Without a port: the pilots have been handed over.
	void note_pilots_sent() { m_has_unsent_pilots = false; }
	/// A peer cannot answer a send before it has its pilot.
	bool has_unsent_pilots() const { return m_has_unsent_pilots || m_sender.has_unsent_pilots(); }
	/// Whether only a look tells what peers do next.
	bool must_look_for_peers() const {
		return m_direct.has_peers() && !m_direct.lanes->signals_flags() && (m_sender.num_unanswered() > 0 || m_messages.is_outstanding());
	}
	/// Whether poll() would find something.
	bool has_news() const { return m_sender.has_news() || m_receiver.has_news(); }
	/// When poll() has to be called to announce small messages.
	event_count::clock::time_point next_announcement() const { return m_unannounced.empty() ? event_count::clock::time_point::max() : m_announce_at; }
	bool is_outstanding() const;
	std::optional<transfer_status> find_status(instruction_id id) const;

  private:
	direct_context m_direct;
	direct_sender m_sender;
	direct_receiver m_receiver;
	message_requests m_messages;
	network_link& m_network;
	program_log* const m_program;
	std::map<instruction_id, const send_instruction*> m_unannounced; ///< small messages that have not left
	event_count::clock::time_point m_announce_at{};                  ///< all of those, unless one leaves before
	bool m_has_unsent_pilots = false; ///< among the events, without a port

	/// Sends a pilot, or leaves that to the direct sender or to send().
	void announce(const instruction& item, const send_instruction& send, std::uint64_t stamp);
	/// Sends pilots ahead of small messages whose data is long in coming.
	void announce_late();
	void delay_announcements();
	pilot_message pilot_of(const send_instruction& send) const;
	std::uint64_t program_digest_at(task_id consumer) const;
};

} // namespace celerity
