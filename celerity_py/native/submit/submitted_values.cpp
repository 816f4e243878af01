// SPDX-License-Identifier: MIT
// The values of a submit beside its accesses: plain arguments, numbers from outside, context variables.
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "submit/records.hpp"
#include "scheduler/core/geometry/digest.hpp"
#include "submit/submitter.hpp"
#include "submit/value_watch.hpp"

namespace nb = nanobind;

namespace celerity::native {

const std::pair<PyTypeObject*, PyTypeObject*>& number_types_of_numpy() {
	static const auto types = [] {
		const nb::object numpy = nb::module_::import_("numpy");
		const auto find = [&numpy](const char* const name) { return reinterpret_cast<PyTypeObject*>(nb::object(numpy.attr(name)).release().ptr()); };
		return std::pair(find("number"), find("bool_"));
	}();
	return types;
}

namespace {

bool is_number(PyObject* const value) {
	if(PyLong_Check(value) || PyFloat_Check(value) || PyComplex_Check(value)) return true;
	const auto& [number, boolean] = number_types_of_numpy();
	return PyType_IsSubtype(Py_TYPE(value), number) != 0 || Py_IS_TYPE(value, boolean);
}

/// The kind of the elements that a format of the buffer protocol describes, as NumPy has it; 0 for those that only Python can compare: structures, times,
/// texts, other byte orders, and long doubles, of which some bytes hold anything.
char kind_of(const std::string_view format) {
	if(format == "Zf" || format == "Zd") return 'c';
	if(format.size() != 1) return 0;
	for(const auto& [kind, formats] : {std::pair{'b', "?"}, {'i', "bhilq"}, {'u', "BHILQ"}, {'f', "efd"}}) {
		if(std::strchr(formats, format[0]) != nullptr) return kind;
	}
	return 0;
}

constexpr Py_ssize_t most_bytes_of_small_array = 4096; // as in value_digests.py, which takes a part of larger ones

/// Adds the shape, the dtype and the elements of a small array. False if it is none, or if only Python can compare its elements.
bool add_small_array(digest& out, PyObject* const value) {
	if(std::string_view(Py_TYPE(value)->tp_name) != "numpy.ndarray") return false;
	Py_buffer view;
	if(PyObject_GetBuffer(value, &view, PyBUF_RECORDS_RO) != 0) {
		PyErr_Clear(); // elements that have no format
		return false;
	}
	const char kind = view.len <= most_bytes_of_small_array ? kind_of(view.format) : char{0};
	if(kind != 0) {
		std::string elements(static_cast<std::size_t>(view.len), '\0'); // in the order of C, whatever the layout
		if(PyBuffer_ToContiguous(elements.data(), &view, view.len, 'C') != 0) {
			PyBuffer_Release(&view);
			throw nb::python_error();
		}
		out.add(static_cast<std::uint64_t>(kind) << 32U | static_cast<std::uint64_t>(view.itemsize));
		out.add(static_cast<std::uint64_t>(view.ndim));
		for(int d = 0; d < view.ndim; ++d) out.add(static_cast<std::uint64_t>(view.shape[d]));
		out.add(elements);
	}
	PyBuffer_Release(&view);
	return kind != 0;
}

} // namespace

PyObject* current_context() {
	PyObject* const current = PyThreadState_Get()->context;
	if(current == nullptr || PyObject_Length(current) == 0) return Py_NewRef(Py_None);
	PyObject* const context = PyContext_CopyCurrent();
	if(context == nullptr) throw nb::python_error();
	return context;
}

nb::object numbers_at(const nb::handle places) {
	const Py_ssize_t count = PyTuple_GET_SIZE(places.ptr());
	nb::object result = nb::steal(PyTuple_New(count));
	if(!result) throw nb::python_error();
	for(Py_ssize_t i = 0; i < count; ++i) {
		PyObject* const place = PyTuple_GET_ITEM(places.ptr(), i);
		const nb::object value = value_at(PyTuple_GET_ITEM(place, 0), PyTuple_GET_ITEM(place, 1), PyTuple_GET_ITEM(place, 2));
		PyTuple_SET_ITEM(result.ptr(), i, Py_NewRef(value && is_number(value.ptr()) ? value.ptr() : Py_None));
	}
	return result;
}

void submitter::note_outside(const nb::handle submission) {
	PyObject* function = record_type<submission_record>::of(submission.ptr()).function;
	if(PyMethod_Check(function)) function = PyMethod_GET_FUNCTION(function);
	if(!PyFunction_Check(function)) return;
	PyObject* const globals = PyFunction_GET_GLOBALS(function);
	if(m_without_numbers.has(PyFunction_GET_CODE(function), globals)) return;
	const nb::object code = nb::steal(PyLong_FromVoidPtr(PyFunction_GET_CODE(function)));
	PyObject* const known = code ? PyDict_GetItemWithError(m_number_paths.ptr(), code.ptr()) : nullptr; // code, id of globals, numbers, others
	if(known != nullptr && PyTuple_GET_SIZE(PyTuple_GET_ITEM(known, 2)) == 0 && PyTuple_GET_SIZE(PyTuple_GET_ITEM(known, 3)) == 0
	    && PyLong_AsVoidPtr(PyTuple_GET_ITEM(known, 1)) == globals) {
		m_without_numbers.add(PyFunction_GET_CODE(function), globals);
		return;
	}
	m_delegate.attr("note_outside")(submission);
}

int submit_memo::traverse(const visitproc visit, void* const arg) const {
	for(const auto& known : entries) {
		for(const auto& hint : known->hints) Py_VISIT(hint.ptr());
		for(const nb::object* const each : {&known->plan, &known->pack, &known->places}) Py_VISIT(each->ptr());
	}
	return 0;
}

void submit_memo::clear() {
	const auto taken = std::move(entries); // their destructors may run code that looks here
	entries.clear();
}

std::uint64_t submitter::digest_values(const nb::handle kept_args) const {
	using port_type = record_type<port_record>;
	digest result;
	bool has_values = false;
	const auto num_args = static_cast<std::size_t>(PyList_GET_SIZE(kept_args.ptr()));
	for(std::size_t i = 0; i < num_args; ++i) {
		PyObject* const value = PyList_GET_ITEM(kept_args.ptr(), static_cast<Py_ssize_t>(i));
		if(port_type::has_own_class(value)) continue;
		if(add_short_number(result, i, value)) {
			has_values = true;
			continue;
		}
		const plain_types::entry* known = m_plain_types.find(Py_TYPE(value));
		if(known == nullptr) {
			if(port_type::is_instance(value)) continue;
			known = m_plain_types.find_base(Py_TYPE(value));
		}
		has_values = true;
		const bool is_exact = known != nullptr && known->type == Py_TYPE(value);
		result.add(i + (is_exact ? known->name_digest : digest_of_name(Py_TYPE(value))));
		if(known != nullptr ? add_plain_value(result, value, *known) : add_small_array(result, value)) continue;
		const nb::object kept = nb::borrow(value); // the digest runs other threads
		result.add(nb::cast<std::uint64_t>(m_delegate.attr("digest_of")(kept)));
	}
	return has_values ? result.value() : 0;
}

} // namespace celerity::native
