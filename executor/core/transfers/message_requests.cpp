// SPDX-License-Identifier: MIT
#include "message_requests.hpp"

#include <stdexcept>

#include "events/labels.hpp"

namespace celerity {

namespace {

extents3 to_extents(const point& p) { return {static_cast<std::size_t>(p[0]), static_cast<std::size_t>(p[1]), static_cast<std::size_t>(p[2])}; }

payload make_payload(const request_id request, const rank_id peer, const message_id message, void* const address, const box& allocated, const box& part,
    const std::size_t element_size_bytes) {
	const point offset{{part.min(0) - allocated.min(0), part.min(1) - allocated.min(1), part.min(2) - allocated.min(2)}};
	return {request, peer, message, address, to_extents(allocated.extents()), to_extents(offset), to_extents(part.extents()), element_size_bytes};
}

} // namespace

void message_requests::send(const instruction_id instruction, const send_instruction& send) {
	const auto traced = count(instruction, send);
	m_network.send(payload_of(add_request(instruction, traced), send));
}

bool message_requests::send_small(const instruction_id instruction, const send_instruction& send, const pilot_message& pilot) {
	const auto traced = count(instruction, send);
	const auto request = add_request(instruction, traced);
	if(!m_network.send_with_pilot(pilot, payload_of(request, send))) return false;
	finish(request);
	return true;
}

traced_send message_requests::count(const instruction_id instruction, const send_instruction& send) {
	const auto size_bytes = bytes_of(send.sent_box, send.element_size_bytes);
	m_statistics.sent_bytes.host += size_bytes;
	return {instruction, send.transfer.buffer, size_bytes, send.message, send.destination_rank};
}

payload message_requests::payload_of(const request_id request, const send_instruction& send) const {
	const auto source = m_allocations.place(send.source);
	return make_payload(request, send.destination_rank, send.message, source.address, *source.array, send.sent_box, send.element_size_bytes);
}

void message_requests::barrier(const instruction_id instruction) { m_network.barrier(add_request(instruction, traced_barrier{instruction})); }

void message_requests::flush(std::vector<instruction_id>& completed) {
	m_arbiter.take_posts(m_posts);
	for(const auto& posted : m_posts) {
		if(m_direct.is_receiving(posted.instruction)) {
			post_part(posted);
		} else {
			post(posted);
		}
	}
	m_arbiter.take_completed(m_completed);
	for(const auto id : m_completed) {
		if(m_direct.is_receiving(id)) {
			m_direct.release_receive(id);
		} else {
			completed.push_back(id);
		}
	}
}

void message_requests::post(const posted_receive& post) {
	if(post.part != post.message_box) throw std::logic_error("a message through host memory cannot be cut up among several receives");
	const auto destination = m_allocations.place(post.destination);
	const box& array = destination.array != nullptr ? *destination.array : post.part; // a partial result is one element in its slot
	m_statistics.received_bytes += static_cast<std::uint64_t>(post.part.area()) * post.element_size_bytes;
	m_network.receive(make_payload(add_request(post.fragment, describe(post, post.part)), post.source, post.message, destination.address + post.offset_bytes,
	    array, post.part, post.element_size_bytes));
}

void message_requests::post_part(const posted_receive& post) {
	switch(m_direct.add_part(post)) {
	case direct_receiver::part_state::here: return m_arbiter.complete(post.fragment);
	case direct_receiver::part_state::expected: return;
	case direct_receiver::part_state::wanted: break;
	}
	const direct_receiver::message_key key{post.source, post.message};
	m_network.receive(make_payload(add_request(key, describe(post, post.message_box)), post.source, post.message, m_direct.prepare_bounce(post),
	    post.message_box, post.message_box, post.element_size_bytes));
}

void message_requests::complete(const request_id request, std::vector<instruction_id>& completed) {
	const auto subject = finish(request);
	if(const auto* const instruction = std::get_if<instruction_id>(&subject)) {
		completed.push_back(*instruction);
	} else if(const auto* const fragment = std::get_if<fragment_id>(&subject)) {
		m_arbiter.complete(*fragment);
	} else {
		for(const auto part : m_direct.arrive(std::get<direct_receiver::message_key>(subject))) m_arbiter.complete(part);
	}
}

auto message_requests::finish(const request_id request) -> request_subject {
	const auto node = m_requests.extract(request);
	if(node.empty()) throw std::logic_error(numbered("request ", request.value) + " is not outstanding");
	if(m_trace != nullptr) {
		auto traced = m_traced.extract(request);
		traced.mapped().end_ns = now_ns();
		m_trace->record(traced.mapped());
	}
	return node.mapped();
}

traced_receive message_requests::describe(const posted_receive& post, const box& received) {
	return {post.instruction, post.transfer.buffer, static_cast<std::uint64_t>(received.area()) * post.element_size_bytes, post.message, post.source};
}

request_id message_requests::add_request(const request_subject& subject, const traced_action& traced) {
	const request_id request(++m_last_request);
	m_requests.emplace(request, subject);
	if(m_trace != nullptr) m_traced.emplace(request, trace_event{now_ns(), 0, traced});
	return request;
}

} // namespace celerity
