// SPDX-License-Identifier: MIT
#include "cuda_lane.hpp"

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "threads/relax_cpu.hpp"

namespace celerity {

namespace {

constexpr std::size_t initial_events = 64;

} // namespace

cuda_lane::cuda_lane(const cuda::driver& driver, const cuda::context context, const std::uint32_t device, const int priority, cuda_timeline* const timeline,
    const lane_index index, const bool opens)
    : m_driver(driver), m_context(context), m_device(device), m_priority(priority), m_events(initial_events, nullptr), m_timeline(timeline), m_index(index),
      m_begins(timeline != nullptr ? initial_events : 0) {
	if(opens) open();
}

void cuda_lane::open(const cuda::green_context part) {
	if(claimed() > 0 || recorded() > 0) throw std::logic_error("a lane with operations keeps its stream");
	m_driver.check(m_driver.context_set_current(m_context), "cuCtxSetCurrent");
	cuda::stream made = nullptr;
	if(part == nullptr) {
		m_driver.check(m_driver.stream_create(&made, cuda::stream_non_blocking, m_priority), "cuStreamCreateWithPriority");
	} else {
		m_driver.check(m_driver.green_stream_create(&made, part, cuda::stream_non_blocking, m_priority), "cuGreenCtxStreamCreate");
	}
	if(is_open()) m_driver.stream_destroy(m_stream);
	m_stream = made;
	m_part = part;
}

cuda_lane::~cuda_lane() {
	if(m_is_forgotten || !is_open()) return;
	m_driver.context_set_current(m_context);
	for(const auto event : m_events) {
		if(event != nullptr) m_driver.event_destroy(event);
	}
	for(const auto& mark : m_begins) {
		if(mark.event != nullptr) m_driver.event_destroy(mark.event);
	}
	m_driver.stream_destroy(m_stream);
}

void cuda_lane::begin(const std::uint64_t sequence) {
	if(m_timeline == nullptr) return;
	const std::lock_guard lock(m_mutex);
	if(sequence - completed() >= m_events.size()) grow();
	auto& mark = begin_at(sequence);
	if(mark.event == nullptr) m_driver.check(m_driver.event_create(&mark.event, cuda::event_default), "cuEventCreate");
	mark.issued_ns = now_ns();
	m_driver.check(m_driver.event_record(mark.event, m_stream), "cuEventRecord");
}

void cuda_lane::claim(const std::uint64_t sequence) {
	const std::lock_guard lock(m_mutex);
	m_claimed = sequence;
}

void cuda_lane::record(const std::uint64_t sequence) {
	const std::lock_guard lock(m_mutex);
	if(sequence - completed() >= m_events.size()) grow();
	cuda::event& event = event_at(sequence);
	if(event == nullptr)
		m_driver.check(m_driver.event_create(&event, m_timeline != nullptr ? cuda::event_default : cuda::event_disable_timing), "cuEventCreate");
	m_driver.check(m_driver.event_record(event, m_stream), "cuEventRecord");
	m_recorded.store(sequence, std::memory_order_release);
}

bool cuda_lane::wait_until_recorded(const std::uint64_t sequence) const {
	for(int looks = 0; recorded() < sequence; ++looks) {
		if(m_is_cancelled.load(std::memory_order_relaxed)) return false;
		if(looks < 1000) {
			relax_cpu();
		} else {
			std::this_thread::yield();
		}
	}
	return true;
}

// Events in flight keep their positions: sequence numbers stay, only the ring around them gets larger.
void cuda_lane::grow() {
	std::vector<cuda::event> larger(2 * m_events.size(), nullptr);
	std::vector<cuda::event> idle;
	const std::uint64_t first = completed() + 1;
	std::vector<bool> is_used(m_events.size(), false);
	for(std::uint64_t sequence = first; sequence <= recorded(); ++sequence) {
		is_used[sequence & (m_events.size() - 1)] = true;
		larger[sequence & (larger.size() - 1)] = event_at(sequence);
	}
	for(std::size_t i = 0; i < m_events.size(); ++i) {
		if(!is_used[i] && m_events[i] != nullptr) idle.push_back(m_events[i]);
	}
	if(m_timeline != nullptr) {
		std::vector<begin_mark> larger_begins(larger.size());
		for(std::uint64_t sequence = first; sequence <= recorded(); ++sequence) {
			std::swap(larger_begins[sequence & (larger_begins.size() - 1)], begin_at(sequence));
		}
		for(const auto& mark : m_begins) {
			if(mark.event != nullptr) m_driver.event_destroy(mark.event);
		}
		m_begins = std::move(larger_begins);
	}
	m_events = std::move(larger);
	for(auto& event : m_events) {
		if(idle.empty()) break;
		if(event != nullptr) continue;
		event = idle.back();
		idle.pop_back();
	}
}

void cuda_lane::follow(const std::uint64_t sequence, cuda_lane& producer, const std::uint64_t producer_sequence) {
	const auto owed = std::find_if(m_owed.begin(), m_owed.end(), [&](const followed& f) { return f.producer == &producer; });
	if(owed == m_owed.end()) {
		m_owed.push_back({sequence, &producer, producer_sequence});
	} else {
		owed->producer_sequence = std::max(owed->producer_sequence, producer_sequence);
	}
	const std::lock_guard lock(m_mutex);
	if(sequence - completed() >= m_events.size()) grow(); // every position has a place
	m_followed.push_back({sequence, &producer, producer_sequence});
	m_recorded.store(sequence, std::memory_order_release);
}

void cuda_lane::catch_up() {
	for(const auto& owed : m_owed) owed.producer->make_wait(m_stream, owed.producer_sequence);
	m_owed.clear();
}

bool cuda_lane::make_wait(const cuda::stream waiter, const std::uint64_t sequence) {
	const std::lock_guard lock(m_mutex);
	if(completed() >= sequence) return false;
	const auto is_followed = [&](const followed& f) { return f.sequence == sequence; };
	if(std::any_of(m_followed.begin(), m_followed.end(), is_followed)) throw std::logic_error("a lane cannot wait for what only follows another one");
	m_driver.check(m_driver.stream_wait_event(waiter, event_at(sequence), 0), "cuStreamWaitEvent");
	return true;
}

std::uint64_t cuda_lane::poll() {
	std::uint64_t done = completed();
	++m_num_polls;
	const std::lock_guard lock(m_mutex);
	const std::uint64_t last = m_recorded.load(std::memory_order_relaxed);
	while(done < last) {
		const std::uint64_t before = done;
		if(!m_followed.empty() && m_followed.front().sequence == done + 1) {
			auto& producer = *m_followed.front().producer;
			if(producer.completed() < m_followed.front().producer_sequence) {
				// In most cases the thread that polls this lane polls the producer as well, but not once the whole producer is complete.
				if(producer.m_num_polls == m_producer_polls) producer.poll();
				m_producer_polls = producer.m_num_polls;
				if(producer.completed() < m_followed.front().producer_sequence) break;
			}
			m_followed.pop_front();
			++done;
			continue;
		}
		done = poll_events(done, m_followed.empty() ? last : m_followed.front().sequence - 1);
		if(done == before || m_followed.empty()) break;
	}
	m_completed.store(done, std::memory_order_release);
	return done;
}

// The last complete position between `done` and `last`, all of which have events.
std::uint64_t cuda_lane::poll_events(std::uint64_t done, const std::uint64_t last) {
	// To ask costs about as much as to launch. Most often the stream is busy with the next position, or idle.
	if(done >= last || !has_passed(done + 1)) return done;
	const std::uint64_t first = done + 1;
	done = first;
	if(first < last) {
		if(has_passed(last)) {
			done = last;
		} else {
			while(done < last && has_passed(done + 1)) ++done; // by now `last` may have passed as well
		}
	}
	if(m_timeline != nullptr) {
		for(std::uint64_t sequence = first; sequence <= done; ++sequence) {
			auto& mark = begin_at(sequence);
			m_timeline->add({m_index, sequence}, mark.event, event_at(sequence), mark.issued_ns);
		}
	}
	return done;
}

bool cuda_lane::has_passed(const std::uint64_t sequence) {
	const auto code = m_driver.event_query(event_at(sequence));
	if(code == cuda::error_not_ready) return false;
	m_driver.check(code, "a kernel or copy");
	return true;
}

} // namespace celerity
