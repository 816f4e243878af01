// SPDX-License-Identifier: MIT
#include "progress_report.hpp"

#include <variant>

#include "events/labels.hpp"

namespace celerity {

namespace {

const char* words_of(const call_state call) {
	switch(call) {
	case call_state::waiting: return " waits for its thread";
	case call_state::running: return " is running";
	case call_state::on_stream: return " runs or waits on its stream";
	}
	return "";
}

/// Adds to the text the facts that some kinds tell beyond their name.
struct text_writer {
	active_instruction& out;
	const instruction& item;
	call_state call;
	const receive_arbiter& arbiter;

	void operator()(const free_instruction& free) const { out.text += " of " + label(free.allocation); }
	void operator()(const device_kernel_instruction& kernel) const { out.text += " on " + label(kernel.device) + words_of(call); }
	void operator()(const host_task_instruction&) const { out.text += words_of(call); }
	void operator()(const initialize_instruction&) const { out.text += words_of(call); }
	void operator()(const reduce_instruction& reduce) const { out.text += reduce.op == reduction_op::callable ? words_of(call) : ""; }
	void operator()(const send_instruction& send) const { out.text += numbered(" of message ", send.message.value) + " for " + label(send.transfer.consumer); }
	template <typename Operation>
	void operator()(const Operation& operation) const {
		write_copies(operation);
		if constexpr(requires { operation.transfer; }) write_receive(operation.transfer);
	}
	template <typename Operation>
	void write_copies(const Operation& operation) const {
		if constexpr(requires { operation.reason; }) out.text += std::string(" (") + name_of(operation.reason) + ")";
		std::string sources;
		std::string target;
		for_each_copy(operation, [&](const allocation_id source, const allocation_id destination, std::uint64_t) {
			sources += (sources.empty() ? " from " : ", ") + label(source);
			target = " to " + label(destination);
		});
		out.text += sources + target;
	}
	void write_receive(const transfer_id& transfer) const {
		const auto open = arbiter.find_open(item.id, transfer);
		if(open.has_peer) out.peer = open.peer;
		out.text += " for " + label(transfer.consumer) + numbered(": ", static_cast<std::uint64_t>(open.missing_elements)) + " elements have not arrived, "
		            + std::to_string(open.unannounced_elements) + " of them not even been announced";
	}
};

} // namespace

active_instruction describe(const instruction& item, const bool is_issued, const call_state call, const receive_arbiter& arbiter) {
	const auto facts = facts_of(item);
	active_instruction out{0, {}, facts.submission, facts.buffer, facts.where, facts.peer, facts.transfer, kind_of(item.operation), false, item.id};
	const auto name = label(item.id) + " " + name_of(out.kind);
	out.text = name;
	std::visit(text_writer{out, item, call, arbiter}, item.operation);
	if(!is_issued) out.text = name + " waits for its predecessors";
	return out;
}

std::string describe_run(const std::span<const instruction* const> run, const bool is_issued) {
	return label(run.front()->id) + " to " + label(run.back()->id) + " as one graph"
	       + (is_issued ? words_of(call_state::on_stream) : " wait for their predecessors");
}

} // namespace celerity
