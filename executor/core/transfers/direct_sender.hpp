// SPDX-License-Identifier: MIT
// Offers data to the other ranks of the host. A send announces in its pilot where its data will be, and which flags tell of it, as soon as the allocation
// exists. The engine holds it until then. Its lane writes `ready` when the data is there. It is complete when the peer has written the answer.
// A stream takes more than a microsecond to write a flag. Messages behind the same instructions therefore share one `ready` flag.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "direct_context.hpp"
#include "engine/out_of_order_engine.hpp"
#include "events/pilot_message.hpp"

namespace celerity {

class direct_sender {
  public:
	explicit direct_sender(direct_context& shared) : m_shared(shared) {}

	/// Announces the send now or, if its source does not exist yet or too many are under way, later. The instruction outlives its completion.
	void add(const instruction& item, const send_instruction& send, std::uint64_t stamp, std::uint64_t program_digest);
	void notify_allocated(allocation_id allocation);
	void signal(const issue& item, const lane_waits& waits);
	/// Of an announced send that a graph carries out: the flag that it raises, and the flag for which it waits in the end. Both are of this launch.
	struct graph_flags {
		graph_flag ready;
		graph_flag answer;
		std::optional<graph_put> put; ///< without flag number; its form does not depend on the launch
	};
	graph_flags begin_in_graph(instruction_id id);
	/// No flag if the answer has come.
	shared_flag answer_to(instruction_id send) const;
	/// Appends the sends that were answered since the last call.
	void poll(std::vector<instruction_id>& answered);
	/// The send is complete; nothing if it was never added.
	void retire(instruction_id id);
	/// Sends that were issued and not answered.
	std::size_t num_unanswered() const { return m_unanswered.size(); }
	/// Whether poll() would find something.
	bool has_news() const;

	/// Tries again to send the pilots that found no room.
	void send_pilots();
	bool has_unsent_pilots() const { return m_num_unsent_pilots > 0; }

	std::optional<transfer_status> find_status(instruction_id id) const;

  private:
	struct outgoing {
		enum class state_type : std::uint8_t { unallocated, without_slot, announced, issued, answered };

		const instruction* item = nullptr;
		const send_instruction* send = nullptr;
		std::uint64_t stamp = 0;
		std::uint64_t program_digest = 0; ///< for the pilot
		state_type state = state_type::unallocated;
		std::uint32_t ready_index = 0;
		std::uint32_t slot = 0;
		std::uint64_t answer_value = 0;
		shared_flag answer{};
		std::uint32_t put_number = 0; ///< its number among the messages that graphs may put into inboxes of the peer; 0: not this one
		std::int64_t issued_ns = 0; ///< with a timeline
	};
	/// One of this rank's `ready` flags, and the messages of which it tells: those that depend on the same instructions are ready at the same time.
	struct ready_flag {
		std::uint32_t value = 0;
		std::uint32_t num_messages = 0; ///< announced, and not answered
		bool is_issued = false;
	};
	/// A flag that was given away lately, and that further messages may share while any has it.
	struct recent_flag {
		std::uint32_t index = 0;
		memory_id source;
		std::vector<instruction_id> dependencies;
	};
	/// The messages under way to one rank.
	struct destination {
		std::vector<std::uint64_t> answer_values; ///< by slot: its messages so far
		std::vector<std::uint32_t> free_slots;    ///< of those that were used before
		std::deque<outgoing*> waiting_for_slot;
		std::deque<pilot_message> unsent_pilots; ///< the ring was full
		std::uint32_t num_puts = 0; ///< messages that graphs may put into inboxes
	};

	direct_context& m_shared;
	std::unordered_map<instruction_id, outgoing> m_outgoing;
	std::unordered_map<allocation_id, std::vector<outgoing*>> m_waiting_for_source;
	std::vector<outgoing*> m_unanswered;
	std::unordered_map<rank_id, destination> m_destinations;
	std::vector<ready_flag> m_ready_flags; ///< by index
	std::vector<std::uint32_t> m_free_ready_flags;
	std::vector<recent_flag> m_recent_flags; ///< the oldest first; if there are max_recent_flags, a new one replaces the oldest
	std::size_t m_num_unsent_pilots = 0;

	void announce(outgoing& out);
	static std::optional<std::uint32_t> take_slot(destination& to);
	pilot_message make_pilot(const outgoing& out) const;
	std::uint32_t take_ready_flag(const outgoing& out);
	/// That of an announced message.
	shared_flag ready_flag_of(const outgoing& out) const { return {m_shared.own_flags.ready_flag(out.ready_index), m_ready_flags[out.ready_index].value}; }
	void leave_ready_flag(std::uint32_t index);
};

} // namespace celerity
