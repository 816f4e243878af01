// SPDX-License-Identifier: MIT
// The construction of instructions, with their dependencies.
#pragma once

#include <cassert>
#include <cstddef>
#include <exception>
#include <functional>
#include <span>

#include "base/arena.hpp"
#include "base/ids.hpp"
#include "base/small_vector.hpp"
#include "buffer_memory.hpp"
#include "graphs/dependency_window.hpp"
#include "instruction_store.hpp"
#include "vocabulary/instruction.hpp"
#include "vocabulary/task.hpp"

namespace celerity {

/// The instructions made so far, as far as later ones may depend on them.
struct instruction_history {
	/// Called with each new instruction, and the kinds of its dependencies.
	using record_callback = std::function<void(const instruction&, std::span<const dependency_kind>)>;

	record_callback record; ///< may be empty
	instruction_store store{};
	dependency_window<instruction_id> window{};
	side_effect_chains<instruction_id> side_effects{};
	instruction_id settled{}; ///< the last epoch

	arena& nodes() { return store.nodes(); }
	void apply_epoch(const instruction_id epoch) {
		window.apply_epoch(epoch, settled);
		side_effects.apply_epoch(epoch);
	}
	template <typename Walk>
	void walk_state(Walk& walk) {
		window.walk_state(walk);
		walk.id(settled);
		side_effects.walk_state(walk);
	}
};

/// One phase of the command that is compiled: the common properties of its instructions, and the batch that receives them.
struct command_phase {
	instruction_batch& out;
	instruction_key key;
	submission_id submission;
	instruction_priority boost = 0; ///< of the queue, and of a push

	command_phase in(const instruction_key::phase_type other) const { return {out, {key.task, other}, submission, boost}; }
};

/// One instruction under construction; there is one at a time. Each access adds its dependencies on earlier instructions at once. emit() notes the accesses,
/// so that later instructions depend on this one. Allocations and regions must live until then.
class instruction_builder {
  public:
	instruction_builder(instruction_history& history, const command_phase& now) : m_history(history), m_now(now) { window().begin(); }
	~instruction_builder() { assert(m_is_emitted || std::uncaught_exceptions() > 0); }
	instruction_builder(const instruction_builder&) = delete;
	instruction_builder& operator=(const instruction_builder&) = delete;

	void follow(const instruction_id earlier, const dependency_kind kind = dependency_kind::dataflow) { window().depend(earlier, kind); }
	/// Follows the earlier users of the task's host objects.
	void follow_side_effects(const task& node) { m_history.side_effects.append(node.side_effects, window()); }
	void follow_all() { window().depend_on_front(); }
	void follow_users(const allocation_state& allocation) {
		allocation.accesses.for_each([&](const box&, const instruction_front& f) { f.depend_for_write(window()); });
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

	instruction_history& m_history;
	command_phase m_now;
	small_vector<noted_access, 8> m_accesses;
	small_vector<staging_allocation*, 2> m_staging;
	bool m_is_emitted = false;

	dependency_window<instruction_id>& window() const { return m_history.window; }
	void use(staging_allocation& staging, const instruction_id after, const dependency_kind kind) {
		follow(after, kind);
		m_staging.push_back(&staging);
	}
	void note(allocation_state& allocation, const region& where, access_mode mode, buffer_state* produced);
};

/// One side of a copy.
struct copy_place {
	allocation_id allocation;
	std::size_t offset_bytes = 0; ///< of packed data
};
/// `boxes` lie in the arena.
instruction_id emit_copy(instruction_builder& copy, const buffer_state& buffer, const copy_place& source, const copy_place& destination,
    std::span<const box> boxes, copy_reason reason);
void copy_between(instruction_history& history, const command_phase& now, buffer_state& buffer, const region& where, allocation_state& source,
    allocation_state& destination, copy_reason reason);

} // namespace celerity
