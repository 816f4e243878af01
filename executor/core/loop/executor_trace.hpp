// SPDX-License-Identifier: MIT
// The records of an instruction in the timeline, and its name in a profiler.
#pragma once

#include <string>

#include "engine/out_of_order_engine.hpp"
#include "events/profiler_ranges.hpp"
#include "memory/allocation_table.hpp"
#include "scheduler/core/vocabulary/trace_recorder.hpp"

namespace celerity {

/// The executor received it at `now`.
void trace_handover(trace_recorder& trace, const instruction& item, std::int64_t now);
/// Since `start_ns` the executor has been issuing it.
void trace_issue(trace_recorder& trace, const issue& item, const allocation_table& allocations, std::int64_t start_ns);
/// Such as `T7 device_kernel "wave_step"` or `T9 copy B3 coherence`.
std::string name_for_profiler(const instruction& item, const profiler_ranges& ranges);

} // namespace celerity
