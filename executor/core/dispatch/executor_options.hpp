// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/out_of_order_engine.hpp"
#include "events/profiler_ranges.hpp"
#include "scheduler/core/base/fields.hpp"
#include "scheduler/core/base/ids.hpp"
#include "scheduler/core/graphs/program_log.hpp"
#include "scheduler/core/vocabulary/trace_recorder.hpp"

namespace celerity {

struct executor_options {
	std::size_t num_ranks = 1;
	rank_id rank;
	std::size_t num_devices = 1;
	std::size_t kernel_threads = 1; ///< of each CPU device, which share a fused kernel
	bool oversubscribed = false; ///< more busy threads than cores: never spin
	bool check = false;          ///< fill fresh memory with 0xff bytes
	bool lane_events = true;     ///< lanes wait for each other, and not the host for all of them
	celerity::kernel_order kernel_order = celerity::kernel_order::age; ///< of instructions of one queue and kind
	bool sync = false;           ///< issue work for devices and host tasks one at a time
	bool direct = false;         ///< transfers between ranks of this host may be direct; not with `sync`
	std::shared_ptr<trace_recorder> trace = nullptr; ///< null: there is no timeline
	std::shared_ptr<profiler_ranges> ranges = nullptr; ///< null: no profiler looks
	std::shared_ptr<program_log> program = nullptr;  ///< to compare with other ranks; null: there are none
	bool overwrites_wait = false; ///< a writer waits on its lane until other ranks have fetched the old data; otherwise the host waits
	std::chrono::nanoseconds idle_spin{0};           ///< so long the thread looks for work before it sleeps
	/// With direct transfers, the executor puts nothing on lanes while a lane has so many instructions in flight. A full queue would block the thread, for
	/// which other ranks may wait. A queue of CUDA holds a thousand operations, and an instruction is up to eight of them.
	std::uint64_t most_on_a_lane = 120;
	/// Smaller data for direct peers goes as messages, which takes CPU devices less time than flags. GPUs send no messages out of their memory.
	std::size_t least_direct_bytes = 0;
	/// Python sets these fields by their names.
	CELERITY_FIELDS(num_ranks, rank, num_devices, kernel_threads, oversubscribed, check, lane_events, kernel_order, sync, direct, trace, ranges, program,
	    overwrites_wait, idle_spin, most_on_a_lane, least_direct_bytes)
};

/// Whether all busy threads of this rank have a core of their own.
bool has_free_cores(const executor_options& options);

} // namespace celerity
