// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "coherence.hpp"
#include "copy_sources.hpp"
#include "graphs/command_graph.hpp"
#include "rank_memory.hpp"
#include "vocabulary/plan_position.hpp"

namespace celerity {

/// Partial results meet in host memory, even between direct peers.
inline bool is_sent_from_devices(const system_capabilities& capabilities, const push_command& push, const rank_id target) {
	return (capabilities.messages_reach_devices || capabilities.is_direct(target)) && push.transfer.reduction == reduction_id{};
}

/// Calls f(region) for each region that is sent from host memory; once for consecutive ranks that need the same region.
template <typename F>
void for_each_sent_from_host(const system_capabilities& capabilities, const push_command& push, F&& f) {
	const region* last = nullptr;
	for(const auto& [rank, where] : push.targets) {
		if(is_sent_from_devices(capabilities, push, rank) || (last != nullptr && *last == where)) continue;
		last = &where;
		f(where);
	}
}

/// Sends and receives: data leaves as soon as its producer has finished, and a reader waits for no other data than its own.
class transfers {
  public:
	transfers(const system_capabilities& capabilities, instruction_history& history, rank_memory& memory, copy_sources& sources, coherence& copies)
	    : m_capabilities(capabilities), m_history(history), m_memory(memory), m_sources(sources), m_copies(copies) {}

	void compile_push(const command_phase& now, const push_command& push);
	void compile_await_push(const await_push_command& await);
	/// Emits the receives of all awaited data of the buffer.
	void commit_receives(const command_phase& now, buffer_state& buffer, std::span<const read_requirement> reads);

	void note_position(plan_position& now) const { now.messages = m_last_message; }
	template <typename Walk>
	void walk_state(Walk& walk) {
		walk.last(m_last_message, &plan_position::messages);
	}

  private:
	const system_capabilities& m_capabilities;
	instruction_history& m_history;
	rank_memory& m_memory;
	copy_sources& m_sources;
	coherence& m_copies;
	std::uint64_t m_last_message = 0;

	using source_region = copy_sources::source_region;

	std::vector<source_region> find_host_sources(const command_phase& now, buffer_state& buffer, const region& where);
	std::vector<source_region> find_device_sources(const command_phase& now, buffer_state& buffer, const region& where);
	void emit_send(const command_phase& now, buffer_state& buffer, const push_command& push, rank_id target, allocation_state& source, const box& sent);
	void receive_to_host(const command_phase& now, buffer_state& buffer, const transfer_id& transfer, const region& awaited,
	    std::span<const read_requirement> reads);
	void receive_messages(const command_phase& now, buffer_state& buffer, const await_push_command& receive, std::span<const read_requirement> reads);
	static allocation_state* find_reader(buffer_state& buffer, const region& arriving, std::span<const read_requirement> reads);
	void receive_in_parts(const command_phase& now, buffer_state& buffer, const transfer_id& transfer, allocation_state& destination, const region& arriving,
	    std::vector<region>&& parts);
	void receive_to_readers(const command_phase& now, buffer_state& buffer, const await_push_command& receive, std::span<const read_requirement> reads);
	void join_small_neighbours(std::vector<read_requirement>& arrivals, std::size_t element_size_bytes) const;
	void emit_receive(const command_phase& now, buffer_state& buffer, const transfer_id& transfer, allocation_state& destination, const region& where);
};

} // namespace celerity
