// SPDX-License-Identifier: MIT
#include "cuda_worker.hpp"

#include <chrono>
#include <utility>

#include "threads/relax_cpu.hpp"
#include "threads/start_thread.hpp"

namespace celerity {

namespace {

/// Operations between two looks for completed ones.
constexpr int operations_per_round = 8;
/// The thread looks at a busy device all the time. So long after the device has become idle, the thread sleeps.
constexpr std::chrono::microseconds spin_time{50};
/// Between two looks, where there are fewer cores than busy threads.
constexpr std::chrono::microseconds pause{20};
constexpr std::chrono::milliseconds sleep_time{100};

} // namespace

cuda_worker::cuda_worker(issue_function issue, std::vector<cuda_lane*> lanes, event_count& completions, const bool may_spin)
    : m_issue(std::move(issue)), m_lanes(std::move(lanes)),
      m_num_watched(static_cast<std::size_t>(std::count_if(m_lanes.begin(), m_lanes.end(), [](const cuda_lane* const lane) { return lane->is_open(); }))),
      m_completions(completions), m_may_spin(may_spin), m_thread(start_thread("for the calls of a GPU", [this] { run(); })) {}

void cuda_worker::push(cuda_operation&& operation) {
	const auto index = m_pushed.load(std::memory_order_relaxed);
	while(index - m_popped.load(std::memory_order_acquire) >= capacity) {
		if(m_is_stopping.load(std::memory_order_relaxed) || m_has_failed.load(std::memory_order_acquire)) return;
		std::this_thread::yield();
	}
	m_ring[index % capacity] = std::move(operation);
	m_pushed.store(index + 1, std::memory_order_release);
	m_wake_up.signal();
}

bool cuda_worker::wait_until_issued(const std::uint64_t num_operations) const {
	for(int looks = 0; m_popped.load(std::memory_order_acquire) < num_operations; ++looks) {
		if(m_is_stopping.load(std::memory_order_relaxed) || m_has_failed.load(std::memory_order_acquire)) return false;
		if(looks < 1000) {
			relax_cpu();
		} else {
			std::this_thread::yield();
		}
	}
	return true;
}

void cuda_worker::rethrow() const {
	if(m_has_failed.load(std::memory_order_acquire)) std::rethrow_exception(m_error);
}

void cuda_worker::stop() {
	m_is_stopping.store(true, std::memory_order_relaxed);
	m_wake_up.signal();
	if(m_thread.joinable()) m_thread.join();
}

void cuda_worker::run() {
	auto last_work = event_count::clock::now();
	spin_pause spin;
	try {
		while(!m_is_stopping.load(std::memory_order_relaxed)) {
			const auto seen = m_wake_up.prepare();
			bool is_in_flight = false;
			const bool has_issued = issue_pending();
			const bool has_completed = poll(is_in_flight);
			if(has_completed) m_completions.signal();
			if(has_issued || has_completed) {
				last_work = event_count::clock::now();
				continue;
			}
			const auto now = event_count::clock::now();
			if(m_may_spin && (is_in_flight || now - last_work < spin_time)) {
				spin();
			} else {
				m_wake_up.wait_until(seen, now + (is_in_flight ? std::chrono::nanoseconds(pause) : std::chrono::nanoseconds(sleep_time)));
			}
		}
	} catch(...) {
		m_error = std::current_exception();
		m_has_failed.store(true, std::memory_order_release);
		m_completions.signal();
	}
}

bool cuda_worker::issue_pending() {
	int num_issued = 0;
	while(num_issued < operations_per_round) {
		const auto index = m_popped.load(std::memory_order_relaxed);
		if(index == m_pushed.load(std::memory_order_acquire)) break;
		m_issue(m_ring[index % capacity]);
		m_popped.store(index + 1, std::memory_order_release);
		++num_issued;
	}
	return num_issued > 0;
}

bool cuda_worker::poll(bool& is_in_flight) {
	bool has_progressed = false;
	for(auto* const lane : std::span(m_lanes).first(m_num_watched.load(std::memory_order_relaxed))) {
		const auto before = lane->completed();
		if(before == lane->recorded()) continue;
		has_progressed |= lane->poll() > before;
		is_in_flight |= lane->completed() != lane->recorded();
	}
	return has_progressed;
}

} // namespace celerity
