// SPDX-License-Identifier: MIT
// Lowers the commands of one rank to the operations of its memories, devices and links: allocations, copies, kernels, sends, receives.
// After the instruction graph of Knorr et al. (arXiv 2503.10516). Different from there, copies come from the memory with the best link that holds
// the data, and ranks that reach each other's device memory exchange data without host memory.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/arena.hpp"
#include "base/ids.hpp"
#include "geometry/box_lists.hpp"
#include "geometry/region_map.hpp"
#include "graphs/command_graph.hpp"
#include "graphs/dependency_window.hpp"
#include "graphs/graph_state.hpp"
#include "graphs/local_chunks.hpp"
#include "graphs/recent_buffers.hpp"
#include "growth_forecast.hpp"
#include "vocabulary/instruction.hpp"
#include "vocabulary/planning_notice.hpp"
#include "vocabulary/task.hpp"

namespace celerity {

class instruction_graph_generator {
  public:
	/// Called with each new instruction, and the kinds of its dependencies.
	using record_callback = std::function<void(const instruction&, std::span<const dependency_kind>)>;

	instruction_graph_generator(system_capabilities capabilities, record_callback record, notice_callback notify);
	~instruction_graph_generator();

	void create_buffer(const buffer_info& info);
	/// Frees the buffer's allocations after their last use.
	void destroy_buffer(buffer_id id, instruction_batch& out);

	/// The parts of an execution on this rank, and the region of each part for each access. They stay the same until the execution is compiled.
	struct execution_plan {
		std::vector<local_chunk> chunks;
		std::vector<region> regions; ///< of access a by chunk c: regions[a * chunks.size() + c]

		const region& accessed(const std::size_t access, const std::size_t chunk) const { return regions[access * chunks.size() + chunk]; }
	};
	/// Splits and maps `cmd`. Empty if `cmd` is no execution.
	execution_plan plan(const command& cmd);

	/// A buffer in one memory, as long as nothing more is allocated for it there.
	struct place {
		buffer_id buffer;
		memory_id memory;
		std::size_t num_allocations_made;
	};
	/// Notes the memory that `cmd` will want when it is compiled. Adds to `wanted` the places where some of it is new: neither allocated nor noted before.
	void anticipate(const command& cmd, const execution_plan& plan, std::vector<place>& wanted);
	/// Whether what is wanted here is not allocated yet, and later commands may want more. Waiting for them may then pay, as all wants of a buffer become one
	/// allocation. It does not pay if the whole buffer is wanted as one box, if the program has dropped the buffer, or if nothing new has been wanted here for
	/// two horizons.
	bool may_grow(const place& at) const;
	/// The program will not use the buffer in any further command; `destroy_buffer` follows.
	void announce_destruction(const buffer_id id) { m_buffers.at(id).is_dropped = true; }
	/// To be called at each horizon that is held back. If the wants of a buffer have grown in one direction for several horizons, and there is memory to spare,
	/// the rest of the buffer in this direction is wanted at once. Execution then need not wait for the end of the growth.
	void foresee_growth();
	/// Appends the instructions of `cmd`, in topological order.
	void compile(const command& cmd, execution_plan&& plan, instruction_batch& out);

	/// Everything before the epoch or horizon `reached` has been executed.
	void notify_epoch_reached(task_id reached);
	/// There is a queue of this priority; as if it had submitted a task.
	void announce(const queue_priority queue) { m_queues |= queue_set_of(queue); }
	/// Whether the instructions that are compiled now may become a template, or repeat one. They depend on the program alone then, not on the execution.
	void set_repeating(const bool is_repeating) { m_is_repeating = is_repeating; }

	/// As in the task graph.
	void note_position(plan_position& now) const;
	template <typename Walk>
	void walk_state(Walk& walk, std::span<const buffer_id> buffers);
	void move(const plan_position& by, std::span<const buffer_id> buffers);
	/// The last epoch.
	instruction_id settled() const { return m_settled; }
	/// Appends an instruction of a template, moved by so many ids. `settled` was the last epoch when the template was planned. Boxes and bindings are shared.
	/// A copy to user memory goes to `fence_destination`.
	void repeat(const instruction& known, const plan_position& by, instruction_id settled, allocation_id fence_destination, instruction_batch& out);

  private:
	using front = access_front<instruction_id>;
	using phase = instruction_key::phase_type;

