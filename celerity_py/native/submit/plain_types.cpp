// SPDX-License-Identifier: MIT
#include "submit/plain_types.hpp"

#include <string_view>

namespace nb = nanobind;

namespace celerity::native {

namespace {

using form = plain_types::form;

const char* bytes_of_value(PyObject* const value) { return reinterpret_cast<const char*>(value + 1); }

/// The form of a number of NumPy, by the character of its dtype. Some bytes of a long double hold anything.
form form_of(const char dtype) {
	if(std::strchr("?bBhHiIlLqQ", dtype) != nullptr) return form::integers;
	if(dtype == 'e') return form::halves;
	if(dtype == 'f' || dtype == 'F') return form::floats;
	return dtype == 'd' || dtype == 'D' ? form::doubles : form::other;
}

plain_types::entry describe(PyTypeObject* const type) {
	plain_types::entry result{type, form::other, 0, digest_of_name(type)};
	if(type == &PyLong_Type || type == &PyBool_Type) {
		result.values = form::int_of_python;
	} else if(type == &PyUnicode_Type) {
		result.values = form::text;
	} else if(type == &PyFloat_Type || type == &PyComplex_Type) {
		result.values = form::doubles;
		result.num_bytes = type == &PyFloat_Type ? sizeof(double) : 2 * sizeof(double);
	} else if(nb::hasattr(nb::handle(reinterpret_cast<PyObject*>(type)), "dtype")) {
		const nb::object one = nb::handle(reinterpret_cast<PyObject*>(type))(1);
		const auto bytes = nb::cast<nb::bytes>(one.attr("tobytes")());
		// An object that holds its value elsewhere is left to Python.
		const bool is_behind = type->tp_basicsize >= static_cast<Py_ssize_t>(sizeof(PyObject) + bytes.size())
		                       && std::memcmp(bytes.data(), bytes_of_value(one.ptr()), bytes.size()) == 0;
		if(is_behind) result.values = form_of(nb::str(one.attr("dtype").attr("char")).c_str()[0]);
		result.num_bytes = static_cast<std::uint8_t>(bytes.size());
	}
	return result;
}

void add_int(digest& out, PyObject* const value) {
	int overflow = 0;
	const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
	out.add(static_cast<std::uint64_t>(number));
	if(overflow == 0) return;
	out.add(static_cast<std::uint64_t>(PyLong_Type.tp_hash(value))); // the rest of a division, the same in all processes
	const double rounded = PyLong_AsDouble(value);
	if(PyErr_Occurred() != nullptr) PyErr_Clear(); // a number beyond all doubles
	out.add(std::bit_cast<std::uint64_t>(rounded));
}

bool add_text(digest& out, PyObject* const value) {
	Py_ssize_t size = 0;
	const char* const text = PyUnicode_AsUTF8AndSize(value, &size);
	if(text != nullptr) {
		out.add(std::string_view(text, static_cast<std::size_t>(size)));
		return true;
	}
	PyErr_Clear(); // half of a surrogate pair
	return false;
}

template <typename T>
void add_reals(digest& out, const char* const first, const std::size_t num_bytes) {
	for(std::size_t i = 0; i < num_bytes; i += sizeof(T)) out.add(bits_of_real<T>(first + i));
}

void add_half(digest& out, const char* const first) {
	std::uint16_t bits = 0;
	std::memcpy(&bits, first, sizeof bits);
	out.add((bits & 0x7fffU) > 0x7c00U ? std::uint64_t{0x7e00} : bits);
}

void add_integer(digest& out, const char* const first, const std::size_t num_bytes) {
	std::uint64_t number = 0;
	std::memcpy(&number, first, num_bytes);
	out.add(number);
}

} // namespace

plain_types::plain_types(const nb::handle types) {
	std::vector<entry> entries;
	for(const nb::handle type : types) entries.push_back(describe(reinterpret_cast<PyTypeObject*>(type.ptr())));
	m_entries.resize(std::bit_ceil(4 * entries.size() + 1));
	m_last_place = m_entries.size() - 1;
	for(const entry& each : entries) {
		std::size_t place = place_of(each.type);
		while(m_entries[place].type != nullptr) place = next(place);
		m_entries[place] = each;
	}
}

const plain_types::entry* plain_types::find_base(const PyTypeObject* const type) const {
	for(Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
		if(const entry* const base = find(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i))); base != nullptr) return base;
	}
	return nullptr;
}

std::uint64_t digest_of_name(const PyTypeObject* const type) {
	digest result;
	result.add(std::string_view(type->tp_name));
	return result.value();
}

bool add_plain_value(digest& out, PyObject* const value, const plain_types::entry& known) {
	switch(known.values) {
	case form::int_of_python: add_int(out, value); return true;
	case form::text: return add_text(out, value);
	case form::integers: add_integer(out, bytes_of_value(value), known.num_bytes); return true;
	case form::halves: add_half(out, bytes_of_value(value)); return true;
	case form::floats: add_reals<float>(out, bytes_of_value(value), known.num_bytes); return true;
	case form::doubles: add_reals<double>(out, bytes_of_value(value), known.num_bytes); return true;
	case form::other: return false;
	}
	return false;
}

} // namespace celerity::native
