// SPDX-License-Identifier: MIT
#include "executor_trace.hpp"

#include "instruction_facts.hpp"

namespace celerity {

void trace_issue(trace_recorder& trace, const issue& item, const std::int64_t start_ns) {
	const auto facts = facts_of(*item.payload);
	traced_issue issued{
	    item.id, kind_of(item.payload->operation), facts.reason, facts.submission, facts.buffer, facts.size_bytes, facts.peer, {}, item.sequence};
	if(item.lane != no_lane) issued.lane = item.lane;
	trace.record({start_ns, now_ns(), issued});
}

} // namespace celerity
