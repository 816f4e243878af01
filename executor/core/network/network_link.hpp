// SPDX-License-Identifier: MIT
// The executor's end of the network.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "events/executor_events.hpp"
#include "message_port.hpp"
#include "look_times.hpp"

namespace celerity {

/// Hands messages to a port, and looks at the port when it is time. Without a port, messages are events for whoever drives the executor and plays the network.
/// Executor thread, except where noted.
class network_link {
  public:
	using clock = std::chrono::steady_clock;

	explicit network_link(std::vector<executor_event>& events) : m_events(events) {}

	/// Before the first batch.
	void connect(std::shared_ptr<message_port> port, const look_settings& settings);
	bool is_connected() const { return m_port != nullptr; }

	void send_pilot(rank_id to, const pilot_message& pilot);
	/// Whether a message of this size travels together with its pilot.
	bool is_small(const std::size_t size_bytes) const { return m_port != nullptr && size_bytes <= m_port->largest_small_bytes(); }
	/// Sends pilot and message. Whether the message is copied, so that its memory may be reused; otherwise its request completes.
	bool send_with_pilot(const pilot_message& pilot, const payload& sent);
	void send(const payload& sent);
	void receive(const payload& received);
	void barrier(request_id request);

	/// Lets the port progress if it is time. Whether it has something for anybody, or has failed. Does not throw.
	bool look() { return m_port != nullptr && look_at_port(); }
	/// The time of the next look.
	clock::time_point next_look() const { return m_next_look; }
	/// Whether the executor awaits data of other ranks.
	void set_awaiting(const bool is_awaiting) {
		if(m_is_awaiting.exchange(is_awaiting, std::memory_order_relaxed) == is_awaiting || m_port == nullptr) return;
		if(is_awaiting) m_next_look = {}; // after an idle time, the next look is far away
	}
	/// Any thread.
	bool is_awaiting() const { return m_is_awaiting.load(std::memory_order_relaxed); }
	/// What has come. Throws the error of an earlier look.
	arrived_messages take();
	/// Whether Python has something to take from the port.
	bool has_control() const { return m_port != nullptr && m_port->has_control(); }

	/// Something has moved.
	void note_progress() { m_progress_ns.store(clock::now().time_since_epoch().count(), std::memory_order_relaxed); }
	/// Since then. Any thread.
	std::chrono::nanoseconds still_for() const {
		return clock::now().time_since_epoch() - std::chrono::nanoseconds(m_progress_ns.load(std::memory_order_relaxed));
	}

  private:
	std::vector<executor_event>& m_events;
	std::shared_ptr<message_port> m_port;
	look_settings m_look_settings;
	std::atomic<bool> m_is_awaiting{false};
	bool m_is_idle = false; ///< at the latest look, nothing was awaited
	clock::time_point m_next_look = clock::time_point::max(); ///< without a port: never
	clock::time_point m_last_arrival = clock::now();          ///< at or from the port
	clock::time_point m_last_move{};                          ///< the end of a look that has moved a part of a message
	clock::duration m_shortest_look = clock::duration::max();
	std::atomic<std::int64_t> m_progress_ns{clock::now().time_since_epoch().count()};
	std::exception_ptr m_error;

	bool look_at_port();
	/// The network has been given something.
	void note_given();
};

} // namespace celerity
