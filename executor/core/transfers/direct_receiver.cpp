// SPDX-License-Identifier: MIT
#include "direct_receiver.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "events/labels.hpp"

namespace celerity {

namespace {

constexpr std::size_t bounce_alignment_bytes = 64;

} // namespace

direct_receiver::~direct_receiver() {
	for(const auto& [key, message] : m_incoming) give_back(message);
}

void direct_receiver::add(const instruction_id id, const receive_instruction& receive, const std::uint64_t stamp) {
	m_receives.emplace(id, receive_state{&receive, stamp});
}

bool direct_receiver::has_news() const {
	return std::any_of(m_shared.neighbours.begin(), m_shared.neighbours.end(),
	    [&](const auto& peer) { return peer.is_peer && !m_shared.own_flags.pilots(peer.position).is_empty(); });
}

void direct_receiver::add_pilot(const rank_id source, const pilot_message& pilot) {
	pilot.check();
	const auto& peer = m_shared.neighbours[source.value];
	if(pilot.answer_slot >= flag_memory::num_slots || pilot.ready_index >= peer.flags.num_ready_flags()) {
		throw std::logic_error(numbered("a direct message was announced by rank ", source.value) + " with flags that do not exist");
	}
	auto& message = m_incoming[{source, pilot.message}];
	message.is_here = true;
	message.unissued = message.unretired = pilot.sent_box.area();
	message.data = open_slab(source, pilot.location) + pilot.location.offset_bytes;
	message.allocated_box = pilot.allocated_box;
	message.ready = {peer.flags.ready_flag(pilot.ready_index), pilot.ready_value};
	message.sent_box = pilot.sent_box;
	message.put_number = static_cast<std::uint32_t>(pilot.put_number);
	message.answer_slot = static_cast<std::uint32_t>(pilot.answer_slot);
	message.answer_value = pilot.answer_value;
	message.answer = {peer.flags.answer_flag(m_shared.own_position, message.answer_slot), static_cast<std::uint32_t>(pilot.answer_value)};
}

std::byte* direct_receiver::open_slab(const rank_id source, const shared_location& location) {
	try {
		return static_cast<std::byte*>(m_shared.lanes->open_peer_slab(location));
	} catch(const device_failure&) {
		throw; // it is this rank's own
	} catch(const std::runtime_error& error) { throw peer_failure(source, error.what()); }
}

direct_receiver::part_state direct_receiver::add_part(const posted_receive& post) {
	const message_key key{post.source, post.message};
	const auto [found, is_new] = m_incoming.try_emplace(key);
	auto& message = found->second;
	if(is_new) {
		message.unretired = post.message_box.area();
		message.allocated_box = post.message_box;
	}
	m_receives.at(post.instruction).parts.push_back({key, &message, post.part});
	m_shared.statistics.received_bytes += bytes_of(post.part, post.element_size_bytes);
	if(message.is_here) return part_state::here;
	m_receives.at(post.instruction).comes_as_message = true;
	message.waiting.push_back(post.fragment);
	return is_new ? part_state::wanted : part_state::expected;
}

void* direct_receiver::prepare_bounce(const posted_receive& post) {
	auto& message = m_incoming.at({post.source, post.message});
	message.bounce_bytes = bytes_of(post.message_box, post.element_size_bytes);
	message.data = static_cast<std::byte*>(m_shared.memories.allocate(host_memory, message.bounce_bytes, bounce_alignment_bytes));
	return message.data;
}

std::vector<fragment_id> direct_receiver::arrive(const message_key& key) {
	auto& message = m_incoming.at(key);
	message.is_here = true;
	return std::exchange(message.waiting, {});
}

void direct_receiver::release_receive(const instruction_id id) {
	auto& receive = m_receives.at(id);
	receive.state = receive_state::state_type::announced;
	// A graph fetches the parts in the same order each time. The ranks announce them in any order.
	std::sort(receive.parts.begin(), receive.parts.end(), [](const part& a, const part& b) {
		return a.key.source != b.key.source ? a.key.source < b.key.source : std::pair(a.key.message, a.where.min()) < std::pair(b.key.message, b.where.min());
	});
	m_shared.released.push_back({id, std::all_of(receive.parts.begin(), receive.parts.end(), is_ready)});
}

void direct_receiver::pull(const issue& item, const lane_waits& waits) {
	auto& state = m_receives.at(item.id);
	const auto& receive = *state.receive;
	const lane_position own{item.lane, item.sequence};
	const auto destination = m_shared.allocations.place(receive.destination);
	state.state = receive_state::state_type::issued;
	if(m_shared.trace != nullptr) state.issued_ns = now_ns();
	m_pulls.clear();
	for(const auto& fetched : state.parts) {
		auto& message = *fetched.message;
		auto& pull = m_pulls.emplace_back(pull_operation{message.ready, copy_of(fetched, receive, destination), {}, {}});
		if(message.is_direct()) answer_if_last(pull, message, fetched.where, own);
	}
	m_shared.lanes->enqueue_pulls(own, waits, m_pulls);
}

copy_operation direct_receiver::copy_of(const part& fetched, const receive_instruction& receive, const array_place& destination) {
	return {{fetched.message->data, &fetched.message->allocated_box}, destination, std::span(&fetched.where, 1), receive.element_size_bytes,
	    bytes_of(fetched.where, receive.element_size_bytes)};
}

std::vector<direct_receiver::graph_fetch> direct_receiver::begin_in_graph(const instruction_id id) {
	auto& state = m_receives.at(id);
	state.state = receive_state::state_type::issued;
	const auto destination = m_shared.allocations.place(state.receive->destination);
	std::vector<graph_fetch> fetches;
	for(const auto& fetched : state.parts) {
		auto& message = *fetched.message;
		const auto& peer = m_shared.neighbours[fetched.key.source.value];
		auto ready = m_shared.ready_flag(false, peer, message.answer_slot, message.answer_value, message.ready);
		ready.put_number = message.put_number;
		const auto inbox = message.put_number == 0 ? std::nullopt : std::optional(m_shared.inbox(false, peer, message.sent_box));
		auto& fetch = fetches.emplace_back(graph_fetch{copy_of(fetched, *state.receive, destination), ready, inbox, std::nullopt});
		message.unissued -= fetched.where.area();
		// All receives of a message belong to one task, so that the graph carries out all of them.
		if(!message.fetched_at.empty()) throw std::logic_error("a message is fetched by a graph and by others");
		if(message.unissued == 0) fetch.answer = m_shared.answer_flag(false, peer, message.answer_slot, message.answer_value, message.answer);
	}
	return fetches;
}

void direct_receiver::answer_if_last(pull_operation& pull, incoming& message, const box& where, const lane_position& own) {
	message.unissued -= where.area();
	if(message.unissued == 0) {
		// On a lane, and not by this thread: that may be blocked by a full queue of a device which waits for a rank that waits for this flag.
		pull.answer = message.answer;
		pull.answer_after = message.fetched_at;
		// A receive may fetch several parts of one message. Its earlier parts come first on this lane, which must not wait for itself.
		if(!pull.answer_after.empty() && pull.answer_after.back() == own) pull.answer_after = pull.answer_after.first(pull.answer_after.size() - 1);
	} else if(message.fetched_at.empty() || message.fetched_at.back() != own) {
		message.fetched_at.push_back(own);
	}
}

void direct_receiver::retire(const instruction_id id) {
	const auto retired = m_receives.extract(id);
	if(retired.empty()) return;
	const auto& [receive, stamp, state, parts, comes_as_message, issued_ns] = retired.mapped();
	for(const auto& [key, message, where] : parts) {
		if(message->is_direct()) {
			const auto size_bytes = bytes_of(where, receive->element_size_bytes);
			m_shared.trace_until_now(issued_ns, traced_receive{id, receive->transfer.buffer, size_bytes, key.message, key.source});
		}
		message->unretired -= where.area();
		if(message->unretired > 0) continue;
		give_back(*message);
		m_incoming.erase(key);
	}
}

void direct_receiver::give_back(const incoming& message) {
	if(message.bounce_bytes > 0) m_shared.memories.deallocate(host_memory, message.data, message.bounce_bytes, bounce_alignment_bytes);
}

std::optional<transfer_status> direct_receiver::find_status(const instruction_id id) const {
	const auto found = m_receives.find(id);
	if(found == m_receives.end()) return std::nullopt;
	const auto& [receive, stamp, state, parts, comes_as_message, issued_ns] = found->second;
	if(state == receive_state::state_type::unannounced) return transfer_status{{}, std::nullopt, stamp, true};
	const auto unready = std::find_if_not(parts.begin(), parts.end(), is_ready);
	if(unready == parts.end()) return transfer_status{"all of it is ready", std::nullopt, stamp, state == receive_state::state_type::issued};
	return transfer_status{numbered("message ", unready->key.message.value) + " is announced, its data is not ready", unready->key.source, stamp, true};
}

} // namespace celerity