	/// A dense row-major array over `allocated`, in buffer coordinates. The arrays of the user count as user memory, also those that lie on a device.
	struct allocation_state {
		allocation_id id;
		box allocated;
		std::size_t size_bytes;
		region_map<front> accesses;
	};
	struct memory_state {
		std::vector<allocation_state> allocations; ///< disjoint boxes
		box_index places;                          ///< of the allocations; made by the first search among many
		box_vector anticipated;                    ///< wanted by commands not compiled yet
		growth_forecast forecast;
		bool has_grown = false;                    ///< `anticipated` has grown since the last horizon
		std::uint64_t last_growth = 0;             ///< of `anticipated`: the number of horizons that were held back before
		std::size_t foreseen_bytes = 0;            ///< allocated or wanted for growth that is only expected
		std::size_t num_allocations_made = 0;
	};
	/// The memories of this rank that hold the newest value of an element, and its producer.
	struct content_state {
		std::uint64_t up_to_date = 0; ///< bit per memory; none: never written, or held by another rank
		instruction_id origin;        ///< the instruction that produced the value (never a copy)
		memory_id origin_memory;      ///< the memory in which it was produced; up to date as long as any memory is
		memory_id user_place = user_memory; ///< the memory in which the array of the user lies, if user memory holds the value
		friend bool operator==(const content_state&, const content_state&) = default;
	};
	struct buffer_state {
		buffer_info info;
		box domain;
		region whole; ///< the domain
		region_map<content_state> contents;
		std::vector<memory_state> memories; ///< by memory id
		std::vector<await_push_command> receives; ///< that no task has read yet
		bool has_warned = false; ///< of many allocations, in any memory
		bool is_dropped = false; ///< by the program
		recent_buffers::round last_use = 0;
	};
	/// A part of the buffer in one memory.
	struct read_requirement {
		memory_id memory;
		region where;
	};
	/// The memory and the data that one command wants of one buffer.
	struct buffer_requirements {
		std::vector<std::pair<memory_id, box>> contiguous; ///< not empty; each must lie in a single allocation
		std::vector<read_requirement> reads;
		region discarded; ///< overwritten without being read
	};
	/// A device-to-device copy that has to go through host memory.
	struct staged_copy {
		memory_id source;
		instruction_id origin;
		region where;
		small_vector<memory_id, 8> destinations;
	};
	/// Memory of no buffer: copies pass through it, or partial results meet there.
	struct staging_allocation {
		allocation_id id;
		std::size_t size_bytes;
		std::size_t alignment_bytes;
		instruction_id ready;                 ///< the next user waits for this instruction
		small_vector<instruction_id, 6> uses; ///< the users since `ready`, in order
	};
	/// One side of a copy.
	struct copy_place {
		allocation_id allocation;
		std::size_t offset_bytes = 0; ///< of packed data
	};
	/// One reduction of the task that is compiled, and the place that collects this rank's partial results.
	struct local_reduction {
		const task_reduction* reduction;
		memory_id memory;                     ///< where the partial results meet
		std::size_t num_partials;             ///< of this rank, with the current value; a single one is the result
		staging_allocation* gather = nullptr; ///< since the first one has been collected
		std::size_t num_collected = 0;        ///< in `gather`
	};
	struct arena_bucket {
		task_id opened_by; ///< the horizon or epoch whose instruction is the first in it
		arena nodes;
	};
	/// One phase of the command that is compiled: the common properties of its instructions, and the batch that receives them.
	struct command_phase {
		instruction_batch& out;
		instruction_key key;
		submission_id submission;
		instruction_priority boost = 0; ///< of the queue, and of a push

		command_phase in(const phase other) const { return {out, {key.task, other}, submission, boost}; }
	};

	/// One instruction under construction; there is one at a time. Each access adds its dependencies on earlier instructions at once. emit() notes the accesses,
	/// so that later instructions depend on this one. Allocations and regions must live until then.
	class instruction_builder {
	  public:
		instruction_builder(instruction_graph_generator& graph, const command_phase& now) : m_graph(graph), m_now(now) { window().begin(); }
		~instruction_builder() { assert(m_is_emitted || std::uncaught_exceptions() > 0); }
		instruction_builder(const instruction_builder&) = delete;
		instruction_builder& operator=(const instruction_builder&) = delete;

