// SPDX-License-Identifier: MIT
// An exchange with other devices or ranks in a graph: one kernel, which puts data into inboxes, raises flags, waits, and fetches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "backends/backend.hpp"
#include "cuda_driver.hpp"
#include "cuda_small_copies.hpp"

namespace celerity {

/// The launch of a kernel that is compiled elsewhere; see celerity_py/cuda/small_copies.cuh, which has the same layout. Flags are addresses of a `graph_flag` in
/// memory of the device, so that no parameter of the kernel changes from launch to launch.
class cuda_exchange {
  public:
	static constexpr std::size_t max_each = cuda_small_copies::max_parts; ///< flags to raise, flags to wait for, copies, puts

	void raise(const cuda::device_pointer flag) { m_arguments.raised.at(m_arguments.num_raised++) = flag; }
	/// Before all copies.
	void await(const cuda::device_pointer flag) { m_arguments.awaited.at(m_arguments.num_awaited++) = flag; }
	/// Before the exchange ends.
	void await_by_end(const cuda::device_pointer flag) { m_arguments.awaited_by_end.at(m_arguments.num_awaited_by_end++) = flag; }
	/// Puts the data of one box into the inbox if the flag says so.
	void put(const copy_operation& copy, const graph_inbox& inbox, cuda::device_pointer flag);
	/// Copies that wait for the flags of await() only.
	void fetch(std::span<const cuda_small_copies::part> parts);
	/// A copy of one box that waits for its own flag, besides. The data may come into the inbox instead, if the flag says so.
	void fetch(const copy_operation& copy, const std::optional<graph_inbox>& inbox, cuda::device_pointer flag);
	/// A wait ends, and the context with it, when `stop` is not 0.
	void launch(const cuda::driver& driver, cuda::function kernel, cuda::stream stream, cuda::device_pointer stop);

  private:
	/// The words of a part in an inbox, in the order of the part. Of each, four bytes are data.
	struct inbox_words {
		std::uint64_t address; ///< 0: there are none
		std::int64_t stride_bytes[2];
		std::uint32_t num_turns;
		std::uint32_t bytes_per_turn;
	};
	struct exchanged_part {
		cuda_small_copies::part part; ///< of a put, without destination
		std::uint64_t flag;           ///< 0: the part waits for no flag of its own
		inbox_words inbox;
	};
	struct arguments {
		std::uint32_t num_parts;
		std::uint32_t num_puts;
		std::uint32_t num_raised;
		std::uint32_t num_awaited;
		std::uint32_t num_awaited_by_end;
		std::uint32_t unused;
		std::uint64_t stop;
		std::array<std::uint64_t, max_each> raised;
		std::array<std::uint64_t, max_each> awaited;
		std::array<std::uint64_t, max_each> awaited_by_end;
		std::array<exchanged_part, max_each> parts;
		std::array<exchanged_part, max_each> puts;
	};
	static_assert(sizeof(arguments) <= 4096, "a kernel has no more parameters on older GPUs");
	arguments m_arguments{};

	/// The offset and the strides are those of a dense array over the box of the inbox.
	static inbox_words words_of(const graph_inbox& inbox, std::size_t offset_bytes, std::size_t row_stride_bytes, std::size_t plane_stride_bytes);
	static void check_words(const exchanged_part& exchanged);
};

} // namespace celerity
