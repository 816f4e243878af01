// SPDX-License-Identifier: MIT
// A CUDA stream whose progress the host can follow, and that other streams can wait for at any point.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "cuda_driver.hpp"
#include "cuda_timeline.hpp"
#include "engine/lane_pool.hpp"

namespace celerity {

/// One event per position, reused once the position is complete. Positions are recorded in ascending order by one thread at a time; any thread may
/// make another lane wait; one thread polls, with the lane's context current or any other.
class cuda_lane {
  public:
	/// `device` is an index among the devices of the rank. `timeline` may be null; it outlives the lane, which has the number `index` there. Without `opens`
	/// there is no stream until open().
	cuda_lane(const cuda::driver& driver, cuda::context context, std::uint32_t device, int priority, cuda_timeline* timeline = nullptr, lane_index index = 0,
	    bool opens = true);
	~cuda_lane();
	cuda_lane(const cuda_lane&) = delete;
	cuda_lane& operator=(const cuda_lane&) = delete;

	/// Makes the stream, or another one, before the first operation; changes the current context of the thread. `part`: its kernels run on these
	/// multiprocessors only; null: on any. The part outlives the lane. Throws cuda::driver_error, and nothing has changed then.
	void open(cuda::green_context part = nullptr);
	bool is_open() const { return m_stream != nullptr; }
	cuda::green_context part() const { return m_part; }

	cuda::context context() const { return m_context; }
	std::uint32_t device() const { return m_device; }
	cuda::stream stream() const { return m_stream; }

	/// Operations put on the stream from now on belong to `sequence`, which is recorded next. Only the timeline uses this.
	void begin(std::uint64_t sequence);
	/// All operations that are on the stream now belong to `sequence` or to an older position.
	void record(std::uint64_t sequence);
	/// From now on a thread other than the issuing one puts the operations of `sequence` on the stream.
	void claim(std::uint64_t sequence);
	std::uint64_t claimed() const { return m_claimed; }
	/// Calls `append`, which puts something on the stream, if nothing else has followed `sequence` there. Otherwise false.
	template <typename Append>
	bool append_behind(const std::uint64_t sequence, const Append& append) {
		const std::lock_guard lock(m_mutex);
		if(m_claimed > sequence || m_recorded.load(std::memory_order_relaxed) != sequence) return false;
		append();
		return true;
	}
	/// In place of record(): `sequence` completes together with `producer_sequence` of another lane. This stream gets no operation for it, because a stream
	/// that waits for an event delays flags on others. `producer` outlives the last poll() of this lane, and follows no lane. The thread that polls.
	void follow(std::uint64_t sequence, cuda_lane& producer, std::uint64_t producer_sequence);
	/// Operations put on the stream from now on run after all positions that this lane has followed. The thread that polls.
	void catch_up();
	/// Operations put on `waiter` from now on run after `sequence`, which has been recorded. False if it is complete: there is nothing to wait for. Throws
	/// std::logic_error if it follows another lane.
	bool make_wait(cuda::stream waiter, std::uint64_t sequence);

	/// The last complete position of the stream. Throws cuda::driver_error if the device has failed. One thread.
	std::uint64_t poll();
	std::uint64_t completed() const { return m_completed.load(std::memory_order_acquire); }
	/// The last position that is on the stream.
	std::uint64_t recorded() const { return m_recorded.load(std::memory_order_acquire); }
	/// Blocks until another thread has put `sequence` on the stream. False if cancel() came first.
	bool wait_until_recorded(std::uint64_t sequence) const;
	void cancel() { m_is_cancelled.store(true, std::memory_order_relaxed); }
	bool is_idle() const { return completed() == recorded(); }
	/// The process is about to end, or the context is lost: leave everything as it is.
	void forget() { m_is_forgotten = true; }

  private:
	/// A position of this lane that is complete when one of another lane is.
	struct followed {
		std::uint64_t sequence = 0;
		cuda_lane* producer = nullptr;
		std::uint64_t producer_sequence = 0;
	};

	const cuda::driver& m_driver;
	cuda::context m_context;
	std::uint32_t m_device;
	int m_priority;
	cuda::stream m_stream = nullptr;
	cuda::green_context m_part = nullptr;
	std::mutex m_mutex;
	std::vector<cuda::event> m_events; ///< ring by sequence; its size is a power of two
	/// Where a position begins; with a timeline.
	struct begin_mark {
		cuda::event event = nullptr;
		std::int64_t issued_ns = 0;
	};
	cuda_timeline* const m_timeline;
	const lane_index m_index;
	std::vector<begin_mark> m_begins; ///< in the places of m_events; empty without a timeline
	std::uint64_t m_claimed = 0;
	std::atomic<std::uint64_t> m_recorded{0};
	std::atomic<bool> m_is_cancelled{false};
	std::atomic<std::uint64_t> m_completed{0};
	std::deque<followed> m_followed; ///< not complete yet, ascending
	std::vector<followed> m_owed;    ///< positions that the stream has not been told to wait for; the last one of each producer
	bool m_is_forgotten = false;
	// The thread that polls.
	std::uint64_t m_num_polls = 0;
	std::uint64_t m_producer_polls = 0; ///< of the lane that this lane follows, when it last looked

	cuda::event& event_at(std::uint64_t sequence) { return m_events[sequence & (m_events.size() - 1)]; }
	begin_mark& begin_at(std::uint64_t sequence) { return m_begins[sequence & (m_begins.size() - 1)]; }
	std::uint64_t poll_events(std::uint64_t done, std::uint64_t last);
	bool has_passed(std::uint64_t sequence);
	void grow();
};

} // namespace celerity
