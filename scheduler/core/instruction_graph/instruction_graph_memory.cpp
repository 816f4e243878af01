// SPDX-License-Identifier: MIT
// Copies that bring data where it is read.
#include "instruction_graph.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <numeric>
#include <tuple>

#include "instruction_priorities.hpp"

namespace celerity {

namespace {

// Scattered elements reach copy engines at a fraction of their bandwidth, so narrow strided data is packed on the device first ...
constexpr coordinate linearize_below_run_bytes = 64;
// ... unless it is so large that the packed copy would weigh on device memory.
constexpr std::size_t linearize_up_to_bytes = std::size_t{64} * 1024 * 1024;
constexpr std::size_t staging_alignment_bytes = 128;

} // namespace

void instruction_graph_generator::satisfy(const command_phase& now, buffer_state& buffer, const buffer_requirements& requirements) {
	const auto receiving = now.in(phase::receive); // a receive may wait for a resize, which therefore has this phase, too
	for(const auto& read : requirements.reads) materialize_initial_contents(receiving, buffer, read.where);
	require_contiguous(receiving, buffer, requirements);
	if(!buffer.receives.empty()) commit_receives(receiving, buffer, requirements.reads);
	make_coherent(now, buffer, requirements.reads);
}

std::vector<instruction_graph_generator::read_requirement> instruction_graph_generator::find_missing(const buffer_state& buffer,
    const std::span<const read_requirement> reads) {
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

void instruction_graph_generator::make_coherent(const command_phase& now, buffer_state& buffer, const std::span<const read_requirement> reads) {
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

// A copy or a message takes microseconds, however small it is.
void instruction_graph_generator::join_small(std::vector<source_boxes>& sources, const std::size_t element_size_bytes) const {
	for(std::size_t i = 0; i + 1 < sources.size(); ++i) {
		std::size_t num_elements = 0;
		for(std::size_t k = i; k < sources.size(); ++k) {
			if(sources[k].memory != sources[i].memory) continue;
			for(const box& b : sources[k].where) num_elements += static_cast<std::size_t>(b.area());
		}
		if(num_elements * element_size_bytes > m_capabilities.joined_bytes) continue;
		auto kept = sources.begin() + static_cast<std::ptrdiff_t>(i) + 1;
		for(auto source = kept; source != sources.end(); ++source) {
			if(source->memory == sources[i].memory) {
				for(const box& b : source->where) sources[i].where.push_back(b);
			} else {
				if(kept != source) *kept = std::move(*source);
				++kept;
			}
		}
		sources.erase(kept, sources.end());
	}
}

void instruction_graph_generator::copy_missing(const command_phase& now, buffer_state& buffer, const memory_id destination, const region& missing,
    std::vector<staged_copy>& staged) {
	const auto sources = find_nearest_sources(buffer, missing, destination);
	if(gather(now, buffer, destination, missing, sources)) return;
	for(const auto& [memory, origin, where] : sources) {
		const copy_reason reason = memory == user_memory ? copy_reason::initial : copy_reason::coherence;
		// A staged piece lies in a single allocation on either side, too, because packed data has one order.
		for_each_part(buffer.memories[memory.value], where, [&, memory = memory, origin = origin](allocation_state& from, const region& at_source) {
			for_each_part(buffer.memories[destination.value], at_source, [&](allocation_state& to, const region& part) {
				if(m_capabilities.can_copy(from.id.memory, destination)) {
					copy_between(now, buffer, part, from, to, reason);
				} else {
					staged.push_back(staged_copy{memory, origin, part, {destination}});
				}
			});
		});
	}
}

// Emits one instruction instead of a copy per source, if that is possible and pays. If every device reads data of all devices, the number of copies would be
// the square of the number of devices.
bool instruction_graph_generator::gather(const command_phase& now, buffer_state& buffer, const memory_id destination, const region& missing,
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

	instruction_builder gather(*this, now);
	std::vector<copy_source> copies;
	copies.reserve(sources.size());
	for(std::size_t i = 0; i < sources.size(); ++i) {
		gather.read(*allocations[i], sources[i].where);
		copies.push_back({allocations[i]->id, nodes().copy(sources[i].where.boxes())});
	}
	gather.write(*target, missing);
	gather.emit(gather_copy_instruction{nodes().copy(copies), target->id, buffer.info.element_size_bytes, buffer.info.id}, priorities::copy);
	return true;
}

memory_id instruction_graph_generator::select_source(const content_state& state, const memory_id destination) const {
	// What is joined costs as much as a single element.
	const std::size_t unit_bytes = std::max<std::size_t>(m_capabilities.joined_bytes, 1);
	const auto cost_of = [&](const memory_id memory) {
		const memory_id place = memory == user_memory ? state.user_place : memory;
		const unsigned apart = memory > destination ? memory.value - destination.value : destination.value - memory.value;
		return std::tuple(m_capabilities.distance(place, destination), m_planned_bytes[memory.value] / unit_bytes, memory != state.origin_memory,
		    !is_device_memory(memory), apart);
	};
	memory_id best = state.origin_memory; // holds its value as long as anybody does, and may lack a link to the destination
	bool is_found = false;
	for(std::uint64_t rest = state.up_to_date; rest != 0; rest &= rest - 1) {
		const memory_id memory(static_cast<std::uint8_t>(std::countr_zero(rest)));
		if(!can_copy(state, memory, destination) || (is_found && cost_of(best) <= cost_of(memory))) continue;
		best = memory;
		is_found = true;
	}
	return best;
}

std::vector<instruction_graph_generator::source_region> instruction_graph_generator::find_nearest_sources(const buffer_state& buffer, const region& where,
    const memory_id destination) {
	struct choice {
		content_state state;
		memory_id source;
	};
	small_vector<choice, 4> chosen; // data in the same state has one source, so that it leaves in few pieces
	const auto choose = [&](const content_state& state) {
		if(std::has_single_bit(state.up_to_date)) return state.origin_memory;
		for(const auto& [known, source] : chosen) {
			if(known == state) return source;
		}
		const memory_id source = select_source(state, destination);
		chosen.push_back({state, source});
		return source;
	};
	return find_sources(buffer, where, [&](const content_state& state, const box& part) {
		const memory_id source = choose(state);
		m_planned_bytes[source.value] += static_cast<std::size_t>(part.area()) * buffer.info.element_size_bytes;
		return source;
	});
}

void instruction_graph_generator::copy_between(const command_phase& now, buffer_state& buffer, const region& where, allocation_state& source,
    allocation_state& destination, const copy_reason reason) {
	instruction_builder copy(*this, now);
	copy.read(source, where);
	copy.write(destination, where);
	emit_copy(copy, buffer, {source.id}, {destination.id}, nodes().copy(where.boxes()), reason);
}

instruction_id instruction_graph_generator::emit_copy(instruction_builder& copy, const buffer_state& buffer, const copy_place& source,
    const copy_place& destination, const std::span<const box> boxes, const copy_reason reason) {
	return copy.emit(copy_instruction{source.allocation, source.offset_bytes, destination.allocation, destination.offset_bytes, boxes,
	                     buffer.info.element_size_bytes, reason, buffer.info.id},
	    priorities::copy);
}

void instruction_graph_generator::copy_staged(const command_phase& now, buffer_state& buffer, std::vector<staged_copy>& staged) {
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
	auto& staging = acquire_staging(now, host_memory, total_bytes, alignment_bytes); // packing acquires from the pools of devices only
	for(std::size_t i = 0; i < pieces.size(); ++i) copy_staged_region(now, buffer, pieces[i], staging, offsets[i]);
}

void instruction_graph_generator::copy_staged_region(const command_phase& now, buffer_state& buffer, const staged_copy& copy, staging_allocation& staging,
    const std::size_t offset_bytes) {
	const std::size_t size_bytes = static_cast<std::size_t>(copy.where.area()) * buffer.info.element_size_bytes;
	const std::size_t alignment_bytes = std::lcm(buffer.info.element_alignment_bytes, staging_alignment_bytes);
	const auto boxes = nodes().copy(copy.where.boxes());
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
		auto& packed = acquire_staging(now, memory, size_bytes, alignment_bytes);
		return end{nullptr, &packed, {packed.id}};
	};
	const auto emit_step = [&](const end& from, const end& to, const instruction_id filler) {
		instruction_builder step(*this, now);
		if(from.staging != nullptr) step.drain(*from.staging, filler);
		if(to.staging != nullptr) step.fill(*to.staging);
		if(from.allocation != nullptr) step.read(*from.allocation, copy.where);
		if(to.allocation != nullptr) step.write(*to.allocation, copy.where);
		return emit_copy(step, buffer, from.place, to.place, boxes, copy_reason::staging);
	};

	// Into host memory, packed on the device first where that pays.
	const end on_host{nullptr, &staging, {staging.id, offset_bytes}};
	end source = allocation_in(copy.source);
	instruction_id packing;
	if(should_linearize(buffer, copy.where, *source.allocation)) {
		const end packed = pack_in(source.allocation->id.memory);
		packing = emit_step(source, packed, {});
		source = packed;
	}
	const instruction_id in_host_memory = emit_step(source, on_host, packing);
	for(const memory_id memory : copy.destinations) {
		const end destination = allocation_in(memory);
		if(should_linearize(buffer, copy.where, *destination.allocation)) {
			const end packed = pack_in(memory);
			emit_step(packed, destination, emit_step(on_host, packed, in_host_memory));
		} else {
			emit_step(on_host, destination, in_host_memory);
		}
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

instruction_graph_generator::staging_allocation& instruction_graph_generator::acquire_staging(const command_phase& now, const memory_id memory,
    const std::size_t size_bytes, const std::size_t alignment_bytes) {
	// Powers of two, so that growing transfers reuse the memory of shorter ones.
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
	pool.push_back(make_staging(now, memory, rounded_bytes, alignment_bytes));
	return pool.back();
}

} // namespace celerity
