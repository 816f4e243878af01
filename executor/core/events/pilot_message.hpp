// SPDX-License-Identifier: MIT
// The announcement of a message, which travels ahead of the data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "scheduler/core/base/ids.hpp"
#include "scheduler/core/geometry/grid.hpp"

namespace celerity {

/// Announces that a message will carry `sent_box` of a transfer. Fixed size, copied as it is between ranks of one architecture.
/// The boxes are in buffer coordinates.
struct pilot_message {
	static constexpr std::uint64_t current_version = 0xce1e0004; ///< layout of this struct, in a form that no other message begins with

	std::uint64_t version = current_version;
	std::uint64_t consumer_task = 0;
	std::uint64_t program_digest = 0; ///< of the sender's program up to the consumer task; 0: not compared
	std::uint64_t buffer = 0;
	std::uint64_t reduction = 0;
	std::uint64_t message = 0;
	std::int64_t sent_min[3] = {0, 0, 0};
	std::int64_t sent_max[3] = {0, 0, 0};

	// Zero unless the receiver fetches the data itself: where the data will be, in an array over `allocated` inside of one of the sender's slabs, and which flags tell of it.
	std::int64_t allocated_min[3] = {0, 0, 0};
	std::int64_t allocated_max[3] = {0, 0, 0};
	std::uint64_t slab = 0;
	std::uint64_t slab_size_bytes = 0;
	std::uint64_t offset_bytes = 0;
	std::array<std::byte, 64> handle{};
	std::uint32_t ready_index = 0;
	std::uint32_t ready_value = 0;
	std::uint32_t answer_slot = 0;
	std::uint32_t answer_value = 0;

	transfer_id transfer() const { return {task_id(consumer_task), buffer_id(buffer), reduction_id(reduction)}; }
	box sent_box() const { return {point{{sent_min[0], sent_min[1], sent_min[2]}}, point{{sent_max[0], sent_max[1], sent_max[2]}}}; }

	box allocated_box() const {
		return {point{{allocated_min[0], allocated_min[1], allocated_min[2]}}, point{{allocated_max[0], allocated_max[1], allocated_max[2]}}};
	}
	void set_allocated_box(const box& allocated) {
		for(std::size_t d = 0; d < 3; ++d) {
			allocated_min[d] = allocated.min(d);
			allocated_max[d] = allocated.max(d);
		}
	}

	static pilot_message make(const transfer_id& transfer, const message_id message, const box& sent_box, const std::uint64_t program_digest) {
		pilot_message pilot;
		pilot.program_digest = program_digest;
		pilot.consumer_task = transfer.consumer.value;
		pilot.buffer = transfer.buffer.value;
		pilot.reduction = transfer.reduction.value;
		pilot.message = message.value;
		for(std::size_t d = 0; d < 3; ++d) {
			pilot.sent_min[d] = sent_box.min(d);
			pilot.sent_max[d] = sent_box.max(d);
		}
		return pilot;
	}

	/// Throws std::invalid_argument for anything that is not a pilot of this version.
	static pilot_message parse(const void* bytes, std::size_t size);
	void check() const;
};
static_assert(std::is_trivially_copyable_v<pilot_message>);
static_assert(sizeof(pilot_message) == 248, "padding would send uninitialised bytes");

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