		void follow(const instruction_id earlier, const dependency_kind kind = dependency_kind::dataflow) { window().depend(earlier, kind); }
		/// Follows the earlier users of the task's host objects.
		void follow_side_effects(const task& node) { m_graph.m_side_effects.append(node.side_effects, window()); }
		void follow_all() { window().depend_on_front(); }
		void follow_users(const allocation_state& allocation) {
			allocation.accesses.for_each([&](const box&, const front& f) { f.depend_for_write(window()); });
		}
		/// Overwrites staging.
		void fill(staging_allocation& staging) { use(staging, staging.ready, dependency_kind::output); }
		/// Reads the data that `filler` has stored in staging.
		void drain(staging_allocation& staging, const instruction_id filler) { use(staging, filler, dependency_kind::dataflow); }
		void read(allocation_state& allocation, const region& where) { note(allocation, where, access_mode::read, nullptr); }
		void write(allocation_state& allocation, const region& where) { note(allocation, where, access_mode::write, nullptr); }
		/// As the access of a kernel: the values that it writes are the newest ones of the buffer.
		void access(buffer_state& buffer, allocation_state& allocation, const region& where, const access_mode mode) {
			note(allocation, where, mode, is_producer(mode) ? &buffer : nullptr);
		}
		void produce(buffer_state& buffer, allocation_state& allocation, const region& where) { note(allocation, where, access_mode::write, &buffer); }
		void read(allocation_state& allocation, const region&& where) = delete;
		void write(allocation_state& allocation, const region&& where) = delete;
		void produce(buffer_state& buffer, allocation_state& allocation, const region&& where) = delete;

		instruction_id emit(instruction_operation&& operation, instruction_priority priority);

	  private:
		struct noted_access {
			allocation_state* allocation;
			const region* where;
			buffer_state* produced; ///< whose newest values are written; null for a copy
			bool is_write;
		};

		instruction_graph_generator& m_graph;
		command_phase m_now;
		small_vector<noted_access, 8> m_accesses;
		small_vector<staging_allocation*, 2> m_staging;
		bool m_is_emitted = false;

		dependency_window<instruction_id>& window() const { return m_graph.m_window; }
		void use(staging_allocation& staging, const instruction_id after, const dependency_kind kind) {
			follow(after, kind);
			m_staging.push_back(&staging);
		}
		void note(allocation_state& allocation, const region& where, access_mode mode, buffer_state* produced);
	};

	system_capabilities m_capabilities;
	record_callback m_record; ///< may be empty
	notice_callback m_notify; ///< may be empty
	arena_block_pool m_block_pool;
	std::deque<arena_bucket> m_arenas;
	task_id m_last_reached;
	dependency_window<instruction_id> m_window;
	side_effect_chains<instruction_id> m_side_effects;
	struct pending_horizon {
		instruction_id id;
		task_id task;
	};
	std::deque<pending_horizon> m_pending_horizons; ///< made, not yet applied; the oldest first
	queue_set m_queues = 0; ///< those that were announced, or have submitted a task
	bool m_is_repeating = false;
	instruction_id m_settled; ///< the last epoch
	std::unordered_map<buffer_id, buffer_state> m_buffers;
	recent_buffers m_recent;
	std::array<std::uint64_t, max_memories> m_last_raw_allocation{};
	std::vector<std::deque<staging_allocation>> m_staging; ///< by memory id
	std::uint64_t m_last_message = 0;
	std::uint64_t m_num_held_horizons = 0;
	std::vector<std::pair<buffer_id, memory_id>> m_growing; ///< the memory states with `has_grown`
	std::vector<std::size_t> m_foreseen_bytes;              ///< by memory id
	task_id m_last_compiled;
	std::vector<std::size_t> m_planned_bytes; ///< by memory id: copied from there for the task that was compiled last; forgotten with it

	// Scratch, kept to avoid allocation per task.
	execution_plan m_spare_plan;
	buffer_requirements m_requirements;
	std::vector<access_binding> m_access_bindings;
	std::vector<reduction_binding> m_reduction_bindings;
	std::deque<region> m_bound_parts; ///< of the instruction under construction
	std::vector<instruction_id> m_repeated_dependencies;

