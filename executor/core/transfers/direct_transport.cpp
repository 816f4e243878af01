// SPDX-License-Identifier: MIT
#include "direct_transport.hpp"

#include <algorithm>
#include <stdexcept>

#include "events/labels.hpp"

namespace celerity {

namespace {

constexpr std::size_t bounce_alignment_bytes = 64;
/// They are compared one by one.
constexpr std::size_t max_recent_flags = 8;

extents3 to_extents(const point& p) { return {static_cast<std::size_t>(p[0]), static_cast<std::size_t>(p[1]), static_cast<std::size_t>(p[2])}; }

std::size_t bytes_of(const box& b, const std::size_t element_size_bytes) { return static_cast<std::size_t>(b.area()) * element_size_bytes; }

} // namespace

direct_transport::direct_transport(backend& backend, const allocation_table& allocations, executor_statistics& statistics,
    const rank_id own, std::vector<rank_id> host_ranks, trace_recorder* const trace)
    : m_backend(backend), m_allocations(allocations), m_statistics(statistics), m_trace(trace), m_own_flags(flag_segment::create(host_ranks.size())) {
	for(std::size_t position = 0; position < host_ranks.size(); ++position) {
		const rank_id rank = host_ranks[position];
		if(rank == own) m_own_position = position;
		if(rank.value >= m_neighbours.size()) m_neighbours.resize(rank.value + 1);
		m_neighbours[rank.value].position = position;
	}
}

direct_transport::~direct_transport() {
	for(const auto& [key, message] : m_incoming) {
		if(message.is_direct || message.data == nullptr) continue;
		m_backend.deallocate(host_memory, const_cast<void*>(message.data), message.bounce_bytes, message.bounce_alignment_bytes);
	}
}

void direct_transport::open(const rank_id peer, const flag_segment::offer& offer) { m_neighbours.at(peer.value).flags = flag_segment::open(offer); }

void direct_transport::agree(const std::vector<rank_id>& peers) {
	m_backend.adopt_flags(m_own_flags.address(), m_own_flags.size_bytes());
	for(const rank_id rank : peers) {
		auto& peer = m_neighbours.at(rank.value);
		peer.is_peer = true;
		peer.done_values.resize(flag_segment::num_slots);
		for(std::uint32_t slot = flag_segment::num_slots; slot-- > 0;) peer.free_slots.push_back(slot);
		m_backend.adopt_flags(peer.flags.address(), peer.flags.size_bytes());
	}
}

// ---- sending --------------------------------------------------------------------------------------------------------------------

void direct_transport::plan_send(const instruction& item, const send_instruction& send, const std::uint64_t stamp,
    const std::uint64_t program_digest) {
	outgoing planned;
	planned.id = item.id;
	planned.dependencies = item.dependencies;
	planned.to = send.destination_rank;
	planned.message = send.message;
	planned.transfer = send.transfer;
	planned.source = send.source;
	planned.allocated_box = send.allocated_box;
	planned.sent_box = send.sent_box;
	planned.stamp = stamp;
	planned.program_digest = program_digest;
	auto& out = m_outgoing.emplace(item.id, planned).first->second;
	if(m_allocations.contains(send.source)) {
		announce(out);
	} else {
		m_waiting_for_source[send.source].push_back(item.id);
	}
}

void direct_transport::notify_allocated(const allocation_id allocation) {
	const auto waiting = m_waiting_for_source.extract(allocation);
	if(waiting.empty()) return;
	for(const auto id : waiting.mapped()) announce(m_outgoing.at(id));
}

void direct_transport::announce(outgoing& out) {
	auto& peer = m_neighbours[out.to.value];
	if(peer.free_slots.empty()) {
		peer.waiting_for_slot.push_back(out.id);
		return;
	}
	out.slot = peer.free_slots.back();
	peer.free_slots.pop_back();
	out.ready_index = take_ready_flag(out);
	out.done = {m_own_flags.done_flag(peer.position, out.slot), ++peer.done_values[out.slot]};
	out.is_announced = true;

	auto pilot = pilot_message::make(out.transfer, out.message, out.sent_box, out.program_digest);
	const auto location = m_backend.locate(out.source.memory, m_allocations.address(out.source));
	pilot.kind = pilot_message::kind_type::direct;
	pilot.set_allocated_box(out.allocated_box);
	pilot.slab = location.slab;
	pilot.slab_size_bytes = location.slab_size_bytes;
	pilot.offset_bytes = location.offset_bytes;
	pilot.handle = location.handle;
	pilot.ready_index = out.ready_index;
	pilot.ready_value = m_ready_flags[out.ready_index].value;
	pilot.done_slot = out.slot;
	pilot.done_value = out.done.value;
	if(!peer.unsent_pilots.empty() || !peer.flags.pilots(m_own_position).push(pilot)) {
		peer.unsent_pilots.push_back(pilot);
		++m_num_unsent_pilots;
	}
	peer.flags.ring_owner();
	m_released.push_back({out.id, false});
}

// A stream takes more than a microsecond to write a flag: what one kernel has made for all ranks has one. Values wrap around in the end, and the comparison
// allows for it.
std::uint32_t direct_transport::take_ready_flag(const outgoing& out) {
	const auto shared = std::find_if(m_recent_flags.begin(), m_recent_flags.end(), [&](const recent_flag& recent) {
		return recent.source == out.source.memory && std::ranges::equal(recent.dependencies, out.dependencies);
	});
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
	m_recent_flags.push_back({index, out.source.memory, {out.dependencies.begin(), out.dependencies.end()}});
	m_ready_flags[index] = {m_ready_flags[index].value + 1, 1, false};
	return index;
}

void direct_transport::leave_ready_flag(const std::uint32_t index) {
	if(--m_ready_flags[index].num_messages > 0) return;
	std::erase_if(m_recent_flags, [=](const recent_flag& recent) { return recent.index == index; });
	m_free_ready_flags.push_back(index);
}

void direct_transport::send_pilots() {
	if(m_num_unsent_pilots == 0) return;
	for(auto& peer : m_neighbours) {
		while(!peer.unsent_pilots.empty() && peer.flags.pilots(m_own_position).push(peer.unsent_pilots.front())) {
			peer.unsent_pilots.pop_front();
			--m_num_unsent_pilots;
			peer.flags.ring_owner();
		}
	}
}

bool direct_transport::has_news() const {
	for(const auto* const out : m_unfetched) {
		if(is_reached(out->done)) return true;
	}
	for(const auto& peer : m_neighbours) {
		if(peer.is_peer && !m_own_flags.pilots(peer.position).is_empty()) return true;
	}
	return false;
}

void direct_transport::signal(const issue& item, const send_instruction& send, const lane_waits& waits) {
	auto& out = m_outgoing.at(item.id);
	out.is_issued = true;
	m_unfetched.push_back(&out);
	m_statistics.sent_bytes_direct += bytes_of(send.sent_box, send.element_size_bytes);
	if(m_trace != nullptr) {
		out.traced.kind = trace_kind::send;
		out.traced.start_ns = trace_now();
		out.traced.instruction = item.id.value;
		out.traced.buffer = out.transfer.buffer.value;
		out.traced.bytes = bytes_of(send.sent_box, send.element_size_bytes);
		out.traced.sequence = out.message.value;
		out.traced.peer = out.to.value;
	}
	auto& flag = m_ready_flags[out.ready_index];
	m_backend.enqueue_signal({item.lane, item.sequence}, waits, flag.is_issued ? shared_flag{} : ready_flag_of(out));
	flag.is_issued = true;
}

shared_flag direct_transport::answer_to(const instruction_id id) const {
	const auto found = m_outgoing.find(id);
	return found == m_outgoing.end() ? shared_flag{} : found->second.done;
}

void direct_transport::poll(std::vector<instruction_id>& fetched) {
	std::size_t num_kept = 0;
	for(auto* const out : m_unfetched) {
		if(!is_reached(out->done)) {
			m_unfetched[num_kept++] = out;
			continue;
		}
		fetched.push_back(out->id);
		if(m_trace != nullptr) {
			out->traced.end_ns = trace_now();
			m_trace->record(out->traced);
		}
		auto& peer = m_neighbours[out->to.value];
		peer.free_slots.push_back(out->slot);
		leave_ready_flag(out->ready_index);
		m_outgoing.erase(out->id);
		if(peer.waiting_for_slot.empty()) continue;
		auto& next = m_outgoing.at(peer.waiting_for_slot.front());
		peer.waiting_for_slot.pop_front();
		announce(next);
	}
	m_unfetched.resize(num_kept);
}

// ---- receiving ------------------------------------------------------------------------------------------------------------------

void direct_transport::plan_receive(const instruction_id id, const receive_instruction& receive, const std::uint64_t stamp) {
	auto& state = m_receives[id];
	state.receive = &receive;
	state.layout.allocated_box = receive.allocated_box;
	state.stamp = stamp;
}

void direct_transport::add_pilot(const rank_id source, const pilot_message& pilot) {
	pilot.check();
	if(source.value >= m_neighbours.size() || !m_neighbours[source.value].is_peer) {
		throw std::logic_error(numbered("a direct message was announced by rank ", source.value) + ", which is no direct peer");
	}
	const auto& peer = m_neighbours[source.value];
	if(pilot.done_slot >= flag_segment::num_slots || pilot.ready_index >= peer.flags.num_ready_flags()) {
		throw std::logic_error(numbered("a direct message was announced by rank ", source.value) + " with flags that do not exist");
	}
	auto& message = m_incoming[{source, message_id(pilot.message)}];
	const auto* const slab = open_slab(source, pilot);
	message.is_direct = true;
	message.message_box = pilot.sent_box();
	message.unfetched = message.unissued = pilot.sent_box().area();
	message.data = static_cast<const std::byte*>(slab) + pilot.offset_bytes;
	message.layout.allocated_box = pilot.allocated_box();
	message.ready = {peer.flags.ready_flag(pilot.ready_index), pilot.ready_value};
	message.done = {peer.flags.done_flag(m_own_position, pilot.done_slot), pilot.done_value};
}

const void* direct_transport::open_slab(const rank_id source, const pilot_message& pilot) {
	try {
		return m_backend.open_peer_slab({pilot.slab, pilot.slab_size_bytes, pilot.offset_bytes, pilot.handle});
	} catch(const device_failure&) {
		throw; // it is this rank's own
	} catch(const std::runtime_error& error) { throw peer_failure(source, error.what()); }
}

direct_transport::part_state direct_transport::add_part(const posted_receive& post) {
	const message_key key{post.source, post.message};
	const auto [found, is_new] = m_incoming.try_emplace(key);
	auto& message = found->second;
	if(is_new) {
		message.message_box = post.message_box;
		message.unfetched = post.message_box.area();
		message.layout.allocated_box = post.message_box;
	}
	m_receives.at(post.instruction).parts.push_back({key, &message, post.part});
	m_statistics.received_bytes += bytes_of(post.part, post.element_size_bytes);
	if(message.is_direct || message.has_arrived) return part_state::here;
	message.waiting.push_back(post.fragment);
	return is_new ? part_state::wanted : part_state::expected;
}

payload_location direct_transport::prepare_bounce(const posted_receive& post) {
	auto& message = m_incoming.at({post.source, post.message});
	message.bounce_bytes = bytes_of(post.message_box, post.element_size_bytes);
	message.bounce_alignment_bytes = bounce_alignment_bytes;
	void* const address = m_backend.allocate(host_memory, message.bounce_bytes, message.bounce_alignment_bytes);
	message.data = address;
	const auto shape = to_extents(post.message_box.extents());
	return {address, shape, {}, shape, post.element_size_bytes};
}

std::vector<fragment_id> direct_transport::arrive(const message_key& key) {
	auto& message = m_incoming.at(key);
	message.has_arrived = true;
	return std::exchange(message.waiting, {});
}

void direct_transport::complete_parts(const instruction_id id) {
	auto& state = m_receives.at(id);
	state.is_announced = true;
	m_released.push_back({id, std::all_of(state.parts.begin(), state.parts.end(), is_ready)});
}

void direct_transport::pull(const issue& item, const lane_waits& waits) {
	auto& state = m_receives.at(item.id);
	const auto& receive = *state.receive;
	const lane_position own{item.lane, item.sequence};
	void* const destination = m_allocations.address(receive.destination);
	state.is_issued = true;
	if(m_trace != nullptr) state.issued_ns = trace_now();
	state.pulls.reserve(state.parts.size());
	for(const auto& [key, message, where] : state.parts) {
		const copy_operation copy{message->data, destination, &message->layout, &state.layout, std::span(&where, 1), receive.element_size_bytes,
		    bytes_of(where, receive.element_size_bytes)};
		auto& pull = state.pulls.emplace_back(pull_operation{message->ready, copy, {}, {}});
		if(!message->is_direct) continue;
		message->unissued -= where.area();
		if(message->unissued == 0) {
			// On a lane, and not by this thread: that may be blocked by a full queue of a device which waits for a rank that waits for this flag.
			pull.done = message->done;
			pull.done_after = message->fetched_at;
			// What is received may have several parts in a message. Those before this one come first on this lane, which must not wait for itself.
			if(!pull.done_after.empty() && pull.done_after.back() == own) pull.done_after = pull.done_after.first(pull.done_after.size() - 1);
		} else if(message->fetched_at.empty() || message->fetched_at.back() != own) {
			message->fetched_at.push_back(own);
		}
	}
	m_backend.enqueue_pulls(own, waits, state.pulls);
}

void direct_transport::retire_receive(const instruction_id id) {
	const auto retired = m_receives.extract(id);
	for(const auto& fetched : retired.mapped().parts) {
		if(m_trace != nullptr && fetched.message->is_direct) trace_part(id, retired.mapped(), fetched);
		finish_part(fetched);
	}
}

void direct_transport::trace_part(const instruction_id id, const receive_state& state, const part& fetched) const {
	trace_event event;
	event.kind = trace_kind::receive;
	event.start_ns = state.issued_ns;
	event.end_ns = trace_now();
	event.instruction = id.value;
	event.buffer = state.receive->transfer.buffer.value;
	event.bytes = bytes_of(fetched.where, state.receive->element_size_bytes);
	event.sequence = fetched.key.message.value;
	event.peer = fetched.key.source.value;
	m_trace->record(event);
}

void direct_transport::finish_part(const part& fetched) {
	auto& message = *fetched.message;
	message.unfetched -= fetched.where.area();
	if(message.unfetched > 0) return;
	if(!message.is_direct) m_backend.deallocate(host_memory, const_cast<void*>(message.data), message.bounce_bytes, message.bounce_alignment_bytes);
	m_incoming.erase(fetched.key);
}

// ---- both -----------------------------------------------------------------------------------------------------------------------

void direct_transport::take_released(std::vector<released_instruction>& out) {
	out.clear();
	std::swap(out, m_released);
}

std::optional<direct_transport::status> direct_transport::find_status(const instruction_id id) const {
	if(const auto found = m_outgoing.find(id); found != m_outgoing.end()) {
		const auto& out = found->second;
		status result{{}, out.to, out.stamp, out.is_issued};
		const std::string message = numbered("message ", out.message.value);
		if(!out.is_announced) {
			result.is_waiting = m_allocations.contains(out.source);
			result.text = message + (result.is_waiting ? " waits until the peer has fetched others" : " waits for its allocation");
		} else if(!out.is_issued) {
			result.text = message + (is_reached(ready_flag_of(out)) ? " is announced, and its data is ready" : " is announced, its data is not ready");
		} else {
			result.text = message + (is_reached(ready_flag_of(out)) ? " is ready and has not been fetched" : " is announced, its data is being made");
		}
		return result;
	}
	const auto found = m_receives.find(id);
	if(found == m_receives.end()) return std::nullopt;
	const auto& state = found->second;
	status result{{}, std::nullopt, state.stamp, true};
	if(!state.is_announced) return result;
	const auto unready = std::find_if_not(state.parts.begin(), state.parts.end(), is_ready);
	if(unready != state.parts.end()) {
		result.text = numbered("message ", unready->key.message.value) + " is announced, its data is not ready";
		result.peer = unready->key.source;
	} else {
		result.text = "all of it is ready";
		result.is_waiting = state.is_issued;
	}
	return result;
}

} // namespace celerity
