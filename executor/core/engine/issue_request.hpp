// SPDX-License-Identifier: MIT
// What the engine is told of an instruction, and what it says when it issues one.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "scheduler/core/base/ids.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"
#include "lane_pool.hpp"

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

/// An instruction, or several that are carried out as one, as the engine sees it.
struct issue_request {
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

} // namespace celerity
