// SPDX-License-Identifier: MIT
// Carries out or hands out an instruction that the engine issues, by its kind.
#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <stdexcept>

#include "events/labels.hpp"
#include "executor_loop.hpp"
#include "executor_trace.hpp"
#include "instruction_facts.hpp"
#include "memory/reduce_kernels.hpp"
#include "scheduler/core/base/overloaded.hpp"

namespace celerity {

namespace {

/// Buffers that the report of a memory shortage names.
constexpr std::size_t most_holders = 3;

} // namespace

lane_waits executor_loop::waits_of(const issue& item) {
	m_answers.clear();
	for(const auto id : item.signals) {
		if(const auto answer = m_sender.answer_to(id); answer.address != nullptr) m_answers.push_back(answer);
	}
	return {item.waits, m_answers};
}

// ---- memory ---------------------------------------------------------------------------------------------------------------------

template <>
void executor_loop::execute(const issue& item, const alloc_instruction& alloc) {
	// In their order, so that no allocation waits for ever.
	if(alloc.allocation.memory == host_memory && (!m_waiting_allocations.empty() || !m_backend->is_ready_to_allocate(host_memory, alloc.size_bytes))) {
		m_waiting_allocations.push_back(item.payload);
		return;
	}
	allocate(item.id, alloc);
}

bool executor_loop::allocate_waiting() {
	bool has_allocated = false;
	while(!m_waiting_allocations.empty()) {
		const auto& waiting = *m_waiting_allocations.front();
		const auto& alloc = std::get<alloc_instruction>(waiting.operation);
		if(!m_backend->is_ready_to_allocate(host_memory, alloc.size_bytes)) break;
		m_waiting_allocations.pop_front();
		m_current = &waiting;
		allocate(waiting.id, alloc);
		has_allocated = true;
	}
	if(has_allocated) complete_done();
	return has_allocated;
}

void executor_loop::allocate(const instruction_id id, const alloc_instruction& alloc) {
	void* address = nullptr;
	try {
		address = m_backend->allocate(alloc.allocation.memory, alloc.size_bytes, alloc.alignment_bytes);
	} catch(const std::bad_alloc&) { throw memory_shortage(find_holders(alloc)); }
	m_allocations.add(alloc.allocation, {address, alloc.size_bytes, alloc.alignment_bytes, alloc.buffer, alloc.allocated_box});
	if(m_options.check) m_backend->fill(alloc.allocation.memory, address, alloc.size_bytes, 0xff);

	auto& usage = m_statistics.memories.at(alloc.allocation.memory.value);
	++usage.allocations;
	usage.current_bytes += alloc.size_bytes;
	usage.peak_bytes = std::max(usage.peak_bytes, usage.current_bytes);
	m_statistics.count_allocation(alloc.buffer, alloc.allocation.memory);
	m_sender.notify_allocated(alloc.allocation);
	m_done.push_back(id);
}

memory_holders executor_loop::find_holders(const alloc_instruction& lacking) const {
	const memory_id memory = lacking.allocation.memory;
	memory_holders result{lacking.buffer, is_device_memory(memory) ? std::optional(device_of(memory)) : std::nullopt, lacking.size_bytes, 0, {},
	    is_device_memory(memory) ? m_backend->most_device_bytes() : 0};
	std::map<buffer_id, std::size_t> held;
	for(const auto& [id, entry] : m_allocations.entries()) {
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
void executor_loop::execute(const issue& item, const free_instruction& free) {
	if(free.allocation.is_of_user()) {
		m_allocations.unregister_user_memory(free.allocation.user_number());
		m_announcements.add(user_free_event{free.allocation.user_number()});
	} else {
		const auto entry = m_allocations.remove(free.allocation);
		m_backend->deallocate(free.allocation.memory, entry.address, entry.size_bytes, entry.alignment_bytes);
		m_statistics.memories.at(free.allocation.memory.value).current_bytes -= entry.size_bytes;
	}
	m_done.push_back(item.id);
}

array_place executor_loop::place_at(const allocation_id allocation, const std::size_t offset_bytes) const {
	auto place = m_allocations.place(allocation);
	place.address += offset_bytes;
	return place;
}

copy_operation executor_loop::operation_of(const copy_instruction& copy) const {
	return {place_at(copy.source, copy.source_offset_bytes), place_at(copy.destination, copy.destination_offset_bytes), copy.boxes, copy.element_size_bytes,
	    size_bytes_of(copy)};
}

std::vector<copy_operation> executor_loop::operation_of(const gather_copy_instruction& gather) const {
	const auto destination = m_allocations.place(gather.destination);
	std::vector<copy_operation> copies;
	for(const auto& source : gather.sources) {
		copies.push_back({m_allocations.place(source.allocation), destination, source.boxes, gather.element_size_bytes, 0});
		for(const box& b : source.boxes) copies.back().size_bytes += static_cast<std::size_t>(b.area()) * gather.element_size_bytes;
	}
	return copies;
}

fold_operation executor_loop::operation_of(const reduce_instruction& reduce) const {
	return {reduce.op, reduce.type, m_allocations.place(reduce.source).address, reduce.count, reduce.num_elements,
	    m_allocations.place(reduce.destination).address, nullptr};
}

launch_operation executor_loop::operation_of(const device_kernel_instruction& kernel, const native_launch& launch) const {
	launch_operation operation;
	operation.launch = &launch;
	operation.instruction = &kernel;
	for(const auto& access : kernel.accesses) {
		if(access.parts.empty()) operation.access_places.push_back(m_allocations.place(access.allocation));
		for(const auto& part : access.parts) operation.access_places.push_back(m_allocations.place(part.allocation));
	}
	for(const auto& reduction : kernel.reductions) operation.reduction_places.push_back(m_allocations.place(reduction.allocation));
	return operation;
}

template <>
void executor_loop::execute(const issue& item, const copy_instruction& copy) {
	count_copies(m_statistics, copy);
	m_backend->enqueue_copy({item.lane, item.sequence}, waits_of(item), operation_of(copy));
}

template <>
void executor_loop::execute(const issue& item, const gather_copy_instruction& gather) {
	count_copies(m_statistics, gather);
	m_backend->enqueue_gather({item.lane, item.sequence}, waits_of(item), operation_of(gather));
}

template <>
void executor_loop::execute(const issue& item, const reduce_instruction& reduce) {
	if(is_device_memory(reduce.source.memory)) {
		auto operation = operation_of(reduce);
		if(reduce.is_all_of_it && (reduce.op == reduction_op::min || reduce.op == reduction_op::max)) {
			operation.has_values = static_cast<std::uint32_t*>(m_backend->allocate(host_memory, sizeof(std::uint32_t), alignof(std::uint32_t)));
			*operation.has_values = 0;
			m_watched_folds.push_back({{item.lane, item.sequence}, reduce.reduction, operation.has_values});
		}
		m_backend->enqueue_fold({item.lane, item.sequence}, waits_of(item), operation);
		return;
	}
	void* const destination = m_allocations.address(reduce.destination);
	void* const source = m_allocations.address(reduce.source);
	if(reduce.op == reduction_op::callable) {
		++m_num_host_calls;
		m_calls.push(combine_call{item.id.value, reduce.buffer, reduce.reduction, reduce.callable, source, reduce.count, destination, reduce.is_all_of_it},
		    queue_priority_of(item.payload->priority));
		return;
	}
	fold(reduce.op, reduce.type, source, reduce.count, reduce.num_elements, destination);
	const bool has_no_values = reduce.is_all_of_it && is_extremum_of_nothing(reduce.op, reduce.type, destination, reduce.num_elements);
	if(has_no_values) m_announcements.add(empty_reduction_event{reduce.reduction});
	m_done.push_back(item.id);
}

void executor_loop::report_empty_folds() {
	std::erase_if(m_watched_folds, [&](const watched_fold& watched) {
		if(m_engine.lanes().completed(watched.position.lane) < watched.position.sequence) return false;
		if(*watched.has_values == 0) m_announcements.add(empty_reduction_event{watched.reduction});
		give_back(watched);
		return true;
	});
}

void executor_loop::give_back(const watched_fold& watched) {
	m_backend->deallocate(host_memory, watched.has_values, sizeof(std::uint32_t), alignof(std::uint32_t));
}

// ---- calls of user functions ------------------------------------------------------------------------------------------------------

std::vector<bound_access> executor_loop::bind(const std::span<const access_binding> accesses) const {
	std::vector<bound_access> bound;
	bound.reserve(accesses.size());
	for(const auto& access : accesses) {
		const auto place = m_allocations.place(access.allocation);
		bound.push_back({access.buffer, access.allocation, place.address, place.array != nullptr ? *place.array : box(), access.bounding_box,
		    box_vector(access.accessed), {}});
		for(const auto& part : access.parts) {
			const auto at = m_allocations.place(part.allocation);
			bound.back().parts.push_back({part.allocation, at.address, *at.array, part.bounding_box});
		}
	}
	return bound;
}

// Kernels of CPU devices begin in the order of issue, since each may wait for an earlier one.
queue_priority executor_loop::launch_queue(const lane_index lane) const {
	if(!m_backend->defers_kernels()) return 0;
	const auto& lanes = m_engine.lanes().class_info(m_engine.lanes().class_of(lane));
	return lanes.kind == lane_kind::urgent ? max_queue_priority : lanes.queue;
}

template <>
void executor_loop::execute(const issue& item, const device_kernel_instruction& kernel) {
	if(const auto* const launch = m_launches.find(kernel.submission)) {
		m_backend->enqueue_launch({item.lane, item.sequence}, waits_of(item), operation_of(kernel, *launch));
		return;
	}
	kernel_job job{
	    {item.id.value, kernel.submission, kernel.chunk, bind(kernel.accesses), {}}, {item.lane, item.sequence}, small_vector<lane_position, 4>(item.waits)};
	for(const auto& reduction : kernel.reductions) job.call.reductions.push_back({m_allocations.address(reduction.allocation), reduction.op, reduction.type});
	job.call.stream = m_backend->stream_handle(item.lane);
	m_calls.push(kernel.device, std::move(job), launch_queue(item.lane));
}

template <>
void executor_loop::execute(const issue& item, const host_task_instruction& task) {
	++m_num_host_calls;
	m_calls.push(host_task_call{item.id.value, task.submission, task.chunk, bind(task.accesses)}, queue_priority_of(item.payload->priority));
}

template <>
void executor_loop::execute(const issue& item, const initialize_instruction& initialize) {
	++m_num_host_calls;
	const auto destination = m_allocations.place(initialize.destination);
	m_calls.push(initialize_call{item.id.value, initialize.buffer, destination.address, *destination.array, box_vector(initialize.boxes)},
	    queue_priority_of(item.payload->priority));
}

// ---- communication ----------------------------------------------------------------------------------------------------------------

template <>
void executor_loop::execute(const issue& item, const send_instruction& send) {
	if(m_direct.is_direct(send)) {
		m_sender.signal(item, waits_of(item));
	} else {
		m_communication.send(item.id, send);
	}
}

template <>
void executor_loop::execute(const issue& item, const receive_instruction& receive) {
	if(m_receiver.is_receiving(item.id)) {
		m_receiver.pull(item, waits_of(item));
	} else {
		m_communication.arbiter().receive(item.id, receive);
	}
}

template <>
void executor_loop::execute(const issue& item, const split_receive_instruction& receive) {
	m_communication.arbiter().split_receive(item.id, receive);
}
template <>
void executor_loop::execute(const issue& item, const await_receive_instruction& receive) {
	m_communication.arbiter().await_receive(item.id, receive);
}
template <>
void executor_loop::execute(const issue& item, const receive_partials_instruction& receive) {
	m_communication.arbiter().receive_partials(item.id, receive);
}

// ---- synchronisation ----------------------------------------------------------------------------------------------------------------

template <>
void executor_loop::execute(const issue& item, const fence_instruction& fence) {
	m_announcements.add(completed_event{fence.submission});
	m_done.push_back(item.id);
}

template <>
void executor_loop::execute(const issue& /* item */, const horizon_instruction& /* horizon */) {
	throw std::logic_error("horizons complete by themselves");
}

template <>
void executor_loop::execute(const issue& item, const epoch_instruction& epoch) {
	if(epoch.action != epoch_action::barrier) throw std::logic_error("an epoch without barrier completes by itself");
	m_communication.barrier(item.id);
}

// Last: it needs all of the above.
void executor_loop::dispatch(const issue& item) {
	if(item.num_ids > 1) {
		m_backend->flush();
		return issue_run(item);
	}
	const auto& operation = item.payload->operation;
	// Not before a signal: it may join those that the backend has kept back.
	if(!std::holds_alternative<send_instruction>(operation)) m_backend->flush();
	std::visit([&](const auto& kind) { execute(item, kind); }, operation);
}

void executor_loop::dispatch_observed(const issue& item) {
	const std::int64_t start_ns = m_trace != nullptr ? now_ns() : 0;
	const profiler_range range(m_options.ranges.get(), [&](const profiler_ranges& ranges) {
		if(item.num_ids == 1) return name_for_profiler(*item.payload, ranges);
		const auto& instructions = m_graphs.find(item.id).instructions;
		const auto first = label(instructions.front()->key.task);
		return first + " to " + label(instructions.back()->key.task) + ": " + std::to_string(instructions.size()) + " instructions as graphs";
	});
	dispatch(item);
	if(m_trace != nullptr) trace_issue(*m_trace, item, m_allocations, start_ns);
}

} // namespace celerity
