// SPDX-License-Identifier: MIT
#include "cuda_pinned_pool.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "threads/start_thread.hpp"

namespace celerity {

namespace {

constexpr std::size_t alignment_bytes = 4096;
constexpr std::size_t slab_bytes = std::size_t{16} << 20;

} // namespace

cuda_pinned_pool::cuda_pinned_pool(const cuda::driver& driver, const cuda::context context, event_count& finished)
    : m_driver(driver), m_context(context), m_finished(finished),
      m_arena([this](const std::size_t size_bytes) { return pin(size_bytes); }, alignment_bytes, slab_bytes) {}

cuda_pinned_pool::~cuda_pinned_pool() { stop(); }

void* cuda_pinned_pool::pin(const std::size_t size_bytes) {
	void* address = nullptr;
	m_driver.check(m_driver.context_set_current(m_context), "cuCtxSetCurrent");
	const auto code = m_driver.host_allocate(&address, size_bytes, cuda::host_memory_portable | cuda::host_memory_mapped);
	if(code == cuda::error_out_of_memory) throw std::bad_alloc();
	m_driver.check(code, "cuMemHostAlloc");
	return address;
}

bool cuda_pinned_pool::is_ready(const std::size_t size_bytes) {
	std::unique_lock lock(m_mutex);
	if(m_is_requested && m_is_done) {
		m_is_requested = m_is_done = false;
		const auto made = std::exchange(m_made, {});
		if(made.address == nullptr) return true; // allocate() reports the failure
		m_arena.adopt(made);
	}
	if(m_arena.fits(size_bytes)) return true;
	if(m_is_requested) return false;
	m_is_requested = true;
	m_wanted_bytes = std::max(m_arena.round_up(size_bytes), slab_bytes);
	if(!m_thread.joinable()) m_thread = start_thread("to pin host memory", [this] { run(); });
	m_wake.notify_one();
	return false;
}

void cuda_pinned_pool::run() {
	std::unique_lock lock(m_mutex);
	while(true) {
		m_wake.wait(lock, [this] { return m_is_stopping || m_wanted_bytes > 0; });
		if(m_is_stopping) return;
		const std::size_t size_bytes = std::exchange(m_wanted_bytes, 0);
		lock.unlock();
		slab_arena::slab made;
		try {
			made = {pin(size_bytes), size_bytes};
		} catch(const std::exception&) {} // allocate() tries again, and reports the error
		lock.lock();
		m_made = made;
		m_is_done = true;
		m_finished.signal();
	}
}

void cuda_pinned_pool::stop() {
	{
		const std::lock_guard lock(m_mutex);
		m_is_stopping = true;
	}
	m_wake.notify_one();
	if(m_thread.joinable()) m_thread.join();
}

void cuda_pinned_pool::free_slabs() {
	stop();
	if(m_made.address != nullptr) m_arena.adopt(std::exchange(m_made, {}));
	for(const auto& slab : m_arena.slabs()) m_driver.host_free(slab.address);
}

} // namespace celerity
