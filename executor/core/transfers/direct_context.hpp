// SPDX-License-Identifier: MIT
// Transfers between the ranks of a host, without the host in between: the sender's lane writes a flag when the data is there, the receiver's lane waits for
// it, fetches the data from the sender's memory and answers with another flag. Both sides share the context. It belongs to the executor thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "devices/backend.hpp"
#include "devices/direct_transfers.hpp"
#include "devices/graph_devices.hpp"
#include "events/executor_statistics.hpp"
#include "flag_memory.hpp"
#include "memory/allocation_table.hpp"
#include "scheduler/core/vocabulary/trace_recorder.hpp"

namespace celerity {

/// The memory of a rank that offered it cannot be reached.
class peer_failure : public std::runtime_error {
  public:
	peer_failure(const rank_id peer, const std::string& text) : std::runtime_error(text), m_peer(peer) {}
	rank_id peer() const { return m_peer; }

  private:
	rank_id m_peer;
};

/// A send or receive that the engine may issue.
struct released_instruction {
	instruction_id id;
	bool is_ready = false; ///< a receive that will find all data in place
};

/// Of a direct send or receive, for the report on missing progress.
struct transfer_status {
	std::string text;
	std::optional<rank_id> peer;
	std::uint64_t stamp = 0;
	bool is_waiting = false; ///< for other ranks, though it may not have been issued
};

/// Until agree() there are no peers: nothing is sent or received directly.
struct direct_context {
	/// Of a sender at a receiver. So many messages later, one takes the place of another, which is fetched if it has not been read.
	static constexpr std::uint32_t num_inboxes = 256;

	/// A rank of this host.
	struct neighbour {
		bool is_peer = false;
		std::size_t position = 0; ///< among the ranks of the host
		flag_memory flags;
		std::uint64_t words = 0; ///< as in `own_words`
	};

	rank_id own;
	backend& memories;                 ///< gives memory
	direct_transfers* const lanes;       ///< null if these devices have no direct transfers, and this rank no peers
	const bool exchanges_in_graphs;
	const allocation_table& allocations;
	executor_statistics& statistics;
	trace_recorder* const trace; ///< null if there is no timeline
	const std::size_t least_bytes = 0; ///< smaller data goes as messages
	std::size_t own_position = 0;
	flag_memory own_flags{};
	/// The words of this rank for graphs, on its device, by rank of the host and slot: first the words that say that data for this rank is ready, then the words
	/// that say that data of this rank has been fetched. Behind them, by rank of the host, lie the inboxes. 0: there are none.
	std::uint64_t own_words = 0;
	std::vector<neighbour> neighbours{}; ///< by rank; ranks of other hosts are no peers
	bool has_agreed = false;             ///< with at least one peer
	std::vector<released_instruction> released{};

	// At start, in this order: every rank gives its offer to all others, opens theirs, and learns for which pairs both sides have succeeded.

	/// `host_ranks` are the ranks that share this host, this one included; the same list on all of them. Throws std::bad_alloc.
	flag_memory::offer make_offer(const std::vector<rank_id>& host_ranks);
	/// Throws std::runtime_error.
	void open(rank_id peer, const flag_memory::offer& offer);
	void agree(const std::vector<rank_id>& peers);

	/// The flags of a message between graphs. `slot` and `value` are those of its answer; the host flags are those of other transfers.
	graph_flag ready_flag(bool is_sender, const neighbour& peer, std::uint64_t slot, std::uint64_t value, const shared_flag& host) const;
	graph_flag answer_flag(bool is_sender, const neighbour& peer, std::uint64_t slot, std::uint64_t value, const shared_flag& host) const;

	/// Where graphs put messages between the two ranks.
	graph_inbox inbox(bool is_sender, const neighbour& peer, const box& sent) const;

	bool has_peers() const { return has_agreed; }
	bool is_peer(const rank_id rank) const { return rank.value < neighbours.size() && neighbours[rank.value].is_peer; }
	/// Whether a peer fetches the data from the memory of a device.
	bool is_direct(const send_instruction& send) const {
		return is_device_memory(send.source.memory) && is_peer(send.destination_rank)
		       && static_cast<std::size_t>(send.sent_box.area()) * send.element_size_bytes >= least_bytes;
	}
	void share_words();
	/// Nothing without a timeline.
	void trace_until_now(const std::int64_t issued_ns, const traced_action& transfer) const {
		if(trace != nullptr) trace->record({issued_ns, now_ns(), transfer});
	}
};

inline std::size_t bytes_of(const box& b, const std::size_t element_size_bytes) { return static_cast<std::size_t>(b.area()) * element_size_bytes; }

} // namespace celerity
