// SPDX-License-Identifier: MIT
// Fetches data of other ranks of the host. The engine holds a receive until all of its parts are announced, and those that come as messages have arrived. Then
// it is one operation of a lane: wait for `ready`, fetch, and answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "direct_context.hpp"
#include "engine/out_of_order_engine.hpp"
#include "events/executor_events.hpp"
#include "receive_arbiter.hpp"

namespace celerity {

class direct_receiver {
  public:
	struct message_key {
		rank_id source;
		message_id message;
		friend bool operator==(const message_key&, const message_key&) = default;
	};
	/// The task that a posted part leaves to its owner.
	enum class part_state : std::uint8_t {
		here,     ///< nothing: it has arrived, or the lane will fetch it
		wanted,   ///< receive the whole message, then call arrive()
		expected, ///< nothing: somebody else has asked for the message
	};

	explicit direct_receiver(direct_context& shared) : m_shared(shared) {}
	direct_receiver(const direct_receiver&) = delete;
	direct_receiver& operator=(const direct_receiver&) = delete;
	~direct_receiver();

	void add(instruction_id id, const receive_instruction& receive, std::uint64_t stamp);
	/// Calls f(source rank, pilot) for the pilots that have come.
	template <typename F>
	void take_pilots(F&& f) {
		pilot_message pilot;
		for(std::size_t rank = 0; rank < m_shared.neighbours.size(); ++rank) {
			if(!m_shared.neighbours[rank].is_peer) continue;
			const rank_id source(static_cast<std::uint32_t>(rank));
			auto& ring = m_shared.own_flags.pilots(m_shared.neighbours[rank].position);
			while(ring.pop(pilot)) {
				add_pilot(source, pilot);
				f(source, static_cast<const pilot_message&>(pilot));
			}
		}
	}
	/// Whether take_pilots() would find something.
	bool has_news() const;
	/// Whether the instruction was added, and is not complete.
	bool is_receiving(const instruction_id id) const { return m_receives.contains(id); }
	part_state add_part(const posted_receive& post);
	/// Where the message of a wanted part is to be put.
	void* prepare_bounce(const posted_receive& post);
	/// The parts that this completes.
	std::vector<fragment_id> arrive(const message_key& message);
	/// Lets the engine issue the receive: all of its parts are announced, and those that come as messages have arrived.
	void release_receive(instruction_id id);
	void pull(const issue& item, const lane_waits& waits);
	/// Whether a part of the receive comes as a message, which no graph can wait for.
	bool comes_as_message(const instruction_id id) const { return m_receives.at(id).comes_as_message; }
	/// Calls f(place of the data in the peer's memory, part, box of the inbox or empty) for each part of a receive that is announced.
	template <typename F>
	void for_each_part(const instruction_id id, F&& f) const {
		for(const auto& [key, message, where] : m_receives.at(id).parts) {
			f(array_place{message->data, &message->allocated_box}, where, message->put_number == 0 ? box() : message->sent_box);
		}
	}
	/// A part of a receive that a graph carries out. The fetch of the last part of a message raises the answer. The flags are of this launch.
	struct graph_fetch {
		copy_operation copy;
		graph_flag ready;
		std::optional<graph_inbox> inbox; ///< none if the message comes into none
		std::optional<graph_flag> answer;
	};
	/// The boxes outlive the completion of the instruction. The graph carries out the receives in the order of the calls.
	std::vector<graph_fetch> begin_in_graph(instruction_id id);
	/// Nothing if the instruction was never added.
	void retire(instruction_id id);

	std::optional<transfer_status> find_status(instruction_id id) const;

  private:
	/// A message on its way to this rank. Its data lies in the peer's memory, or arrives by MPI in a bounce buffer.
	struct incoming {
		std::byte* data = nullptr;
		box allocated_box; ///< of the array that begins at `data`
		coordinate unissued = 0;  ///< elements; the receive that fetches the last one answers
		coordinate unretired = 0; ///< elements
		bool is_here = false; ///< or a lane will fetch it
		std::vector<fragment_id> waiting; ///< until it is here
		shared_flag ready;  ///< without address if the message comes by MPI
		shared_flag answer; ///< likewise
		std::uint32_t answer_slot = 0;         ///< of `answer`: graphs have other flags for the same slot
		std::uint64_t answer_value = 0;        ///< of which `answer` has the lower half
		box sent_box;
		std::uint32_t put_number = 0; ///< as in the pilot
		std::vector<lane_position> fetched_at; ///< by the other receives, if there are several
		std::size_t bounce_bytes = 0;          ///< of memory to give back
		bool is_direct() const { return answer.address != nullptr; }
	};
	struct part {
		message_key key;
		incoming* message = nullptr;
		box where;
	};
	struct receive_state {
		enum class state_type : std::uint8_t { unannounced, announced, issued };

		const receive_instruction* receive = nullptr;
		std::uint64_t stamp = 0;
		state_type state = state_type::unannounced;
		std::vector<part> parts{};
		bool comes_as_message = false; ///< some of it
		std::int64_t issued_ns = 0; ///< with a timeline
	};
	struct key_hash {
		std::size_t operator()(const message_key& key) const { return (std::size_t{key.source.value} << 48) ^ key.message.value; }
	};

	direct_context& m_shared;
	std::unordered_map<message_key, incoming, key_hash> m_incoming;
	std::unordered_map<instruction_id, receive_state> m_receives;
	std::vector<pull_operation> m_pulls; ///< of the latest pull()

	void add_pilot(rank_id source, const pilot_message& pilot);
	std::byte* open_slab(rank_id source, const shared_location& location);
	/// Counts the elements of the pull as issued. The pull of the last ones answers, after the others.
	static void answer_if_last(pull_operation& pull, incoming& message, const box& where, const lane_position& own);
	static copy_operation copy_of(const part& fetched, const receive_instruction& receive, const array_place& destination);
	static bool is_ready(const part& p) { return !p.message->is_direct() || is_reached(p.message->ready); }
	void give_back(const incoming& message);
};

} // namespace celerity
