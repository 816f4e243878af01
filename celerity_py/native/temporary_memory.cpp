// SPDX-License-Identifier: MIT
#include "temporary_memory.hpp"

#include <sys/mman.h>

#include <algorithm>

namespace celerity::native {
namespace {

constexpr std::size_t page_size = 4096;
/// From this size, huge pages save most of the faults of a new block. NumPy asks for them from the same size.
constexpr std::size_t smallest_huge_block = std::size_t{4} << 20;
/// Of kept blocks. A call has few large arrays at once, and a search looks at all kept blocks.
constexpr std::size_t most_kept_blocks = 256;

void* map_pages(const std::size_t capacity) {
	void* const address = mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if(address == MAP_FAILED) return nullptr;
#ifdef MADV_HUGEPAGE
	if(capacity >= smallest_huge_block) madvise(address, capacity, MADV_HUGEPAGE);
#endif
	return address;
}

} // namespace

void temporary_memory::unmap(const std::vector<kept_block>& blocks) {
	for(const auto& [address, capacity] : blocks) munmap(address, capacity);
}

std::optional<temporary_memory::block> temporary_memory::take(const std::size_t size) {
	if(void* const kept = take_kept(size)) return block{kept, false};
	const std::size_t capacity = (size + page_size - 1) / page_size * page_size;
	void* address = capacity >= size ? map_pages(capacity) : nullptr;
	if(address == nullptr && capacity >= size && kept_bytes() > 0) { // memory may be short because of them
		release();
		address = map_pages(capacity);
	}
	if(address == nullptr) return std::nullopt;
	std::vector<kept_block> surplus;
	{
		const std::lock_guard lock(m_mutex);
		count_use({address, capacity});
		surplus = choose_surplus();
	}
	unmap(surplus);
	return block{address, true};
}

bool temporary_memory::give_back(void* const address) {
	std::vector<kept_block> surplus;
	{
		const std::lock_guard lock(m_mutex);
		const auto used = m_used.find(address);
		if(used == m_used.end()) return false;
		m_kept.push_back({address, used->second});
		m_used_bytes -= used->second;
		m_kept_bytes += used->second;
		m_used.erase(used);
		surplus = choose_surplus();
	}
	unmap(surplus);
	return true;
}

std::optional<std::size_t> temporary_memory::find_capacity(const void* const address) const {
	const std::lock_guard lock(m_mutex);
	const auto used = m_used.find(address);
	return used == m_used.end() ? std::nullopt : std::optional(used->second);
}

void temporary_memory::release() {
	std::vector<kept_block> kept;
	{
		const std::lock_guard lock(m_mutex);
		kept.swap(m_kept);
		m_kept_bytes = 0;
		m_most_used_bytes = 0; // what is in use now is not kept when it is given back
	}
	unmap(kept);
}

std::size_t temporary_memory::kept_bytes() const {
	const std::lock_guard lock(m_mutex);
	return m_kept_bytes;
}

void temporary_memory::count_use(const kept_block& block) {
	m_used.emplace(block.address, block.capacity);
	m_used_bytes += block.capacity;
	m_most_used_bytes = std::max(m_most_used_bytes, m_used_bytes);
}

/// The smallest kept block that is large enough, and not twice as large: chunks differ by a row, and should share blocks.
void* temporary_memory::take_kept(const std::size_t size) {
	const std::lock_guard lock(m_mutex);
	auto best = m_kept.end();
	for(auto it = m_kept.begin(); it != m_kept.end(); ++it) {
		if(it->capacity < size || it->capacity / 2 > size) continue;
		if(best == m_kept.end() || it->capacity <= best->capacity) best = it; // of equal ones the latest: it may still be in a cache
	}
	if(best == m_kept.end()) return nullptr;
	const kept_block found = *best;
	m_kept.erase(best);
	m_kept_bytes -= found.capacity;
	count_use(found);
	return found.address;
}

std::vector<temporary_memory::kept_block> temporary_memory::choose_surplus() {
	auto end = m_kept.begin();
	while(end != m_kept.end() && (m_used_bytes + m_kept_bytes > m_most_used_bytes || static_cast<std::size_t>(m_kept.end() - end) > most_kept_blocks)) {
		m_kept_bytes -= end->capacity;
		++end;
	}
	const std::vector<kept_block> surplus(m_kept.begin(), end);
	m_kept.erase(m_kept.begin(), end);
	return surplus;
}

} // namespace celerity::native
