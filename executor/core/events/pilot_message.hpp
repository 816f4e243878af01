// SPDX-License-Identifier: MIT
// The announcement of a message, which travels ahead of the data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "scheduler/core/base/ids.hpp"
#include "scheduler/core/geometry/grid.hpp"

namespace celerity {

/// Where another rank of the host finds an allocation: in a slab that it maps once.
struct shared_location {
	std::uint64_t slab = 0; ///< number within the owner's process
	std::uint64_t slab_size_bytes = 0;
	std::uint64_t offset_bytes = 0;
	std::array<std::byte, 64> handle{}; ///< from the backend of the owner, for the backend of the peer
};

/// Announces that a message will carry `sent_box` of a transfer. Fixed size, copied as it is between ranks of one architecture.
/// The boxes are in buffer coordinates.
struct pilot_message {
	static constexpr std::uint64_t current_version = 0xce1e0007; ///< layout of this struct, in a form that no other message begins with

	std::uint64_t version = current_version;
	transfer_id transfer{};
	message_id message{};
	box sent_box{};
	std::uint64_t program_digest = 0; ///< of the sender's program up to the consumer task; 0: not compared

	// Zero unless the receiver fetches the data itself: the place of the data, in an array over `allocated_box` inside of one of the sender's slabs, and the
	// flags that tell of it.
	box allocated_box{};
	shared_location location{};
	std::uint32_t ready_index = 0;
	std::uint32_t ready_value = 0;
	std::uint64_t answer_slot = 0;
	std::uint64_t answer_value = 0; ///< messages in the slot so far
	std::uint64_t put_number = 0;   ///< number among the messages to the receiver that graphs may put into inboxes; 0: not this one

	/// Throws std::invalid_argument for anything that is not a pilot of this version.
	static pilot_message parse(const void* bytes, std::size_t size);
	void check() const;
};
static_assert(std::is_trivially_copyable_v<pilot_message>);
static_assert(std::has_unique_object_representations_v<pilot_message>, "padding would send uninitialised bytes");

inline pilot_message pilot_message::parse(const void* const bytes, const std::size_t size) {
	if(size != sizeof(pilot_message)) {
		throw std::invalid_argument("a pilot has " + std::to_string(sizeof(pilot_message)) + " bytes, not " + std::to_string(size));
	}
	pilot_message pilot;
	std::memcpy(&pilot, bytes, sizeof pilot);
	pilot.check();
	return pilot;
}

inline void pilot_message::check() const {
	if(version != current_version) throw std::invalid_argument("not a pilot of this version of celerity_py; do all ranks run the same one?");
}

} // namespace celerity
