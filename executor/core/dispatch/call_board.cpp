// SPDX-License-Identifier: MIT
#include "call_board.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace celerity {

call_board::call_board(const std::size_t num_devices, backend& lanes, executor_inbox& inbox, trace_recorder* const trace)
    : m_backend(lanes), m_inbox(inbox), m_trace(trace) {
	for(std::size_t d = 0; d < num_devices; ++d) m_kernels.push_back(std::make_unique<call_queue<kernel_job>>());
}

std::optional<kernel_call> call_board::next_kernel(const device_id device) {
	if(device.value >= m_kernels.size()) throw std::invalid_argument("no such device");
	while(auto job = m_kernels[device.value]->pop()) {
		if(!m_backend.begin_kernel(job->position, job->waits)) continue; // cancelled: wait for close()
		add_running(job->call.ticket, job->position, device);
		return std::move(job->call);
	}
	return std::nullopt;
}

std::optional<kernel_call> call_board::try_next_kernel(const device_id device) {
	const auto is_complete = [&](const lane_position& position) { return m_backend.completed(position.lane) >= position.sequence; };
	auto job = m_kernels[device.value]->try_pop([&](const kernel_job& next) {
		return is_complete({next.position.lane, next.position.sequence - 1}) && std::all_of(next.waits.begin(), next.waits.end(), is_complete);
	});
	if(!job.has_value() || !m_backend.begin_kernel(job->position, job->waits)) return std::nullopt;
	add_running(job->call.ticket, job->position, device);
	return std::move(job->call);
}

void call_board::push(const device_id device, kernel_job&& job, const queue_priority queue) {
	if(!m_backend.defers_kernels()) m_lead.note_handed_out();
	m_kernels[device.value]->push(std::move(job), queue);
}

void call_board::kernel_returned(const call_ticket ticket) {
	const auto call = take_running(ticket, true);
	if(!m_backend.defers_kernels()) m_lead.note_returned(std::chrono::nanoseconds(now_ns() - call.start_ns));
	m_backend.end_kernel(call.position);
	if(m_backend.defers_kernels()) m_inbox.post([&](executor_mail& mail) { mail.launches.push_back(instruction_id(ticket)); });
}

void call_board::host_task_waits(const call_ticket ticket) {
	m_inbox.post([&](executor_mail& mail) { mail.waiting_calls.push_back(instruction_id(ticket)); });
}

void call_board::host_task_done(const call_ticket ticket) {
	take_running(ticket, false);
	m_inbox.post([&](executor_mail& mail) { mail.host_calls.push_back(instruction_id(ticket)); });
}

std::optional<host_call> call_board::next_host_task() {
	auto call = m_host_calls.pop();
	if(call.has_value()) add_running(std::visit([](const auto& c) { return c.ticket; }, *call), {no_lane, 0}, {});
	return call;
}

bool call_board::is_running(const call_ticket ticket) {
	const std::lock_guard lock(m_mutex);
	return m_running.contains(ticket);
}

void call_board::add_running(const call_ticket ticket, const lane_position& position, const device_id device) {
	const std::lock_guard lock(m_mutex);
	m_running.emplace(ticket, running_call{position, device, now_ns()});
}

call_board::running_call call_board::take_running(const call_ticket ticket, const bool is_kernel) {
	running_call call;
	{
		const std::lock_guard lock(m_mutex);
		const auto running = m_running.find(ticket);
		if(running == m_running.end() || (running->second.position.lane != no_lane) != is_kernel) {
			throw std::invalid_argument(std::string("no such ") + (is_kernel ? "kernel" : "host task") + " is running");
		}
		call = running->second;
		m_running.erase(running);
	}
	if(m_trace == nullptr || (is_kernel && !m_backend.defers_kernels())) return call; // the lane records the kernel
	const auto device = is_kernel ? std::optional(call.device) : std::nullopt;
	m_trace->record({call.start_ns, now_ns(), traced_call{instruction_id(ticket), device}});
	return call;
}

void call_board::discard() {
	for(auto& queue : m_kernels) queue->discard();
	m_host_calls.discard();
}

void call_board::close() {
	for(auto& queue : m_kernels) queue->close();
	m_host_calls.close();
}

} // namespace celerity
