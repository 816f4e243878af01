// SPDX-License-Identifier: MIT
#include "submit/submitting_threads.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace nb = nanobind;

namespace celerity::native {

namespace {

std::uint64_t newest_thread() { return PyThreadState_GetID(PyInterpreterState_ThreadHead(PyInterpreterState_Get())); }

} // namespace

submitting_threads::submitting_threads() : m_main_thread(nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"))) {}

bool submitting_threads::is_out_of_turn() const {
	if(m_last == nullptr) return false;
	const std::uint64_t own = PyThreadState_GetID(PyThreadState_Get());
	const bool has_ended = m_last->newest_at_end != 0;
	if(own == m_threads.front()->state || PyThread_get_thread_ident() == m_main_thread) return !has_ended;
	if(find(own) != nullptr) return true;
	if(has_ended) return own <= m_last->newest_at_end;
	return m_last != m_threads.front() || own <= m_newest;
}

std::shared_ptr<submitting_threads::thread> submitting_threads::find(const std::uint64_t state) const {
	const auto found = std::find_if(m_threads.begin(), m_threads.end(), [=](const auto& each) { return each->state == state; });
	return found == m_threads.end() ? nullptr : *found;
}

void submitting_threads::enter() {
	const std::uint64_t own = PyThreadState_GetID(PyThreadState_Get());
	auto known = find(own);
	if(known == nullptr) {
		known = std::make_shared<thread>(thread{own, static_cast<std::uint32_t>(m_threads.size())});
		// The dictionary of a thread dies with it.
		const nb::capsule end(new std::shared_ptr<thread>(known), [](void* const ended) noexcept {
			const std::unique_ptr<std::shared_ptr<thread>> record(static_cast<std::shared_ptr<thread>*>(ended));
			(*record)->newest_at_end = newest_thread();
		});
		const std::string key = "celerity_py " + std::to_string(reinterpret_cast<std::uintptr_t>(this));
		if(PyDict_SetItemString(PyThreadState_GetDict(), key.c_str(), end.ptr()) != 0) throw nb::python_error();
		m_names.append(nb::module_::import_("threading").attr("current_thread")().attr("name"));
		m_threads.push_back(known);
	}
	m_last = std::move(known);
}

} // namespace celerity::native
