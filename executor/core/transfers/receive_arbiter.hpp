// SPDX-License-Identifier: MIT
// Matches the receives of this rank, pilots of messages, and arrived messages. The three may come in any order. A pure machine:
// it decides which receives to post and which instructions are complete, and touches neither memory nor a network.
//
// Its ancestor is the receive arbiter of the Celerity runtime. Here a pilot's box may also straddle several requests, which happens where data is
// received on the devices that read it; each request then takes its own part of the message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "scheduler/core/base/ids.hpp"
#include "scheduler/core/base/small_vector.hpp"
#include "scheduler/core/geometry/grid.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"

namespace celerity {

/// One posted receive; counts from 1.
using fragment_id = strong_id<struct fragment_id_tag, std::uint64_t>;

/// "Receive `part` of message `message`, which carries `message_box`, from rank `source`." The boxes are in buffer coordinates.
struct posted_receive {
	fragment_id fragment;
	instruction_id instruction; ///< of the request
	rank_id source;
	message_id message;
	transfer_id transfer;
	allocation_id destination;
	box part;        ///< of the buffer, which goes to `destination`
	box message_box; ///< equals `part` unless the message is cut up among several requests
	std::size_t offset_bytes = 0; ///< partial results: of the slot; the boxes are then one element as large as a slot
	std::size_t element_size_bytes = 0;
};

class receive_arbiter {
  public:
	/// Completes when all of `boxes` have arrived. Requests of one transfer are disjoint.
	void receive(instruction_id instruction, const receive_instruction& request);
	/// Completes at once; its parts are awaited by await_receive().
	void split_receive(instruction_id instruction, const split_receive_instruction& request);
	void await_receive(instruction_id instruction, const await_receive_instruction& request);
	void receive_partials(instruction_id instruction, const receive_partials_instruction& request);

	void pilot(rank_id source, message_id message, const transfer_id& transfer, const box& sent_box);

	/// The payload of a posted receive has arrived.
	void complete(fragment_id fragment);

	/// The receives to post, and the instructions that are complete, since the last call. Both swap buffers with the caller.
	void take_posts(std::vector<posted_receive>& out);
	void take_completed(std::vector<instruction_id>& out);

	/// Requests and awaits that are not complete.
	std::size_t num_open() const { return m_num_open; }

	/// A message that was announced, and that no request has taken wholly.
	struct unclaimed_pilot {
		rank_id source;
		message_id message;
		transfer_id transfer;
		box sent_box;
		CELERITY_FIELDS(source, message, transfer, sent_box)
	};
	/// In the order in which the messages were made. At the end of a run, each of them is a mistake.
	std::vector<unclaimed_pilot> unclaimed_pilots() const;

	struct open_transfer {
		instruction_id instruction; ///< of a request that is not complete
		coordinate missing_elements = 0; ///< or partial results
		coordinate unannounced_elements = 0; ///< of those: no pilot has come for them
		bool has_peer = false;
		rank_id peer; ///< a rank whose data is outstanding
	};
	/// For the report on missing progress: the data that `instruction` waits for. Zeroes if it waits for nothing here.
	open_transfer find_open(instruction_id instruction, const transfer_id& transfer) const;

  private:
	struct await_state {
		instruction_id instruction;
		allocation_id destination;
		box_vector boxes;
		coordinate missing = 0;
	};
	struct request_state {
		std::uint64_t serial = 0;
		instruction_id instruction;
		bool is_split = false;
		allocation_id destination;
		std::size_t element_size_bytes = 0;
		box_vector boxes;
		coordinate missing = 0;   ///< elements that have not arrived
		coordinate unclaimed = 0; ///< elements that no pilot has announced
		std::vector<box> arrived; ///< parts, disjoint; only for split receives
	};
	struct partials_state {
		instruction_id instruction;
		allocation_id destination;
		std::size_t bytes_per_slot = 0;
		std::vector<rank_id> sources;
		std::vector<std::uint32_t> slots;
		std::vector<rank_id> missing; ///< ranks whose partial results have not arrived
		std::size_t unclaimed = 0;
	};
	struct pilot_state {
		rank_id source;
		message_id message;
		box sent_box;
		coordinate unclaimed = 0; ///< elements that no request has taken
	};
	struct transfer_state {
		std::vector<request_state> requests;
		std::vector<await_state> awaits;   ///< of parts of the split receives among them
		std::optional<partials_state> partials;
		std::vector<pilot_state> pilots;   ///< not, or not wholly, claimed
		bool is_idle() const { return requests.empty() && !partials.has_value() && pilots.empty(); }
	};
	struct fragment_state {
		transfer_id transfer;
		std::uint64_t request_serial = 0; ///< 0: a partial result
		rank_id source;
		box part;
	};

	std::unordered_map<transfer_id, transfer_state> m_transfers;
	std::unordered_map<fragment_id, fragment_state> m_fragments; ///< posted and not arrived
	std::vector<posted_receive> m_posts;
	std::vector<instruction_id> m_completed;
	std::uint64_t m_next_serial = 1;
	std::uint64_t m_next_fragment = 1;
	std::size_t m_num_open = 0;

	template <typename Request>
	void add_receive(instruction_id instruction, const Request& request, bool is_split);
	void claim(const transfer_id& transfer, request_state& request, pilot_state& pilot);
	void claim_slot(const transfer_id& transfer, partials_state& partials, const pilot_state& pilot);
	void arrive(transfer_state& state, request_state& request, const box& part);
	void arrive_in_slot(transfer_state& state, rank_id source);
	void drop_if_idle(const transfer_id& transfer, const transfer_state& state);
	void finish(instruction_id instruction);
};

} // namespace celerity