	// instruction_graph.cpp: emission, epochs, buffers, lookahead
	arena& nodes() { return m_arenas.back().nodes; }
	/// Whether the oldest pending horizon is to be applied now.
	bool must_apply_horizon() const;
	/// Before the instruction of this horizon or epoch. Its bucket is there already if the instruction has been repeated from a template.
	void open_bucket(task_id opened_by) {
		if(m_arenas.back().opened_by < opened_by) m_arenas.push_back(arena_bucket{opened_by, arena(m_block_pool)});
	}
	/// The buffer, for a command whose instructions will access it.
	buffer_state& use_buffer(buffer_id id);
	void compile_epoch(const command_phase& now, const task& node);
	void compile_horizon(const command_phase& now, const task& node);
	void apply_epoch(instruction_id epoch);
	void plan_execution(const task& node, const execution_command& execution, execution_plan& plan) const;
	void anticipate_boxes(buffer_state& buffer, memory_id memory, std::span<const box> boxes, std::vector<place>& wanted);
	void anticipate_box(buffer_state& buffer, const memory_id memory, const box& one, std::vector<place>& wanted) {
		anticipate_boxes(buffer, memory, std::span(&one, 1), wanted);
	}
	void anticipate_execution(const task& node, const execution_plan& plan, std::vector<place>& wanted);
	void foresee_growth(buffer_state& buffer, memory_id memory);
	region find_unread(const task& node, const await_push_command& await) const;

	template <typename Walk>
	void walk_buffer(Walk& walk, buffer_state& buffer);

	// instruction_graph_allocations.cpp
	static const box_index& places_of(memory_state& memory);
	template <typename F>
	static void for_each_part(memory_state& memory, const region& where, F&& f);
	static allocation_state* find_allocation(buffer_state& buffer, memory_id memory, const box& covered);
	void require_contiguous(const command_phase& now, buffer_state& buffer, const buffer_requirements& requirements);
	void require_in(const command_phase& now, buffer_state& buffer, memory_id memory, const region& where);
	void require_on_host(const command_phase& now, buffer_state& buffer, const region& where) { require_in(now, buffer, host_memory, where); }
	void allocate_contiguous(const command_phase& now, buffer_state& buffer, memory_id memory, box_vector&& wanted);
	/// Removes and returns the allocations that boxes of `target` contain but do not equal. Removes the boxes from `target` that are allocated already.
	static std::vector<allocation_state> take_replaced(memory_state& memory, box_vector& target);
	void warn_of_many_allocations(buffer_state& buffer, memory_id memory, std::size_t count, submission_id submission);
	void resize_into(const command_phase& now, buffer_state& buffer, memory_id memory, allocation_state& target, allocation_state& old);
	allocation_id next_allocation(memory_id memory) { return {memory, ++m_last_raw_allocation[memory.value]}; }
	instruction_id emit_alloc(const command_phase& now, allocation_id id, std::size_t size_bytes, std::size_t alignment_bytes, buffer_id buffer,
	    const box& allocated);
	staging_allocation make_staging(const command_phase& now, memory_id memory, std::size_t size_bytes, std::size_t alignment_bytes);
	void free_allocation(const command_phase& now, const allocation_state& allocation);
	void free_staging(const command_phase& now);
	void materialize_initial_contents(const command_phase& now, buffer_state& buffer, const region& where);

	// instruction_graph_memory.cpp: coherence
	void satisfy(const command_phase& now, buffer_state& buffer, const buffer_requirements& requirements);
	void make_coherent(const command_phase& now, buffer_state& buffer, std::span<const read_requirement> reads);
	static std::vector<read_requirement> find_missing(const buffer_state& buffer, std::span<const read_requirement> reads);
	void copy_missing(const command_phase& now, buffer_state& buffer, memory_id destination, const region& missing, std::vector<staged_copy>& staged);
	/// Whether one copy brings the value from a memory that holds it to the destination.
	bool can_copy(const content_state& state, const memory_id from, const memory_id destination) const {
		return m_capabilities.can_copy(from == user_memory ? state.user_place : from, destination);
	}
	/// The memory from which a copy brings the value to the destination: over the best link, and among equal links from the memory that has the fewest copies to
	/// make for the present task. If they are equal too, the producer.
	memory_id select_source(const content_state& state, memory_id destination) const;
	/// Data of one producer in one memory.
	template <typename Boxes>
	struct source {
		memory_id memory;
		instruction_id origin;
		Boxes where;
	};
	using source_boxes = source<box_vector>;
	using source_region = source<region>;
	template <typename Select>
	std::vector<source_region> find_sources(const buffer_state& buffer, const region& where, Select&& select) const;
	/// By select_source; notes the bytes that it chooses.
	std::vector<source_region> find_nearest_sources(const buffer_state& buffer, const region& where, memory_id destination);
	void join_small(std::vector<source_boxes>& sources, std::size_t element_size_bytes) const;
	bool gather(const command_phase& now, buffer_state& buffer, memory_id destination, const region& missing, std::span<const source_region> sources);
	void copy_between(const command_phase& now, buffer_state& buffer, const region& where, allocation_state& source, allocation_state& destination,
	    copy_reason reason);
	/// `boxes` lie in the arena.
	static instruction_id emit_copy(instruction_builder& copy, const buffer_state& buffer, const copy_place& source, const copy_place& destination,
	    std::span<const box> boxes, copy_reason reason);
	void copy_staged(const command_phase& now, buffer_state& buffer, std::vector<staged_copy>& staged);
	void copy_staged_region(const command_phase& now, buffer_state& buffer, const staged_copy& copy, staging_allocation& staging, std::size_t offset_bytes);
	staging_allocation& acquire_staging(const command_phase& now, memory_id memory, std::size_t size_bytes, std::size_t alignment_bytes);
	bool should_linearize(const buffer_state& buffer, const region& where, const allocation_state& allocation) const;

