// SPDX-License-Identifier: MIT
// Transfers between the ranks of a host, without the host in between: the sender's lane writes a flag when the data is there, the receiver's lane waits for
// it, fetches the data from the sender's memory and writes another flag. This is the book-keeping on both sides; belongs to the executor thread.
//
// A send announces where its data will be and which flags tell of it, in its pilot, as soon as the allocation exists. A receive is held by the engine until
// every part of it is announced, and what comes as a message has arrived next to it; then it is one operation of a lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "engine/out_of_order_engine.hpp"
#include "events/executor_events.hpp"
#include "events/executor_statistics.hpp"
#include "flag_segment.hpp"
#include "memory/allocation_table.hpp"
#include "receive_arbiter.hpp"
#include "scheduler/core/base/trace_recorder.hpp"

namespace celerity {

/// The memory of a rank that offered it cannot be reached.
class peer_failure : public std::runtime_error {
  public:
	peer_failure(const rank_id peer, const std::string& text) : std::runtime_error(text), m_peer(peer) {}
	rank_id peer() const { return m_peer; }

  private:
	rank_id m_peer;
};

class direct_transport {
  public:
	struct message_key {
		rank_id source;
		message_id message;
		friend bool operator==(const message_key&, const message_key&) = default;
	};
	/// What the owner of a posted part has to do.
	enum class part_state : std::uint8_t {
		here,     ///< nothing: it has arrived, or the lane will fetch it
		wanted,   ///< receive the whole message, then call arrive()
		expected, ///< nothing: somebody else has asked for the message
	};

	/// `host_ranks` are the ranks that share this host, this one included; the same list on all of them. Throws std::bad_alloc.
	direct_transport(backend& backend, const allocation_table& allocations, executor_statistics& statistics, rank_id own,
	    std::vector<rank_id> host_ranks, trace_recorder* trace = nullptr);
	direct_transport(const direct_transport&) = delete;
	direct_transport& operator=(const direct_transport&) = delete;
	~direct_transport();

	// At start, in this order: every rank gives its offer to all others, opens theirs, and is told with whom both sides have succeeded.

	flag_segment::offer offer() const { return m_own_flags.make_offer(); }
	/// Throws std::runtime_error.
	void open(rank_id peer, const flag_segment::offer& offer);
	void agree(const std::vector<rank_id>& peers);

	// Sending

	bool is_direct(const send_instruction& send) const {
		return is_device_memory(send.source.memory) && send.destination_rank.value < m_neighbours.size() && m_neighbours[send.destination_rank.value].is_peer;
	}
	/// Announces the send now or, if its source does not exist yet or too many are under way, later. The engine holds it until then.
	void plan_send(const instruction& item, const send_instruction& send, std::uint64_t stamp, std::uint64_t program_digest);
	bool is_planned(const instruction_id send) const { return m_outgoing.contains(send); }
	void notify_allocated(allocation_id allocation);
	void signal(const issue& item, const send_instruction& send, const lane_waits& waits);
	/// Reached when the peer has fetched what a send has offered; none if that is known.
	shared_flag answer_to(instruction_id send) const;
	/// Appends the sends that were fetched since the last call.
	void poll(std::vector<instruction_id>& fetched);
	/// Sends that were issued and not fetched.
	std::size_t num_unfetched() const { return m_unfetched.size(); }

	// Receiving

	void plan_receive(instruction_id id, const receive_instruction& receive, std::uint64_t stamp);
	/// Calls f(source rank, pilot) for the pilots that have come.
	template <typename F>
	void take_pilots(F&& f) {
		pilot_message pilot;
		for(std::size_t rank = 0; rank < m_neighbours.size(); ++rank) {
			if(!m_neighbours[rank].is_peer) continue;
			const rank_id source(static_cast<std::uint32_t>(rank));
			auto& ring = m_own_flags.pilots(m_neighbours[rank].position);
			while(ring.pop(pilot)) {
				add_pilot(source, pilot);
				f(source, static_cast<const pilot_message&>(pilot));
			}
		}
	}
	/// Whether the instruction is a receive of this transport that is not complete.
	bool is_receiving(const instruction_id id) const { return m_receives.contains(id); }
	part_state add_part(const posted_receive& post);
	/// Where the message of a wanted part is to be put.
	payload_location prepare_bounce(const posted_receive& post);
	/// The parts that this completes.
	std::vector<fragment_id> arrive(const message_key& message);
	/// All parts of a receive are announced, and here if they come as messages.
	void complete_parts(instruction_id id);
	void pull(const issue& item, const lane_waits& waits);
	void retire_receive(instruction_id id);

	// For both

	struct released_instruction {
		instruction_id id;
		bool is_ready = false; ///< a receive that will find all data in place
	};
	/// What the engine need not hold any more; swaps buffers with the caller.
	void take_released(std::vector<released_instruction>& out);
	/// Tries again to send the pilots that found no room.
	void send_pilots();
	bool has_unsent_pilots() const { return m_num_unsent_pilots > 0; }
	/// Whether poll() or take_pilots() would find something.
	bool has_news() const;

