// SPDX-License-Identifier: MIT
#include "receive_arbiter.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace celerity {

namespace {

template <typename Boxes>
coordinate total_area(const Boxes& boxes) {
	coordinate area = 0;
	for(const box& b : boxes) area += b.area();
	return area;
}

template <typename Boxes>
coordinate overlap_area(const Boxes& boxes, const box& with) {
	coordinate area = 0;
	for(const box& b : boxes) area += intersection(b, with).area();
	return area;
}

} // namespace

template <typename Request>
void receive_arbiter::add_receive(const instruction_id instruction, const Request& request, const bool is_split) {
	const coordinate area = total_area(request.boxes);
	if(area == 0) return finish(instruction);

	auto& transfer = m_transfers[request.transfer];
	auto& state = transfer.requests.emplace_back();
	state.serial = m_next_serial++;
	state.instruction = instruction;
	state.is_split = is_split;
	state.destination = request.destination;
	state.element_size_bytes = request.element_size_bytes;
	state.boxes.append(request.boxes);
	state.missing = state.unclaimed = area;
	++m_num_open;
	if(is_split) m_completed.push_back(instruction);

	for(auto& pilot : transfer.pilots) claim(request.transfer, state, pilot);
	std::erase_if(transfer.pilots, [](const pilot_state& pilot) { return pilot.unclaimed == 0; });
}

void receive_arbiter::receive(const instruction_id instruction, const receive_instruction& request) { add_receive(instruction, request, false); }
void receive_arbiter::split_receive(const instruction_id instruction, const split_receive_instruction& request) { add_receive(instruction, request, true); }

void receive_arbiter::await_receive(const instruction_id instruction, const await_receive_instruction& request) {
	const auto transfer = m_transfers.find(request.transfer);
	if(transfer == m_transfers.end()) return m_completed.push_back(instruction); // all has arrived already

	await_state await{instruction, request.destination, box_vector(request.boxes), 0};
	for(const auto& candidate : transfer->second.requests) {
		if(!candidate.is_split || candidate.destination != request.destination) continue;
		for(const box& expected : candidate.boxes) await.missing += overlap_area(await.boxes, expected);
		for(const box& part : candidate.arrived) await.missing -= overlap_area(await.boxes, part);
	}
	if(await.missing == 0) return m_completed.push_back(instruction);
	transfer->second.awaits.push_back(await);
	++m_num_open;
}

void receive_arbiter::receive_partials(const instruction_id instruction, const receive_partials_instruction& request) {
	if(request.sources.empty()) return finish(instruction);
	auto& transfer = m_transfers[request.transfer];
	auto& state = transfer.partials.emplace();
	state.instruction = instruction;
	state.destination = request.destination;
	state.bytes_per_slot = request.bytes_per_slot;
	state.sources.assign(request.sources.begin(), request.sources.end());
	state.slots.assign(request.slots.begin(), request.slots.end());
	state.missing = state.sources;
	state.unclaimed = request.sources.size();
	++m_num_open;

	for(const auto& pilot : std::exchange(transfer.pilots, {})) claim_slot(request.transfer, state, pilot);
}

void receive_arbiter::pilot(const rank_id source, const message_id message, const transfer_id& transfer, const box& sent_box) {
	auto& state = m_transfers[transfer];
	pilot_state pilot{source, message, sent_box, sent_box.area()};
	if(transfer.reduction.value != 0) {
		if(!state.partials.has_value()) return state.pilots.push_back(pilot);
		claim_slot(transfer, *state.partials, pilot);
	} else {
		for(auto& request : state.requests) claim(transfer, request, pilot);
		if(pilot.unclaimed > 0) state.pilots.push_back(pilot);
	}
	drop_if_idle(transfer, state);
}

void receive_arbiter::complete(const fragment_id fragment) {
	const auto found = m_fragments.find(fragment);
	if(found == m_fragments.end()) throw std::invalid_argument("no such receive was posted, or it is complete already");
	const fragment_state done = found->second;
	m_fragments.erase(found);

	auto& state = m_transfers.at(done.transfer);
	if(done.request_serial == 0) {
		arrive_in_slot(state, done.source);
	} else {
		const auto request =
		    std::find_if(state.requests.begin(), state.requests.end(), [&](const request_state& r) { return r.serial == done.request_serial; });
		arrive(state, *request, done.part);
		if(request->missing == 0) {
			if(!request->is_split) m_completed.push_back(request->instruction);
			state.requests.erase(request);
			--m_num_open;
		}
	}
	drop_if_idle(done.transfer, state);
}

void receive_arbiter::take_posts(std::vector<posted_receive>& out) {
	out.clear();
	std::swap(out, m_posts);
}

void receive_arbiter::take_completed(std::vector<instruction_id>& out) {
	out.clear();
	std::swap(out, m_completed);
}

