// SPDX-License-Identifier: MIT
// Transfers between the ranks of a host, for backends that have them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend.hpp"
#include "events/pilot_message.hpp"

namespace celerity {

/// A fetch from another rank. The lane waits for `ready`, carries out `copy`, and writes `answer`. A flag without address is skipped.
struct pull_operation {
	shared_flag ready;
	copy_operation copy;
	shared_flag answer;
	std::span<const lane_position> answer_after; ///< further positions to wait for before `answer` is written; outlives the position
};

/// The devices of a rank whose lanes exchange data with those of other ranks. Called as the backend is.
class direct_transfers {
  public:
	/// Whether the event count is signalled when a peer writes a flag into this rank's segment. Otherwise the executor has to look.
	virtual bool signals_flags() const = 0;
	/// The class of lanes for operations that begin with a wait for another rank.
	virtual std::uint32_t pull_class(memory_id to) const = 0;
	/// The class of lanes for flags that say that data in a memory is ready.
	virtual std::uint32_t signal_class(memory_id from) const = 0;

	virtual shared_location locate(memory_id memory, const void* address) const = 0;
	/// The address of a peer's slab here; the same slab is opened once. Throws std::runtime_error.
	virtual void* open_peer_slab(const shared_location& location) = 0;
	/// This rank has fetched all data of its peers: closes their memory, so that they may free it.
	virtual void close_peers() = 0;
	/// Lets lanes write the flags of a flag_memory and wait for them, until the backend stops. Before the first instruction: with this rank's segment first,
	/// and then with those of its peers.
	virtual void adopt_flags(void* address, std::size_t size_bytes) = 0;

	/// The signal may be kept back until flush(): flags behind one producer go together. A flag without address is written by another signal.
	/// `depends_on_one`: on the one position in `waits`, and on nothing older on the lane. The lane may have waited for that position before.
	virtual void enqueue_signal(lane_position position, const lane_waits& waits, const shared_flag& flag, bool depends_on_one) = 0;
	/// To be called before anything but signals is enqueued, allocated or freed, and before the thread waits for anything.
	virtual void flush() = 0;
	/// One after the other. Boxes outlive the completion of the position.
	virtual void enqueue_pulls(lane_position position, const lane_waits& waits, std::span<const pull_operation> pulls) = 0;

  protected:
	~direct_transfers() = default;
};

} // namespace celerity
