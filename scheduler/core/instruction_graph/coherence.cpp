// SPDX-License-Identifier: MIT
#include "coherence.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "instruction_priorities.hpp"

namespace celerity {

namespace {

// Scattered elements reach copy engines at a fraction of their bandwidth, so narrow strided data is packed on the device first ...
constexpr coordinate linearize_below_run_bytes = 64;
// ... unless it is so large that the packed copy would weigh on device memory.
constexpr std::size_t linearize_up_to_bytes = std::size_t{64} * 1024 * 1024;
constexpr std::size_t staging_alignment_bytes = 128;

} // namespace

std::vector<read_requirement> coherence::find_missing(const buffer_state& buffer, const std::span<const read_requirement> reads) {
	std::vector<read_requirement> all_missing;
	std::vector<box_vector> parts_of; // by read, from `first` on
	for(std::size_t first = 0; first < reads.size();) {
		// Chunks on many devices often read the same region: one look at it is enough.
		std::size_t last = first + 1;
		while(last < reads.size() && reads[last].where == reads[first].where) ++last;
		std::uint64_t readers = 0;
		for(std::size_t r = first; r < last; ++r) readers |= bit_of(reads[r].memory);
		parts_of.assign(last - first, {});
		buffer.contents.query(reads[first].where, [&](const box& part, const content_state& state) {
			if(state.up_to_date == 0 || (readers & ~state.up_to_date) == 0) return;
			for(std::size_t r = first; r < last; ++r) {
				if((state.up_to_date & bit_of(reads[r].memory)) == 0) parts_of[r - first].push_back(part);
			}
		});
		for(std::size_t r = first; r < last; ++r) {
			if(!parts_of[r - first].empty()) all_missing.push_back({reads[r].memory, region(std::move(parts_of[r - first]))});
		}
		first = last;
	}
	return all_missing;
}

void coherence::make_coherent(const command_phase& now, buffer_state& buffer, const std::span<const read_requirement> reads) {
	const auto all_missing = find_missing(buffer, reads);
	if(all_missing.empty()) return;

	std::vector<staged_copy> staged;
	std::vector<bool> done(all_missing.size());
	for(std::size_t i = 0; i < all_missing.size(); ++i) {
		if(done[i]) continue;
		// Chunks that share a memory may lack the same data: copy it once, yet let each chunk wait for its own parts only.
		std::vector<region> parts;
		for(std::size_t k = i; k < all_missing.size(); ++k) {
			if(all_missing[k].memory != all_missing[i].memory) continue;
			done[k] = true;
			parts.push_back(all_missing[k].where);
		}
		if(parts.size() > 1) symmetrically_split_overlapping_regions(parts);
		for(const auto& part : parts) copy_missing(now, buffer, all_missing[i].memory, part, staged);
	}
	if(!staged.empty()) copy_staged(now, buffer, staged);
	for(const auto& missing : all_missing) {
		const bool is_last = &missing == &all_missing.back(); // the map merges entries after the last change only
		buffer.contents.modify(missing.where, [&](content_state& state) {
			state.up_to_date |= bit_of(missing.memory);
			return is_last;
		});
	}
}

void coherence::copy_missing(const command_phase& now, buffer_state& buffer, const memory_id destination, const region& missing,
    std::vector<staged_copy>& staged) {
	const auto sources = m_sources.find_nearest(buffer, missing, destination);
	if(gather(now, buffer, destination, missing, sources)) return;
	for(const auto& [memory, origin, where] : sources) {
		const copy_reason reason = memory == user_memory ? copy_reason::initial : copy_reason::coherence;
		// A staged piece lies in a single allocation on either side, too, because packed data has one order.
		for_each_part(buffer.memories[memory.value], where, [&, memory = memory, origin = origin](allocation_state& from, const region& at_source) {
			for_each_part(buffer.memories[destination.value], at_source, [&](allocation_state& to, const region& part) {
				if(m_capabilities.can_copy(from.id.memory, destination)) {
					copy_between(m_history, now, buffer, part, from, to, reason);
				} else {
					staged.push_back(staged_copy{memory, origin, part, {destination}});
				}
			});
		});
	}
}

// Emits one instruction instead of a copy per source, if that is possible and pays. If every device reads data of all devices, the number of copies would be
// the square of the number of devices.
bool coherence::gather(const command_phase& now, buffer_state& buffer, const memory_id destination, const region& missing,
    const std::span<const source_region> sources) {
	if(sources.size() < 2 || !is_device_memory(destination)) return false;
	if(static_cast<std::size_t>(missing.area()) * buffer.info.element_size_bytes > m_capabilities.gathered_bytes) return false;
	auto* const target = find_allocation(buffer, destination, missing.bounding_box());
	if(target == nullptr) return false;
	std::size_t num_boxes = 0;
	std::uint64_t memories = 0;
	small_vector<allocation_state*, 8> allocations;
	for(const auto& source : sources) {
		if(!is_device_memory(source.memory) || !m_capabilities.can_copy(source.memory, destination)) return false;
		if((memories & bit_of(source.memory)) != 0) return false; // of several producers on one device, and too much for one copy to wait for both
		memories |= bit_of(source.memory);
		num_boxes += source.where.boxes().size();
		allocations.push_back(find_allocation(buffer, source.memory, source.where.bounding_box()));
		if(allocations.back() == nullptr) return false;
	}
	if(num_boxes > max_gathered_boxes) return false;

	instruction_builder gather(m_history, now);
	std::vector<copy_source> copies;
	copies.reserve(sources.size());
	for(std::size_t i = 0; i < sources.size(); ++i) {
		gather.read(*allocations[i], sources[i].where);
		copies.push_back({allocations[i]->id, m_history.nodes().copy(sources[i].where.boxes())});
	}
	gather.write(*target, missing);
	gather.emit(gather_copy_instruction{m_history.nodes().copy(copies), target->id, buffer.info.element_size_bytes, buffer.info.id}, priorities::copy);
	return true;
}

void coherence::copy_staged(const command_phase& now, buffer_state& buffer, std::vector<staged_copy>& staged) {
	// A value that several devices lack crosses the link of its source once. Therefore the regions of each source are made disjoint, each with its destinations.
	std::vector<staged_copy> pieces;
	std::vector<bool> done(staged.size());
	for(std::size_t i = 0; i < staged.size(); ++i) {
		if(done[i]) continue;
		std::vector<region> parts;
		small_vector<std::size_t, 16> members;
		for(std::size_t k = i; k < staged.size(); ++k) {
			if(staged[k].source != staged[i].source || staged[k].origin != staged[i].origin) continue;
			done[k] = true;
			members.push_back(k);
			parts.push_back(staged[k].where);
		}
		if(parts.size() > 1) symmetrically_split_overlapping_regions(parts);
		for(const auto& part : parts) {
			staged_copy piece{staged[i].source, staged[i].origin, part, {}};
			for(const std::size_t k : members) {
				const memory_id destination = staged[k].destinations.front();
				if(!staged[k].where.overlaps(part)) continue;
				if(std::find(piece.destinations.begin(), piece.destinations.end(), destination) == piece.destinations.end()) {
					piece.destinations.push_back(destination);
				}
			}
			pieces.push_back(std::move(piece));
		}
	}

	const std::size_t alignment_bytes = std::lcm(buffer.info.element_alignment_bytes, staging_alignment_bytes);
	const auto round_up = [](const std::size_t value, const std::size_t multiple) { return (value + multiple - 1) / multiple * multiple; };
	std::size_t total_bytes = 0;
	std::vector<std::size_t> offsets;
	for(const auto& piece : pieces) {
		offsets.push_back(total_bytes);
		total_bytes += round_up(static_cast<std::size_t>(piece.where.area()) * buffer.info.element_size_bytes, alignment_bytes);
	}
	auto& staging = m_memory.acquire_staging(now, host_memory, total_bytes, alignment_bytes); // packing acquires from the pools of devices only
	for(std::size_t i = 0; i < pieces.size(); ++i) copy_staged_region(now, buffer, pieces[i], staging, offsets[i]);
}

void coherence::copy_staged_region(const command_phase& now, buffer_state& buffer, const staged_copy& copy, staging_allocation& staging,
    const std::size_t offset_bytes) {
	const std::size_t size_bytes = static_cast<std::size_t>(copy.where.area()) * buffer.info.element_size_bytes;
	const std::size_t alignment_bytes = std::lcm(buffer.info.element_alignment_bytes, staging_alignment_bytes);
	const auto boxes = m_history.nodes().copy(copy.where.boxes());
	// One end of a copy: an allocation of the buffer, or packed data in staging.
	struct end {
		allocation_state* allocation;
		staging_allocation* staging;
		copy_place place;
	};
	const auto allocation_in = [&](const memory_id memory) {
		auto* const found = find_allocation(buffer, memory, copy.where.bounding_box());
		assert(found != nullptr);
		return end{found, nullptr, {found->id}};
	};
	const auto pack_in = [&](const memory_id memory) {
		auto& packed = m_memory.acquire_staging(now, memory, size_bytes, alignment_bytes);
		return end{nullptr, &packed, {packed.id}};
	};
	const auto emit_hop = [&](const end& from, const end& to, const instruction_id filler) {
		instruction_builder hop(m_history, now);
		if(from.staging != nullptr) hop.drain(*from.staging, filler);
		if(to.staging != nullptr) hop.fill(*to.staging);
		if(from.allocation != nullptr) hop.read(*from.allocation, copy.where);
		if(to.allocation != nullptr) hop.write(*to.allocation, copy.where);
		return emit_copy(hop, buffer, from.place, to.place, boxes, copy_reason::staging);
	};

	// Into host memory, packed on the device first where that pays.
	const end on_host{nullptr, &staging, {staging.id, offset_bytes}};
	end source = allocation_in(copy.source);
	instruction_id packing;
	if(should_linearize(buffer, copy.where, *source.allocation)) {
		const end packed = pack_in(source.allocation->id.memory);
		packing = emit_hop(source, packed, {});
		source = packed;
	}
	const instruction_id in_host_memory = emit_hop(source, on_host, packing);
	for(const memory_id memory : copy.destinations) {
		const end destination = allocation_in(memory);
		if(should_linearize(buffer, copy.where, *destination.allocation)) {
			const end packed = pack_in(memory);
			emit_hop(packed, destination, emit_hop(on_host, packed, in_host_memory));
		} else {
			emit_hop(on_host, destination, in_host_memory);
		}
	}
}

bool coherence::should_linearize(const buffer_state& buffer, const region& where, const allocation_state& allocation) {
	if(!is_device_memory(allocation.id.memory)) return false;
	if(static_cast<std::size_t>(where.area()) * buffer.info.element_size_bytes > linearize_up_to_bytes) return false;
	for(const box& part : where) {
		coordinate row = 1; // elements in a row without a gap
		for(std::size_t d = 3; d-- > 0;) {
			row *= part.extent(d);
			if(part.extent(d) != allocation.allocated.extent(d)) break;
		}
		if(row != part.area() && row * static_cast<coordinate>(buffer.info.element_size_bytes) < linearize_below_run_bytes) return true;
	}
	return false;
}

} // namespace celerity
