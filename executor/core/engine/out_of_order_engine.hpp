// SPDX-License-Identifier: MIT
// The engine decides which instruction is issued next, on which lane, and behind which others. A pure machine: no clock, thread or device.
//
// Its ancestor is the out-of-order engine of the Celerity runtime, which issues an instruction early only if all its incomplete predecessors are
// at the tail of one lane. Here an instruction is issued as soon as all predecessors are issued to lanes that can wait for each other, and horizons
// and epochs pass for issue as soon as their predecessors are issued, so that work flows past them without a round trip through the host.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/core/base/ids.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"
#include "scheduler/core/base/small_vector.hpp"
#include "instruction_window.hpp"
#include "lane_pool.hpp"
#include "ready_queue.hpp"

namespace celerity {

enum class issue_policy : std::uint8_t {
	host,  ///< The host carries it out: issuable once all predecessors are complete.
	clock, ///< Horizons and epochs: a vector clock over lanes. Never handed out; completes by itself.

	// On a lane: issuable once every predecessor is complete or issued to a lane of the same domain.

	plain,    ///< Enqueued at once.
	launched, ///< A launcher thread enqueues it in its turn. That thread must not block: the instruction waits for no answer on its lane.
	deferred, ///< Launched. Until notify_issued() no other instruction may follow it on its lane.
	/// Tells another rank that data is ready; that rank answers. Held until release(). It completes through complete(), not when its lane passes it. It
	/// may run ahead of its lane, as soon as its predecessors are complete.
	signal,
	/// Waits on its lane for another rank. Held until release(), and issuable only when no unissued lane instruction has a smaller key.
	pull,
};
constexpr bool is_on_lane(const issue_policy policy) { return policy >= issue_policy::plain; }
template <>
inline constexpr std::array<const char*, 7> names_of<issue_policy>{"host", "clock", "plain", "launched", "deferred", "signal", "pull"};

/// The waits of lanes for other ranks.
enum class remote_waits : std::uint8_t {
	none,    ///< There are no pulls, and keys cost nothing.
	pulls,   ///< An instruction that depends on a signal is issued after the answer.
	answers, ///< Plain instructions and pulls wait on their lanes for the answers to signals. They respect keys as a pull does.
};
template <>
inline constexpr std::array<const char*, 3> names_of<remote_waits>{"none", "pulls", "answers"};

/// The order of issue among instructions of one kind and one queue.
enum class kernel_order : std::uint8_t {
	age,          ///< The oldest goes first.
	path,         ///< The one with the longest way to the end goes first, as far as later instructions are known; then as `predecessors`.
	predecessors, ///< The one with the fewest dependencies goes first; then the oldest.
};
template <>
inline constexpr std::array<const char*, 3> names_of<kernel_order>{"age", "path", "predecessors"};

struct engine_options {
	remote_waits remote = remote_waits::pulls;
	bool lanes_wait = true; ///< for each other. False, to measure the cost: the host waits for all predecessors before it issues an instruction
	kernel_order order = kernel_order::age;
};

/// An instruction, or several that are carried out as one, as the engine sees it.
struct engine_request {
	instruction_id id;
	instruction_key key;
	instruction_priority priority = 0;
	std::span<const instruction_id> dependencies;
	issue_policy policy = issue_policy::host;
	std::uint32_t lane_class = 0; ///< index of the class, if it goes to a lane
	const instruction* payload = nullptr; ///< handed back untouched
	std::uint64_t num_ids = 1; ///< the request stands for so many instructions, with consecutive ids
	bool is_brief = false;     ///< it keeps a lane busy for a few microseconds; brief instructions have more places, of their own
};

struct issue {
	instruction_id id;
	std::uint64_t num_ids = 1;
	const instruction* payload = nullptr;
	lane_index lane = no_lane; ///< `no_lane` for the host
	std::uint64_t sequence = 0;
	/// Positions of other lanes that must be complete before this may run; valid until the next call of the engine.
	std::span<const lane_position> waits;
	/// Signals that must be answered before this may run; likewise.
	std::span<const instruction_id> signals;
	/// For a signal that depends on the one position in `waits`, and on nothing else. The lane may have waited for that position before.
	bool depends_on_one = false;
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
	/// See engine_request::is_brief.
	static constexpr std::uint32_t most_brief = 16;

	struct counters {
		std::uint64_t issued_early = 0; ///< to a lane, before all predecessors were complete
		std::uint64_t waits = 0;        ///< cross-lane waits asked for
	};

	explicit out_of_order_engine(std::span<const lane_class> classes, const engine_options& options = {});

	/// In topological order. Dependencies on ids that are not live count as complete.
	void submit(const engine_request& request);

	/// Hands out the next issuable instruction, and appends it to its lane. Watchdogs read `stamp`. Instructions of a higher queue go first (see
	/// ready_queue), within a queue those of a kind with higher priority, and then by `engine_options::order`.
	///
	/// A predecessor of an instruction counts as one of the same queue if its own queue is lower. Where there are queues of several priorities, a class of
	/// lanes takes no more than `lane_class::most_shared`, and `most_brief` brief ones: the next place then goes to the highest queue that waits for one.
	bool next(issue& out, std::uint64_t stamp = 0);

