// SPDX-License-Identifier: MIT
// The commands of one rank: its share of every task, and the data it exchanges for it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/fields.hpp"
#include "base/ids.hpp"
#include "dependency_window.hpp"
#include "local_chunks.hpp"
#include "geometry/region_map.hpp"
#include "node_record.hpp"
#include "rank_set.hpp"
#include "recent_buffers.hpp"
#include "vocabulary/plan_position.hpp"
#include "vocabulary/task.hpp"

namespace celerity {

struct epoch_command {
	CELERITY_KIND(epoch)
};
struct horizon_command {
	CELERITY_KIND(horizon)
};
/// Runs this rank's share of a kernel or host task.
struct execution_command {
	box chunk;               ///< the box around the share
	std::vector<box> blocks; ///< the share, if it is no box but blocks of a cyclic split
	bool initializes_reductions = false; ///< this rank's partial results include the buffers' current values
	bool is_partial = false;             ///< other ranks hold further partial results of the task's reductions
	CELERITY_KIND(execution, chunk, blocks, initializes_reductions, is_partial)

	std::span<const box> share() const { return blocks.empty() ? std::span(&chunk, 1) : std::span(blocks); }
};
/// Sends data that this rank owns to all ranks that need it for one task and lack it.
struct push_command {
	transfer_id transfer;
	std::vector<std::pair<rank_id, region>> targets;
	CELERITY_KIND(push, transfer, targets)
};
/// Receives all data of one buffer that this rank's share of one task reads and lacks. Later tasks rely on all of it, even if no device reads some of it.
struct await_push_command {
	transfer_id transfer;
	region awaited;
	execution_command reader; ///< reads the data
	CELERITY_KIND(await_push, transfer, awaited, reader)
};
/// Reduces the partial results of several ranks (in rank order) into the buffer.
struct reduction_command {
	transfer_id transfer;
	task_reduction reduction;       ///< of the task that produced the partial results
	std::vector<rank_id> contributors; ///< hold a partial result; ascending
	CELERITY_KIND(reduction, transfer, reduction, contributors)
};
struct fence_command {
	CELERITY_KIND(fence)
};

using command_operation = std::variant<epoch_command, horizon_command, execution_command, push_command, await_push_command, reduction_command, fence_command>;

struct command {
	command_id id;
	std::shared_ptr<const task> node;
	command_operation operation;
};

using command_record = node_record<command, command_id>;

/// Lowers tasks to the commands of one rank, without messages to other ranks: every rank evaluates the shares of all ranks, and so knows the data that each of
/// them writes and lacks. Distribution after Salzmann et al. (CCGrid'23).
class command_graph_generator {
  public:
	using record_callback = std::function<void(command_record&&)>;

	command_graph_generator(std::size_t num_ranks, rank_id local_rank, record_callback record);

	void create_buffer(const buffer_info& info);
	void destroy_buffer(buffer_id id);

	/// Appends the commands of `node` to `out` in an order in which they may be executed.
	void lower(const std::shared_ptr<const task>& node, std::vector<command>& out);

	/// As in the task graph.
	void validate() const;
	void note_position(plan_position& now) const { now.commands = m_window.current().value; }
	template <typename Walk>
	void walk_state(Walk& walk, std::span<const buffer_id> buffers);

  private:
	struct local_state {
		access_front<command_id> front;
		bool is_fresh = true;       ///< this rank holds the newest value
		bool is_replicated = false; ///< another rank owns the newest value, and this rank holds a copy
		rank_set holders;           ///< of data that this rank owns: the ranks that have been sent a copy
		friend bool operator==(const local_state&, const local_state&) = default;
	};
	struct pending_reduction {
		task_reduction reduction;
		std::vector<rank_id> contributors;
	};
	struct buffer_state {
		buffer_info info;
		box domain;
		region_map<local_state> local;
		std::optional<pending_reduction> pending;
		box owned_bounds;             ///< bounding box of fresh, owned elements, if not dirty
		bool owned_bounds_dirty = true;
		recent_buffers::round last_use = 0;
	};
	using chunk_access = tracked_access<buffer_state>;

	std::size_t m_num_ranks;
	rank_id m_local_rank;
	record_callback m_record;
	std::unordered_map<buffer_id, buffer_state> m_buffers;
	recent_buffers m_recent;
	dependency_window<command_id> m_window;
	side_effect_chains<command_id> m_side_effects; ///< of this rank's objects
	command_id m_pending_horizon;

