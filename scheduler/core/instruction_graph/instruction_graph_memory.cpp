// SPDX-License-Identifier: MIT
// Copies that bring data where it is read.
#include "instruction_graph.hpp"

#include <algorithm>
#include <bit>
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

void instruction_graph_generator::depend_for_read(const allocation_state& allocation, const region& where) {
	allocation.accesses.query(where, [&](const box&, const front& f) { f.depend_for_read(m_window); });
}

void instruction_graph_generator::depend_for_write(const allocation_state& allocation, const region& where) {
	allocation.accesses.query(where, [&](const box&, const front& f) { f.depend_for_write(m_window); });
}

void instruction_graph_generator::record_read(allocation_state& allocation, const region& where) {
	const instruction_id self = m_window.current();
	allocation.accesses.modify(where, [&](front& f) { return f.add_reader(self); });
}

void instruction_graph_generator::record_write(allocation_state& allocation, const region& where) {
	allocation.accesses.update(where, front{m_window.current(), {}});
}

void instruction_graph_generator::satisfy(buffer_state& buffer, const buffer_requirements& requirements) {
	const auto saved_key = m_key;
	m_key.phase = phase::receive; // a receive may have to wait for a resize, so that must not be ordered after it
	for(const auto& read : requirements.reads) materialize_initial_contents(buffer, read.where);
	require_contiguous(buffer, requirements);
	if(!buffer.receives.empty()) commit_receives(buffer, requirements.reads);
	m_key = saved_key;
	make_coherent(buffer, requirements.reads);
}

