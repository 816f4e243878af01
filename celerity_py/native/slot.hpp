// SPDX-License-Identifier: MIT
#pragma once

#include <nanobind/nanobind.h>

namespace celerity::native {

/// An attribute of a Python class with `__slots__`, read and written where it lies.
class slot {
  public:
	slot() = default;
	slot(nanobind::handle type, const char* name);

	/// Borrowed; null if it has not been set.
	PyObject* get(PyObject* const object) const { return *at(object); }
	/// What it was set to; it is not set behind this.
	nanobind::object take(PyObject* const object) const {
		PyObject* const value = *at(object);
		*at(object) = nullptr;
		return nanobind::steal(value);
	}
	/// Of a new object.
	void init(PyObject* const object, PyObject* const owned) const { *at(object) = owned; }

  private:
	PyObject** at(PyObject* const object) const { return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + m_offset); }
	Py_ssize_t m_offset = 0;
};

} // namespace celerity::native
