// SPDX-License-Identifier: MIT
// Sends and receives: data leaves as soon as its producer has finished, and a reader waits only for what it reads.
#include "instruction_graph.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <numeric>

#include "instruction_priorities.hpp"

namespace celerity {

namespace {

	/// What of `whole` lies in none of `parts`, which are disjoint and lie in it.
	region find_rest(const region& whole, const std::span<const region> parts) {
		coordinate area = 0;
		for(const auto& part : parts) area += part.area();
		if(area == whole.area()) return {}; // nearly always
		box_vector boxes;
		for(const auto& part : parts) boxes.append(part.boxes().data(), part.boxes().data() + part.boxes().size());
		return region_difference(whole, region(std::move(boxes)));
	}

} // namespace

void instruction_graph_generator::compile_push(const command& cmd, const push_command& push) {
	m_key = {cmd.node->id, phase::send};
	m_priority_boost = priorities::push_boost;
	auto& buffer = use_buffer(push.transfer.buffer);
	const bool is_reduction = push.transfer.reduction != reduction_id{}; // partial results meet in host memory
	// All host allocations first, so that a broadcast resizes at most once.
	buffer_requirements on_host;
	const region* last = nullptr;
	for(const auto& [rank, where] : push.targets) {
		if((m_capabilities.is_direct(rank) && !is_reduction) || (last != nullptr && *last == where)) continue;
		last = &where;
		for(const box& contiguous : contiguous_boxes(where)) on_host.contiguous.emplace_back(host_memory, contiguous);
	}
	require_contiguous(buffer, on_host);
	// Ranks that need the same get it from the same places: sending changes nothing of where data lies, and to copy to the host is enough once.
	std::vector<source_region> sources;
	const region* sources_of = nullptr;
	bool are_direct = false;
	for(const auto& [rank, where] : push.targets) {
		const bool is_direct = m_capabilities.is_direct(rank) && !is_reduction;
		if(sources_of == nullptr || is_direct != are_direct || *sources_of != where) {
			sources = is_direct ? find_direct_sources(buffer, where) : find_host_sources(buffer, where);
			sources_of = &where;
			are_direct = is_direct;
		}
		for(const auto& found : sources) {
			for_each_part(buffer.memories[found.memory.value], found.where, [&, rank = rank](allocation_state& source, const region& part) {
				for(const box& sent_box : part) emit_send(buffer, push, rank, source, sent_box);
			});
		}
	}
}

std::vector<instruction_graph_generator::source_region> instruction_graph_generator::find_host_sources(buffer_state& buffer, const region& where) {
	auto sources = find_sources(buffer, where, [](const content_state&) { return host_memory; });
	for(const auto& source : sources) { // each by itself, so that it leaves as soon as it is there
		const read_requirement on_host{host_memory, source.where};
		make_coherent(buffer, std::span(&on_host, 1));
	}
	return sources;
}

std::vector<instruction_graph_generator::source_region> instruction_graph_generator::find_direct_sources(
    const buffer_state& buffer, const region& where) const {
	return find_sources(buffer, where, [&](const content_state& state) {
		// From a device if any holds it: a peer reaches those. The origin holds its value as long as anybody does.
		memory_id source = state.origin_memory;
		for(std::uint8_t m = first_device_memory_value; m < m_capabilities.num_memories() && !is_device_memory(source); ++m) {
			if((state.up_to_date & bit_of(memory_id(m))) != 0) source = memory_id(m);
		}
		return source;
	});
}

void instruction_graph_generator::emit_send(
    buffer_state& buffer, const push_command& push, const rank_id target, allocation_state& source, const box& sent) {
	const message_id message(++m_last_message);
	begin();
	depend_for_read(source, sent);
	const instruction_id self = emit(
	    send_instruction{target, message, push.transfer, source.id, source.allocated, sent, buffer.info.element_size_bytes}, priorities::transfer);
	record_read(source, sent);
	m_out->pilots.push_back(outbound_pilot{target, message, push.transfer, sent, self});
}

void instruction_graph_generator::compile_await_push(const await_push_command& await) {
	auto& buffer = use_buffer(await.transfer.buffer);
	// The old contents are stale: nothing needs to copy or keep them any more.
	buffer.contents.modify(await.awaited, [](content_state& state) { state.up_to_date = 0; });
	buffer.receives.push_back(pending_receive{await.transfer, await.awaited});
}

void instruction_graph_generator::commit_receives(buffer_state& buffer, const std::span<const read_requirement> reads) {
	const auto receives = std::move(buffer.receives);
	buffer.receives.clear();
	for(const auto& receive : receives) {
		if(m_capabilities.has_direct_peer()) {
			receive_to_readers(buffer, receive, reads);
		} else {
			receive_to_host(buffer, receive, reads);
		}
	}
}

void instruction_graph_generator::receive_to_host(
    buffer_state& buffer, const pending_receive& receive, const std::span<const read_requirement> reads) {
	require_on_host(buffer, receive.awaited);
	auto& memory = buffer.memories[host_memory.value];
	std::vector<std::vector<region>> parts_of(memory.allocations.size()); // by allocation: what readers want of it
	for(const auto& read : reads) {
		for_each_part(memory, region_intersection(read.where, receive.awaited), [&](const allocation_state& destination, const region& part) {
			auto& parts = parts_of[static_cast<std::size_t>(&destination - memory.allocations.data())];
			if(std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
		});
	}
	for_each_part(memory, receive.awaited, [&](allocation_state& destination, const region& arriving) {
		receive_in_parts(buffer, receive.transfer, destination, arriving, std::move(parts_of[static_cast<std::size_t>(&destination - memory.allocations.data())]));
	});
}

/// Receives what arrives in one allocation on the host at once, but lets each reader wait for its part only.
void instruction_graph_generator::receive_in_parts(
    buffer_state& buffer, const transfer_id& transfer, allocation_state& destination, const region& arriving, std::vector<region>&& parts) {
	if(parts.size() > 1) symmetrically_split_overlapping_regions(parts);
	if(parts.size() <= 1) return emit_receive(buffer, transfer, destination, arriving, host_memory);
	if(region unread = find_rest(arriving, parts); !unread.empty()) parts.push_back(std::move(unread));
	begin();
	depend_for_write(destination, arriving);
	emit(split_receive_instruction{transfer, nodes().copy(arriving.boxes()), destination.id, destination.allocated, buffer.info.element_size_bytes},
	    priorities::transfer);
	record_write(destination, arriving);
	for(const auto& part : parts) {
		begin();
		depend_for_write(destination, part);
		const instruction_id self = emit(await_receive_instruction{transfer, destination.id, nodes().copy(part.boxes())}, priorities::transfer);
		record_write(destination, part);
		buffer.contents.update(part, content_state{bit_of(host_memory), self, host_memory});
	}
}

void instruction_graph_generator::receive_to_readers(
    buffer_state& buffer, const pending_receive& receive, const std::span<const read_requirement> reads) {
	std::vector<region> parts;
	for(const auto& read : reads) {
		region part = region_intersection(read.where, receive.awaited);
		if(!part.empty() && std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(std::move(part));
	}
	if(parts.size() > 1) symmetrically_split_overlapping_regions(parts);
	const region unread = find_rest(receive.awaited, parts);
	// The first reader receives; the others of the same set copy from it.
	std::vector<read_requirement> arrivals;
	for(auto& part : parts) {
		const auto reader = std::find_if(reads.begin(), reads.end(), [&](const auto& read) { return read.where.overlaps(part); });
		assert(reader != reads.end());
		arrivals.push_back(read_requirement{reader->memory, std::move(part)});
	}
	if(arrivals.size() > 1) join_small_neighbours(arrivals, buffer.info.element_size_bytes);
	if(!unread.empty()) { // no device reads it, but later tasks count on this rank to have it
		require_on_host(buffer, unread);
		arrivals.push_back(read_requirement{host_memory, unread});
	}
	for(const auto& [memory, where] : arrivals) {
		for_each_part(buffer.memories[memory.value], where, [&, memory = memory](allocation_state& destination, const region& arriving) {
			emit_receive(buffer, receive.transfer, destination, arriving, memory);
		});
	}
}

// A receive takes microseconds, however little it brings. What forms a box likely comes from one rank, so that no reader waits for what another one needs; the
// ring of a halo does not.
void instruction_graph_generator::join_small_neighbours(std::vector<read_requirement>& arrivals, const std::size_t element_size_bytes) const {
	std::vector<read_requirement> joined;
	for(std::size_t i = 0; i < arrivals.size(); ++i) {
		const memory_id memory = arrivals[i].memory;
		if(std::any_of(joined.begin(), joined.end(), [=](const auto& arrival) { return arrival.memory == memory; })) continue;
		region whole;
		std::size_t count = 0;
		for(const auto& arrival : arrivals) {
			if(arrival.memory != memory) continue;
			whole = region_union(whole, arrival.where);
			++count;
		}
		const auto bounds = connected_bounding_boxes(whole);
		const bool is_small = static_cast<std::size_t>(whole.area()) * element_size_bytes <= m_capabilities.joined_bytes;
		const auto bounded = std::accumulate(bounds.begin(), bounds.end(), coordinate{0}, [](const coordinate sum, const box& b) { return sum + b.area(); });
		if(is_small && bounds.size() < count && bounded == whole.area()) { // each part is its bounding box
			for(const box& bound : bounds) joined.push_back(read_requirement{memory, region(bound)});
		} else {
			std::copy_if(arrivals.begin(), arrivals.end(), std::back_inserter(joined), [=](const auto& arrival) { return arrival.memory == memory; });
		}
	}
	arrivals = std::move(joined);
}

void instruction_graph_generator::emit_receive(
    buffer_state& buffer, const transfer_id& transfer, allocation_state& destination, const region& where, const memory_id memory) {
	begin();
	depend_for_write(destination, where);
	const instruction_id self = emit(
	    receive_instruction{transfer, nodes().copy(where.boxes()), destination.id, destination.allocated, buffer.info.element_size_bytes},
	    priorities::transfer);
	record_write(destination, where);
	buffer.contents.update(where, content_state{bit_of(memory), self, memory});
}

} // namespace celerity
