// SPDX-License-Identifier: MIT
#include "progress_report.hpp"

#include <type_traits>
#include <variant>

#include "events/executor_statistics.hpp"
#include "events/labels.hpp"

namespace celerity {

namespace {

template <typename Boxes>
box bounding_box_of(const Boxes& boxes) {
	box bounds;
	for(const box& b : boxes) bounds = bounding_box(bounds, b);
	return bounds;
}

void describe_calls(active_instruction& out, const submission_id submission, const box& chunk, const call_state call) {
	out.submission = submission;
	out.where = chunk;
	switch(call) {
	case call_state::waiting: out.text += " waits for its thread"; break;
	case call_state::running: out.text += " is running"; break;
	case call_state::on_stream: out.text += " runs or waits on its stream"; break;
	}
}

void describe_receive(
    active_instruction& out, const instruction_id id, const transfer_id& transfer, const std::optional<box>& where, const receive_arbiter& arbiter) {
	const auto open = arbiter.find_open(id, transfer);
	out.transfer = transfer;
	out.buffer = transfer.buffer;
	out.where = where;
	if(open.has_peer) out.peer = open.peer;
	out.text += " for " + label(transfer.consumer) + numbered(": ", static_cast<std::uint64_t>(open.missing_elements)) + " elements have not arrived, "
	            + std::to_string(open.unannounced_elements) + " of them not even been announced";
}

struct describer {
	active_instruction& out;
	const instruction& item;
	call_state call;
	const receive_arbiter& arbiter;

	void operator()(const alloc_instruction& alloc) const {
		out.submission = alloc.submission;
		out.buffer = alloc.buffer;
		out.where = alloc.allocated_box;
	}
	void operator()(const free_instruction& free) const { out.text += " of " + label(free.allocation); }
	void operator()(const copy_instruction& copy) const {
		out.text += std::string(" (") + name_of(copy.reason) + ") from " + label(copy.source) + " to "
		            + label(copy.destination);
		out.buffer = copy.buffer;
		out.where = bounding_box_of(copy.boxes);
	}
	void operator()(const gather_copy_instruction& copy) const {
		box_vector boxes;
		for(const auto& source : copy.sources) {
			out.text += (boxes.empty() ? " from " : ", ") + label(source.allocation);
			for(const box& b : source.boxes) boxes.push_back(b);
		}
		out.text += " to " + label(copy.destination);
		out.buffer = copy.buffer;
		out.where = bounding_box_of(boxes);
	}
	void operator()(const device_kernel_instruction& kernel) const {
		out.text += " on " + label(kernel.device);
		describe_calls(out, kernel.submission, kernel.chunk, call);
	}
	void operator()(const host_task_instruction& task) const { describe_calls(out, task.submission, task.chunk, call); }
	void operator()(const initialize_instruction& initialize) const {
		out.buffer = initialize.buffer;
		describe_calls(out, {}, bounding_box_of(initialize.boxes), call);
	}
	void operator()(const send_instruction& send) const {
		out.text += numbered(" of message ", send.message.value) + " for " + label(send.transfer.consumer);
		out.buffer = send.transfer.buffer;
		out.where = send.sent_box;
		out.peer = send.destination_rank;
		out.transfer = send.transfer;
	}
	void operator()(const receive_instruction& receive) const {
		describe_receive(out, item.id, receive.transfer, bounding_box_of(receive.boxes), arbiter);
	}
	void operator()(const split_receive_instruction& receive) const {
		describe_receive(out, item.id, receive.transfer, bounding_box_of(receive.boxes), arbiter);
	}
	void operator()(const await_receive_instruction& receive) const {
		describe_receive(out, item.id, receive.transfer, bounding_box_of(receive.boxes), arbiter);
	}
	void operator()(const gather_receive_instruction& receive) const { describe_receive(out, item.id, receive.transfer, std::nullopt, arbiter); }
	void operator()(const reduce_instruction&) const {}
	void operator()(const fence_instruction& fence) const { out.submission = fence.submission; }
	void operator()(const horizon_instruction&) const {}
	void operator()(const epoch_instruction& epoch) const { out.submission = epoch.submission; }
};

} // namespace

active_instruction describe(const instruction& item, const bool is_issued, const call_state call, const receive_arbiter& arbiter) {
	active_instruction out;
	out.kind = item.operation.index();
	out.text = label(item.id) + " " + instruction_kind_names[out.kind];
	std::visit(describer{out, item, call, arbiter}, item.operation);
	if(!is_issued) out.text = label(item.id) + " " + instruction_kind_names[out.kind] + " waits for its predecessors";
	return out;
}

} // namespace celerity
