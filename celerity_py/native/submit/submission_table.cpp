// SPDX-License-Identifier: MIT
#include "submit/submission_table.hpp"

#include <vector>

#include "submit/records.hpp"

namespace nb = nanobind;

namespace celerity::native {

namespace {

/// Null if the submission has none.
PyObject* future_of(PyObject* const submission) {
	PyObject* const future = record_type<submission_record>::of(submission).future;
	return future == Py_None ? nullptr : future;
}

} // namespace

bool submission_table::is_overtaken(const std::uint64_t begun) const {
	return m_is_shared && m_scheduler.next_submission().value != begun && !m_threads.is_last();
}

void submission_table::take_turn(const nb::handle what) {
	if(!m_is_shared) return;
	if(!m_threads.is_last()) {
		if(m_threads.is_out_of_turn() && m_refuse_turn) m_refuse_turn(what, m_threads.names()[m_threads.last_number()]);
		m_threads.enter();
	}
	m_threads.note_call();
}

void submission_table::set_site(const nb::handle submission, task& node) {
	const auto& record = record_type<submission_record>::of(submission.ptr());
	if(m_is_shared) node.site = number_line(record.code, static_cast<int>(PyLong_AsLong(record.lasti)));
}

nb::object submission_table::add_record(const std::uint64_t id, const nb::handle submission) {
	nb::object number = nb::steal(PyLong_FromUnsignedLongLong(id));
	if(!number) throw nb::python_error();
	PyObject* const future = future_of(submission.ptr());
	if(future != nullptr) nb::setattr(future, "number", number); // replaces a value
	if(PyDict_SetItem(m_entries.ptr(), number.ptr(), submission.ptr()) != 0) throw nb::python_error();
	try {
		if(future != nullptr) m_with_future.push_back(id); // without an entry it counts for nothing
	} catch(...) {
		take_back(id, false);
		throw;
	}
	return number;
}

void submission_table::take_back(const std::uint64_t id, const bool has_launch) {
	if(has_launch) m_executor->launches().take_back(submission_id(id));
	const nb::object number = nb::steal(PyLong_FromUnsignedLongLong(id));
	if(!number || PyDict_DelItem(m_entries.ptr(), number.ptr()) != 0) PyErr_Clear();
}

void submission_table::count(const std::size_t num_tasks, const std::size_t num_reductions) {
	m_num_reductions += num_reductions;
	m_num_submitted += num_tasks;
}

void submission_table::enter(const nb::handle submission, submitted_task&& submitted, const std::int64_t started_ns) {
	auto& [node, launch, fence_destination] = submitted;
	if(node.action != epoch_action::shutdown) take_turn(submission);
	set_site(submission, node);
	// From here to the submit nothing may run that is not ours, such as a destructor that the garbage collector calls.
	const submission_id id = m_scheduler.next_submission();
	const nb::object number = add_record(id.value, submission);
	const std::size_t num_reductions = node.reductions.size();
	std::uint64_t raw = 0;
	try {
		if(fence_destination != nullptr && m_executor != nullptr) {
			raw = m_executor->allocations().register_user_memory(fence_destination, node.fence_box);
			nb::setattr(future_of(submission.ptr()), "raw", nb::int_(raw)); // replaces a value
			node.fence_destination = allocation_id::of_user(node.fence_destination.memory, raw);
		}
		if(launch.has_value()) m_executor->launches().add(id, std::move(*launch));
		m_scheduler.submit(std::move(node));
	} catch(...) {
		take_back(id.value, launch.has_value());
		if(raw != 0) m_executor->allocations().unregister_user_memory(raw);
		throw;
	}
	count(1, num_reductions);
	if(m_observer) m_observer(number, submission, started_ns);
}

std::uint64_t submission_table::enter_again(const std::span<const repeated_task> tasks, std::shared_ptr<const recorded_program> program,
    const std::uint32_t repetitions, const std::size_t phase, const std::uint64_t site) {
	take_turn(tasks.front().submission);
	const std::uint64_t first = m_scheduler.next_submission().value;
	std::size_t num_reductions = 0;
	std::size_t num_added = 0;
	try {
		for(const auto& each : tasks) {
			add_record(first + num_added, each.submission);
			++num_added;
			if(each.launch->has_value()) m_executor->launches().add(submission_id(first + num_added - 1), native_launch(**each.launch));
			num_reductions += each.num_reductions;
		}
		m_scheduler.replay(std::move(program), repetitions, phase, site);
	} catch(...) {
		while(num_added-- > 0) take_back(first + num_added, tasks[num_added].launch->has_value());
		throw;
	}
	count(tasks.size(), num_reductions);
	return first;
}

void submission_table::observe(const std::uint64_t number, const nb::handle submission, const std::int64_t started_ns) const {
	if(m_observer) m_observer(number, submission, started_ns);
}

nb::list submission_table::futures_until(const std::uint64_t last) const {
	nb::list result;
	for(const std::uint64_t id : std::vector(m_with_future.begin(), m_with_future.end())) { // a copy: lists call the garbage collector
		if(id > last) break;
		const nb::int_ number(id);
		PyObject* const submission = PyDict_GetItemWithError(m_entries.ptr(), number.ptr());
		if(submission == nullptr) continue;
		PyObject* const future = future_of(submission);
		if(future != nullptr) result.append(nb::borrow(future));
	}
	return result;
}

void submission_table::forget_until(const std::uint64_t last) {
	std::vector<nb::object> forgotten; // their destructors may do anything, so they come last
	while(!m_with_future.empty() && m_with_future.front() <= last) m_with_future.pop_front();
	for(; m_oldest <= last; ++m_oldest) {
		const nb::int_ number(m_oldest);
		PyObject* const submission = PyDict_GetItemWithError(m_entries.ptr(), number.ptr());
		if(submission == nullptr) continue;
		forgotten.push_back(nb::borrow(submission));
		if(PyDict_DelItem(m_entries.ptr(), number.ptr()) != 0) PyErr_Clear();
	}
}

} // namespace celerity::native
