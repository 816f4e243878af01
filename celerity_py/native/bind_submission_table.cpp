// SPDX-License-Identifier: MIT
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "executor/core/backends/cuda/cuda_function.hpp"
#include "submission_table.hpp"
#include "task_building.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace celerity;
using namespace celerity::native;

void bind_submission_table(nb::module_& m);

namespace {

std::uint64_t submit_kernel(submission_table& self, const nb::handle submission, const std::uint64_t begun, const std::int64_t started_ns, std::string name,
    const user_box& space, const nb::handle accesses, const nb::handle reductions, const nb::handle granularity, const bool split_2d,
    const std::uint32_t oversubscribe, const std::uint32_t border, std::shared_ptr<cuda_function> function, const std::optional<nb::bytes>& scalars,
    const origin& from) {
	task node = make_kernel(std::move(name), space, accesses, reductions, granularity, split_2d, oversubscribe, border);
	set_origin(node, from);
	if(self.is_overtaken(begun)) return 0;
	std::optional<native_launch> launch;
	if(function != nullptr) {
		const auto* const bytes = scalars.has_value() ? reinterpret_cast<const std::byte*>(scalars->data()) : nullptr;
		launch = native_launch{std::move(function), {bytes, bytes + (scalars.has_value() ? scalars->size() : 0)}, space.b};
	}
	return self.enter(submission, std::move(node), std::move(launch), started_ns);
}

std::uint64_t submit_host_task(submission_table& self, const nb::handle submission, const std::uint64_t begun, const std::int64_t started_ns,
    std::string name, const nb::handle space, const nb::handle accesses, const std::string& on, const bool unordered,
    const origin& from) {
	task node = make_host_task(std::move(name), space, accesses, on, unordered);
	set_origin(node, from);
	return self.is_overtaken(begun) ? 0 : self.enter(submission, std::move(node), std::nullopt, started_ns);
}

std::uint64_t submit_fence(submission_table& self, const nb::handle submission, const std::uint64_t begun, const std::int64_t started_ns,
    const std::uint64_t buffer, const user_box& where, const std::uintptr_t address, const std::size_t size_bytes, const bool on_all) {
	task node = make_fence(buffer, where, 0, on_all);
	if(self.is_overtaken(begun)) return 0;
	return self.enter_fence(submission, std::move(node), reinterpret_cast<void*>(address), size_bytes, started_ns);
}

std::uint64_t submit_epoch(
    submission_table& self, const nb::handle submission, const std::uint64_t begun, const std::int64_t started_ns, const std::string& action) {
	task node = make_epoch(action);
	return self.is_overtaken(begun) ? 0 : self.enter(submission, std::move(node), std::nullopt, started_ns);
}

/// A member of `threads` for as long as it lives.
class membership {
  public:
	membership(const nb::handle threads, nb::object thread) : m_threads(threads), m_thread(std::move(thread)) {
		m_was_there = PySet_Contains(m_threads.ptr(), m_thread.ptr()) == 1;
		if(!m_was_there && PySet_Add(m_threads.ptr(), m_thread.ptr()) != 0) throw nb::python_error();
	}
	membership(const membership&) = delete;
	membership& operator=(const membership&) = delete;
	~membership() {
		if(m_was_there) return;
		PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
		PyErr_Fetch(&type, &value, &trace); // the call may have left an exception
		if(PySet_Discard(m_threads.ptr(), m_thread.ptr()) < 0) PyErr_Clear();
		PyErr_Restore(type, value, trace);
	}

  private:
	nb::handle m_threads;
	nb::object m_thread;
	bool m_was_there = false;
};

nb::object call_inside(const nb::handle threads, const nb::handle function, const nb::args& args) {
	const membership inside(threads, nb::int_(PyThread_get_thread_ident()));
	return nb::borrow(function)(*args);
}

} // namespace

void bind_submission_table(nb::module_& m) {
	m.def("call_inside", &call_inside, "threads"_a, "function"_a, "args"_a, nb::sig("def call_inside(threads: set[int], function: typing.Any, *args: typing.Any) -> typing.Any"),
	    "function(*args), while the id of this thread is in the set `threads`; no exception leaves it there.");
	nb::class_<submission_table>(m, "SubmissionTable",
	    R"(Records submissions and hands them to the scheduler, in one step that no interrupt can split. With the GIL, on any thread.

submit_...: submission is the record to be entered, begun the scheduler's next submission at the beginning of the call, started_ns its perf_counter_ns().
They return the number of the submission, or 0, with nothing done, if several ranks need the same order, but another thread has submitted meanwhile.)")
	    .def(nb::init<scheduler&, executor_loop*, nb::dict, nb::handle, bool>(), "scheduler"_a, "executor"_a.none(), "entries"_a, "submission_class"_a,
	        "is_shared"_a, nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(),
	        "entries: number -> Submission, which is added to. is_shared: several ranks have to submit in the same order.")
	    .def("submit_kernel", &submit_kernel, "submission"_a, "begun"_a, "started_ns"_a, "name"_a, "box"_a, "accesses"_a, "reductions"_a,
	        "granularity"_a.none(), "split_2d"_a, "oversubscribe"_a, "border"_a, "function"_a = nb::none(), "scalars"_a = nb::none(), "origin"_a = origin{},
	        "Raises AccessPatternError with nothing done. function: a CudaFunction that the executor launches with the bytes `scalars`.")
	    .def("submit_host_task", &submit_host_task, "submission"_a, "begun"_a, "started_ns"_a, "name"_a, "box"_a.none(), "accesses"_a, "on"_a,
	        "unordered"_a = false, "origin"_a = origin{}, "Raises AccessPatternError with nothing done.")
	    .def("submit_fence", &submit_fence, "submission"_a, "begun"_a, "started_ns"_a, "buffer"_a, "box"_a, "address"_a, "size_bytes"_a, "on_all"_a,
	        "The copy goes to `address`, which becomes user memory with the id that the future gets as `raw`; nowhere if it is 0.")
	    .def("submit_epoch", &submit_epoch, "submission"_a, "begun"_a, "started_ns"_a, "action"_a, "action: 'none', 'barrier' or 'shutdown'.")
	    .def("futures_until", &submission_table::futures_until, "last"_a, "Futures of the submissions up to `last` that have not been forgotten.")
	    .def("forget_until", &submission_table::forget_until, "last"_a, "Drop the records of all submissions up to `last`.")
	    .def("set_observer", &submission_table::set_observer, "observer"_a,
	        "Call observer(number, submission, perf_counter_ns() at the beginning) behind each submit.")
	    .def(
	        "number_site", [](submission_table& self, const nb::handle code, const int lasti) { return self.sites().number(code.ptr(), lasti); }, "code"_a,
	        "lasti"_a, "The number of a line of the program; 0 if there are too many.")
	    .def("find_site", [](submission_table& self, const std::uint64_t number) { return self.sites().find(number); }, "number"_a,
	        nb::sig("def find_site(self, number: int) -> tuple[typing.Any, int] | None"), "(code, byte offset of the instruction) of such a line.")
	    .def_prop_ro("num_submitted", &submission_table::num_submitted);

}
