// SPDX-License-Identifier: MIT
#include "last_contents.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <variant>

namespace celerity {

void contents_search::pass(const instruction& item, const progress how) {
	const task_id task = item.key.task;
	if(const auto* const kernel = std::get_if<device_kernel_instruction>(&item.operation)) {
		pass_accesses(task, kernel->submission, kernel->accesses, how);
		for(const auto& reduction : kernel->reductions) {
			if(reduction.buffer != m_buffer) continue;
			m_submissions[task.value] = kernel->submission;
			// If there are several partial results, a later instruction writes the result.
			write(task, std::span(&m_planned.domain, 1), reduction.allocation, m_failed.contains(kernel->submission) ? progress::begun : how);
		}
	} else if(const auto* const host_task = std::get_if<host_task_instruction>(&item.operation)) {
		pass_accesses(task, host_task->submission, host_task->accesses, how);
	} else if(const auto* const copy = std::get_if<copy_instruction>(&item.operation)) {
		if(copy->buffer == m_buffer) pass_copy(task, *copy, how);
	} else if(const auto* const gather = std::get_if<gather_copy_instruction>(&item.operation)) {
		if(gather->buffer != m_buffer) return;
		for(const auto& source : gather->sources) read(source.boxes, source.allocation);
	} else if(const auto* const initialize = std::get_if<initialize_instruction>(&item.operation)) {
		if(initialize->buffer == m_buffer) read(initialize->boxes, how == progress::complete ? initialize->destination : allocation_id{});
	} else if(const auto* const reduce = std::get_if<reduce_instruction>(&item.operation)) {
		if(reduce->buffer == m_buffer && !is_packed(reduce->destination)) write(task, std::span(&m_planned.domain, 1), reduce->destination, how);
	}
}

void contents_search::pass_accesses(const task_id task, const submission_id submission, const std::span<const access_binding> accesses, progress how) {
	if(m_failed.contains(submission)) how = progress::begun;
	for(const auto& access : accesses) {
		if(access.buffer != m_buffer) continue;
		if(is_consumer(access.mode) && !access.allocation.is_null()) read(access.accessed, access.allocation);
		if(!is_producer(access.mode)) continue;
		m_submissions[task.value] = submission;
		write(task, access.accessed, access.allocation, how);
	}
}

void contents_search::pass_copy(const task_id task, const copy_instruction& copy, const progress how) {
	if(copy.reason == copy_reason::reduction && !is_packed(copy.destination)) return write(task, copy.boxes, copy.destination, how);
	if(how == progress::complete && copy.reason == copy_reason::resize) { // the source will be freed
		for(const box& part : copy.boxes) {
			m_places.modify(part, [&](place& known) {
				if(known.known == knowledge::none) known.known = knowledge::lies_in;
				else if(known.known != knowledge::lies_in || known.allocation != copy.source) return;
				known.allocation = copy.destination;
			});
		}
	} else if(!is_packed(copy.source)) {
		read(copy.boxes, copy.source);
	} else if(how == progress::complete && !is_packed(copy.destination)) {
		read(copy.boxes, copy.destination);
	}
}

// Whoever reads elements first says where they were before.
void contents_search::read(const std::span<const box> boxes, const allocation_id allocation) {
	for(const box& part : boxes) {
		m_places.modify(part, [&](place& known) {
			if(known.known == knowledge::none) known = {knowledge::lies_in, allocation, {}};
		});
	}
}

void contents_search::write(const task_id task, const std::span<const box> boxes, const allocation_id allocation, const progress how) {
	const bool is_torn = how == progress::begun || (how == progress::unissued && m_writers.contains(task.value));
	if(how == progress::complete) m_writers.insert(task.value);
	for(const box& part : boxes) {
		m_places.modify(part, [&](place& known) {
			if(is_torn) {
				known = {knowledge::spoiled, {}, task};
			} else if(how == progress::complete) {
				known = {knowledge::lies_in, allocation, task};
			} else if(known.known == knowledge::none) {
				known = {knowledge::covered, {}, task};
			}
		});
	}
}

/// Data passes through such an allocation, which is none of the buffer.
bool contents_search::is_packed(const allocation_id allocation) const {
	if(allocation.is_of_user()) return false;
	const auto found = m_allocations.entries().find(allocation);
	return found != m_allocations.entries().end() && found->second.allocated_box.empty();
}

submission_id contents_search::submission_of(const task_id task) const {
	const auto found = m_submissions.find(task.value);
	return found == m_submissions.end() ? submission_id{} : found->second;
}

bool contents_search::exists(const allocation_id allocation) const {
	return allocation.is_of_user() ? m_allocations.has_user_memory(allocation.user_number()) : m_allocations.contains(allocation);
}

void contents_search::add_part(last_contents& found, const box& where, const allocation_id allocation) const {
	if(allocation.is_null()) return found.parts.push_back({where, 0, {}, 0});
	if(!exists(allocation)) { // a later writer has been planned, which reads none of this
		found.is_hidden = true;
		return;
	}
	const auto [address, array] = m_allocations.place(allocation);
	if(array == nullptr || !array->covers(where)) throw std::logic_error("a part of the buffer is outside of its allocation");
	found.parts.push_back({where, reinterpret_cast<std::uint64_t>(address), *array, allocation.memory.value});
}

last_contents contents_search::take() const {
	last_contents found;
	box_vector untouched;
	m_places.for_each([&](const box& part, const place& known) {
		if(known.known == knowledge::none) untouched.push_back(part);
		if(known.known == knowledge::lies_in) add_part(found, part, known.allocation);
		found.is_spoiled |= known.known == knowledge::spoiled;
		found.is_hidden |= known.known == knowledge::covered;
		if(known.known == knowledge::lies_in) found.writer = std::max(found.writer, submission_of(known.task));
	});
	m_places.for_each([&](const box&, const place& known) {
		if(known.known == (found.is_spoiled ? knowledge::spoiled : knowledge::covered)) found.culprit = submission_of(known.task);
	});
	for(const auto& [where, allocation] : m_planned.places) {
		for(const box& part : untouched) {
			if(const box common = intersection(part, where); !common.empty()) add_part(found, common, allocation);
		}
	}
	return found;
}

} // namespace celerity
