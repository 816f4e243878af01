// SPDX-License-Identifier: MIT
// The flags through which two ranks of a host tell each other that data is ready, and that it has been fetched.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "devices/direct_transfers.hpp"
#include "memory/shared_memory.hpp"
#include "pilot_ring.hpp"

namespace celerity {

/// Lets threads of any rank sleep until a flag in such memory is written. Devices write flags without ringing.
class flag_bell {
  public:
	std::uint32_t prepare() const { return m_count.load(std::memory_order_seq_cst); }
	/// A system call only if a thread sleeps.
	void ring();
	/// Until the bell has rung since `seen`, or for a while.
	void wait(std::uint32_t seen);

  private:
	std::atomic<std::uint32_t> m_count;
	std::atomic<std::uint32_t> m_num_sleeping; ///< too high if a process was killed in its sleep, which costs system calls only
};

inline bool is_reached(const shared_flag& flag) {
	const std::uint32_t now = std::atomic_ref(*flag.address).load(std::memory_order_acquire);
	return static_cast<std::int32_t>(now - flag.value) >= 0;
}

/// Belongs to one rank; all ranks of its host map it. Holds the flags of all messages that the owner sends, and the pilots that are on their way to it. The
/// owner writes a `ready` flag once for all ranks that fetch its data. One other rank writes an `answer` flag, and the owner waits for it.
class flag_memory {
  public:
	/// Messages under way from one rank to another at a time.
	static constexpr std::uint32_t num_slots = 16384;

	/// The name of the memory, for other ranks.
	struct offer {
		std::uint64_t nonce = 0;
		std::uint64_t num_ranks = 0;
		std::array<char, 64> path{};
	};

	flag_memory() = default;
	/// For `num_ranks` ranks of the host. Throws std::bad_alloc.
	static flag_memory create(std::size_t num_ranks);
	/// Throws std::runtime_error.
	static flag_memory open(const offer& offer);
	offer make_offer() const;

	void* address() const { return m_memory.address(); }
	std::size_t size_bytes() const { return m_memory.size_bytes(); }

	std::size_t num_ranks() const { return get_header().num_ranks; }
	/// As many as there may be messages under way from the owner.
	std::size_t num_ready_flags() const { return get_header().num_ranks * num_slots; }
	std::uint32_t* ready_flag(std::uint32_t index) const { return flag(index / num_slots, index % num_slots); }
	/// `position`: of the other rank, which writes the flag, among the ranks of the host.
	std::uint32_t* answer_flag(std::size_t position, std::uint32_t slot) const;

	/// On the way from the rank at `position` to the owner.
	pilot_ring& pilots(std::size_t position) const;
	/// Where ranks find the words of the owner in the memory of its device; see direct_context. Nothing before set_words().
	std::optional<shared_location> words() const { return get_header().has_words != 0 ? std::optional(get_header().words) : std::nullopt; }
	/// Before other ranks get the offer.
	void set_words(const shared_location& location) {
		get_header().words = location;
		get_header().has_words = 1;
	}

	/// Wakes the owner, if it sleeps.
	void ring_owner() { get_header().answer_bell.ring(); }

  private:
	friend class flag_board;
	struct header {
		std::uint64_t nonce;
		std::uint64_t num_ranks;
		std::uint64_t has_words;
		shared_location words;
		alignas(64) flag_bell ready_bell;
		alignas(64) flag_bell answer_bell;
	};
	static constexpr std::size_t header_bytes = 4096;
	static constexpr std::size_t bytes_per_rank = num_slots * sizeof(std::uint32_t);

	shared_memory m_memory;

	header& get_header() const { return *static_cast<header*>(m_memory.address()); }
	std::uint32_t* flag(std::size_t block, std::uint32_t slot) const;
	static std::size_t flag_bytes(const std::size_t num_ranks) { return header_bytes + 2 * num_ranks * bytes_per_rank; }
	static std::size_t total_bytes(const std::size_t num_ranks) { return flag_bytes(num_ranks) + num_ranks * sizeof(pilot_ring); }
};

/// From the address of a flag to the bell of its memory. For threads of the host that write flags and wait for them.
class flag_board {
  public:
	/// Before any of the others. The memories outlive the board.
	void add(void* address, std::size_t size_bytes);
	void raise(const shared_flag& flag) const;
	/// Blocks until the flag is reached. False if is_cancelled() returns true before; call wake_all() after such a change.
	bool wait(const shared_flag& flag, const std::function<bool()>& is_cancelled) const;
	/// Blocks until another rank may have written an `answer` flag of the memory at `address`.
	static void wait_for_answer(void* address, std::uint32_t seen);
	static std::uint32_t prepare_answer(void* address);
	void wake_all() const;

  private:
	struct entry {
		std::byte* address = nullptr;
		std::size_t size_bytes = 0;
	};
	std::vector<entry> m_entries; // by address

	flag_bell& bell_of(const void* address) const;
};

} // namespace celerity
