// SPDX-License-Identifier: MIT
#include "transfers.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <numeric>

#include "instruction_priorities.hpp"

namespace celerity {

namespace {

/// The part of `whole` outside of all `parts`, which are disjoint parts of it.
region find_rest(const region& whole, const std::span<const region> parts) {
	coordinate area = 0;
	for(const auto& part : parts) area += part.area();
	if(area == whole.area()) return {}; // nearly always
	box_vector boxes;
	for(const auto& part : parts) boxes.append(part.boxes());
	return region_difference(whole, region(std::move(boxes)));
}

/// The different parts of `whole` that readers want.
std::vector<region> find_parts(const region& whole, const std::span<const read_requirement> reads) {
	std::vector<region> parts;
	for(const auto& read : reads) {
		region part = region_intersection(read.where, whole);
		if(!part.empty() && std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(std::move(part));
	}
	return parts;
}

} // namespace

void transfers::compile_push(const command_phase& now, const push_command& push) {
	auto& buffer = m_memory.use(push.transfer.buffer);
	// All host allocations first, so that a broadcast resizes at most once.
	buffer_requirements on_host;
	for_each_sent_from_host(m_capabilities, push, [&](const region& where) {
		for(const box& contiguous : contiguous_boxes(where)) on_host.contiguous.emplace_back(host_memory, contiguous);
	});
	m_memory.require_contiguous(now, buffer, on_host);
	// Ranks that need the same region get it from the same places: a send moves no data between this rank's memories, and one copy to the host is enough.
	std::vector<source_region> sources;
	const region* sources_of = nullptr;
	bool are_on_devices = false;
	for(const auto& [rank, where] : push.targets) {
		const bool from_devices = is_sent_from_devices(m_capabilities, push, rank);
		if(sources_of == nullptr || from_devices != are_on_devices || *sources_of != where) {
			sources = from_devices ? find_device_sources(now, buffer, where) : find_host_sources(now, buffer, where);
			sources_of = &where;
			are_on_devices = from_devices;
		}
		for(const auto& found : sources) {
			for_each_part(buffer.memories[found.memory.value], found.where, [&, rank = rank](allocation_state& source, const region& part) {
				for(const box& sent_box : part) emit_send(now, buffer, push, rank, source, sent_box);
			});
		}
	}
}

std::vector<transfers::source_region> transfers::find_host_sources(const command_phase& now, buffer_state& buffer, const region& where) {
	auto sources = m_sources.find(buffer, where, [](const content_state&) { return host_memory; });
	for(const auto& source : sources) { // each by itself, so that it leaves as soon as it is there
		const read_requirement on_host{host_memory, source.where};
		m_copies.make_coherent(now, buffer, std::span(&on_host, 1));
	}
	return sources;
}

std::vector<transfers::source_region> transfers::find_device_sources(const command_phase& now, buffer_state& buffer, const region& where) {
	auto sources = m_sources.find(buffer, where, [&](const content_state& state) {
		// From a device if any holds the value, because direct peers and messages reach it. The origin holds the value as long as any memory does.
		memory_id source = state.origin_memory;
		for(std::uint8_t m = first_device_memory_value; m < m_capabilities.num_memories() && !is_device_memory(source); ++m) {
			if((state.up_to_date & bit_of(memory_id(m))) != 0) source = memory_id(m);
		}
		return source == user_memory ? host_memory : source; // nobody reaches arrays of the user, which may lie on a device
	});
	for(const auto& source : sources) {
		if(source.memory != host_memory) continue;
		m_memory.require_on_host(now, buffer, source.where);
		const read_requirement on_host{host_memory, source.where};
		m_copies.make_coherent(now, buffer, std::span(&on_host, 1));
	}
	return sources;
}

void transfers::emit_send(const command_phase& now, buffer_state& buffer, const push_command& push, const rank_id target, allocation_state& source,
    const box& sent) {
	const message_id message(++m_last_message);
	const region where(sent);
	instruction_builder send(m_history, now);
	send.read(source, where);
	send.emit(send_instruction{target, message, push.transfer, source.id, sent, buffer.info.element_size_bytes}, priorities::transfer);
}

void transfers::compile_await_push(const await_push_command& await) {
	auto& buffer = m_memory.use(await.transfer.buffer);
	// The old contents are stale: nothing needs to copy or keep them any more.
	buffer.contents.modify(await.awaited, [](content_state& state) { state.up_to_date = 0; });
	buffer.receives.push_back(await);
}

void transfers::commit_receives(const command_phase& now, buffer_state& buffer, const std::span<const read_requirement> reads) {
	const auto receives = std::move(buffer.receives);
	buffer.receives.clear();
	for(const auto& receive : receives) {
		if(m_capabilities.has_direct_peer()) {
			receive_to_readers(now, buffer, receive, reads);
		} else if(m_capabilities.messages_reach_devices) {
			receive_messages(now, buffer, receive, reads);
		} else {
			receive_to_host(now, buffer, receive.transfer, receive.awaited, reads);
		}
	}
}

/// Receives data in the memory of the first device that reads it, or in host memory if no device has room for all of it. A message is a box that must not be cut
/// up, so it lies in one connected part of the awaited data.
void transfers::receive_messages(const command_phase& now, buffer_state& buffer, const await_push_command& receive,
    const std::span<const read_requirement> reads) {
	box_vector bounds = connected_bounding_boxes(receive.awaited);
	merge_overlapping_bounding_boxes(bounds);
	box_vector on_host;
	for(const box& bound : bounds) {
		const region arriving = region_intersection(receive.awaited, region(bound));
		if(auto* const destination = find_reader(buffer, arriving, reads)) {
			receive_in_parts(now, buffer, receive.transfer, *destination, arriving, find_parts(arriving, reads));
		} else {
			on_host.append(arriving.boxes());
		}
	}
	if(!on_host.empty()) receive_to_host(now, buffer, receive.transfer, region(std::move(on_host)), reads);
}

/// An allocation for all that arrives, in the memory of the first device that reads some of it. Null if there is none.
allocation_state* transfers::find_reader(buffer_state& buffer, const region& arriving, const std::span<const read_requirement> reads) {
	const box bounds = arriving.bounding_box();
	for(const auto& read : reads) {
		if(!is_device_memory(read.memory) || !read.where.overlaps(arriving)) continue;
		if(auto* const found = find_allocation(buffer, read.memory, bounds)) return found;
	}
	return nullptr;
}

void transfers::receive_to_host(const command_phase& now, buffer_state& buffer, const transfer_id& transfer, const region& awaited,
    const std::span<const read_requirement> reads) {
	m_memory.require_on_host(now, buffer, awaited);
	auto& memory = buffer.memories[host_memory.value];
	std::vector<std::vector<region>> parts_of(memory.allocations.size()); // by allocation: the parts of it that readers want
	for(const auto& read : reads) {
		for_each_part(memory, region_intersection(read.where, awaited), [&](const allocation_state& destination, const region& part) {
			auto& parts = parts_of[static_cast<std::size_t>(&destination - memory.allocations.data())];
			if(std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
		});
	}
	for_each_part(memory, awaited, [&](allocation_state& destination, const region& arriving) {
		auto& parts = parts_of[static_cast<std::size_t>(&destination - memory.allocations.data())];
		receive_in_parts(now, buffer, transfer, destination, arriving, std::move(parts));
	});
}

/// Receives the data for one allocation on the host by one instruction, but lets each reader wait for its part only.
void transfers::receive_in_parts(const command_phase& now, buffer_state& buffer, const transfer_id& transfer, allocation_state& destination,
    const region& arriving, std::vector<region>&& parts) {
	if(parts.size() > 1) symmetrically_split_overlapping_regions(parts);
	if(parts.size() <= 1) return emit_receive(now, buffer, transfer, destination, arriving);
	if(region unread = find_rest(arriving, parts); !unread.empty()) parts.push_back(std::move(unread));
	instruction_builder receive(m_history, now);
	receive.write(destination, arriving);
	receive.emit(split_receive_instruction{transfer, m_history.nodes().copy(arriving.boxes()), destination.id, buffer.info.element_size_bytes},
	    priorities::transfer);
	for(const auto& part : parts) {
		instruction_builder await(m_history, now);
		await.produce(buffer, destination, part);
		await.emit(await_receive_instruction{transfer, destination.id, m_history.nodes().copy(part.boxes())}, priorities::transfer);
	}
}

void transfers::receive_to_readers(const command_phase& now, buffer_state& buffer, const await_push_command& receive,
    const std::span<const read_requirement> reads) {
	std::vector<region> parts = find_parts(receive.awaited, reads);
	if(parts.size() > 1) symmetrically_split_overlapping_regions(parts);
	const region unread = find_rest(receive.awaited, parts);
	// The first reader receives; the other readers of the same data copy from the first one.
	std::vector<read_requirement> arrivals;
	for(auto& part : parts) {
		const auto reader = std::find_if(reads.begin(), reads.end(), [&](const auto& read) { return read.where.overlaps(part); });
		assert(reader != reads.end());
		arrivals.push_back(read_requirement{reader->memory, std::move(part)});
	}
	if(arrivals.size() > 1) join_small_neighbours(arrivals, buffer.info.element_size_bytes);
	if(!unread.empty()) { // no device reads it, but later tasks count on this rank to have it
		m_memory.require_on_host(now, buffer, unread);
		arrivals.push_back(read_requirement{host_memory, unread});
	}
	for(const auto& [memory, where] : arrivals) {
		for_each_part(buffer.memories[memory.value], where,
		    [&](allocation_state& destination, const region& arriving) { emit_receive(now, buffer, receive.transfer, destination, arriving); });
	}
}

// A receive takes microseconds, however little data it brings. Parts that form a box likely come from one rank, so that no reader waits for the part of another
// one. The ring of a halo forms no box.
void transfers::join_small_neighbours(std::vector<read_requirement>& arrivals, const std::size_t element_size_bytes) const {
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

void transfers::emit_receive(const command_phase& now, buffer_state& buffer, const transfer_id& transfer, allocation_state& destination, const region& where) {
	instruction_builder receive(m_history, now);
	receive.produce(buffer, destination, where);
	receive.emit(receive_instruction{transfer, m_history.nodes().copy(where.boxes()), destination.id, buffer.info.element_size_bytes}, priorities::transfer);
}

} // namespace celerity
