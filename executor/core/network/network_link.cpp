// SPDX-License-Identifier: MIT
#include "network_link.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace celerity {

void network_link::connect(std::shared_ptr<message_port> port, const look_settings& settings) {
	m_port = std::move(port);
	m_look_settings = settings;
	m_next_look = {};
}

void network_link::send_pilot(const rank_id to, const pilot_message& pilot) {
	if(m_port == nullptr) {
		m_events.emplace_back(pilot_event{to, pilot});
		return;
	}
	m_port->send_pilot(to, std::as_bytes(std::span(&pilot, 1)));
	note_given();
}

bool network_link::send_with_pilot(const pilot_message& pilot, const payload& sent) {
	const bool is_copied = m_port->send_small(std::as_bytes(std::span(&pilot, 1)), sent);
	note_given();
	if(is_copied) return true;
	send_pilot(sent.peer_rank, pilot);
	send(sent);
	return false;
}

void network_link::send(const payload& sent) {
	if(m_port == nullptr) {
		m_events.emplace_back(send_event{sent});
		return;
	}
	m_port->send(sent);
	note_given();
}

void network_link::receive(const payload& received) {
	if(m_port == nullptr) {
		m_events.emplace_back(receive_event{received});
		return;
	}
	m_port->receive(received);
	note_given();
}

void network_link::barrier(const request_id request) {
	if(m_port == nullptr) {
		m_events.emplace_back(barrier_event{request});
		return;
	}
	m_port->barrier(request);
	note_given();
}

void network_link::note_given() {
	m_last_arrival = clock::now();
	m_next_look = m_last_arrival;
	note_progress();
}

bool network_link::look_at_port() {
	const auto has_something = [&] { return m_port->has_messages() || m_port->has_control() || m_error != nullptr; };
	if(has_something()) return true;
	const auto now = clock::now();
	// Python gives the port notices, and the end of the run.
	const bool is_given = m_is_idle && m_port->outstanding() > 0;
	if(is_given) m_last_arrival = now;
	if(now < m_next_look && !is_given) return false;
	try {
		m_port->poll();
	} catch(const std::exception&) { m_error = std::current_exception(); }
	const auto end = clock::now();
	m_shortest_look = std::min(m_shortest_look, end - now);
	if(has_moved_data(end - now, m_shortest_look)) m_last_move = end;
	if(m_port->has_messages()) {
		m_last_arrival = now;
		note_progress();
	}
	const bool has_requests = m_port->outstanding() > 0;
	m_is_idle = !is_awaiting() && !has_requests;
	m_next_look = end + time_to_next_look(m_look_settings, {still_for(), end - m_last_arrival, end - m_last_move, is_awaiting() || has_requests, has_requests});
	return has_something();
}

arrived_messages network_link::take() {
	if(m_error != nullptr) std::rethrow_exception(std::exchange(m_error, nullptr));
	return m_port == nullptr ? arrived_messages{} : m_port->take_messages();
}

} // namespace celerity