	// Scratch, kept to avoid allocation per task.
	rank_shares m_shares;
	rank_shares m_grown_shares; ///< of a replicated execution: with what each rank computes of others
	bool m_is_replicated = false;
	task_geometry m_shares_of;
	bool m_shares_valid = false;
	std::vector<chunk_access> m_local_accesses; ///< of the current task by this rank's share; empty if it has none
	std::vector<box_vector> m_missing; ///< by target of a push

	void update_shares(const task& node);
	void collect_local_accesses(const task& node);
	void resolve_pending_reductions(const std::shared_ptr<const task>& node, std::vector<command>& out);
	bool leaves_part(const task& node, const buffer_state& buffer) const;
	void resolve_pending_reduction(const std::shared_ptr<const task>& node, buffer_state& buffer, std::vector<command>& out);
	void generate_pushes(const std::shared_ptr<const task>& node, std::vector<command>& out);
	/// `owned` is the bounding box of the elements that this rank owns.
	void collect_pushes(const task& node, const buffer_access& access, buffer_state& buffer, const box& owned, push_command& push);
	/// Adds the part of `needed` that this rank owns and the targets lack.
	void collect_push(buffer_state& buffer, std::span<const rank_id> targets, const region& needed, push_command& push);
	void add_push(buffer_state& buffer, std::span<const rank_id> targets, const region& sent, push_command& push);
	void generate_await_pushes(const std::shared_ptr<const task>& node, std::vector<command>& out);
	void generate_execution(const std::shared_ptr<const task>& node, std::vector<command>& out);
	/// The rank with the share owns an element that several ranks have computed. The others hold copies.
	void mark_replicated(const task& node);
	void finish_reductions(const task& node);
	void mark_stale(const task& node);
	void generate_epoch_or_horizon(const std::shared_ptr<const task>& node, std::vector<command>& out);

	region map_access(const task& node, const buffer_access& access, const buffer_state& buffer, const box& chunk) const;
	region map_access(const task& node, const buffer_access& access, const buffer_state& buffer, std::span<const box> share) const;
	const box& owned_bounds(buffer_state& buffer) const;
	std::span<const box> local_share() const { return m_shares.of(m_local_rank.value); }
	/// The items that a rank computes of the current task. All ranks know them of each other, so that only the owner of an element decides who gets it.
	std::span<const box> computed_by(const std::size_t rank) const { return m_is_replicated ? m_grown_shares.of(rank) : m_shares.of(rank); }
	/// Of reductions: this rank, and no other one, adds the current value.
	bool adds_current_value() const { return m_local_rank.value == m_shares.first(); }
	execution_command local_execution() const;
	bool is_first_access_to_its_buffer(const task& node, std::size_t index) const;
	static void lose(buffer_state& buffer, const region& where);
	/// Appends a command. It depends on the earlier commands that access the same data, and later commands will depend on it. This rank owns the data that the
	/// command writes; if `is_replicated`, another rank owns it, and this rank holds a copy.
	command_id emit(const std::shared_ptr<const task>& node, command_operation&& operation, std::span<const chunk_access> accesses, bool is_replicated,
	    std::vector<command>& out);
	void apply_epoch(command_id epoch);
};

template <typename Walk>
void command_graph_generator::walk_state(Walk& walk, const std::span<const buffer_id> buffers) {
	m_window.walk_state(walk);
	m_side_effects.walk_state(walk);
	m_recent.walk_state(walk);
	walk.id(m_pending_horizon);
	for(const buffer_id id : buffers) {
		auto& buffer = m_buffers.at(id);
		buffer.local.walk_state(walk, [&](local_state& state) {
			state.front.walk_state(walk);
			walk.number(state.is_fresh);
			walk.number(state.is_replicated);
			state.holders.walk_state(walk);
		});
		walk.number(buffer.pending.has_value());
		if(!buffer.pending.has_value()) continue;
		auto& reduction = buffer.pending->reduction;
		walk.number(reduction.buffer.value);
		walk.number(reduction.op);
		walk.number(reduction.callable);
		walk.number(reduction.type);
		walk.number(reduction.include_current);
		walk.reduction(reduction.id);
		walk.number(buffer.pending->contributors.size());
		for(const rank_id rank : buffer.pending->contributors) walk.number(rank.value);
	}
}

} // namespace celerity
