// SPDX-License-Identifier: MIT
#include "submission_table.hpp"

#include <vector>

#include "records.hpp"

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
	return m_is_shared && m_scheduler.next_submission().value != begun && m_thread != PyThread_get_thread_ident();
}

void submission_table::set_site(const nb::handle submission, task& node) {
	const auto& record = record_type<submission_record>::of(submission.ptr());
	if(m_is_shared) node.site = number_line(record.code, static_cast<int>(PyLong_AsLong(record.lasti)));
}

void submission_table::enter(const nb::handle submission, submitted_task&& submitted, const std::int64_t started_ns) {
	auto& [node, launch, fence_destination, is_copy] = submitted;
	if(!is_copy) set_site(submission, node);
	// From here to the submit nothing may run that is not ours, such as a destructor that the garbage collector calls.
	const submission_id id = m_scheduler.next_submission();
	const nb::object number = nb::steal(PyLong_FromUnsignedLongLong(id.value));
	if(!number) throw nb::python_error();
	PyObject* const future = future_of(submission.ptr());
	if(future != nullptr) nb::setattr(future, "number", number); // replaces a value
	if(PyDict_SetItem(m_entries.ptr(), number.ptr(), submission.ptr()) != 0) throw nb::python_error();
	const std::size_t num_reductions = node.reductions.size();
	std::uint64_t raw = 0;
	try {
		if(future != nullptr) m_with_future.push_back(id.value); // without an entry it counts for nothing
		if(fence_destination != nullptr && m_executor != nullptr) {
			raw = m_executor->register_user_memory(fence_destination, node.fence_box);
			nb::setattr(future, "raw", nb::int_(raw)); // replaces a value
			node.fence_destination = allocation_id{user_memory, raw};
		}
		if(launch.has_value()) m_executor->register_launch(id, std::move(*launch));
		if(is_copy) {
			m_scheduler.enqueue(std::move(node));
		} else {
			m_scheduler.submit(std::move(node));
		}
	} catch(...) {
		if(launch.has_value()) m_executor->take_back_launch(id);
		if(raw != 0) m_executor->unregister_user_memory(raw);
		if(PyDict_DelItem(m_entries.ptr(), number.ptr()) != 0) PyErr_Clear();
		throw;
	}
	m_num_reductions += num_reductions;
	++m_num_submitted;
	m_thread = PyThread_get_thread_ident();
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
