// SPDX-License-Identifier: MIT
#include "submit/value_watch.hpp"

#include <algorithm>
#include <utility>

namespace nb = nanobind;

namespace celerity::native {

namespace {

/// Whether a look at an attribute of an object runs no code of the program, such as that of a property.
bool is_plain(PyObject* const value, PyObject* const attribute) {
	if(Py_TYPE(value)->tp_getattro != PyObject_GenericGetAttr && PyModule_CheckExact(value) == 0) return false;
	PyObject* const of_class = _PyType_Lookup(Py_TYPE(value), attribute); // borrowed
	return of_class == nullptr || Py_TYPE(of_class)->tp_descr_get == nullptr || Py_IS_TYPE(of_class, &PyMemberDescr_Type) != 0;
}

nb::object attribute_of(const nb::object& value, PyObject* const attribute) {
	if(!value || !is_plain(value.ptr(), attribute)) return {};
	return nb::steal(PyObject_GenericGetAttr(value.ptr(), attribute));
}

/// Whether the object has this id, or is a function whose code has it.
bool has_id(PyObject* const value, const std::uintptr_t id) {
	if(reinterpret_cast<std::uintptr_t>(value) == id) return true;
	return value != nullptr && PyFunction_Check(value) && reinterpret_cast<std::uintptr_t>(PyFunction_GET_CODE(value)) == id;
}

} // namespace

nb::object value_at(const nb::handle where, const nb::handle name, const nb::handle attribute) {
	nb::object value = nb::borrow(PyCell_Check(where.ptr()) ? PyCell_GET(where.ptr()) : PyDict_GetItemWithError(where.ptr(), name.ptr()));
	if(!attribute.is_none()) value = attribute_of(value, attribute.ptr());
	PyErr_Clear();
	return value;
}

value_watch::value_watch(const nb::handle& places) {
	for(const nb::handle each : places) {
		place& added = m_places.emplace_back(place{nb::object(each[0]), nb::object(each[1]), {}, nb::cast<std::uintptr_t>(each[3])});
		for(const nb::handle attribute : nb::object(each[2])) added.attributes.push_back(nb::borrow(attribute));
	}
}

nb::object value_watch::value_of(const place& here) {
	nb::object value;
	if(PyCell_Check(here.root.ptr()) || PyDict_Check(here.root.ptr())) {
		value = value_at(here.root, here.name, nb::none());
	} else {
		value = nb::steal(PyObject_CallNoArgs(here.root.ptr()));
	}
	for(const nb::object& attribute : here.attributes) value = attribute_of(value, attribute.ptr());
	PyErr_Clear();
	return value;
}

bool value_watch::has_moved() const {
	return std::any_of(m_places.begin(), m_places.end(), [](const place& each) { return !has_id(value_of(each).ptr(), each.id); });
}

int value_watch::traverse(const visitproc visit, void* const arg) const {
	for(const place& each : m_places) {
		Py_VISIT(each.root.ptr());
		Py_VISIT(each.name.ptr());
		for(const nb::object& attribute : each.attributes) Py_VISIT(attribute.ptr());
	}
	return 0;
}

void value_watch::clear() {
	const auto taken = std::move(m_places); // their destructors may run code that looks here
	m_places.clear();
}

} // namespace celerity::native
