// SPDX-License-Identifier: MIT
#include "direct_sender.hpp"

#include <algorithm>

#include "events/labels.hpp"

namespace celerity {

namespace {

/// They are compared one by one.
constexpr std::size_t max_recent_flags = 8;

} // namespace

void direct_sender::add(const instruction& item, const send_instruction& send, const std::uint64_t stamp, const std::uint64_t program_digest) {
	auto& out = m_outgoing.emplace(item.id, outgoing{&item, &send, stamp, program_digest}).first->second;
	if(m_shared.allocations.contains(send.source)) {
		announce(out);
	} else {
		m_waiting_for_source[send.source].push_back(&out);
	}
}

void direct_sender::notify_allocated(const allocation_id allocation) {
	const auto waiting = m_waiting_for_source.extract(allocation);
	if(waiting.empty()) return;
	for(auto* const out : waiting.mapped()) announce(*out);
}

void direct_sender::announce(outgoing& out) {
	auto& peer = m_shared.neighbours[out.send->destination_rank.value];
	auto& to = m_destinations[out.send->destination_rank];
	const auto slot = take_slot(to);
	if(!slot.has_value()) {
		out.state = outgoing::state_type::without_slot;
		to.waiting_for_slot.push_back(&out);
		return;
	}
	out.slot = *slot;
	out.ready_index = take_ready_flag(out);
	out.answer_value = ++to.answer_values[out.slot];
	out.answer = {m_shared.own_flags.answer_flag(peer.position, out.slot), static_cast<std::uint32_t>(out.answer_value)};
	if(peer.words != 0 && graph_inbox::is_for(out.send->sent_box, out.send->element_size_bytes)) {
		if(++to.num_puts == 0) ++to.num_puts; // it has wrapped around
		out.put_number = to.num_puts;
	}
	out.state = outgoing::state_type::announced;
	const auto pilot = make_pilot(out);
	if(!to.unsent_pilots.empty() || !peer.flags.pilots(m_shared.own_position).push(pilot)) {
		to.unsent_pilots.push_back(pilot);
		++m_num_unsent_pilots;
	}
	peer.flags.ring_owner();
	m_shared.released.push_back({out.item->id, false});
}

std::optional<std::uint32_t> direct_sender::take_slot(destination& to) {
	if(to.free_slots.empty()) {
		if(to.answer_values.size() == flag_memory::num_slots) return std::nullopt;
		to.free_slots.push_back(static_cast<std::uint32_t>(to.answer_values.size()));
		to.answer_values.push_back(0);
	}
	const std::uint32_t slot = to.free_slots.back();
	to.free_slots.pop_back();
	return slot;
}

pilot_message direct_sender::make_pilot(const outgoing& out) const {
	const auto& send = *out.send;
	const auto source = m_shared.allocations.place(send.source);
	return {.transfer = send.transfer,
	    .message = send.message,
	    .sent_box = send.sent_box,
	    .program_digest = out.program_digest,
	    .allocated_box = *source.array,
	    .location = m_shared.lanes->locate(send.source.memory, source.address),
	    .ready_index = out.ready_index,
	    .ready_value = m_ready_flags[out.ready_index].value,
	    .answer_slot = out.slot,
	    .answer_value = out.answer_value,
	    .put_number = out.put_number};
}

// A stream takes more than a microsecond to write a flag, so messages with the same producers share one. Values wrap around in the end, and the comparison
// allows for that.
std::uint32_t direct_sender::take_ready_flag(const outgoing& out) {
	const memory_id source = out.send->source.memory;
	const auto& dependencies = out.item->dependencies;
	const auto shared = std::find_if(m_recent_flags.begin(), m_recent_flags.end(),
	    [&](const recent_flag& recent) { return recent.source == source && std::ranges::equal(recent.dependencies, dependencies); });
	if(shared != m_recent_flags.end()) {
		++m_ready_flags[shared->index].num_messages;
		return shared->index;
	}
	if(m_free_ready_flags.empty()) {
		m_free_ready_flags.push_back(static_cast<std::uint32_t>(m_ready_flags.size()));
		m_ready_flags.emplace_back();
	}
	const std::uint32_t index = m_free_ready_flags.back();
	m_free_ready_flags.pop_back();
	if(m_recent_flags.size() == max_recent_flags) m_recent_flags.erase(m_recent_flags.begin());
	m_recent_flags.push_back({index, source, {dependencies.begin(), dependencies.end()}});
	m_ready_flags[index] = {m_ready_flags[index].value + 1, 1, false};
	return index;
}

void direct_sender::leave_ready_flag(const std::uint32_t index) {
	if(--m_ready_flags[index].num_messages > 0) return;
	std::erase_if(m_recent_flags, [=](const recent_flag& recent) { return recent.index == index; });
	m_free_ready_flags.push_back(index);
}

void direct_sender::send_pilots() {
	if(m_num_unsent_pilots == 0) return;
	for(auto& [rank, to] : m_destinations) {
		auto& flags = m_shared.neighbours[rank.value].flags;
		while(!to.unsent_pilots.empty() && flags.pilots(m_shared.own_position).push(to.unsent_pilots.front())) {
			to.unsent_pilots.pop_front();
			--m_num_unsent_pilots;
			flags.ring_owner();
		}
	}
}

void direct_sender::signal(const issue& item, const lane_waits& waits) {
	auto& out = m_outgoing.at(item.id);
	out.state = outgoing::state_type::issued;
	m_unanswered.push_back(&out);
	m_shared.statistics.sent_bytes.direct += bytes_of(out.send->sent_box, out.send->element_size_bytes);
	if(m_shared.trace != nullptr) out.issued_ns = now_ns();
	auto& flag = m_ready_flags[out.ready_index];
	m_shared.lanes->enqueue_signal({item.lane, item.sequence}, waits, flag.is_issued ? shared_flag{} : ready_flag_of(out), item.depends_on_one);
	flag.is_issued = true;
}

direct_sender::graph_flags direct_sender::begin_in_graph(const instruction_id id) {
	auto& out = m_outgoing.at(id);
	out.state = outgoing::state_type::issued;
	m_shared.statistics.sent_bytes.direct += bytes_of(out.send->sent_box, out.send->element_size_bytes);
	m_ready_flags[out.ready_index].is_issued = true;
	const auto& peer = m_shared.neighbours[out.send->destination_rank.value];
	graph_flags flags{m_shared.ready_flag(true, peer, out.slot, out.answer_value, ready_flag_of(out)),
	    m_shared.answer_flag(true, peer, out.slot, out.answer_value, out.answer), std::nullopt};
	if(out.put_number == 0) return flags;
	const auto& send = *out.send;
	flags.ready.put_number = out.put_number;
	flags.put = graph_put{
	    {m_shared.allocations.place(send.source), {}, std::span(&send.sent_box, 1), send.element_size_bytes, bytes_of(send.sent_box, send.element_size_bytes)},
	    m_shared.inbox(true, peer, send.sent_box)};
	return flags;
}

shared_flag direct_sender::answer_to(const instruction_id send) const {
	const auto found = m_outgoing.find(send);
	return found == m_outgoing.end() ? shared_flag{} : found->second.answer;
}

bool direct_sender::has_news() const {
	return std::any_of(m_unanswered.begin(), m_unanswered.end(), [](const outgoing* const out) { return is_reached(out->answer); });
}

void direct_sender::poll(std::vector<instruction_id>& answered) {
	std::size_t num_kept = 0;
	for(auto* const out : m_unanswered) {
		if(!is_reached(out->answer)) {
			m_unanswered[num_kept++] = out;
			continue;
		}
		out->state = outgoing::state_type::answered;
		answered.push_back(out->item->id);
	}
	m_unanswered.resize(num_kept);
}

// The engine may know before poll() does: a kernel that has waited on its lane for the answer is complete.
void direct_sender::retire(const instruction_id id) {
	const auto retired = m_outgoing.extract(id);
	if(retired.empty()) return;
	const auto& out = retired.mapped();
	if(out.state == outgoing::state_type::issued) std::erase(m_unanswered, &out);
	const auto& send = *out.send;
	const auto size_bytes = bytes_of(send.sent_box, send.element_size_bytes);
	m_shared.trace_until_now(out.issued_ns, traced_send{id, send.transfer.buffer, size_bytes, send.message, send.destination_rank});
	auto& to = m_destinations.at(send.destination_rank);
	to.free_slots.push_back(out.slot);
	leave_ready_flag(out.ready_index);
	if(to.waiting_for_slot.empty()) return;
	auto& next = *to.waiting_for_slot.front();
	to.waiting_for_slot.pop_front();
	announce(next);
}

std::optional<transfer_status> direct_sender::find_status(const instruction_id id) const {
	const auto found = m_outgoing.find(id);
	if(found == m_outgoing.end()) return std::nullopt;
	const auto& out = found->second;
	const bool is_issued = out.state == outgoing::state_type::issued;
	const bool is_waiting = is_issued || out.state == outgoing::state_type::without_slot;
	const auto* text = "";
	switch(out.state) {
	case outgoing::state_type::unallocated: text = " waits for its allocation"; break;
	case outgoing::state_type::without_slot: text = " waits until the peer has fetched others"; break;
	case outgoing::state_type::announced:
	case outgoing::state_type::issued:
	case outgoing::state_type::answered:
		if(is_reached(ready_flag_of(out))) {
			text = is_issued ? " is ready and has not been fetched" : " is announced, and its data is ready";
		} else {
			text = is_issued ? " is announced, its data is being made" : " is announced, its data is not ready";
		}
	}
	return transfer_status{numbered("message ", out.send->message.value) + text, out.send->destination_rank, out.stamp, is_waiting};
}

} // namespace celerity
