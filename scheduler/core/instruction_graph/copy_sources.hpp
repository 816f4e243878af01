// SPDX-License-Identifier: MIT
// The choice of the memory from which data is copied, if several memories of this rank hold it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/ids.hpp"
#include "buffer_memory.hpp"
#include "vocabulary/instruction.hpp"

namespace celerity {

class copy_sources {
  public:
	explicit copy_sources(const system_capabilities& capabilities)
	    : m_capabilities(capabilities), m_unit_bytes(std::max<std::uint64_t>(capabilities.joined_bytes, 1)), m_planned_bytes(capabilities.num_memories()) {}

	/// Data of one producer in one memory.
	template <typename Boxes>
	struct source {
		memory_id memory;
		instruction_id origin;
		Boxes where;
	};
	using source_region = source<region>;

	/// Bytes of earlier tasks do not count from here on. They would be a part of the planner's state, and no replay would become periodic.
	void begin_task() { std::fill(m_planned_bytes.begin(), m_planned_bytes.end(), 0); }

	/// Whether one copy brings the value from a memory that holds it to the destination.
	bool can_copy(const content_state& state, const memory_id from, const memory_id destination) const {
		return m_capabilities.can_copy(place_of(state, from), destination);
	}
	/// The memory with the best link to the destination; of equal links, the one from which the fewest bytes are copied for the present task; of equal bytes, that
	/// of the producer. If none has a link to the destination, that of the producer.
	memory_id select(const content_state& state, memory_id destination) const;
	/// Divides the part of `where` that this rank holds by producer, and by the memory that choose(content_state) names. A piece then waits for one producer only.
	/// Pieces so small that each costs more than waiting are joined.
	template <typename Choose>
	std::vector<source_region> find(const buffer_state& buffer, const region& where, Choose&& choose) const;
	/// Chooses by `select`, and counts the bytes as copied.
	std::vector<source_region> find_nearest(const buffer_state& buffer, const region& where, memory_id destination);

  private:
	using source_boxes = source<box_vector>;

	const system_capabilities& m_capabilities;
	std::uint64_t m_unit_bytes;                 ///< of load: data that is joined costs as much as one element
	std::vector<std::uint64_t> m_planned_bytes; ///< by memory id: copied from there for the present task

	static memory_id place_of(const content_state& state, const memory_id memory) { return memory == user_memory ? state.user_place : memory; }
	void join_small(std::vector<source_boxes>& sources, std::size_t element_size_bytes) const;
};

template <typename Choose>
std::vector<copy_sources::source_region> copy_sources::find(const buffer_state& buffer, const region& where, Choose&& choose) const {
	std::vector<source_boxes> found;
	buffer.contents.query(where, [&](const box& part, const content_state& state) {
		if(state.up_to_date == 0) return;
		const memory_id memory = choose(state);
		for(auto& source : found) {
			if(source.memory == memory && source.origin == state.origin) return source.where.push_back(part);
		}
		found.push_back({memory, state.origin, box_vector{part}});
	});
	if(found.size() > 1) join_small(found, buffer.info.element_size_bytes);
	std::vector<source_region> sources;
	sources.reserve(found.size());
	for(auto& source : found) sources.push_back({source.memory, source.origin, region(std::move(source.where))});
	return sources;
}

} // namespace celerity