	// instruction_graph_transfers.cpp: pushes and receives
	void compile_push(const command_phase& now, const push_command& push);
	void compile_await_push(const await_push_command& await);
	std::vector<source_region> find_host_sources(const command_phase& now, buffer_state& buffer, const region& where);
	std::vector<source_region> find_direct_sources(const command_phase& now, buffer_state& buffer, const region& where);
	/// Calls f(region) for each region that is sent from host memory; once for consecutive ranks that need the same region.
	template <typename F>
	void for_each_sent_from_host(const push_command& push, F&& f) const;
	bool is_sent_directly(const push_command& push, const rank_id target) const {
		return m_capabilities.is_direct(target) && push.transfer.reduction == reduction_id{}; // partial results meet in host memory
	}
	void emit_send(const command_phase& now, buffer_state& buffer, const push_command& push, rank_id target, allocation_state& source, const box& sent);
	void commit_receives(const command_phase& now, buffer_state& buffer, std::span<const read_requirement> reads);
	void receive_to_host(const command_phase& now, buffer_state& buffer, const await_push_command& receive, std::span<const read_requirement> reads);
	void receive_in_parts(const command_phase& now, buffer_state& buffer, const transfer_id& transfer, allocation_state& destination, const region& arriving,
	    std::vector<region>&& parts);
	void receive_to_readers(const command_phase& now, buffer_state& buffer, const await_push_command& receive, std::span<const read_requirement> reads);
	void join_small_neighbours(std::vector<read_requirement>& arrivals, std::size_t element_size_bytes) const;
	void emit_receive(const command_phase& now, buffer_state& buffer, const transfer_id& transfer, allocation_state& destination, const region& where);

