// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.hpp"
#include "base/small_vector.hpp"
#include "rank_memory.hpp"

namespace celerity {

/// Copies that bring the newest values to the memories in which they are read.
class coherence {
  public:
	coherence(const system_capabilities& capabilities, instruction_history& history, rank_memory& memory)
	    : m_capabilities(capabilities), m_history(history), m_memory(memory) {}

	/// Data of one producer in one memory.
	template <typename Boxes>
	struct source {
		memory_id memory;
		instruction_id origin;
		Boxes where;
	};
	using source_region = source<region>;

	void make_coherent(const command_phase& now, buffer_state& buffer, std::span<const read_requirement> reads);
	/// Whether one copy brings the value from a memory that holds it to the destination.
	bool can_copy(const content_state& state, const memory_id from, const memory_id destination) const {
		return m_capabilities.can_copy(from == user_memory ? state.user_place : from, destination);
	}
	memory_id select_source(const content_state& state, memory_id destination) const;
	template <typename Select>
	std::vector<source_region> find_sources(const buffer_state& buffer, const region& where, Select&& select) const;

  private:
	using source_boxes = source<box_vector>;
	/// A device-to-device copy that has to go through host memory.
	struct staged_copy {
		memory_id source;
		instruction_id origin;
		region where;
		small_vector<memory_id, 8> destinations;
	};

	const system_capabilities& m_capabilities;
	instruction_history& m_history;
	rank_memory& m_memory;

	static std::vector<read_requirement> find_missing(const buffer_state& buffer, std::span<const read_requirement> reads);
	void copy_missing(const command_phase& now, buffer_state& buffer, memory_id destination, const region& missing, std::vector<staged_copy>& staged);
	void join_small(std::vector<source_boxes>& sources, std::size_t element_size_bytes) const;
	bool gather(const command_phase& now, buffer_state& buffer, memory_id destination, const region& missing, std::span<const source_region> sources);
	void copy_staged(const command_phase& now, buffer_state& buffer, std::vector<staged_copy>& staged);
	void copy_staged_region(const command_phase& now, buffer_state& buffer, const staged_copy& copy, staging_allocation& staging, std::size_t offset_bytes);
	static bool should_linearize(const buffer_state& buffer, const region& where, const allocation_state& allocation);
};

/// Divides the part of `where` that this rank holds by producer, and by the memory that select(content_state) names. A piece then waits for one producer only.
/// Pieces so small that each costs more than waiting are joined.
template <typename Select>
std::vector<coherence::source_region> coherence::find_sources(const buffer_state& buffer, const region& where, Select&& select) const {
	std::vector<source_boxes> found;
	buffer.contents.query(where, [&](const box& part, const content_state& state) {
		if(state.up_to_date == 0) return;
		const memory_id memory = select(state);
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