std::vector<instruction_graph_generator::read_requirement> instruction_graph_generator::find_missing(
    const buffer_state& buffer, const std::span<const read_requirement> reads) {
	std::vector<read_requirement> all_missing;
	std::vector<box_vector> parts_of; // by read, from `first` on
	for(std::size_t first = 0; first < reads.size();) {
		// Chunks on many devices often read the same: to look once is enough.
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

void instruction_graph_generator::make_coherent(buffer_state& buffer, const std::span<const read_requirement> reads) {
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
		for(const auto& part : parts) copy_missing(buffer, all_missing[i].memory, part, staged);
	}
	if(!staged.empty()) copy_staged(buffer, staged);
	for(const auto& missing : all_missing) {
		const bool is_last = &missing == &all_missing.back(); // what may merge may do so then
		buffer.contents.modify(missing.where, [&](content_state& state) {
			state.up_to_date |= bit_of(missing.memory);
			return is_last;
		});
	}
}

// A copy or a message takes microseconds, however small it is.
void instruction_graph_generator::join_small(std::vector<source_boxes>& sources, const std::size_t element_size_bytes) const {
	for(std::size_t i = 0; i + 1 < sources.size(); ++i) {
		std::size_t num_elements = 0;
		for(std::size_t k = i; k < sources.size(); ++k) {
			if(sources[k].memory != sources[i].memory) continue;
			for(const box& b : sources[k].boxes) num_elements += static_cast<std::size_t>(b.area());
		}
		if(num_elements * element_size_bytes > m_capabilities.joined_bytes) continue;
		auto kept = sources.begin() + static_cast<std::ptrdiff_t>(i) + 1;
		for(auto source = kept; source != sources.end(); ++source) {
			if(source->memory == sources[i].memory) {
				for(const box& b : source->boxes) sources[i].boxes.push_back(b);
			} else {
				if(kept != source) *kept = std::move(*source);
				++kept;
			}
		}
		sources.erase(kept, sources.end());
	}
}

void instruction_graph_generator::copy_missing(
    buffer_state& buffer, const memory_id destination, const region& missing, std::vector<staged_copy>& staged) {
	const auto sources = find_sources(buffer, missing, [&](const content_state& state) { return select_source(state, destination); });
	if(gather(buffer, destination, missing, sources)) return;
	for(const auto& [memory, origin, where] : sources) {
		if(m_capabilities.can_copy(memory, destination)) {
			copy_between_memories(buffer, where, memory, destination, memory == user_memory ? copy_reason::initial : copy_reason::coherence);
			continue;
		}
		// Packed data has one order, so a staged piece lies in a single allocation on either side.
		for_each_part(buffer.memories[memory.value], where, [&, memory = memory, origin = origin](const allocation_state&, const region& at_source) {
			for_each_part(buffer.memories[destination.value], at_source,
			    [&](const allocation_state&, const region& part) { staged.push_back(staged_copy{memory, origin, part, {destination}}); });
		});
	}
}

// One instruction for what would be a copy per source, if that is possible and worth it: every device that reads what all of them have written would
// otherwise make their number squared.
bool instruction_graph_generator::gather(
    buffer_state& buffer, const memory_id destination, const region& missing, const std::span<const source_region> sources) {
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

	begin();
	std::vector<copy_source> copies;
	copies.reserve(sources.size());
	for(std::size_t i = 0; i < sources.size(); ++i) {
		depend_for_read(*allocations[i], sources[i].where);
		copies.push_back({allocations[i]->id, copy_layout{false, allocations[i]->allocated, 0}, nodes().copy(sources[i].where.boxes())});
	}
	depend_for_write(*target, missing);
	emit(gather_copy_instruction{nodes().copy(copies), target->id, copy_layout{false, target->allocated, 0}, buffer.info.element_size_bytes, buffer.info.id},
	    priorities::copy);
	for(std::size_t i = 0; i < sources.size(); ++i) record_read(*allocations[i], sources[i].where);
	record_write(*target, missing);
	return true;
}

memory_id instruction_graph_generator::select_source(const content_state& state, const memory_id destination) const {
	const auto usable = [&](const memory_id memory) {
		return (state.up_to_date & bit_of(memory)) != 0 && m_capabilities.can_copy(memory, destination);
	};
	if(usable(state.origin_memory)) return state.origin_memory;
	// Devices first: their links are faster than the host's. Among them the one with the nearest number.
	memory_id best{};
	unsigned best_distance = ~0U;
	for(std::uint8_t m = first_device_memory_value; m < m_capabilities.num_memories(); ++m) {
		const unsigned distance = m > destination.value ? m - destination.value : destination.value - m;
		if(usable(memory_id(m)) && distance < best_distance) {
			best = memory_id(m);
			best_distance = distance;
		}
	}
	if(best_distance != ~0U) return best;
	if(usable(host_memory)) return host_memory;
	return state.origin_memory; // holds its value as long as anybody does, but cannot copy to the destination
}

void instruction_graph_generator::copy_between_memories(
    buffer_state& buffer, const region& where, const memory_id source, const memory_id destination, const copy_reason reason) {
	for_each_part(buffer.memories[source.value], where, [&](allocation_state& from, const region& at_source) {
		for_each_part(buffer.memories[destination.value], at_source,
		    [&](allocation_state& to, const region& part) { emit_copy(buffer, part, from, to, reason); });
	});
}

instruction_id instruction_graph_generator::emit_copy(
    buffer_state& buffer, const region& where, allocation_state& source, allocation_state& destination, const copy_reason reason) {
	begin();
	depend_for_read(source, where);
	depend_for_write(destination, where);
	const instruction_id self = emit(copy_instruction{source.id, copy_layout{false, source.allocated, 0}, destination.id,
	                                     copy_layout{false, destination.allocated, 0}, nodes().copy(where.boxes()), buffer.info.element_size_bytes, reason,
	                                     buffer.info.id},
	    priorities::copy);
	record_read(source, where);
	record_write(destination, where);
	return self;
}

void instruction_graph_generator::copy_staged(buffer_state& buffer, std::vector<staged_copy>& staged) {
	// A value that several devices lack crosses the source's link once: make the regions of each source disjoint, and note who wants each.
	std::vector<staged_copy> plan;
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
			plan.push_back(std::move(piece));
		}
	}

	const std::size_t alignment_bytes = std::lcm(buffer.info.element_alignment_bytes, staging_alignment_bytes);
	const auto round_up = [](const std::size_t value, const std::size_t multiple) { return (value + multiple - 1) / multiple * multiple; };
	std::size_t total_bytes = 0;
	std::vector<std::size_t> offsets;
	for(const auto& piece : plan) {
		offsets.push_back(total_bytes);
		total_bytes += round_up(static_cast<std::size_t>(piece.where.area()) * buffer.info.element_size_bytes, alignment_bytes);
	}
	auto& staging = acquire_staging(host_memory, total_bytes, alignment_bytes); // packing acquires from the pools of devices only
	for(std::size_t i = 0; i < plan.size(); ++i) copy_staged_region(buffer, plan[i], staging.id, offsets[i], staging.ready, staging.uses);
}

