// SPDX-License-Identifier: MIT
// The arena against a model: random allocations never overlap, are found again, and leave nothing behind.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <map>
#include <new>
#include <random>
#include <stdexcept>
#include <vector>

#include "executor/core/memory/slab_arena.hpp"
#include "tests/native/check.hpp"

using namespace celerity;

namespace {

/// Addresses that nobody may touch; every second slab begins where the one before it ends.
class address_space {
  public:
	explicit address_space(const std::size_t capacity_bytes) : m_left_bytes(capacity_bytes) {}

	void* make(const std::size_t size_bytes) {
		if(size_bytes > m_left_bytes) throw std::bad_alloc();
		m_left_bytes -= size_bytes;
		if(++num_slabs % 2 == 1) m_next += 1 << 20;
		const auto address = m_next;
		m_next += size_bytes;
		return reinterpret_cast<void*>(address);
	}

	int num_slabs = 0;

  private:
	std::size_t m_left_bytes;
	std::uintptr_t m_next = 1 << 20;
};

constexpr std::size_t alignment = 256;
constexpr std::size_t slab_bytes = 64 << 10;

void check_random_programs(const std::uint32_t seed) {
	address_space addresses(16 << 20);
	slab_arena arena([&](const std::size_t size_bytes) { return addresses.make(size_bytes); }, alignment, slab_bytes);
	std::mt19937 random(seed);
	std::map<std::uintptr_t, std::size_t> live;
	for(int step = 0; step < 4000; ++step) {
		if(live.empty() || random() % 100 < (step / 500 % 2 == 0 ? 60U : 40U)) {
			const std::size_t size_bytes = random() % 10 == 0 ? random() % (4 * slab_bytes) : random() % 5000;
			std::uintptr_t address = 0;
			try {
				address = reinterpret_cast<std::uintptr_t>(arena.allocate(size_bytes));
			} catch(const std::bad_alloc&) {
				check(arena.largest_free_bytes() < size_bytes, "an allocation that fits a free block fails");
				continue;
			}
			const std::size_t taken = size_bytes == 0 ? 1 : size_bytes;
			check(address % alignment == 0, "an address is not aligned");
			const auto next = live.lower_bound(address);
			check(next == live.end() || address + taken <= next->first, "an allocation overlaps the next one");
			check(next == live.begin() || std::prev(next)->first + std::prev(next)->second <= address, "an allocation overlaps the one before");
			live.emplace(address, taken);
		} else {
			auto victim = live.lower_bound(live.begin()->first + random() % (live.rbegin()->first - live.begin()->first + 1));
			const auto inner = victim->first + random() % victim->second;
			const auto where = arena.locate(reinterpret_cast<void*>(inner));
			const auto& slab = arena.slabs().at(where.slab);
			check(reinterpret_cast<std::uintptr_t>(slab.address) + where.offset_bytes == inner, "an address is located elsewhere");
			check(where.offset_bytes < slab.size_bytes, "an offset lies outside of its slab");
			arena.deallocate(reinterpret_cast<void*>(victim->first));
			live.erase(victim);
		}
	}
	for(const auto& [address, size_bytes] : live) arena.deallocate(reinterpret_cast<void*>(address));
	check(arena.used_bytes() == 0, "bytes are in use though all is free");
	check(arena.num_free_blocks() == arena.slabs().size(), "free neighbours were not joined, or slabs were");
	const int num_slabs = addresses.num_slabs;
	check(reinterpret_cast<std::uintptr_t>(arena.allocate(arena.largest_free_bytes())) != 0 && addresses.num_slabs == num_slabs,
	    "a free slab is not used again");
}

template <typename Exception, typename F>
bool throws(const F& f) {
	try {
		f();
	} catch(const Exception&) { return true; }
	return false;
}

void check_limits() {
	address_space addresses(slab_bytes + alignment);
	slab_arena arena([&](const std::size_t size_bytes) { return addresses.make(size_bytes); }, alignment, slab_bytes);
	void* const first = arena.allocate(slab_bytes);
	void* const second = arena.allocate(1);
	check(arena.slabs().size() == 2 && arena.slabs()[1].size_bytes == alignment, "what is left is too small for a whole slab, but not for the allocation");
	check(throws<std::bad_alloc>([&] { arena.allocate(1); }), "there is memory beyond the end of memory");
	check(throws<std::bad_alloc>([&] { arena.allocate(std::numeric_limits<std::size_t>::max()); }), "a size overflows");
	arena.deallocate(first);
	check(throws<std::invalid_argument>([&] { arena.deallocate(first); }), "an address is freed twice");
	check(throws<std::invalid_argument>([&] { arena.locate(first); }), "free memory is located");
	check(throws<std::invalid_argument>([&] { arena.deallocate(static_cast<char*>(second) + 1); }), "an inner address is freed");
	void* const small = arena.allocate(1);
	arena.deallocate(second);
	check(arena.allocate(1) == second, "a block that fits exactly is passed over for a larger one");
	check(arena.locate(small).slab == 0, "an allocation lies in another slab than its address");
}

void check_release() {
	address_space addresses(4 * slab_bytes);
	slab_arena arena([&](const std::size_t size_bytes) { return addresses.make(size_bytes); }, alignment, slab_bytes);
	void* const first = arena.allocate(slab_bytes);
	void* const second = arena.allocate(slab_bytes);
	void* const third = arena.allocate(slab_bytes);
	arena.deallocate(first);
	arena.deallocate(third);
	std::vector<std::size_t> offered;
	arena.free_unused([&](const std::size_t number, const slab_arena::slab& slab) {
		check(slab.size_bytes == slab_bytes, "a slab changes its size");
		offered.push_back(number);
		return number == 0;
	});
	check(offered == std::vector<std::size_t>{0, 2}, "not exactly the unused slabs are offered");
	check(arena.total_bytes() == 2 * slab_bytes && arena.slabs()[0].size_bytes == 0, "a slab that was given back still counts");
	check(arena.locate(second).slab == 1, "slabs change their numbers");
	check(arena.allocate(slab_bytes) == third, "a slab that was kept cannot be used");
	arena.allocate(slab_bytes);
	check(arena.slabs().size() == 4, "a slab that was given back is used");
}

void check_adoption() {
	address_space space(0);
	slab_arena arena([&](const std::size_t bytes) { return space.make(bytes); }, 64, 4096);
	check(!arena.fits(1), "nothing fits before there is a slab");
	arena.adopt({reinterpret_cast<void*>(std::uintptr_t{1} << 30), 1024});
	check(arena.fits(1024) && arena.fits(0) && !arena.fits(1025), "what a slab that was taken over holds");
	void* const first = arena.allocate(960);
	check(arena.fits(1) && !arena.fits(65), "what is left of it");
	check(arena.locate(first).slab == 0 && arena.total_bytes() == 1024, "the slab counts");
	arena.deallocate(first);
	check(arena.fits(1024), "all of it again");
}

} // namespace

int main() {
	for(std::uint32_t seed = 1; seed <= 50; ++seed) check_random_programs(seed);
	check_limits();
	check_release();
	check_adoption();
	std::printf("arena: 50 random programs\n");
}