	/// There is a queue of this priority. From the second priority on, lanes keep places free of lower queues, for work that may yet come.
	void announce(queue_priority queue);
	/// There are queues of several priorities.
	bool is_shared() const { return are_several(m_queues); }
	/// There is a queue of a lower priority.
	bool is_raised(const queue_priority queue) const { return (m_queues & (queue_set_of(queue) - 1)) != 0; }

	/// The launcher thread has enqueued a deferred instruction.
	void notify_issued(instruction_id id);
	/// Ends the hold of a signal or pull. `is_ready`: the data of the pull is in place, so that the pull blocks nothing. Once per instruction.
	void release(instruction_id id, bool is_ready = false);
	/// While they are not allowed, next() hands out no remote waits. The caller is about to do something that would block until these waits end.
	void allow_remote_waits(bool allowed);
	/// While lanes are not allowed, next() hands out work for the host only. A full lane may wait for another rank, which may need the host of this rank.
	void allow_lanes(bool allowed);

	/// May be called in any order. A lane instruction completes its predecessors, and all instructions before it on its lane except signals. A signal
	/// completes only its predecessors. A second report is ignored.
	void complete(instruction_id id);
	void complete_lane(lane_index lane, std::uint64_t sequence);

	/// Everything that became complete since the last call, predecessors first. Swaps buffers with the caller.
	void take_completed(std::vector<completed_instruction>& out);

	const lane_pool& lanes() const { return m_lanes; }
	const counters& get_counters() const { return m_counters; }
	std::size_t num_live() const { return m_num_live; }
	std::size_t num_live_on_lanes() const { return m_num_live_on_lanes; } ///< issued or not
	std::size_t num_in_flight() const { return m_num_in_flight; } ///< issued or assigned, without horizons and epochs
	/// Instructions of a queue, without horizons and epochs. A run of a graph counts for the highest queue in it.
	std::uint64_t num_live_of(const queue_priority queue) const { return m_num_live_of[queue]; }
	std::uint64_t num_submitted() const { return m_num_submitted; } ///< instructions so far

	/// Calls f(live_instruction) in the order of ids. For watchdogs and tests.
	template <typename F>
	void for_each_live(F&& f) const {
		m_window.for_each([&](const slot_type slot) {
			const node& n = m_nodes[slot];
			f(live_instruction{n.id, n.num_ids, n.payload, n.policy, n.state >= node_state::assigned, is_on_lane(n.policy) && n.state >= node_state::issued,
			    n.stamp, may_run(n)});
		});
	}

  private:
	using slot_type = instruction_window::slot_type;
	static constexpr std::uint32_t mixed_domains = UINT32_MAX;

	/// Of a node that is ready.
	enum class whereabouts : std::uint8_t { nowhere, in_ready, in_waiting };
	static constexpr issue_order longest_path = UINT8_MAX;
	static constexpr unsigned path_shift = 8;
	static constexpr issue_order most_dependencies = UINT8_MAX; ///< that count
	enum class node_state : std::uint8_t {
		held, ///< signals and pulls
		blocked,
		ready,
		assigned, ///< deferred ones
		issued,
		passed,   ///< a signal that its lane has come past, without an answer
		answered, ///< a signal that is complete, and still on its lane
	};

	struct node {
		instruction_id id;
		std::uint64_t num_ids = 1;
		const instruction* payload = nullptr;
		instruction_key key;
		issue_policy policy = issue_policy::host;
		node_state state = node_state::blocked;
		whereabouts where = whereabouts::nowhere;
		queue_priority queue = 0; ///< as requested; successors may lift `order`
		bool inherited = false; ///< a successor already runs on this lane behind it
		bool has_place = false; ///< counts in m_places
		/// The priority, with the highest queue of its own one and those of its successors. Below that, unless the oldest goes first, the way to the end,
		/// which is the number of successors one behind the other, and fewer dependencies.
		issue_order order = 0;
		std::uint32_t lane_class = 0;
		std::uint32_t place_class = 0; ///< twice the class of lanes, plus 1 for brief ones
		std::uint32_t domain = 0; ///< of the lane class; of an issued clock: the domain of all its positions, or `mixed_domains`
		lane_index lane = no_lane;
		std::uint64_t sequence = 0;
		std::uint64_t stamp = 0;
		std::uint32_t num_blocking = 0;   ///< predecessors that keep it from being issued
		std::uint32_t num_incomplete = 0; ///< predecessors that are not complete
		std::uint32_t num_remote = 0;     ///< waits for other ranks on its lane: answers, and the data of a pull that may not be ready
		small_vector<instruction_id, 4> predecessors; ///< those incomplete at submit
		small_vector<slot_type, 4> successors;        ///< a successor outlives this node: completing it would complete this node first
		small_vector<lane_position, 2> frontier;      ///< clock only: positions that a successor on a lane has to wait for
	};
	struct completion {
		slot_type slot;
		bool is_passed; ///< its lane has passed it; no more is known
	};
	struct keyed_entry {
		instruction_key key;
		instruction_id id;
	};

