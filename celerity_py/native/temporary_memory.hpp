// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

namespace celerity::native {

/// Memory of large arrays that user functions make and drop within a call. The C library gives such memory back to the operating system at once, and each
/// first write to a new page costs a fault; NumPy then spends more time on faults than on arithmetic. Blocks that are kept for the next array have no faults.
///
/// Blocks in use and kept blocks together have at most as many bytes as were in use at once since the last release. Any thread may call all functions.
class temporary_memory {
  public:
	/// Smaller arrays are not worth a block: the C library keeps their memory itself. Bytes.
	static constexpr std::size_t smallest_block = std::size_t{64} << 10;

	struct block {
		void* address;
		/// Whether the operating system has just made it, so that it is zero.
		bool is_new;
	};

	/// A block of at least this many bytes, or nothing if there is no memory.
	std::optional<block> take(std::size_t size);

	/// Whether this was the address of a block in use; it is not in use any more.
	bool give_back(void* address);

	/// The capacity of the block in use at this address, in bytes, if there is one.
	std::optional<std::size_t> find_capacity(const void* address) const;

	/// Gives all kept blocks to the operating system.
	void release();

	std::size_t kept_bytes() const;

  private:
	struct kept_block {
		void* address;
		std::size_t capacity;
	};

	static void unmap(const std::vector<kept_block>& blocks);

	/// The address of a kept block, which is in use now, or nullptr.
	void* take_kept(std::size_t size);
	void count_use(const kept_block& block);
	/// Takes blocks away that are not to be kept, the oldest first.
	std::vector<kept_block> choose_surplus();

	mutable std::mutex m_mutex;
	std::unordered_map<const void*, std::size_t> m_used;
	/// The one that was given back first comes first.
	std::vector<kept_block> m_kept;
	std::size_t m_used_bytes = 0;
	std::size_t m_kept_bytes = 0;
	std::size_t m_most_used_bytes = 0;
};

} // namespace celerity::native