receive_arbiter::open_transfer receive_arbiter::find_open(const instruction_id instruction, const transfer_id& transfer) const {
	const auto found = m_transfers.find(transfer);
	if(found == m_transfers.end()) return {};
	const auto& state = found->second;
	if(const auto& partials = state.partials; partials.has_value()) {
		return {partials->instruction, std::ssize(partials->missing), static_cast<coordinate>(partials->unclaimed), true, partials->missing.front()};
	}

	open_transfer open;
	for(const auto& request : state.requests) {
		if(request.instruction == instruction) open = {instruction, request.missing, request.unclaimed, false, {}};
	}
	for(const auto& await : state.awaits) {
		if(await.instruction != instruction) continue;
		coordinate unannounced = 0;
		for(const auto& request : state.requests) unannounced += request.destination == await.destination ? request.unclaimed : 0;
		open = {instruction, await.missing, std::min(await.missing, unannounced), false, {}};
	}
	for(const auto& [id, fragment] : m_fragments) {
		if(fragment.transfer != transfer || open.missing_elements == 0) continue;
		open.has_peer = true;
		open.peer = fragment.source;
	}
	return open;
}

std::vector<receive_arbiter::unclaimed_pilot> receive_arbiter::unclaimed_pilots() const {
	std::vector<unclaimed_pilot> unclaimed;
	for(const auto& [transfer, state] : m_transfers) {
		for(const auto& pilot : state.pilots) unclaimed.push_back({pilot.source, pilot.message, transfer, pilot.sent_box});
	}
	std::sort(unclaimed.begin(), unclaimed.end(),
	    [](const auto& a, const auto& b) { return std::pair(a.source.value, a.message.value) < std::pair(b.source.value, b.message.value); });
	return unclaimed;
}

void receive_arbiter::claim(const transfer_id& transfer, request_state& request, pilot_state& pilot) {
	const auto post = [&](const box& part) {
		pilot.unclaimed -= part.area();
		request.unclaimed -= part.area();
		const fragment_id fragment(m_next_fragment++);
		m_fragments.emplace(fragment, fragment_state{transfer, request.serial, pilot.source, part});
		m_posts.push_back(
		    {fragment, request.instruction, pilot.source, pilot.message, transfer, request.destination, part, pilot.sent_box, 0, request.element_size_bytes});
	};
	// A message that spans several boxes of one request is still received in one piece: MPI cannot take it apart.
	if(overlap_area(request.boxes, pilot.sent_box) == pilot.sent_box.area()) {
		if(!pilot.sent_box.empty()) post(pilot.sent_box);
		return;
	}
	for(const box& expected : request.boxes) {
		const box part = intersection(expected, pilot.sent_box);
		if(!part.empty()) post(part);
	}
}

void receive_arbiter::claim_slot(const transfer_id& transfer, partials_state& partials, const pilot_state& pilot) {
	const auto source = std::find(partials.sources.begin(), partials.sources.end(), pilot.source);
	if(source == partials.sources.end()) throw std::logic_error("a rank announced a partial result that nobody receives");
	--partials.unclaimed;
	const box element = box::full(point{{1, 1, 1}});
	const auto slot = partials.slots[static_cast<std::size_t>(source - partials.sources.begin())];
	const fragment_id fragment(m_next_fragment++);
	m_fragments.emplace(fragment, fragment_state{transfer, 0, pilot.source, element});
	m_posts.push_back({fragment, partials.instruction, pilot.source, pilot.message, transfer, partials.destination, element, element,
	    slot * partials.bytes_per_slot, partials.bytes_per_slot});
}

void receive_arbiter::arrive(transfer_state& state, request_state& request, const box& part) {
	request.missing -= part.area();
	if(!request.is_split) return;
	request.arrived.push_back(part);
	std::erase_if(state.awaits, [&](await_state& await) {
		if(await.destination != request.destination) return false;
		await.missing -= overlap_area(await.boxes, part);
		if(await.missing > 0) return false;
		m_completed.push_back(await.instruction);
		--m_num_open;
		return true;
	});
}

void receive_arbiter::arrive_in_slot(transfer_state& state, const rank_id source) {
	if(!state.partials.has_value() || std::erase(state.partials->missing, source) == 0) throw std::logic_error("a partial result came twice");
	if(!state.partials->missing.empty()) return;
	m_completed.push_back(state.partials->instruction);
	state.partials.reset();
	--m_num_open;
}

void receive_arbiter::drop_if_idle(const transfer_id& transfer, const transfer_state& state) {
	if(state.is_idle()) m_transfers.erase(transfer);
}

void receive_arbiter::finish(const instruction_id instruction) { m_completed.push_back(instruction); }

} // namespace celerity
