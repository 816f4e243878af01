// SPDX-License-Identifier: MIT
// The pool of pinned memory over a driver that takes its time, and sometimes has no memory.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "executor/core/backends/cuda/cuda_pinned_pool.hpp"
#include "tests/native/scripted_driver.hpp"

using namespace celerity;
using scripted::driver;
using scripted::host;

namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

void wait_until_ready(cuda_pinned_pool& pool, event_count& finished, const std::size_t size_bytes) {
	while(true) {
		const auto seen = finished.prepare();
		if(pool.is_ready(size_bytes)) return;
		finished.wait_until(seen, event_count::clock::now() + std::chrono::seconds(10));
	}
}

void check_that_another_thread_pins() {
	event_count finished;
	cuda_pinned_pool pool(driver, nullptr, finished);
	host.pinned_by.clear();
	host.is_stuck = true;
	check(!pool.is_ready(mebibyte), "there is no slab yet");
	check(!pool.is_ready(mebibyte), "nor now; asking does not wait, or would never end");
	host.is_stuck = false;
	wait_until_ready(pool, finished, mebibyte);
	void* const first = pool.allocate(mebibyte);
	check(pool.is_ready(15 * mebibyte), "the rest of the slab");
	check(!pool.is_ready(40 * mebibyte), "more than a slab has");
	check(pool.is_ready(mebibyte), "small ones need not wait for large ones");
	wait_until_ready(pool, finished, 40 * mebibyte);
	void* const second = pool.allocate(40 * mebibyte);
	check(host.pinned_by.size() == 2 && host.pinned_by[0] != std::this_thread::get_id() && host.pinned_by[0] == host.pinned_by[1],
	    "one other thread has pinned both");
	pool.deallocate(first);
	pool.deallocate(second);
	pool.free_slabs();
	check(host.pinned.empty(), "everything is given back");
}

void check_shortage() {
	event_count finished;
	cuda_pinned_pool pool(driver, nullptr, finished);
	host.has_memory = false;
	wait_until_ready(pool, finished, mebibyte);
	bool is_short = false;
	try {
		pool.allocate(mebibyte);
	} catch(const std::bad_alloc&) { is_short = true; }
	check(is_short, "a shortage is told to whoever allocates");
	host.has_memory = true;
	wait_until_ready(pool, finished, mebibyte);
	pool.allocate(mebibyte);
	pool.free_slabs();
	check(host.pinned.empty(), "everything is given back");
}

// Requests may be under way when the pool ends. The memory that they bring must not be lost.
void check_end() {
	for(int round = 0; round < 20; ++round) {
		event_count finished;
		cuda_pinned_pool pool(driver, nullptr, finished);
		host.duration_ms = round % 3;
		pool.is_ready(mebibyte);
		if(round % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
		pool.free_slabs();
		check(host.pinned.empty(), "what was pinned too late is given back, too");
	}
}

} // namespace

int main() {
	check_that_another_thread_pins();
	check_shortage();
	check_end();
	std::printf("pinned pool: ok\n");
}
