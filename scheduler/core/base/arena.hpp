// SPDX-License-Identifier: MIT
// Bump allocation for graph nodes that live and die together between two horizons.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace celerity {

/// The blocks of freed arenas, kept for new ones. A loop in steady state thus touches the same memory again and again. Not thread-safe.
class arena_block_pool {
  public:
	static constexpr std::size_t block_size_bytes = 64 * 1024;

	std::unique_ptr<std::byte[]> take() {
		if(m_free.empty()) return std::unique_ptr<std::byte[]>(new std::byte[block_size_bytes]);
		auto block = std::move(m_free.back());
		m_free.pop_back();
		return block;
	}
	void give_back(std::unique_ptr<std::byte[]> block) { m_free.push_back(std::move(block)); }

  private:
	std::vector<std::unique_ptr<std::byte[]>> m_free;
};

/// Memory for trivially destructible objects, which all die with the arena. Addresses are stable.
class arena {
  public:
	explicit arena(arena_block_pool& pool) : m_pool(&pool) {}
	arena(arena&& other) noexcept
	    : m_pool(other.m_pool), m_blocks(std::move(other.m_blocks)), m_large(std::move(other.m_large)), m_next(std::exchange(other.m_next, nullptr)),
	      m_end(std::exchange(other.m_end, nullptr)) {}
	arena(const arena&) = delete;
	arena& operator=(const arena&) = delete;
	arena& operator=(arena&&) = delete;
	~arena() {
		for(auto& block : m_blocks) m_pool->give_back(std::move(block));
	}

	template <typename T, typename... Args>
	T* create(Args&&... args) {
		static_assert(std::is_trivially_destructible_v<T>);
		return new(allocate(sizeof(T), alignof(T))) T{std::forward<Args>(args)...};
	}

	template <typename T>
	std::span<const T> copy(const T* const first, const std::size_t count) {
		static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
		if(count == 0) return {};
		void* const storage = allocate(count * sizeof(T), alignof(T));
		std::memcpy(storage, static_cast<const void*>(first), count * sizeof(T));
		return {static_cast<const T*>(storage), count};
	}
	template <typename Range>
	auto copy(const Range& items) {
		return copy(items.data(), items.size());
	}

  private:
	arena_block_pool* m_pool;
	std::vector<std::unique_ptr<std::byte[]>> m_blocks;
	std::vector<std::unique_ptr<std::byte[]>> m_large; // single objects that exceed a block
	std::byte* m_next = nullptr;
	std::byte* m_end = nullptr;

	void* allocate(const std::size_t size, const std::size_t alignment) {
		const auto align = [=](std::byte* const from) { // rounds up
			return reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(from) + alignment - 1) & ~(std::uintptr_t{alignment} - 1));
		};
		std::byte* const aligned = align(m_next);
		if(m_next != nullptr && aligned + size <= m_end) {
			m_next = aligned + size;
			return aligned;
		}
		if(size + alignment > arena_block_pool::block_size_bytes) {
			m_large.push_back(std::unique_ptr<std::byte[]>(new std::byte[size + alignment]));
			return align(m_large.back().get());
		}
		m_blocks.push_back(m_pool->take());
		m_next = m_blocks.back().get();
		m_end = m_next + arena_block_pool::block_size_bytes;
		return allocate(size, alignment);
	}
};

} // namespace celerity
