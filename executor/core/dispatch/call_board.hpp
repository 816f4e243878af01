// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "devices/backend.hpp"
#include "events/executor_events.hpp"
#include "executor_inbox.hpp"
#include "scheduler/core/base/small_vector.hpp"
#include "scheduler/core/vocabulary/trace_recorder.hpp"
#include "threads/call_queue.hpp"
#include "threads/loop_lead.hpp"

namespace celerity {

struct kernel_job {
	kernel_call call;
	lane_position position;
	small_vector<lane_position, 4> waits;
};

/// Calls of user functions, on their way from the executor's thread to launcher and host-task threads, until they are done. Any thread.
class call_board {
  public:
	/// `inbox` hears of calls that return.
	call_board(std::size_t num_devices, backend& lanes, executor_inbox& inbox, trace_recorder* trace);

	/// Jobs for one lane are of one queue, as they must begin in the order of the lane.
	void push(device_id device, kernel_job&& job, queue_priority queue);
	void push(host_call&& call, const queue_priority queue) { m_host_calls.push(std::move(call), queue); }

	/// Blocks; nothing after close(). One thread per device: the device's kernels run in the order in which they are handed out.
	std::optional<kernel_call> next_kernel(device_id device);
	/// As next_kernel(), but does not block: nothing also if the kernel's predecessors are not complete.
	std::optional<kernel_call> try_next_kernel(device_id device);
	/// The kernel's function has returned; its work may still run on its lane.
	void kernel_returned(call_ticket ticket);
	/// Blocks; nothing after close(). Any number of threads.
	std::optional<host_call> next_host_task();
	/// A host task that is running waits for other ranks: with `sync`, it no longer keeps others from being issued. Once per call.
	void host_task_waits(call_ticket ticket);
	void host_task_done(call_ticket ticket);
	/// Whether next_kernel() and next_host_task() return at once.
	bool has_kernel(const device_id device) { return m_kernels.at(device.value)->has_call(); }
	bool has_host_task() { return m_host_calls.has_call(); }
	/// Handed out, and not done.
	bool is_running(call_ticket ticket);

	/// Who carries out the executor's loop while kernels are short. Not with devices that defer kernels.
	loop_lead& lead() { return m_lead; }

	/// Drops all calls that wait or come later.
	void discard();
	/// Wakes every thread.
	void close();

  private:
	struct running_call {
		lane_position position{no_lane, 0}; ///< `no_lane` for host calls
		device_id device;
		std::int64_t start_ns = 0;
	};

	backend& m_backend;
	executor_inbox& m_inbox;
	trace_recorder* const m_trace;
	std::vector<std::unique_ptr<call_queue<kernel_job>>> m_kernels; ///< by device
	call_queue<host_call> m_host_calls;
	std::mutex m_mutex;
	std::unordered_map<call_ticket, running_call> m_running;
	loop_lead m_lead;

	void add_running(call_ticket ticket, const lane_position& position, device_id device);
	running_call take_running(call_ticket ticket, bool is_kernel);
};

} // namespace celerity
