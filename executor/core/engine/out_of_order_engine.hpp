// SPDX-License-Identifier: MIT
// The engine decides which instruction is issued next, on which lane, and behind which others. A pure machine: no clock, thread or device.
//
// Its ancestor is the out-of-order engine of the Celerity runtime, which issues an instruction early only if all its incomplete predecessors are
// at the tail of one lane. Here an instruction is issued as soon as all predecessors are issued to lanes that can wait for each other, and horizons
// and epochs pass for issue as soon as their predecessors are issued, so that work flows past them without a round trip through the host.
//
// The engine itself follows the edges between instructions. Its parts have the rest: whose turn it is (issue_turns), what may wait for other ranks
// (remote_gate), and lanes with the waits between them (lane_assignment, lane_pool).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine_nodes.hpp"
#include "issue_request.hpp"
#include "issue_turns.hpp"
#include "lane_assignment.hpp"
#include "lane_pool.hpp"
#include "remote_gate.hpp"

namespace celerity {

struct engine_options {
	remote_waits remote = remote_waits::pulls;
	bool lanes_wait = true; ///< for each other. False, to measure the cost: the host waits for all predecessors before it issues an instruction
	kernel_order order = kernel_order::age;
};

class out_of_order_engine {
  public:
	struct completed_instruction {
		instruction_id id;
		std::uint64_t num_ids = 1;
		const instruction* payload = nullptr;
	};
	struct live_instruction {
		instruction_id id;
		std::uint64_t num_ids = 1;
		const instruction* payload = nullptr;
		issue_policy policy = issue_policy::host;
		bool is_issued = false; ///< or assigned to a lane and waiting for notify_issued()
		bool is_enqueued = false; ///< all of its operations are on its lane
		std::uint64_t stamp = 0; ///< given to next()
		bool may_run = false; ///< issued, with all predecessors complete and nothing ahead on the lane
	};

	explicit out_of_order_engine(std::span<const lane_class> classes, const engine_options& options = {});
	out_of_order_engine(const out_of_order_engine&) = delete; // its parts refer to each other
	out_of_order_engine& operator=(const out_of_order_engine&) = delete;

	/// In topological order. Dependencies on ids that are not live count as complete.
	void submit(const issue_request& request);

	/// Hands out the next issuable instruction, and appends it to its lane. Watchdogs read `stamp`. Instructions of a higher queue go first (see
	/// ready_queue), within a queue those of a kind with higher priority, and then by `engine_options::order`.
	///
	/// A predecessor of an instruction counts as one of the same queue if its own queue is lower. Where there are queues of several priorities, a class of
	/// lanes takes no more than `lane_class::most_shared`, and `issue_turns::most_brief` brief ones: the next place then goes to the highest queue that
	/// waits for one.
	bool next(issue& out, std::uint64_t stamp = 0);

	/// There is a queue of this priority; see issue_turns.
	void announce(queue_priority queue);
	bool is_shared() const { return m_turns.is_shared(); }
	bool is_raised(const queue_priority queue) const { return m_turns.is_raised(queue); }

	/// The launcher thread has enqueued a deferred instruction.
	void notify_issued(instruction_id id);
	/// Ends the hold of a signal or pull. `is_ready`: the data of the pull is in place, so that the pull blocks nothing. Once per instruction.
	void release(instruction_id id, bool is_ready = false);
	/// While they are not allowed, next() hands out no remote waits. The caller is about to do something that would block until these waits end.
	void allow_remote_waits(const bool allowed) { m_gate.allow(allowed); }
	/// While lanes are not allowed, next() hands out work for the host only. A full lane may wait for another rank, which may need the host of this rank.
	void allow_lanes(bool allowed);

	/// May be called in any order. A lane instruction completes its predecessors, and all instructions before it on its lane except signals. A signal
	/// completes only its predecessors. A second report is ignored.
	void complete(instruction_id id);
	void complete_lane(lane_index lane, std::uint64_t sequence);

	/// Everything that became complete since the last call, predecessors first. Swaps buffers with the caller.
	void take_completed(std::vector<completed_instruction>& out);

	/// For tests, between two calls: whether everything that the engine knows fits together. Throws std::logic_error, which names the first instruction that
	/// does not. Takes as long as there are live instructions and edges.
	void validate() const;

	const lane_pool& lanes() const { return m_lanes; }
	const lane_assignment::counters& get_counters() const { return m_assignment.get_counters(); }
	std::size_t num_live() const { return m_nodes.num_live(); }
	std::size_t num_live_on_lanes() const { return m_nodes.num_live_on_lanes(); } ///< issued or not
	std::size_t num_in_flight() const { return m_num_in_flight; } ///< issued or assigned, without horizons and epochs
	/// Instructions of a queue, without horizons and epochs. A run of a graph counts for the highest queue in it.
	std::uint64_t num_live_of(const queue_priority queue) const { return m_nodes.num_live_by_queue()[queue]; }
	std::uint64_t num_submitted() const { return m_nodes.num_submitted(); } ///< instructions so far

	/// Calls f(live_instruction) in the order of ids. For watchdogs and tests.
	template <typename F>
	void for_each_live(F&& f) const {
		m_nodes.for_each([&](const slot_type slot) {
			const engine_node& n = m_nodes[slot];
			f(live_instruction{n.id, n.num_ids, n.payload, n.policy, n.state >= node_state::assigned, is_on_lane(n.policy) && n.state >= node_state::issued,
			    n.stamp, may_run(n)});
		});
	}

  private:
	friend class engine_checks;
	using slot_type = engine_nodes::slot_type;
	struct completion {
		slot_type slot;
		bool is_passed; ///< its lane has passed it; no more is known
	};

	lane_pool m_lanes;
	engine_nodes m_nodes;
	const engine_options m_options;
	issue_turns m_turns;
	remote_gate m_gate;
	lane_assignment m_assignment;
	bool m_allows_lanes = true;
	std::vector<slot_type> m_parked; ///< unblocked, but every lane of the class waits for a launcher thread, or none is allowed
	std::vector<slot_type> m_unblocked_clocks;
	std::vector<slot_type> m_completed_clocks;
	std::vector<completion> m_completion_stack;
	std::vector<completed_instruction> m_completed;
	std::size_t m_num_in_flight = 0;

	bool may_run(const engine_node& n) const {
		if(n.state != node_state::issued || n.num_incomplete > 0) return false;
		return !is_on_lane(n.policy) || n.sequence == m_lanes.completed(n.lane) + 1;
	}
	bool tracks_keys() const { return m_options.remote != remote_waits::none; }
	bool waits_for_answers(const engine_node& n) const {
		return m_options.remote == remote_waits::answers && (n.policy == issue_policy::plain || n.policy == issue_policy::pull);
	}
	bool is_satisfied_by_issue(const engine_node& predecessor, const engine_node& successor) const;
	void add_edges(slot_type slot, std::span<const instruction_id> dependencies);
	/// Nothing blocks the node any more.
	void make_issuable(slot_type slot);
	/// The node waits for one flag less of another rank.
	void settle_remote(slot_type slot);
	void open_gate();
	void retry_parked();
	/// False if the node has to wait, for another rank, a place or a lane.
	bool try_lane(slot_type slot);
	void issue_to_lane(slot_type slot, lane_index lane);
	void propagate_issue(slot_type slot);
	void settle_clocks();
	void complete_slot(slot_type slot, bool is_passed);
	/// A node that must be completed before `n`; `no_slot` if there is none.
	completion find_prerequisite(const engine_node& n, bool is_passed) const;
	void finalize(slot_type slot);
};

} // namespace celerity