	lane_pool m_lanes;
	const std::size_t m_num_lanes;
	const engine_options m_options;
	bool m_allows_remote_waits = true;
	bool m_allows_lanes = true;
	instruction_window m_window;
	std::vector<node> m_nodes;
	std::vector<std::uint64_t> m_node_clocks; ///< by slot: the clock of a lane instruction or clock node when it was issued; zero for lanes opened later
	std::vector<slot_type> m_free_slots;
	ready_queue m_ready;
	std::vector<ready_queue> m_waiting;      ///< by class of places: ready, but the class is full
	std::vector<std::uint32_t> m_places;     ///< by class of places: taken while lanes were shared
	std::size_t m_num_outdated = 0;          ///< entries in m_ready and m_waiting
	std::vector<keyed_entry> m_gated;        ///< heap of unblocked remote waits
	std::vector<keyed_entry> m_unissued_keys; ///< heap of lane instructions by key; issued ones are dropped when they reach the top
	std::vector<slot_type> m_parked;         ///< unblocked, but every lane of the class waits for a launcher thread, or none is allowed
	std::vector<slot_type> m_unblocked_clocks;
	std::vector<slot_type> m_completed_clocks;
	std::vector<completion> m_completion_stack;
	std::vector<completed_instruction> m_completed;
	std::vector<lane_position> m_waits; ///< of the latest issue
	std::vector<instruction_id> m_signals; ///< likewise
	std::size_t m_num_live = 0;
	std::size_t m_num_live_on_lanes = 0;
	std::array<std::uint64_t, max_queue_priority + 1> m_num_live_of{};
	std::uint64_t m_num_submitted = 0;
	std::vector<slot_type> m_urged;          ///< nodes whose predecessors have yet to hear of it
	std::size_t m_num_in_flight = 0;
	queue_set m_queues = 0; ///< those that were announced, or have submitted work for lanes
	counters m_counters;

	bool may_run(const node& n) const {
		if(n.state != node_state::issued || n.num_incomplete > 0) return false;
		return !is_on_lane(n.policy) || n.sequence == m_lanes.completed(n.lane) + 1;
	}
	bool tracks_keys() const { return m_options.remote != remote_waits::none; }
	bool waits_for_answers(const node& n) const {
		return m_options.remote == remote_waits::answers && (n.policy == issue_policy::plain || n.policy == issue_policy::pull);
	}
	static issue_order path_of(const node& n) { return n.order >> path_shift & longest_path; }
	ready_entry entry_of(const slot_type slot) const {
		const node& n = m_nodes[slot];
		return {n.order, slot, n.id};
	}
	/// Whether the entry is older than the node's present order, for which there is another entry.
	bool drop_outdated(const ready_entry& entry) {
		if(m_num_outdated == 0) return false;
		const node& n = m_nodes[entry.slot];
		if(n.id == entry.id && n.order == entry.order && n.where != whereabouts::nowhere) return false;
		--m_num_outdated;
		return true;
	}
	/// Of a new node, if there is more to its order than age: the rest of its order, and what that means for others.
	void order_among_others(slot_type slot, std::size_t num_dependencies);
	/// Passes the queue of the node, and the length of its way to the end, on to the predecessors that are not issued.
	void urge_predecessors(slot_type slot);
	/// False if no place is free.
	bool take_place(node& n);
	void leave_place(node& n);
	slot_type allocate_slot();
	std::span<std::uint64_t> node_clock(slot_type slot);
	std::span<const std::uint64_t> node_clock(slot_type slot) const;
	bool is_satisfied_by_issue(const node& predecessor, const node& successor) const;
	void make_issuable(slot_type slot);
	void push_ready(slot_type slot);
	void push_gated(slot_type slot);
	/// The node waits for one flag less of another rank.
	void settle_remote(slot_type slot);
	void retry_parked();
	void retry_gated();
	lane_index choose_lane(node& n);
	bool name_the_only_producer(const node& n);
	bool must_stay_gated(const node& n) const;
	/// Appends to `waits` the positions that are neither complete nor implied by `clock`, and raises `clock` by them.
	template <typename Waits>
	void collect_waits(const node& n, lane_index own_lane, std::span<std::uint64_t> clock, Waits& waits) const;
	void issue_to_lane(slot_type slot, lane_index lane);
	void issue_clock(slot_type slot);
	void propagate_issue(slot_type slot);
	void settle_clocks();
	void complete_slot(slot_type slot, bool is_passed);
	/// A node that must be completed before `n`; `no_slot` if there is none.
	completion find_prerequisite(const node& n, bool is_passed) const;
	void finalize(slot_type slot);
	void free_slot(slot_type slot);
};

} // namespace celerity
