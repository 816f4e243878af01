// SPDX-License-Identifier: MIT
// The machines of a rank that the dispatcher, the runs of graphs and the executor's loop drive together.
#pragma once

#include <memory>
#include <vector>

#include "announcements.hpp"
#include "call_board.hpp"
#include "devices/backend.hpp"
#include "devices/direct_transfers.hpp"
#include "devices/graph_devices.hpp"
#include "engine/out_of_order_engine.hpp"
#include "issue_requests.hpp"
#include "events/executor_statistics.hpp"
#include "executor_inbox.hpp"
#include "executor_options.hpp"
#include "memory/allocation_table.hpp"
#include "network/network_link.hpp"
#include "transfers/rank_transfers.hpp"

namespace celerity {

/// A horizon or epoch that is complete.
struct reached_task {
	task_id task;
	bool is_epoch = false;
};

/// The loop's state mutex guards the members, except those that have a lock of their own: calls, launches, user memory, and the inbox.
struct executor_state {
	/// `made` is not null.
	executor_state(const executor_options& given, std::unique_ptr<backend> made, executor_inbox& inbox);

	const executor_options options;
	trace_recorder* const trace;
	const std::unique_ptr<backend> devices;
	direct_transfers* const direct_lanes; ///< of `devices`, likewise; null if they cannot
	graph_devices* const graphs;
	kernel_launcher* const launcher;
	call_board calls;
	launch_table launches;
	announcements events;
	out_of_order_engine engine;
	allocation_table allocations;
	executor_statistics statistics;
	network_link network;
	rank_transfers transfers;
	request_rules rules;
	std::vector<instruction_id> done;   ///< complete, as the engine has yet to hear
	std::vector<reached_task> reached;  ///< since the last round
	std::uint64_t freed_bytes = 0;      ///< since the last round
	const instruction* current = nullptr; ///< being issued, for the message if that fails

	/// To be called before anything but a signal is put on a lane, allocated or freed, and before the thread waits.
	void flush() const {
		if(direct_lanes != nullptr) direct_lanes->flush();
	}
	/// No operation begins from now on, and no call is handed out. Any thread.
	void cancel() {
		devices->cancel();
		calls.discard();
	}
};

} // namespace celerity
