// SPDX-License-Identifier: MIT
// Takes the arrays of views away when the call that they were made for has returned, and tells which of them somebody keeps.
#include <nanobind/nanobind.h>

#include <utility>

#include "bindings.hpp"
#include "submit/records.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {
namespace {

/// The value of an attribute, which is not set behind this.
nb::object take(PyObject*& attribute) { return nb::steal(std::exchange(attribute, nullptr)); }

/// Every array that is made of a view refers, by its chain of bases, to the array that the view was made with; that one belongs to one call only. So
/// counting the references to it tells whether there still are such arrays.
nb::object release_views(const nb::list& arguments) {
	nb::object found = nb::none();
	const Py_ssize_t count = PyList_GET_SIZE(arguments.ptr());
	for(Py_ssize_t i = 0; i < count; ++i) {
		PyObject* const argument = PyList_GET_ITEM(arguments.ptr(), i);
		if(!record_type<holder_record>::is_instance(argument)) continue;
		auto& holder = record_type<holder_record>::of(argument);
		take(holder.array).reset();
		const nb::object base = take(holder.base);
		if(Py_REFCNT(argument) == 1 && (!base || Py_REFCNT(base.ptr()) == 1)) continue;
		if(found.is_none()) found = nb::list();
		nb::borrow<nb::list>(found).append(nb::make_tuple(i, base ? base : nb::none()));
	}
	return found;
}

bool is_referred_to(const nb::tuple& holder, const Py_ssize_t index) { return Py_REFCNT(PyTuple_GET_ITEM(holder.ptr(), index)) > 1; }

} // namespace

void bind_view_releaser(nb::module_& m) {
	record_type<holder_record>::bind(m, "HolderRecord", "The arrays of a view or reducer.");
	m.def("release_views", &release_views, "arguments"_a, nb::sig("def release_views(arguments: list[typing.Any]) -> list[tuple[int, typing.Any]] | None"),
	    R"(Take the arrays of views and reducers away, behind the call that they were made for.

None, or (position, array that the view or reducer was made with) for each that something besides this list and that array's owner refers to.)");
	m.def("is_referred_to", &is_referred_to, "holder"_a, "index"_a, "Whether something besides this tuple refers to this item of it.");
}

} // namespace celerity::native
