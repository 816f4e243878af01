// SPDX-License-Identifier: MIT
#include "copy_sources.hpp"

#include <bit>
#include <cstdint>
#include <optional>
#include <tuple>

#include "base/small_vector.hpp"

namespace celerity {

memory_id copy_sources::select(const content_state& state, const memory_id destination) const {
	const memory_id origin = state.origin_memory; // holds the value as long as any memory does
	const auto distance_of = [&](const memory_id memory) { return m_capabilities.distance(place_of(state, memory), destination); };
	if(m_planned_bytes[origin.value] < m_unit_bytes && can_copy(state, origin, destination) && distance_of(origin) == 0) return origin; // no other is better
	// The most important criterion is the first one.
	const auto cost_of = [&](const memory_id memory) {
		return std::tuple(distance_of(memory), m_planned_bytes[memory.value] / m_unit_bytes, memory != origin, !is_device_memory(memory));
	};
	memory_id best = origin;
	std::optional<decltype(cost_of(origin))> least_cost;
	for(std::uint64_t rest = state.up_to_date; rest != 0; rest &= rest - 1) {
		const memory_id memory(static_cast<std::uint8_t>(std::countr_zero(rest)));
		if(!can_copy(state, memory, destination)) continue;
		if(const auto cost = cost_of(memory); !least_cost.has_value() || cost < *least_cost) {
			best = memory;
			least_cost = cost;
		}
	}
	return best;
}

std::vector<copy_sources::source_region> copy_sources::find_nearest(const buffer_state& buffer, const region& where, const memory_id destination) {
	struct choice {
		content_state state;
		memory_id memory;
	};
	small_vector<choice, 4> choices; // one per state, so that data in one state leaves in one piece
	auto sources = find(buffer, where, [&](const content_state& state) {
		if((state.up_to_date & (state.up_to_date - 1)) == 0) return state.origin_memory; // the only one
		for(const auto& known : choices) {
			if(known.state == state) return known.memory;
		}
		const memory_id memory = select(state, destination);
		choices.push_back({state, memory});
		return memory;
	});
	for(const auto& source : sources) {
		coordinate area = 0;
		for(const box& part : source.where) area += part.area();
		m_planned_bytes[source.memory.value] += static_cast<std::size_t>(area) * buffer.info.element_size_bytes;
	}
	return sources;
}

// A copy or a message takes microseconds, however small it is.
void copy_sources::join_small(std::vector<source_boxes>& sources, const std::size_t element_size_bytes) const {
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

} // namespace celerity