void instruction_graph_generator::copy_staged_region(
    buffer_state& buffer, const staged_copy& copy, const allocation_id staging, const std::size_t offset_bytes, const instruction_id staging_ready,
    small_vector<instruction_id, 6>& staging_uses) {
	const std::size_t element_size_bytes = buffer.info.element_size_bytes;
	const std::size_t size_bytes = static_cast<std::size_t>(copy.where.area()) * element_size_bytes;
	const auto boxes = nodes().copy(copy.where.boxes());
	const copy_layout host_layout{true, box(), offset_bytes};
	const auto emit_part = [&](const allocation_id from, const copy_layout& from_layout, const allocation_id to, const copy_layout& to_layout) {
		return emit(
		    copy_instruction{from, from_layout, to, to_layout, boxes, element_size_bytes, copy_reason::staging, buffer.info.id}, priorities::copy);
	};

	const std::size_t alignment_bytes = std::lcm(buffer.info.element_alignment_bytes, staging_alignment_bytes);

	// Into host memory, packed on the device first where that pays.
	auto* const source = find_allocation(buffer, copy.source, copy.where.bounding_box());
	assert(source != nullptr);
	instruction_id in_host_memory;
	if(should_linearize(buffer, copy.where, *source)) {
		auto& packed = acquire_staging(copy.source, size_bytes, alignment_bytes);
		begin();
		m_window.depend(packed.ready);
		depend_for_read(*source, copy.where);
		const instruction_id packing = emit_part(source->id, copy_layout{false, source->allocated, 0}, packed.id, copy_layout{true, box(), 0});
		record_read(*source, copy.where);
		begin();
		m_window.depend(packing);
		m_window.depend(staging_ready);
		in_host_memory = emit_part(packed.id, copy_layout{true, box(), 0}, staging, host_layout);
		packed.uses.push_back(packing);
		packed.uses.push_back(in_host_memory);
	} else {
		begin();
		m_window.depend(staging_ready);
		depend_for_read(*source, copy.where);
		in_host_memory = emit_part(source->id, copy_layout{false, source->allocated, 0}, staging, host_layout);
		record_read(*source, copy.where);
	}

	staging_uses.push_back(in_host_memory);

	for(const memory_id destination : copy.destinations) {
		auto* const target = find_allocation(buffer, destination, copy.where.bounding_box());
		assert(target != nullptr);
		if(should_linearize(buffer, copy.where, *target)) {
			auto& packed = acquire_staging(destination, size_bytes, alignment_bytes);
			begin();
			m_window.depend(in_host_memory);
			m_window.depend(packed.ready);
			const instruction_id arrived = emit_part(staging, host_layout, packed.id, copy_layout{true, box(), 0});
			begin();
			m_window.depend(arrived);
			depend_for_write(*target, copy.where);
			const instruction_id unpacking = emit_part(packed.id, copy_layout{true, box(), 0}, target->id, copy_layout{false, target->allocated, 0});
			staging_uses.push_back(arrived);
			packed.uses.push_back(arrived);
			packed.uses.push_back(unpacking);
		} else {
			begin();
			m_window.depend(in_host_memory);
			depend_for_write(*target, copy.where);
			staging_uses.push_back(emit_part(staging, host_layout, target->id, copy_layout{false, target->allocated, 0}));
		}
		record_write(*target, copy.where);
	}
}

bool instruction_graph_generator::should_linearize(const buffer_state& buffer, const region& where, const allocation_state& allocation) const {
	if(!is_device_memory(allocation.id.memory)) return false;
	if(static_cast<std::size_t>(where.area()) * buffer.info.element_size_bytes > linearize_up_to_bytes) return false;
	for(const box& part : where) {
		coordinate run = 1; // elements in a row without a gap
		for(std::size_t d = 3; d-- > 0;) {
			run *= part.extent(d);
			if(part.extent(d) != allocation.allocated.extent(d)) break;
		}
		if(run != part.area() && run * static_cast<coordinate>(buffer.info.element_size_bytes) < linearize_below_run_bytes) return true;
	}
	return false;
}

instruction_graph_generator::staging_allocation& instruction_graph_generator::acquire_staging(
    const memory_id memory, const std::size_t size_bytes, const std::size_t alignment_bytes) {
	// Powers of two, so that growing transfers reuse what shorter ones left.
	const std::size_t rounded_bytes = std::bit_ceil(std::max<std::size_t>(size_bytes, 256));
	auto& pool = m_staging[memory.value];
	for(auto& staging : pool) {
		if(staging.size_bytes != rounded_bytes || staging.alignment_bytes != alignment_bytes) continue;
		// Old enough that waiting for it costs no concurrency: everything it was used for precedes the applied epoch.
		const bool is_free = std::all_of(staging.uses.begin(), staging.uses.end(), [&](const instruction_id use) { return use < m_window.epoch(); });
		if(!is_free) continue;
		staging.ready = m_window.epoch();
		staging.uses.clear();
		return staging;
	}
	const allocation_id id = next_allocation(memory);
	begin();
	const instruction_id alloc = emit(alloc_instruction{id, rounded_bytes, alignment_bytes, buffer_id{}, box(), m_submission}, priorities::alloc);
	pool.push_back(staging_allocation{id, rounded_bytes, alignment_bytes, alloc, {}});
	return pool.back();
}

} // namespace celerity
