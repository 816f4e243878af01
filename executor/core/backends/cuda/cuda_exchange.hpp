// SPDX-License-Identifier: MIT
// An exchange with other devices or ranks in a graph: one kernel, which puts data into inboxes, raises flags, waits, and fetches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>

#include "devices/graph_devices.hpp"
#include "cuda_driver.hpp"
#include "cuda_small_copies.hpp"

namespace celerity {

/// The launch of a kernel that is compiled elsewhere: that of celerity_py/cuda/small_copies.cuh. Flags are addresses of a `graph_flag` in memory of the device.
/// Throws std::out_of_range for more than `max_small_copies` flags to raise, flags to wait for, copies, or puts.
class cuda_exchange {
  public:
	void raise(const cuda::device_pointer flag) { next(m_arguments.raised, m_arguments.num_raised) = flag_at(flag); }
	/// Before all copies.
	void await(const cuda::device_pointer flag) { next(m_arguments.awaited, m_arguments.num_awaited) = flag_at(flag); }
	/// Before the exchange ends.
	void await_by_end(const cuda::device_pointer flag) { next(m_arguments.awaited_by_end, m_arguments.num_awaited_by_end) = flag_at(flag); }
	/// Puts the data of one box into the inbox if the flag says so.
	void put(const copy_operation& copy, const graph_inbox& inbox, cuda::device_pointer flag);
	/// Copies that wait for the flags of await() only.
	void fetch(std::span<const small_copy> copies);
	/// A copy of one box that waits for its own flag, besides. The data may come into the inbox instead, if the flag says so.
	void fetch(const copy_operation& copy, const std::optional<graph_inbox>& inbox, cuda::device_pointer flag);
	/// A wait ends, and the context with it, when `stop` is not 0.
	void launch(const cuda::driver& driver, cuda::function kernel, cuda::stream stream, cuda::device_pointer stop);

  private:
	exchange_arguments m_arguments{};

	/// The offset and the strides are those of a dense array over the box of the inbox.
	static inbox_words words_of(const graph_inbox& inbox, std::size_t offset_bytes, std::size_t row_stride_bytes, std::size_t plane_stride_bytes);
	static void check_words(const exchanged_copy& exchanged);
	static const graph_flag* flag_at(const cuda::device_pointer address) { return reinterpret_cast<const graph_flag*>(address); }
	template <typename T>
	static T& next(T (&slots)[max_small_copies], unsigned& used) {
		if(used == max_small_copies) throw std::out_of_range("an exchange has no more slots");
		return slots[used++];
	}
};

} // namespace celerity