	struct status {
		std::string text;
		std::optional<rank_id> peer;
		std::uint64_t stamp = 0;
		bool is_waiting = false; ///< for other ranks, though it may not have been issued
	};
	/// Of a send or receive of this transport, for the report on missing progress.
	std::optional<status> find_status(instruction_id id) const;

  private:
	struct outgoing {
		instruction_id id;
		rank_id to;
		message_id message;
		transfer_id transfer;
		allocation_id source;
		box allocated_box;
		box sent_box;
		std::span<const instruction_id> dependencies;
		std::uint32_t ready_index = 0;
		std::uint32_t slot = 0;
		shared_flag done;
		bool is_announced = false;
		bool is_issued = false;
		std::uint64_t stamp = 0;
		std::uint64_t program_digest = 0; ///< for the pilot
		trace_event traced; ///< from issue to acknowledgement; with a timeline
	};
	/// One of this rank's `ready` flags, and the messages of which it tells: those that depend on the same instructions are ready at the same time.
	struct ready_flag {
		std::uint32_t value = 0;
		std::uint32_t num_messages = 0; ///< announced, and not fetched
		bool is_issued = false;
	};
	/// A flag that was given away lately, and that further messages may share while any has it.
	struct recent_flag {
		std::uint32_t index = 0;
		memory_id source;
		std::vector<instruction_id> dependencies;
	};
	/// A rank of this host.
	struct neighbour {
		bool is_peer = false;
		std::size_t position = 0; ///< among the ranks of the host
		flag_segment flags;
		std::vector<std::uint32_t> free_slots;
		std::vector<std::uint32_t> done_values; ///< by slot: of its latest message
		std::deque<instruction_id> waiting_for_slot;
		std::deque<pilot_message> unsent_pilots; ///< the ring was full
	};
	/// A message under way to this rank, of either kind.
	struct incoming {
		box message_box;
		coordinate unfetched = 0;
		coordinate unissued = 0; ///< of a direct message: the receive that fetches the last of it says that all has been fetched
		const void* data = nullptr; ///< in the peer's memory, or that of the bounce buffer
		copy_layout layout;
		bool is_direct = false;
		std::vector<lane_position> fetched_at; ///< by the other receives, if there are several
		shared_flag ready;
		shared_flag done;
		bool has_arrived = false; ///< if it is not direct
		std::size_t bounce_bytes = 0;
		std::size_t bounce_alignment_bytes = 0;
		std::vector<fragment_id> waiting;
	};
	struct part {
		message_key key;
		incoming* message = nullptr;
		box where;
	};
	struct receive_state {
		const receive_instruction* receive = nullptr;
		copy_layout layout;
		std::vector<part> parts;
		std::vector<pull_operation> pulls;
		bool is_announced = false;
		bool is_issued = false;
		std::uint64_t stamp = 0;
		std::int64_t issued_ns = 0; ///< with a timeline
	};
	struct key_hash {
		std::size_t operator()(const message_key& key) const { return (std::size_t{key.source.value} << 48) ^ key.message.value; }
	};

	backend& m_backend;
	const allocation_table& m_allocations;
	executor_statistics& m_statistics;
	trace_recorder* m_trace; ///< null if there is no timeline
	std::size_t m_own_position = 0;
	flag_segment m_own_flags;
	std::vector<neighbour> m_neighbours; ///< by rank; those of other hosts are empty

	std::unordered_map<instruction_id, outgoing> m_outgoing;
	std::unordered_map<allocation_id, std::vector<instruction_id>> m_waiting_for_source;
	std::vector<outgoing*> m_unfetched;
	std::vector<ready_flag> m_ready_flags; ///< by index
	std::vector<std::uint32_t> m_free_ready_flags;
	std::vector<recent_flag> m_recent_flags; ///< the oldest first; as many as producers whose data goes to several ranks in turns
	std::unordered_map<message_key, incoming, key_hash> m_incoming;
	std::unordered_map<instruction_id, receive_state> m_receives;
	std::vector<released_instruction> m_released;
	std::size_t m_num_unsent_pilots = 0;

	void add_pilot(rank_id source, const pilot_message& pilot);
	const void* open_slab(rank_id source, const pilot_message& pilot);
	void announce(outgoing& out);
	std::uint32_t take_ready_flag(const outgoing& out);
	/// That of an announced message.
	shared_flag ready_flag_of(const outgoing& out) const { return {m_own_flags.ready_flag(out.ready_index), m_ready_flags[out.ready_index].value}; }
	void leave_ready_flag(std::uint32_t index);
	static bool is_ready(const part& p) { return !p.message->is_direct || is_reached(p.message->ready); }
	void finish_part(const part& fetched);
	void trace_part(instruction_id id, const receive_state& state, const part& fetched) const;
};

} // namespace celerity
