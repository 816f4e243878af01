// SPDX-License-Identifier: MIT
// The record of an instruction in the timeline.
#pragma once

#include "engine/out_of_order_engine.hpp"
#include "scheduler/core/vocabulary/trace_recorder.hpp"

namespace celerity {

/// Since `start_ns` the executor has been issuing it.
void trace_issue(trace_recorder& trace, const issue& item, std::int64_t start_ns);

} // namespace celerity
