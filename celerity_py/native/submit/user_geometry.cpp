// SPDX-License-Identifier: MIT
#include "submit/user_geometry.hpp"

namespace nb = nanobind;

namespace celerity {

namespace {

coordinate to_coordinate(const nb::handle item, const char* const what) {
	const long long value = PyLong_CheckExact(item.ptr()) ? PyLong_AsLongLong(item.ptr()) : [&] {
		const nb::object integer = nb::steal(PyBool_Check(item.ptr()) ? nullptr : PyNumber_Index(item.ptr())); // NumPy's integers come this way
		if(integer.is_valid()) return PyLong_AsLongLong(integer.ptr());
		PyErr_Clear();
		raise_type_error(std::string(what) + " takes integers, but got " + nb::repr(item).c_str() + ".");
	}();
	if(value != -1 || PyErr_Occurred() == nullptr) return value;
	PyErr_Clear(); // the one thing that can be wrong with an integer
	raise_usage_error(std::string(what) + " takes integers from -2**63 to 2**63 - 1, but got " + nb::repr(item).c_str() + ".");
}

[[noreturn]] void raise(const char* const name, const std::string& message) {
	const nb::object type = nb::module_::import_("celerity_py.scheduler.errors").attr(name);
	PyErr_SetString(type.ptr(), message.c_str());
	throw nb::python_error();
}

/// Arguments as they were written: "1, x=2".
std::string show_arguments(const nb::args& args, const nb::kwargs& kwargs) {
	std::string text;
	for(const nb::handle argument : args) text += (text.empty() ? "" : ", ") + std::string(nb::repr(argument).c_str());
	for(const auto& [name, value] : kwargs) text += (text.empty() ? "" : ", ") + std::string(nb::str(name).c_str()) + "=" + nb::repr(value).c_str();
	return text;
}

} // namespace

nb::tuple to_tuple(const point& p, const int count) {
	return tuple_of(static_cast<std::size_t>(count), [&](const std::size_t d) { return PyLong_FromLongLong(p[d]); });
}

point to_point(const nb::handle sequence, const coordinate unused, int& count, const char* const what) {
	nb::handle items = sequence;
	nb::object made;
	if(!PyTuple_CheckExact(sequence.ptr())) {
		items = made = nb::steal(PySequence_Tuple(sequence.ptr()));
		if(!made.is_valid()) {
			PyErr_Clear();
			raise_type_error(std::string(what) + " takes a sequence of integers, but got " + nb::repr(sequence).c_str() + ".");
		}
	}
	const Py_ssize_t size = PyTuple_GET_SIZE(items.ptr());
	if(size > 3) {
		raise_dimension_mismatch(std::string(what) + " has at most 3 dimensions, but got " + std::to_string(size) + ": " + nb::repr(items).c_str() + ".");
	}
	count = static_cast<int>(size);
	point p{{unused, unused, unused}};
	for(Py_ssize_t i = 0; i < size; ++i) p[static_cast<std::size_t>(i)] = to_coordinate(PyTuple_GET_ITEM(items.ptr(), i), what);
	return p;
}

user_box box_of_shape(const nb::handle shape) {
	int dims = 0;
	const point extents = to_point(shape, 1, dims, "A shape");
	return {box::full(extents), dims};
}

std::optional<user_region> as_region(const nb::handle part) {
	user_box b;
	if(nb::try_cast<user_box>(part, b)) return user_region{b.b, b.dims};
	if(!nb::isinstance<user_region>(part)) return std::nullopt;
	return nb::cast<const user_region&>(part);
}

std::string repr(const user_box& b) {
	const auto tuple = [&](const point& p) {
		std::string text = "(";
		for(int d = 0; d < b.dims; ++d) {
			if(d > 0) text += ", ";
			text += std::to_string(p[static_cast<std::size_t>(d)]);
		}
		return text + (b.dims == 1 ? ",)" : ")");
	};
	return "Box(" + tuple(b.b.min()) + ", " + tuple(b.b.max()) + ")";
}

std::string repr(const user_region& r) {
	if(r.r.empty()) return "Region()";
	std::string text = "Region([";
	for(std::size_t i = 0; i < r.r.boxes().size(); ++i) {
		if(i > 0) text += ", ";
		text += repr(user_box{r.r.boxes()[i], r.dims});
	}
	return text + "])";
}

void raise_usage_error(const std::string& message) { raise("UsageError", message); }

void raise_type_error(const std::string& message) { raise("ArgumentTypeError", message); }

void refuse_arguments(const std::string& call, const nb::args& args, const nb::kwargs& kwargs, const char* const usage) {
	raise_type_error(call + "(" + show_arguments(args, kwargs) + "): " + usage);
}

void raise_dimension_mismatch(const std::string& message) { raise("DimensionMismatch", message); }

} // namespace celerity
