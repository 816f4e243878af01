// SPDX-License-Identifier: MIT
#include "box_operators.hpp"

#include <cstddef>
#include <string>

#include "submit/user_geometry.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {
namespace {

/// Goes through the elements of a box, the last dimension fastest.
struct box_indices {
	user_box b;
	point position = b.b.min();
	bool is_done = b.b.empty();

	nb::tuple next() {
		if(is_done) throw nb::stop_iteration();
		nb::tuple index = to_tuple(position, b.dims);
		std::size_t d = static_cast<std::size_t>(b.dims);
		while(d > 0 && ++position[d - 1] == b.b.max(d - 1)) {
			position[d - 1] = b.b.min(d - 1);
			--d;
		}
		is_done = d == 0;
		return index;
	}
};

/// An operand as a message shows it: large arrays and lists by their type alone.
std::string shown(const nb::handle operand) {
	const std::string text = nb::repr(operand).c_str();
	return text.size() <= 60 ? text : std::string(nb::repr(operand.type()).c_str());
}

[[noreturn]] void refuse_as_sequence(const user_box& b, const char* const use) {
	raise_type_error(repr(b) + " " + use
	                 + ". Compute on the array of all its elements, view[box], or loop over box.indices(), which gives each element as a tuple and is slow.");
}

/// `written` is the operation as the program writes it, such as "box + 1".
[[noreturn]] void refuse_arithmetic(const user_box& b, const std::string& written) {
	raise_type_error(
	    written + ": " + repr(b)
	    + " is a set of indices and no number. box.shift(1) moves it by one element (one integer per dimension), box.grow(1) and box.shrink(1) move its "
	      "borders, and box.min and box.max are its corners.");
}

/// Operators of numbers and sequences: a box has none of them, and the errors say how the program gets what it wants.
void refuse_operators(nb::class_<user_box>& cls) {
	cls.def("__iter__", [](const user_box& b) { refuse_as_sequence(b, "is no sequence"); }, nb::sig("def __iter__(self) -> typing.NoReturn"));
	cls.def(
	    "__len__", [](const user_box& b) { refuse_as_sequence(b, "has no len(): box.size is the number of elements, box.shape their number per dimension"); },
	    nb::sig("def __len__(self) -> typing.NoReturn"));
	cls.def(
	    "__getitem__",
	    [](const user_box& b, const nb::handle index) {
		    raise_type_error(
		        "box[" + shown(index) + "]: " + repr(b)
		        + " has no items. Write box.min[0] and box.max[0] for its bounds in dimension 0, box.shape[0] for its extent, and view[box] for elements.");
	    },
	    nb::arg("index").none(), nb::sig("def __getitem__(self, index: object) -> typing.NoReturn"));
	const auto refuse = [&cls](const char* const name, const char* const symbol) {
		cls.def((std::string("__") + name + "__").c_str(),
		    [symbol](const user_box& b, const nb::handle other) -> nb::object {
			    if(nb::isinstance<user_region>(other)) return nb::borrow(Py_NotImplemented); // the operator of the region follows
			    refuse_arithmetic(b, std::string("box ") + symbol + " " + shown(other));
		    },
		    nb::arg("other").none(), nb::sig((std::string("def __") + name + "__(self, other: object) -> typing.NoReturn").c_str()));
		cls.def((std::string("__r") + name + "__").c_str(),
		    [symbol](const user_box& b, const nb::handle other) { refuse_arithmetic(b, shown(other) + " " + symbol + " box"); }, nb::arg("other").none(),
		    nb::sig((std::string("def __r") + name + "__(self, other: object) -> typing.NoReturn").c_str()));
	};
	refuse("add", "+");
	refuse("mul", "*");
	refuse("floordiv", "//");
	refuse("truediv", "/");
	refuse("mod", "%");
	const auto refuse_set = [&cls](const char* const name, const char* const symbol) {
		cls.def((std::string("__") + name + "__").c_str(),
		    [symbol](const user_box& b, const nb::handle other) -> nb::object {
			    if(nb::isinstance<user_region>(other)) return nb::borrow(Py_NotImplemented);
			    const std::string written = std::string("box ") + symbol + " " + shown(other);
			    if(!nb::isinstance<user_box>(other)) refuse_arithmetic(b, written);
			    raise_type_error(written + ": the result may be no box. Write Region([box]) " + symbol + " other for the region.");
		    },
		    nb::arg("other").none(), nb::sig((std::string("def __") + name + "__(self, other: Region) -> Region").c_str()));
	};
	refuse_set("sub", "-");
	refuse_set("or", "|");
}

} // namespace

void bind_box_operators(nb::module_& m, nb::class_<user_box>& cls) {
	nb::class_<box_indices>(m, "BoxIndices", nb::is_final(), "The elements of a box, as `Box.indices` gives them.")
	    .def(
	        "__iter__", [](const nb::object& self) { return self; }, nb::sig("def __iter__(self) -> BoxIndices"))
	    .def("__next__", &box_indices::next, nb::sig("def __next__(self) -> tuple[int, ...]"));
	cls.def(
	    "indices", [](const user_box& b) { return box_indices{b}; }, nb::sig("def indices(self) -> BoxIndices"),
	    R"(An iterator over the elements, each a tuple of one integer per dimension, the last dimension fastest.

`for index in chunk.box.indices(): u[index] = ...` is a loop of Python, with microseconds per element. An operation on arrays
such as `u[chunk.box] = ...` takes nanoseconds.)");
	refuse_operators(cls);
}

} // namespace celerity::native
