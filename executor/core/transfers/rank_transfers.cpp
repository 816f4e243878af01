// SPDX-License-Identifier: MIT
#include "rank_transfers.hpp"

#include <chrono>
#include <utility>
#include <variant>

namespace celerity {

namespace {

/// Small messages are announced ahead of their data once none has left for so long: the other rank can then tell for whom it waits.
constexpr std::chrono::milliseconds longest_unannounced_send{5};

} // namespace

rank_transfers::rank_transfers(const rank_id own, backend& devices, const allocation_table& allocations, executor_statistics& statistics, network_link& network,
    program_log* const program, trace_recorder* const trace, const std::size_t least_direct_bytes)
    : m_direct{own, devices, devices.direct(), devices.graphs() != nullptr && devices.graphs()->exchange(), allocations, statistics, trace, least_direct_bytes},
      m_sender(m_direct), m_receiver(m_direct), m_messages(allocations, statistics, m_receiver, network, trace), m_network(network), m_program(program) {}

void rank_transfers::begin(const instruction& item, const std::uint64_t stamp) {
	if(const auto* const send = std::get_if<send_instruction>(&item.operation)) {
		announce(item, *send, stamp);
	} else if(const auto* const receive = std::get_if<receive_instruction>(&item.operation); receive != nullptr && m_direct.has_peers()) {
		// The engine holds a direct receive until its parts are announced. The arbiter therefore gets it now, behind `m_receiver.add()`. Without direct peers
		// it gets the receive when that is issued: see dispatcher::execute(receive_instruction).
		m_receiver.add(item.id, *receive, stamp);
		m_messages.arbiter().receive(item.id, *receive);
	}
}

void rank_transfers::announce(const instruction& item, const send_instruction& send, const std::uint64_t stamp) {
	if(m_direct.is_direct(send)) return m_sender.add(item, send, stamp, program_digest_at(send.transfer.consumer));
	if(m_network.is_small(bytes_of(send.sent_box, send.element_size_bytes))) {
		if(m_unannounced.empty()) delay_announcements();
		m_unannounced.emplace(item.id, &send);
		return;
	}
	m_network.send_pilot(send.destination_rank, pilot_of(send));
	m_has_unsent_pilots = !m_network.is_connected();
}

void rank_transfers::send(const instruction_id id, const send_instruction& send, std::vector<instruction_id>& completed) {
	if(m_unannounced.erase(id) == 0) return m_messages.send(id, send);
	delay_announcements();
	if(m_messages.send_small(id, send, pilot_of(send))) completed.push_back(id);
}

void rank_transfers::announce_late() {
	if(m_unannounced.empty() || event_count::clock::now() < m_announce_at) return;
	for(const auto& [id, send] : std::exchange(m_unannounced, {})) m_network.send_pilot(send->destination_rank, pilot_of(*send));
}

void rank_transfers::delay_announcements() { m_announce_at = event_count::clock::now() + longest_unannounced_send; }

pilot_message rank_transfers::pilot_of(const send_instruction& send) const {
	return {.transfer = send.transfer, .message = send.message, .sent_box = send.sent_box, .program_digest = program_digest_at(send.transfer.consumer)};
}

std::uint64_t rank_transfers::program_digest_at(const task_id consumer) const { return m_program != nullptr ? m_program->digest_at(consumer) : 0; }

// Data of another program must not be taken for data of this one. A pilot for a task still to come is compared when that task comes, before its receives.
void rank_transfers::take_pilot(const rank_id from, const pilot_message& pilot) {
	if(m_program != nullptr && m_program->compare_task(from, pilot.transfer.consumer, pilot.program_digest) == program_log::verdict::different) return;
	m_messages.arbiter().pilot(from, pilot.message, pilot.transfer, pilot.sent_box);
}

bool rank_transfers::poll(std::vector<instruction_id>& completed) {
	announce_late();
	m_sender.send_pilots();
	bool has_progressed = false;
	m_receiver.take_pilots([&](const rank_id source, const pilot_message& pilot) {
		take_pilot(source, pilot);
		has_progressed = true;
	});
	m_sender.poll(completed);
	return has_progressed || !completed.empty();
}

void rank_transfers::retire(const instruction& item) {
	if(std::holds_alternative<receive_instruction>(item.operation)) {
		m_receiver.retire(item.id);
	} else if(std::holds_alternative<send_instruction>(item.operation)) {
		m_sender.retire(item.id);
	}
}

bool rank_transfers::is_outstanding() const {
	// Some backends wake this thread when a peer has fetched.
	const bool must_look = m_sender.num_unanswered() > 0 && !m_direct.lanes->signals_flags();
	return m_messages.is_outstanding() || must_look;
}

std::optional<transfer_status> rank_transfers::find_status(const instruction_id id) const {
	auto sent = m_sender.find_status(id);
	return sent.has_value() ? sent : m_receiver.find_status(id);
}

} // namespace celerity
