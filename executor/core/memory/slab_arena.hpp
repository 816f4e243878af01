// SPDX-License-Identifier: MIT
// Carves allocations out of few large slabs that stay as long as the arena lives, so that another process can map a slab once and for all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <new>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace celerity {

/// Best fit with coalescing, in logarithmic time. Never touches the memory that it hands out. Not thread-safe.
class slab_arena {
  public:
	/// Throws std::bad_alloc. The memory is aligned at least as the arena's allocations are.
	using slab_maker = std::function<void*(std::size_t size_bytes)>;

	struct slab {
		void* address = nullptr;
		std::size_t size_bytes = 0;
	};
	struct location {
		std::size_t slab = 0; ///< index into slabs()
		std::size_t offset_bytes = 0;
	};

	/// All addresses and sizes are multiples of `alignment_bytes`, a power of two. Slabs have `slab_bytes`, or the size of a larger allocation.
	slab_arena(slab_maker make_slab, const std::size_t alignment_bytes, const std::size_t slab_bytes)
	    : m_make_slab(std::move(make_slab)), m_alignment_bytes(alignment_bytes), m_slab_bytes(slab_bytes) {
		if(alignment_bytes == 0 || (alignment_bytes & (alignment_bytes - 1)) != 0) throw std::invalid_argument("an alignment is a power of two");
	}

	/// Throws std::bad_alloc if nothing fits and no slab can be made.
	void* allocate(const std::size_t wanted_bytes) {
		const std::size_t size_bytes = round_up(wanted_bytes);
		auto best = m_free.lower_bound({size_bytes, 0});
		if(best == m_free.end()) best = add_slab(size_bytes);
		const auto found = m_blocks.find(best->second);
		m_free.erase(best);
		block& taken = found->second;
		if(taken.size_bytes > size_bytes) {
			insert_free(found->first + size_bytes, taken.size_bytes - size_bytes, taken.slab);
			taken.size_bytes = size_bytes;
		}
		taken.is_free = false;
		m_used_bytes += size_bytes;
		return reinterpret_cast<void*>(found->first);
	}

	/// Whether allocate() needs no new slab.
	bool fits(const std::size_t wanted_bytes) const { return m_free.lower_bound({round_up(wanted_bytes), 0}) != m_free.end(); }

	/// Takes over a slab that was made elsewhere; its size is a multiple of the alignment.
	void adopt(const slab& made) { insert_slab(made.address, made.size_bytes); }

	/// The room that an allocation of so many bytes takes.
	std::size_t round_up(const std::size_t size_bytes) const {
		if(size_bytes > SIZE_MAX - m_alignment_bytes) throw std::bad_alloc();
		return size_bytes == 0 ? m_alignment_bytes : (size_bytes + m_alignment_bytes - 1) & ~(m_alignment_bytes - 1);
	}

	void deallocate(const void* const address) {
		auto freed = m_blocks.find(reinterpret_cast<std::uintptr_t>(address));
		if(freed == m_blocks.end() || freed->second.is_free) throw std::invalid_argument("this address was not allocated from the arena");
		m_used_bytes -= freed->second.size_bytes;
		freed->second.is_free = true;
		if(freed != m_blocks.begin()) {
			if(const auto left = std::prev(freed); is_free_part_of(left->second, freed->second.slab)) {
				m_free.erase({left->second.size_bytes, left->first});
				left->second.size_bytes += freed->second.size_bytes;
				m_blocks.erase(freed);
				freed = left;
			}
		}
		if(const auto right = std::next(freed); right != m_blocks.end() && is_free_part_of(right->second, freed->second.slab)) {
			m_free.erase({right->second.size_bytes, right->first});
			freed->second.size_bytes += right->second.size_bytes;
			m_blocks.erase(right);
		}
		m_free.emplace(freed->second.size_bytes, freed->first);
	}

	/// Calls free(index, slab) for every slab without allocations, and forgets the slabs for which that returns true.
	template <typename F>
	void free_unused(F&& free) {
		for(std::size_t number = 0; number < m_slabs.size(); ++number) {
			const slab candidate = m_slabs[number];
			const auto start = m_blocks.find(reinterpret_cast<std::uintptr_t>(candidate.address));
			if(candidate.size_bytes == 0 || !start->second.is_free || start->second.size_bytes != candidate.size_bytes) continue;
			if(!free(number, candidate)) continue;
			m_free.erase({candidate.size_bytes, start->first});
			m_blocks.erase(start);
			m_slabs[number] = {}; // the others keep their numbers
			m_total_bytes -= candidate.size_bytes;
		}
	}

	/// Of any address inside of an allocation.
	location locate(const void* const address) const {
		const auto value = reinterpret_cast<std::uintptr_t>(address);
		auto found = m_blocks.upper_bound(value);
		if(found != m_blocks.begin()) {
			--found;
			if(value - found->first < found->second.size_bytes && !found->second.is_free) {
				const std::size_t number = found->second.slab;
				return {number, value - reinterpret_cast<std::uintptr_t>(m_slabs[number].address)};
			}
		}
		throw std::invalid_argument("this address was not allocated from the arena");
	}

	const std::vector<slab>& slabs() const { return m_slabs; }
	std::size_t used_bytes() const { return m_used_bytes; }
	std::size_t total_bytes() const { return m_total_bytes; }
	std::size_t largest_free_bytes() const { return m_free.empty() ? 0 : m_free.rbegin()->first; }
	std::size_t num_free_blocks() const { return m_free.size(); }

  private:
	struct block {
		std::size_t size_bytes = 0;
		std::size_t slab = 0;
		bool is_free = false;
	};
	using block_map = std::map<std::uintptr_t, block>;
	using free_set = std::set<std::pair<std::size_t, std::uintptr_t>>; // by size, then by address

	slab_maker m_make_slab;
	std::size_t m_alignment_bytes;
	std::size_t m_slab_bytes;
	std::vector<slab> m_slabs;
	block_map m_blocks; ///< cover all slabs, without gaps
	free_set m_free;
	std::size_t m_used_bytes = 0;
	std::size_t m_total_bytes = 0;

	free_set::iterator insert_free(const std::uintptr_t address, const std::size_t size_bytes, const std::size_t slab_number) {
		m_blocks.emplace(address, block{size_bytes, slab_number, true});
		return m_free.emplace(size_bytes, address).first;
	}

	free_set::iterator add_slab(const std::size_t at_least) {
		std::size_t size_bytes = at_least > m_slab_bytes ? at_least : round_up(m_slab_bytes);
		void* address = nullptr;
		try {
			address = m_make_slab(size_bytes);
		} catch(const std::bad_alloc&) {
			if(size_bytes == at_least) throw;
			size_bytes = at_least; // better a small slab than none
			address = m_make_slab(size_bytes);
		}
		return insert_slab(address, size_bytes);
	}

	free_set::iterator insert_slab(void* const address, const std::size_t size_bytes) {
		m_slabs.push_back({address, size_bytes});
		m_total_bytes += size_bytes;
		return insert_free(reinterpret_cast<std::uintptr_t>(address), size_bytes, m_slabs.size() - 1);
	}

	static bool is_free_part_of(const block& candidate, const std::size_t slab_number) { return candidate.is_free && candidate.slab == slab_number; }
};

} // namespace celerity
