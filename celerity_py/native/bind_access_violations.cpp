// SPDX-License-Identifier: MIT
#include <nanobind/nanobind.h>

#include <cstdint>
#include <exception>

#include "scheduler/core/graphs/access_checks.hpp"
#include "user_geometry.hpp"

namespace nb = nanobind;
using namespace celerity;

void bind_access_violations(nb::module_& m);

void bind_access_violations(nb::module_& m) {
	using kind = access_violation::kind_type;
	nb::enum_<kind>(m, "ViolationKind", "The kinds of an AccessViolation.")
	    .value("UNKNOWN_BUFFER", kind::unknown_buffer, "There is no such buffer (any more).")
	    .value("MISFIT", kind::misfit, "The mapper does not fit index space and buffer.")
	    .value("BEYOND_WHOLE", kind::beyond_whole, "The parts of a chunk are mapped to something that the chunk is not mapped to.")
	    .value("UNWRITTEN", kind::unwritten, "A chunk is mapped to something, to be written, that none of its parts is mapped to.")
	    .value("OVERLAP", kind::overlap, "A chunk writes what another chunk accesses, which runs at the same time.")
	    .value("REDUCED", kind::reduced, "The target of a reduction is used by an access or by another reduction, too.");

	using violation = access_violation;
	static const auto index = [](const std::size_t i) { return i == violation::no_access ? std::int64_t{-1} : static_cast<std::int64_t>(i); };
	nb::class_<violation>(m, "AccessViolation", "A contradiction between the declared accesses of a task. Fields are 0 or empty where they do not apply.")
	    .def_ro("kind", &violation::kind)
	    .def_prop_ro("buffer", [](const violation& self) { return self.buffer.value; })
	    .def_prop_ro(
	        "access", [](const violation& self) { return index(self.access); }, "Position among the accesses of the task; -1: none.")
	    .def_prop_ro(
	        "other_access", [](const violation& self) { return index(self.other_access); }, "OVERLAP: the one that it conflicts with.")
	    .def_prop_ro("misfit", [](const violation& self) { return self.misfit.kind; })
	    .def_prop_ro(
	        "number", [](const violation& self) { return self.misfit.number; }, "MISFIT: a dimension, or their number, that the mapper asks for.")
	    .def_prop_ro(
	        "chunk", [](const violation& self) { return user_box{self.chunk, self.kernel_dims}; }, "OVERLAP: that writes. Else the one with parts.")
	    .def_prop_ro(
	        "other_chunk", [](const violation& self) { return user_box{self.other_chunk, self.kernel_dims}; }, "OVERLAP: that accesses the same.")
	    .def_prop_ro(
	        "where", [](const violation& self) { return user_region{self.where, self.buffer_dims}; }, "The part of the buffer that is wrong.")
	    .def_prop_ro(
	        "of_chunk", [](const violation& self) { return user_region{self.of_chunk, self.buffer_dims}; }, "The image of the chunk.")
	    .def_prop_ro(
	        "of_parts", [](const violation& self) { return user_region{self.of_parts, self.buffer_dims}; }, "The image of its parts together.")
	    .def_ro("num_parts", &violation::num_parts);

	static PyObject* const error_type = PyErr_NewExceptionWithDoc("celerity_py._native.AccessPatternError",
	    "A task's declared accesses contradict each other. args = (AccessViolation,).", PyExc_ValueError, nullptr);
	m.attr("AccessPatternError") = nb::borrow(error_type);
	nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
		try {
			std::rethrow_exception(thrown);
		} catch(const access_pattern_error& error) { PyErr_SetObject(error_type, nb::cast(error.violation).ptr()); }
	});
}
