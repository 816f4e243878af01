// SPDX-License-Identifier: MIT
// Takes the arrays of views away when the call that they were made for has returned, and tells which of them somebody keeps.
#include <nanobind/nanobind.h>

#include "slot.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace celerity::native;

void bind_view_releaser(nb::module_& m);

namespace {

/// Every array that is made of a view refers, by its chain of bases, to the array that the view was made with; that one belongs to one call only. So
/// counting the references to it tells whether there still are such arrays.
class view_releaser {
  public:
	view_releaser(const nb::handle view_class, const nb::handle reducer_class)
	    : m_view_class(nb::borrow(view_class)), m_reducer_class(nb::borrow(reducer_class)), m_base(view_class, "_base"), m_array(view_class, "_array"),
	      m_partial(reducer_class, "_array") {}

	nb::object release(const nb::list& arguments) const {
		nb::object found = nb::none();
		const Py_ssize_t count = PyList_GET_SIZE(arguments.ptr());
		for(Py_ssize_t i = 0; i < count; ++i) {
			PyObject* const argument = PyList_GET_ITEM(arguments.ptr(), i);
			const bool is_view = is_a(argument, m_view_class);
			if(!is_view && !is_a(argument, m_reducer_class)) continue;
			if(is_view) nb::object(m_array.take(argument)).reset();
			const nb::object base = (is_view ? m_base : m_partial).take(argument);
			if(Py_REFCNT(argument) == 1 && (!base || Py_REFCNT(base.ptr()) == 1)) continue;
			if(found.is_none()) found = nb::list();
			nb::borrow<nb::list>(found).append(nb::make_tuple(i, base ? base : nb::none()));
		}
		return found;
	}

  private:
	nb::object m_view_class, m_reducer_class;
	slot m_base, m_array, m_partial;

	static bool is_a(PyObject* const object, const nb::object& cls) { return reinterpret_cast<PyObject*>(Py_TYPE(object)) == cls.ptr(); }
};

bool is_referred_to(const nb::tuple& holder, const Py_ssize_t index) { return Py_REFCNT(PyTuple_GET_ITEM(holder.ptr(), index)) > 1; }

} // namespace

void bind_view_releaser(nb::module_& m) {
	nb::class_<view_releaser>(m, "ViewReleaser", "Takes the arrays of views and reducers of these classes away, behind the call that they were made for.")
	    .def(nb::init<nb::handle, nb::handle>(), "view_class"_a, "reducer_class"_a)
	    .def("release", &view_releaser::release, "arguments"_a, nb::sig("def release(self, arguments: list[typing.Any]) -> list[tuple[int, typing.Any]] | None"),
	        "None, or (position, array that the view or reducer was made with) for each that something besides this list and that array's owner refers to.");
	m.def("is_referred_to", &is_referred_to, "holder"_a, "index"_a, "Whether something besides this tuple refers to this item of it.");
}
