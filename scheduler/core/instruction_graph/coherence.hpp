// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "base/small_vector.hpp"
#include "copy_sources.hpp"
#include "rank_memory.hpp"

namespace celerity {

/// Copies that bring the newest values to the memories in which they are read.
class coherence {
  public:
	coherence(const system_capabilities& capabilities, instruction_history& history, rank_memory& memory, copy_sources& sources)
	    : m_capabilities(capabilities), m_history(history), m_memory(memory), m_sources(sources) {}

	void make_coherent(const command_phase& now, buffer_state& buffer, std::span<const read_requirement> reads);

  private:
	using source_region = copy_sources::source_region;
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
	copy_sources& m_sources;

	static std::vector<read_requirement> find_missing(const buffer_state& buffer, std::span<const read_requirement> reads);
	void copy_missing(const command_phase& now, buffer_state& buffer, memory_id destination, const region& missing, std::vector<staged_copy>& staged);
	bool gather(const command_phase& now, buffer_state& buffer, memory_id destination, const region& missing, std::span<const source_region> sources);
	void copy_staged(const command_phase& now, buffer_state& buffer, std::vector<staged_copy>& staged);
	void copy_staged_region(const command_phase& now, buffer_state& buffer, const staged_copy& copy, staging_allocation& staging, std::size_t offset_bytes);
	static bool should_linearize(const buffer_state& buffer, const region& where, const allocation_state& allocation);
};

} // namespace celerity
