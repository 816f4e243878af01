// SPDX-License-Identifier: MIT
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "executor/core/processes/last_words.hpp"
#include "executor/core/processes/neighbour_watch.hpp"
#include "submit/records.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {

namespace {

using submission_type = record_type<submission_record>;

/// In signal handlers, as faulthandler does it.
int find_line(const void* const code, const int position) {
	return PyCode_Addr2Line(static_cast<PyCodeObject*>(const_cast<void*>(code)), position); // NOLINT: Python's API knows no const
}

const char* text_of(PyObject* const text) {
	const char* const result = PyUnicode_AsUTF8(text);
	if(result != nullptr) return result;
	PyErr_Clear();
	return "?";
}

PyObject* note_call(PyObject* const, PyObject* const submission) {
	if(submission == Py_None) {
		note_running_task(nullptr);
		Py_RETURN_NONE;
	}
	const submission_record& record = submission_type::of(submission);
	auto* const code = reinterpret_cast<PyCodeObject*>(record.code);
	const running_task task{text_of(record.kind), text_of(record.name), text_of(code->co_filename), code, static_cast<int>(PyLong_AsLong(record.lasti))};
	note_running_task(&task);
	Py_RETURN_NONE;
}

} // namespace

void bind_last_words(nb::module_& m) {
	m.def(
	    "install_last_words", [](const std::uint32_t rank, std::vector<pid_t> launchers) { install_last_words({rank, std::move(launchers), &find_line}); },
	    "rank"_a, "launchers"_a,
	    "From now on this process writes a line with its rank and its tasks when a signal ends it, unless one of these processes has sent SIGTERM.");
	m.def("remove_mpi_files", &remove_mpi_files, "Remove the files in /dev/shm of MPICH that this process has mapped: the run ends irregularly.");
	m.def(
	    "call_noter",
	    [] {
		    static PyMethodDef definition{"note_call", &note_call, METH_O, nullptr}; // each call of a task passes here, and nanobind's way in costs more
		    return nb::steal(PyCFunction_New(&definition, nullptr));
	    },
	    nb::sig("def call_noter() -> collections.abc.Callable[[typing.Any], None]"),
	    "A function note_call(submission): this thread calls the function of this submission until note_call(None). The last words of this process name it.");
	nb::class_<neighbour_watch>(m, "NeighbourWatch", "Until stop() a line tells at once if the process of another rank of this host ends.")
	    .def(nb::init<std::uint32_t, pid_t>(), "rank"_a, "watcher"_a, "From now on the process `watcher` can notice the end of this one.")
	    .def_prop_ro(
	        "path", [](const neighbour_watch& self) { return self.path(); }, "For `watch` of another rank.")
	    .def("watch", &neighbour_watch::watch, "neighbour"_a, "process"_a, "path"_a, "From now on, once. path: that of the other rank.")
	    .def("stop", &neighbour_watch::stop, nb::call_guard<nb::gil_scoped_release>(), "Idempotent.");
}

} // namespace celerity::native
