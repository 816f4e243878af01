// SPDX-License-Identifier: MIT
// A vector whose first N elements live inside the object. Most regions have one to three boxes, and most access fronts have few readers.
// A heap allocation for each of them would dominate the time of planning.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <new>
#include <span>
#include <type_traits>

namespace celerity {

template <typename T, std::size_t N>
class small_vector {
	static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>, "elements are moved with memcpy");
	static_assert(N > 0);

  public:
	small_vector() noexcept {}
	small_vector(const std::initializer_list<T> init) { append({init.begin(), init.size()}); }
	explicit small_vector(const std::span<const T> items) { append(items); }
	small_vector(const small_vector& other) { append(other); }
	small_vector(small_vector&& other) noexcept { take(other); }
	~small_vector() { release(); }

	small_vector& operator=(const small_vector& other) {
		if(this != &other) {
			m_size = 0;
			append(other);
		}
		return *this;
	}
	small_vector& operator=(small_vector&& other) noexcept {
		if(this != &other) {
			release();
			take(other);
		}
		return *this;
	}

	T* data() noexcept { return m_heap != nullptr ? m_heap : inline_data(); }
	const T* data() const noexcept { return m_heap != nullptr ? m_heap : inline_data(); }
	std::size_t size() const noexcept { return m_size; }
	bool empty() const noexcept { return m_size == 0; }
	T* begin() noexcept { return data(); }
	T* end() noexcept { return data() + m_size; }
	const T* begin() const noexcept { return data(); }
	const T* end() const noexcept { return data() + m_size; }
	T& operator[](const std::size_t i) noexcept { return data()[i]; }
	const T& operator[](const std::size_t i) const noexcept { return data()[i]; }
	T& front() noexcept { return data()[0]; }
	const T& front() const noexcept { return data()[0]; }
	T& back() noexcept { return data()[m_size - 1]; }
	const T& back() const noexcept { return data()[m_size - 1]; }

	void clear() noexcept { m_size = 0; }
	void push_back(const T& item) {
		const T copy = item; // grow() may replace the storage in which `item` lies
		if(m_size == m_capacity) grow(m_size + 1);
		data()[m_size++] = copy;
	}
	void pop_back() noexcept { --m_size; }
	void append(const std::span<const T> items) {
		if(items.empty()) return;
		reserve(m_size + items.size());
		std::memcpy(static_cast<void*>(end()), items.data(), items.size_bytes());
		m_size += static_cast<std::uint32_t>(items.size());
	}
	void resize(const std::size_t size, const T& fill = T{}) {
		reserve(size);
		for(std::size_t i = m_size; i < size; ++i) data()[i] = fill;
		m_size = static_cast<std::uint32_t>(size);
	}
	void reserve(const std::size_t capacity) {
		if(capacity > m_capacity) grow(capacity);
	}
	/// Removes element `i` by moving the last one into its place.
	void swap_remove(const std::size_t i) noexcept {
		data()[i] = back();
		pop_back();
	}

	friend bool operator==(const small_vector& a, const small_vector& b) { return a.m_size == b.m_size && std::equal(a.begin(), a.end(), b.begin()); }

  private:
	alignas(T) std::byte m_inline[N * sizeof(T)];
	T* m_heap = nullptr;
	std::uint32_t m_size = 0;
	std::uint32_t m_capacity = N;

	T* inline_data() noexcept { return reinterpret_cast<T*>(m_inline); }
	const T* inline_data() const noexcept { return reinterpret_cast<const T*>(m_inline); }

	void grow(const std::size_t at_least) {
		const std::size_t capacity = std::max<std::size_t>(at_least, std::size_t{m_capacity} * 2);
		T* const heap = static_cast<T*>(::operator new(capacity * sizeof(T), std::align_val_t{alignof(T)}));
		std::memcpy(static_cast<void*>(heap), data(), m_size * sizeof(T));
		release();
		m_heap = heap;
		m_capacity = static_cast<std::uint32_t>(capacity);
	}
	void release() noexcept {
		if(m_heap != nullptr) ::operator delete(m_heap, std::align_val_t{alignof(T)});
		m_heap = nullptr;
		m_capacity = N;
	}
	void take(small_vector& other) noexcept {
		m_heap = other.m_heap;
		m_size = other.m_size;
		m_capacity = other.m_capacity;
		if(m_heap == nullptr && m_size > 0) std::memcpy(m_inline, other.m_inline, m_size * sizeof(T));
		other.m_heap = nullptr;
		other.m_size = 0;
		other.m_capacity = N;
	}
};

} // namespace celerity
