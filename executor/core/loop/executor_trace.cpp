// SPDX-License-Identifier: MIT
#include "executor_trace.hpp"

#include <variant>

namespace celerity {

namespace {

template <typename Boxes>
std::uint64_t bytes_of(const Boxes& boxes, const std::size_t element_size_bytes) {
	std::uint64_t elements = 0;
	for(const box& b : boxes) elements += static_cast<std::uint64_t>(b.area());
	return elements * element_size_bytes;
}

struct describer {
	trace_event& out;

	void operator()(const alloc_instruction& alloc) const {
		out.buffer = alloc.buffer.value;
		out.bytes = alloc.size_bytes;
	}
	void operator()(const free_instruction& free) const { out.bytes = free.size_bytes; }
	void operator()(const copy_instruction& copy) const {
		out.buffer = copy.buffer.value;
		out.bytes = bytes_of(copy.boxes, copy.element_size_bytes);
		out.reason = static_cast<std::uint8_t>(copy.reason);
	}
	void operator()(const gather_copy_instruction& copy) const {
		out.buffer = copy.buffer.value;
		for(const auto& source : copy.sources) out.bytes += bytes_of(source.boxes, copy.element_size_bytes);
	}
	void operator()(const device_kernel_instruction& kernel) const { out.submission = kernel.submission.value; }
	void operator()(const host_task_instruction& task) const { out.submission = task.submission.value; }
	void operator()(const initialize_instruction& initialize) const {
		out.buffer = initialize.buffer.value;
		out.bytes = bytes_of(initialize.boxes, initialize.element_size_bytes);
	}
	void operator()(const send_instruction& send) const {
		out.buffer = send.transfer.buffer.value;
		out.bytes = static_cast<std::uint64_t>(send.sent_box.area()) * send.element_size_bytes;
		out.peer = send.destination_rank.value;
	}
	void operator()(const receive_instruction& receive) const { describe_receive(receive); }
	void operator()(const split_receive_instruction& receive) const { describe_receive(receive); }
	void operator()(const await_receive_instruction& receive) const { out.buffer = receive.transfer.buffer.value; }
	void operator()(const gather_receive_instruction& receive) const {
		out.buffer = receive.transfer.buffer.value;
		out.bytes = receive.bytes_per_slot * receive.sources.size();
	}
	void operator()(const reduce_instruction&) const {}
	void operator()(const fence_instruction& fence) const { out.submission = fence.submission.value; }
	void operator()(const horizon_instruction&) const {}
	void operator()(const epoch_instruction& epoch) const { out.submission = epoch.submission.value; }

	template <typename Receive>
	void describe_receive(const Receive& receive) const {
		out.buffer = receive.transfer.buffer.value;
		out.bytes = bytes_of(receive.boxes, receive.element_size_bytes);
	}
};

} // namespace

void trace_issue(trace_recorder& trace, const issue& item, const std::int64_t start_ns) {
	trace_event event;
	event.kind = trace_kind::issue;
	event.start_ns = start_ns;
	event.end_ns = trace_now();
	event.instruction = item.id.value;
	event.track = item.lane;
	event.sequence = item.sequence;
	event.operation = static_cast<std::uint8_t>(item.payload->operation.index());
	std::visit(describer{event}, item.payload->operation);
	trace.record(event);
}

} // namespace celerity
