// SPDX-License-Identifier: MIT
// Boxes and regions, from and to Python.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <optional>
#include <string>

#include "scheduler/core/geometry/user_boxes.hpp"

namespace celerity {

/// `item` makes a new reference for each index; null with an exception of Python.
template <typename F>
nanobind::tuple tuple_of(const std::size_t count, F&& item) {
	nanobind::object tuple = nanobind::steal(PyTuple_New(static_cast<Py_ssize_t>(count)));
	if(!tuple.is_valid()) throw nanobind::python_error();
	for(std::size_t i = 0; i < count; ++i) {
		PyObject* const made = item(i);
		if(made == nullptr) throw nanobind::python_error();
		PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), made);
	}
	return nanobind::borrow<nanobind::tuple>(tuple);
}

/// The first `count` coordinates as a tuple.
nanobind::tuple to_tuple(const point& p, int count);
/// From up to three integers; `unused` stands for the dimensions not given. `what` begins the sentence of the ArgumentTypeError or DimensionMismatch.
point to_point(nanobind::handle sequence, coordinate unused, int& count, const char* what);
/// The box of a whole buffer or index space of this shape.
user_box box_of_shape(nanobind::handle shape);

/// Of a `Box` or a `Region`; nothing if it is neither.
std::optional<user_region> as_region(nanobind::handle part);

/// "Box((0, 0), (4, 4))"
std::string repr(const user_box& b);
std::string repr(const user_region& r);

/// Raises celerity_py.errors.UsageError.
[[noreturn]] void raise_usage_error(const std::string& message);
/// Raises celerity_py.errors.ArgumentTypeError.
[[noreturn]] void raise_type_error(const std::string& message);
/// Refuses a call that has too few or too many arguments, or unknown ones by name; `usage` names the right arguments.
[[noreturn]] void refuse_arguments(const std::string& call, const nanobind::args& args, const nanobind::kwargs& kwargs, const char* usage);
/// Raises celerity_py.DimensionMismatch.
[[noreturn]] void raise_dimension_mismatch(const std::string& message);

} // namespace celerity