	// instruction_graph_tasks.cpp: kernels, host tasks, fences, reductions
	/// Boxes around the elements of an access by one chunk, each of which must lie in a single allocation. The elements of a periodic access at the opposite side
	/// have a box of their own, because the box around all would have the whole extent of the buffer.
	static box_vector boxes_in_memory(const buffer_access& access, const region& where);
	void compile_execution(const command_phase& now, const task& node, const execution_command& execution, const execution_plan& plan);
	const buffer_requirements& collect_requirements(const task& node, buffer_state& buffer, const execution_command& execution, const execution_plan& plan);
	access_binding bind(instruction_builder& execution, const buffer_access& access, memory_id memory, const region& where);
	void emit_chunk(const command_phase& now, const task& node, const execution_plan& plan, std::size_t chunk_index);
	std::vector<local_reduction> prepare_local_reductions(const command_phase& now, const task& node, const execution_command& execution,
	    const execution_plan& plan);
	memory_id memory_to_combine_in(const task_reduction& reduction, const execution_plan& plan) const {
		return m_capabilities.memory_to_combine_in(reduction, plan.chunks.front().memory);
	}
	void compile_reduction(const command_phase& now, const reduction_command& reduction);
	staging_allocation& acquire_gather_space(const command_phase& now, const buffer_state& buffer, const memory_id memory, const std::size_t count) {
		return acquire_staging(now, memory, count * bytes_of_partial(buffer), buffer.info.element_alignment_bytes);
	}
	static std::size_t bytes_of_partial(const buffer_state& buffer) { return static_cast<std::size_t>(buffer.domain.area()) * buffer.info.element_size_bytes; }
	/// Copies the value in `source` behind those that have been collected.
	void collect_partial(const command_phase& now, local_reduction& local, memory_id source);
	void copy_partial(const command_phase& now, buffer_state& buffer, memory_id source, staging_allocation& gather, std::size_t slot);
	/// The result lies in the memory of `gather`: it is the value of the buffer or, if the collection goes on, the first partial result.
	void emit_reduce(const command_phase& now, buffer_state& buffer, const task_reduction& reduction, staging_allocation& gather, std::size_t count,
	    bool is_complete, bool goes_on = false);
	void compile_fence(const command_phase& now, const task& node);
	std::vector<instruction_id> copy_to_fence(const command_phase& now, const task& node);
};

/// Calls f(allocation, part of `where` in it) for each allocation that overlaps `where`. f must not allocate.
template <typename F>
void instruction_graph_generator::for_each_part(memory_state& memory, const region& where, F&& f) {
	if(memory.allocations.size() < box_index::min_size) {
		const box bounds = where.bounding_box();
		for(auto& allocation : memory.allocations) {
			if(allocation.allocated.covers(bounds)) {
				if(!bounds.empty()) f(allocation, where);
				return; // allocations are disjoint
			}
			const region part = region_intersection(where, allocation.allocated);
			if(!part.empty()) f(allocation, part);
		}
		return;
	}
	std::vector<std::pair<std::size_t, box>> found;
	for(const box& b : where) {
		places_of(memory).for_each_overlapping(b,
		    [&](const std::size_t position, const box& allocated) { found.emplace_back(position, intersection(b, allocated)); });
	}
	std::sort(found.begin(), found.end());
	for(std::size_t i = 0; i < found.size();) {
		const std::size_t position = found[i].first;
		box_vector boxes;
		for(; i < found.size() && found[i].first == position; ++i) boxes.push_back(found[i].second);
		const region part(std::move(boxes));
		f(memory.allocations[position], part);
	}
}

template <typename F>
void instruction_graph_generator::for_each_sent_from_host(const push_command& push, F&& f) const {
	const region* last = nullptr;
	for(const auto& [rank, where] : push.targets) {
		if(is_sent_directly(push, rank) || (last != nullptr && *last == where)) continue;
		last = &where;
		f(where);
	}
}

/// Divides the part of `where` that this rank holds by producer, and by the memory that select(content_state, box) names. A piece then waits for one producer only.
/// Pieces so small that each costs more than waiting are joined.
template <typename Select>
std::vector<instruction_graph_generator::source_region> instruction_graph_generator::find_sources(const buffer_state& buffer, const region& where,
    Select&& select) const {
	std::vector<source_boxes> found;
	buffer.contents.query(where, [&](const box& part, const content_state& state) {
		if(state.up_to_date == 0) return;
		const memory_id memory = select(state, part);
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

template <typename Walk>
void instruction_graph_generator::walk_state(Walk& walk, const std::span<const buffer_id> buffers) {
	m_window.walk_state(walk);
	walk.id(m_settled);
	m_side_effects.walk_state(walk);
	m_recent.walk_state(walk);
	walk.number(m_pending_horizons.size());
	for(auto& horizon : m_pending_horizons) {
		walk.id(horizon.id);
		walk.task(horizon.task);
	}
	walk.number(m_queues);
	walk.task(m_last_compiled);
	walk.number(m_growing.size());
	for(auto& pool : m_staging) {
		walk.number(pool.size());
		for(auto& staging : pool) {
			walk.number(staging.id.raw);
			walk.number(staging.size_bytes);
			walk.number(staging.alignment_bytes);
			walk.id(staging.ready);
			walk.number(staging.uses.size());
			for(instruction_id& use : staging.uses) walk.id(use);
		}
	}
	for(const buffer_id id : buffers) walk_buffer(walk, m_buffers.at(id));
}

template <typename Walk>
void instruction_graph_generator::walk_buffer(Walk& walk, buffer_state& buffer) {
	buffer.contents.walk_state(walk, [&](content_state& state) {
		walk.number(state.up_to_date);
		walk.id(state.origin);
		walk.number(state.origin_memory.value);
		walk.number(state.user_place.value);
	});
	for(auto& memory : buffer.memories) {
		walk.number(memory.allocations.size());
		for(auto& allocation : memory.allocations) {
			walk.number(allocation.id.raw);
			walk.boxes(std::span(&allocation.allocated, 1));
			allocation.accesses.walk_state(walk, [&](front& f) { f.walk_state(walk); });
		}
		walk.boxes(memory.anticipated);
		walk.number(memory.has_grown);
		memory.forecast.walk_state(walk, m_num_held_horizons);
	}
	walk.number(buffer.receives.size());
	for(auto& receive : buffer.receives) {
		walk.task(receive.transfer.consumer);
		walk.number(receive.transfer.buffer.value);
		walk.reduction(receive.transfer.reduction);
		walk.boxes(receive.awaited.boxes());
	}
}

} // namespace celerity
