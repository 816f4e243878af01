// SPDX-License-Identifier: MIT
#include "dispatcher.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <stdexcept>

#include "instruction_facts.hpp"
#include "memory/reduce_kernels.hpp"
#include "operations.hpp"

namespace celerity {

namespace {

/// Buffers that the report of a memory shortage names.
constexpr std::size_t most_holders = 3;

} // namespace

lane_waits dispatcher::waits_of(const issue& item) {
	m_answers.clear();
	for(const auto id : item.signals) {
		if(const auto answer = m_state.transfers.sender().answer_to(id); answer.address != nullptr) m_answers.push_back(answer);
	}
	return {item.waits, m_answers};
}

// ---- memory ---------------------------------------------------------------------------------------------------------------------

template <>
void dispatcher::execute(const issue& item, const alloc_instruction& alloc) {
	// In their order, so that no allocation waits for ever.
	if(alloc.allocation.memory == host_memory && (!m_waiting_allocations.empty() || !m_state.devices->is_ready_to_allocate(host_memory, alloc.size_bytes))) {
		m_waiting_allocations.push_back(item.payload);
		return;
	}
	allocate(item.id, alloc);
}

bool dispatcher::allocate_waiting() {
	bool has_allocated = false;
	while(!m_waiting_allocations.empty()) {
		const auto& waiting = *m_waiting_allocations.front();
		const auto& alloc = std::get<alloc_instruction>(waiting.operation);
		if(!m_state.devices->is_ready_to_allocate(host_memory, alloc.size_bytes)) break;
		m_waiting_allocations.pop_front();
		m_state.current = &waiting;
		allocate(waiting.id, alloc);
		has_allocated = true;
	}
	return has_allocated;
}

void dispatcher::allocate(const instruction_id id, const alloc_instruction& alloc) {
	void* address = nullptr;
	try {
		address = m_state.devices->allocate(alloc.allocation.memory, alloc.size_bytes, alloc.alignment_bytes);
	} catch(const std::bad_alloc&) { throw memory_shortage(find_holders(alloc)); }
	m_state.allocations.add(alloc.allocation, {address, alloc.size_bytes, alloc.alignment_bytes, alloc.buffer, alloc.allocated_box});
	if(m_state.options.check) m_state.devices->fill(alloc.allocation.memory, address, alloc.size_bytes, 0xff);

	auto& usage = m_state.statistics.memories.at(alloc.allocation.memory.value);
	++usage.allocations;
	usage.current_bytes += alloc.size_bytes;
	usage.peak_bytes = std::max(usage.peak_bytes, usage.current_bytes);
	m_state.statistics.count_allocation(alloc.buffer, alloc.allocation.memory);
	m_state.transfers.sender().notify_allocated(alloc.allocation);
	m_state.done.push_back(id);
}

memory_holders dispatcher::find_holders(const alloc_instruction& lacking) const {
	const memory_id memory = lacking.allocation.memory;
	memory_holders result{lacking.buffer, is_device_memory(memory) ? std::optional(device_of(memory)) : std::nullopt, lacking.size_bytes, 0, {},
	    is_device_memory(memory) ? m_state.devices->most_device_bytes() : 0};
	std::map<buffer_id, std::size_t> held;
	for(const auto& [id, entry] : m_state.allocations.entries()) {
		if(id.memory != memory) continue;
		held[entry.buffer] += entry.size_bytes;
		result.held_bytes += entry.size_bytes;
	}
	result.largest.assign(held.begin(), held.end());
	std::stable_sort(result.largest.begin(), result.largest.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
	if(result.largest.size() > most_holders) result.largest.resize(most_holders);
	return result;
}

template <>
void dispatcher::execute(const issue& item, const free_instruction& free) {
	m_state.freed_bytes += free.size_bytes;
	if(free.allocation.is_of_user()) {
		m_state.allocations.unregister_user_memory(free.allocation.user_number());
		m_state.events.add(user_free_event{free.allocation.user_number()});
	} else {
		const auto entry = m_state.allocations.remove(free.allocation);
		m_state.devices->deallocate(free.allocation.memory, entry.address, entry.size_bytes, entry.alignment_bytes);
		m_state.statistics.memories.at(free.allocation.memory.value).current_bytes -= entry.size_bytes;
	}
	m_state.done.push_back(item.id);
}

template <>
void dispatcher::execute(const issue& item, const copy_instruction& copy) {
	count_copies(m_state.statistics, copy);
	m_state.devices->enqueue_copy({item.lane, item.sequence}, waits_of(item), operation_of(m_state.allocations, copy));
}

template <>
void dispatcher::execute(const issue& item, const gather_copy_instruction& gather) {
	count_copies(m_state.statistics, gather);
	m_state.devices->enqueue_gather({item.lane, item.sequence}, waits_of(item), operation_of(m_state.allocations, gather));
}

template <>
void dispatcher::execute(const issue& item, const reduce_instruction& reduce) {
	if(is_device_memory(reduce.source.memory)) {
		auto operation = operation_of(m_state.allocations, reduce);
		if(reduce.is_all_of_it && (reduce.op == reduction_op::min || reduce.op == reduction_op::max)) {
			operation.has_values = static_cast<std::uint32_t*>(m_state.devices->allocate(host_memory, sizeof(std::uint32_t), alignof(std::uint32_t)));
			*operation.has_values = 0;
			m_watched_reduces.push_back({{item.lane, item.sequence}, reduce.reduction, operation.has_values});
		}
		m_state.devices->enqueue_reduce({item.lane, item.sequence}, waits_of(item), operation);
		return;
	}
	void* const destination = m_state.allocations.address(reduce.destination);
	void* const source = m_state.allocations.address(reduce.source);
	if(reduce.op == reduction_op::callable) {
		++m_num_host_calls;
		m_state.calls.push(
		    combine_call{item.id.value, reduce.buffer, reduce.reduction, reduce.callable, source, reduce.count, destination, reduce.is_all_of_it},
		    queue_priority_of(item.payload->priority));
		return;
	}
	reduce_partials(reduce.op, reduce.type, source, reduce.count, reduce.num_elements, destination);
	const bool has_no_values = reduce.is_all_of_it && is_extremum_of_nothing(reduce.op, reduce.type, destination, reduce.num_elements);
	if(has_no_values) m_state.events.add(empty_reduction_event{reduce.reduction});
	m_state.done.push_back(item.id);
}

void dispatcher::report_empty_reductions() {
	std::erase_if(m_watched_reduces, [&](const watched_reduce& watched) {
		if(m_state.engine.lanes().completed(watched.position.lane) < watched.position.sequence) return false;
		if(*watched.has_values == 0) m_state.events.add(empty_reduction_event{watched.reduction});
		give_back(watched);
		return true;
	});
}

void dispatcher::give_back_watched() {
	for(const auto& watched : std::exchange(m_watched_reduces, {})) give_back(watched);
}

void dispatcher::give_back(const watched_reduce& watched) {
	m_state.devices->deallocate(host_memory, watched.has_values, sizeof(std::uint32_t), alignof(std::uint32_t));
}

// ---- calls of user functions ------------------------------------------------------------------------------------------------------

std::vector<bound_access> dispatcher::bind(const std::span<const access_binding> accesses) const {
	std::vector<bound_access> bound;
	bound.reserve(accesses.size());
	for(const auto& access : accesses) {
		const auto place = m_state.allocations.place(access.allocation);
		bound.push_back({access.buffer, access.allocation, place.address, place.array != nullptr ? *place.array : box(), access.bounding_box,
		    box_vector(access.accessed), {}});
		for(const auto& part : access.parts) {
			const auto at = m_state.allocations.place(part.allocation);
			bound.back().parts.push_back({part.allocation, at.address, *at.array, part.bounding_box});
		}
	}
	return bound;
}

// Kernels of CPU devices begin in the order of issue, since each may wait for an earlier one.
queue_priority dispatcher::launch_queue(const lane_index lane) const {
	if(!m_state.devices->defers_kernels()) return 0;
	const auto& lanes = m_state.engine.lanes().class_info(m_state.engine.lanes().class_of(lane));
	return lanes.kind == lane_kind::urgent ? max_queue_priority : lanes.queue;
}

template <>
void dispatcher::execute(const issue& item, const device_kernel_instruction& kernel) {
	if(const auto* const launch = m_state.launches.find(kernel.submission)) {
		if(m_state.launcher == nullptr) throw std::logic_error("these devices launch no kernels by themselves");
		m_state.launcher->enqueue_launch({item.lane, item.sequence}, waits_of(item), operation_of(m_state.allocations, kernel, *launch));
		return;
	}
	kernel_job job{
	    {item.id.value, kernel.submission, kernel.chunk, bind(kernel.accesses), {}}, {item.lane, item.sequence}, small_vector<lane_position, 4>(item.waits)};
	for(const auto& reduction : kernel.reductions)
		job.call.reductions.push_back({m_state.allocations.address(reduction.allocation), reduction.op, reduction.type});
	job.call.stream = m_state.devices->stream_handle(item.lane);
	m_state.calls.push(kernel.device, std::move(job), launch_queue(item.lane));
}

template <>
void dispatcher::execute(const issue& item, const host_task_instruction& task) {
	++m_num_host_calls;
	m_state.calls.push(host_task_call{item.id.value, task.submission, task.chunk, bind(task.accesses)}, queue_priority_of(item.payload->priority));
}

template <>
void dispatcher::execute(const issue& item, const initialize_instruction& initialize) {
	++m_num_host_calls;
	const auto destination = m_state.allocations.place(initialize.destination);
	m_state.calls.push(initialize_call{item.id.value, initialize.buffer, destination.address, *destination.array, box_vector(initialize.boxes)},
	    queue_priority_of(item.payload->priority));
}

// ---- communication ----------------------------------------------------------------------------------------------------------------

template <>
void dispatcher::execute(const issue& item, const send_instruction& send) {
	if(m_state.transfers.direct().is_direct(send)) {
		m_state.transfers.sender().signal(item, waits_of(item));
	} else {
		m_state.transfers.send(item.id, send, m_state.done);
	}
}

template <>
void dispatcher::execute(const issue& item, const receive_instruction& receive) {
	if(m_state.transfers.receiver().is_receiving(item.id)) {
		m_state.transfers.receiver().pull(item, waits_of(item));
	} else {
		m_state.transfers.arbiter().receive(item.id, receive);
	}
}

template <>
void dispatcher::execute(const issue& item, const split_receive_instruction& receive) {
	m_state.transfers.arbiter().split_receive(item.id, receive);
}
template <>
void dispatcher::execute(const issue& item, const await_receive_instruction& receive) {
	m_state.transfers.arbiter().await_receive(item.id, receive);
}
template <>
void dispatcher::execute(const issue& item, const receive_partials_instruction& receive) {
	m_state.transfers.arbiter().receive_partials(item.id, receive);
}

// ---- synchronisation ----------------------------------------------------------------------------------------------------------------

template <>
void dispatcher::execute(const issue& item, const fence_instruction& fence) {
	m_state.events.add(completed_event{fence.submission});
	m_state.done.push_back(item.id);
}

template <>
void dispatcher::execute(const issue& /* item */, const horizon_instruction& /* horizon */) {
	throw std::logic_error("horizons complete by themselves");
}

template <>
void dispatcher::execute(const issue& item, const epoch_instruction& epoch) {
	if(epoch.action != epoch_action::barrier) throw std::logic_error("an epoch without barrier completes by itself");
	m_state.transfers.messages().barrier(item.id);
}

// Last: it needs all of the above.
void dispatcher::dispatch(const issue& item) {
	const auto& operation = item.payload->operation;
	// Not before a signal: it may join those that the backend has kept back.
	if(!std::holds_alternative<send_instruction>(operation)) m_state.flush();
	std::visit([&](const auto& kind) { execute(item, kind); }, operation);
}

// ---- ends -------------------------------------------------------------------------------------------------------------------------

void dispatcher::note_waiting(const instruction_id call) { m_num_host_calls -= m_waiting_calls.insert(call).second ? 1 : 0; }

void dispatcher::end_call(const instruction_id call) {
	m_state.done.push_back(call);
	m_num_host_calls -= m_waiting_calls.erase(call) == 0 ? 1 : 0;
}

void dispatcher::retire(const instruction& item) {
	if(const auto* const horizon = std::get_if<horizon_instruction>(&item.operation)) {
		retire(*horizon);
	} else if(const auto* const epoch = std::get_if<epoch_instruction>(&item.operation)) {
		retire(*epoch);
	} else {
		m_state.transfers.retire(item);
	}
}

void dispatcher::retire(const horizon_instruction& horizon) {
	m_state.reached.push_back({horizon.task, false});
	m_state.launches.drop(horizon.last_submission);
	m_state.events.add_retired(horizon.last_submission);
}

void dispatcher::retire(const epoch_instruction& epoch) {
	m_state.reached.push_back({epoch.task, true});
	if(epoch.submission.value != 0) m_state.events.add(completed_event{epoch.submission});
	m_state.launches.drop(epoch.submission);
	if(epoch.submission.value != 0) m_state.events.add_retired(epoch.submission);
	if(epoch.action != epoch_action::shutdown) return;
	if(m_state.direct_lanes != nullptr) m_state.direct_lanes->close_peers(); // before the other ranks hear of the end, and free their memory
	m_state.events.add(shutdown_event{});
}

} // namespace celerity
