// SPDX-License-Identifier: MIT
// Pinned host memory, in slabs that a thread of its own pins: that takes 0.4 ms per MiB, in which the executor thread has better things to do.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <thread>

#include "cuda_driver.hpp"
#include "memory/slab_arena.hpp"
#include "threads/event_count.hpp"

namespace celerity {

/// Not thread-safe. The pool has a thread of its own.
class cuda_pinned_pool {
  public:
	/// `finished` is signalled when the requested memory is there, or cannot be had.
	cuda_pinned_pool(const cuda::driver& driver, cuda::context context, event_count& finished);
	/// Waits for the thread. Gives nothing back to the driver; see free_slabs().
	~cuda_pinned_pool();
	cuda_pinned_pool(const cuda_pinned_pool&) = delete;
	cuda_pinned_pool& operator=(const cuda_pinned_pool&) = delete;

	/// Whether allocate() returns at once. If not, the thread of the pool has got a request for the memory, behind its older requests.
	bool is_ready(std::size_t size_bytes);
	/// Blocks if it has to. Throws std::bad_alloc.
	void* allocate(std::size_t size_bytes) { return m_arena.allocate(size_bytes); }
	void deallocate(const void* const address) { m_arena.deallocate(address); }
	/// Joins the thread: nothing more is made ready.
	void stop();
	/// Gives all slabs back. Nothing may use them any more.
	void free_slabs();

  private:
	const cuda::driver& m_driver;
	cuda::context m_context;
	event_count& m_finished;
	slab_arena m_arena;
	bool m_is_requested = false;

	std::mutex m_mutex;
	std::condition_variable m_wake;
	std::size_t m_wanted_bytes = 0; ///< 0: nothing
	bool m_is_done = false;         ///< with the last request
	slab_arena::slab m_made;        ///< by the last request; null if there was no memory
	bool m_is_stopping = false;
	std::thread m_thread;

	void* pin(std::size_t size_bytes);
	void run();
};

} // namespace celerity
