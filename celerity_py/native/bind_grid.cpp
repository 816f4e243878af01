// SPDX-License-Identifier: MIT
// Box, Region, splits and range mappers for Python.
#include <nanobind/nanobind.h>
#include <nanobind/operators.h>
#include <nanobind/stl/string.h>

#include <limits>
#include <memory>

#include "bindings.hpp"
#include "box_operators.hpp"
#include "instruction_conversion.hpp"
#include "scheduler/core/geometry/digest.hpp"
#include "submit/user_geometry.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {
namespace {

const char* const box_doc = R"(A half-open box of elements in the global coordinates of a buffer or an index space.

Immutable: any thread may use it. It contains the elements `i` with `min[d] <= i[d] < max[d]` for every dimension `d`. An
empty box always is `Box((0, ...), (0, ...))`, so that equal boxes are equal sets; a box of 0 dimensions, `Box((), ())`,
holds one element. A box is true if it is not empty.

Args:
    min: First element, one integer for each of 0 to 3 dimensions.
    max: One past the last element, in every dimension.

Raises:
    DimensionMismatch: If `min` and `max` differ in length, or have more than 3 dimensions.
    ArgumentTypeError: If they are not sequences of integers.)";

const char* const region_doc = R"(A set of elements, as a union of boxes.

Immutable: any thread may use it. The boxes are kept in a normal form: disjoint, as long as possible in the last
dimension first, sorted. So equal regions are equal sets, no matter how they were put together. A region is true if it is
not empty. `Region()` fits any number of dimensions. Where the operators take a region they also take a box.

Args:
    boxes: Boxes of the same number of dimensions; they may overlap.

Raises:
    DimensionMismatch: If the boxes differ in their number of dimensions.
    ArgumentTypeError: If something is no box.)";

[[noreturn]] void raise_mismatch(const std::string& a, const std::string& operation, const std::string& b) {
	raise_dimension_mismatch(a + " " + operation + " " + b + ": the two have different numbers of dimensions. Use boxes of the same space.");
}

/// Raises DimensionMismatch unless two boxes or regions can lie in one space.
template <typename A, typename B>
void check_same_space(const A& a, const char* const operation, const B& b) {
	if(a.dims != b.dims && a.dims != user_region::any_dims && b.dims != user_region::any_dims) raise_mismatch(repr(a), operation, repr(b));
}

user_box make_box(const nb::handle min, const nb::handle max) {
	if(PyLong_Check(min.ptr()) && PyLong_Check(max.ptr())) {
		raise_type_error(std::string("Box takes two tuples of integers: write Box((") + nb::repr(min).c_str() + ",), (" + nb::repr(max).c_str() + ",)).");
	}
	int min_dims = 0;
	int max_dims = 0;
	const point lower = to_point(min, 0, min_dims, "Box");
	const point upper = to_point(max, 1, max_dims, "Box");
	if(min_dims != max_dims) {
		raise_dimension_mismatch("Box takes as many integers for `min` as for `max`, but got " + std::string(nb::repr(min).c_str()) + " and "
		                         + nb::repr(max).c_str() + ".");
	}
	return {box(lower, upper), min_dims};
}

user_box intersect(const user_box& a, const user_box& b) {
	check_same_space(a, "&", b);
	return {intersection(a.b, b.b), a.dims};
}

/// One offset or width per dimension.
point to_amounts(const user_box& b, const nb::args& amounts, const nb::kwargs& unknown, const char* const method) {
	if(unknown.size() > 0) refuse_arguments(method, amounts, unknown, "it takes one integer per dimension, and none by name.");
	int count = 0;
	if(amounts.size() == static_cast<std::size_t>(b.dims)) return to_point(amounts, 0, count, method);
	raise_dimension_mismatch(std::string(method) + "() takes one integer per dimension: " + repr(b) + " has " + std::to_string(b.dims) + ", but got "
	                         + nb::repr(amounts).c_str() + ".");
}

coordinate saturating_add(const coordinate a, const coordinate b) {
	coordinate sum = 0;
	if(!__builtin_add_overflow(a, b, &sum)) return sum;
	return b > 0 ? std::numeric_limits<coordinate>::max() : std::numeric_limits<coordinate>::min();
}

coordinate saturating_negation(const coordinate a) { return a == std::numeric_limits<coordinate>::min() ? std::numeric_limits<coordinate>::max() : -a; }

user_box shift(const user_box& b, const nb::args& offsets, const nb::kwargs& unknown) {
	const point offset = to_amounts(b, offsets, unknown, "shift");
	if(b.b.empty()) return b;
	point min = b.b.min();
	point max = b.b.max();
	for(std::size_t d = 0; d < static_cast<std::size_t>(b.dims); ++d) {
		if(__builtin_add_overflow(min[d], offset[d], &min[d]) || __builtin_add_overflow(max[d], offset[d], &max[d])) {
			raise_usage_error(repr(b) + " shifted by " + nb::repr(offsets).c_str() + " would lie beyond the coordinates that there are, -2**63 to 2**63 - 1.");
		}
	}
	return {box(min, max), b.dims};
}

/// Moves the lower corner by `-amounts`, the upper one by `amounts`, but not beyond the coordinates that there are.
user_box grow(const user_box& b, const point& amount) {
	if(b.b.empty()) return b;
	point min = b.b.min();
	point max = b.b.max();
	for(std::size_t d = 0; d < static_cast<std::size_t>(b.dims); ++d) {
		min[d] = saturating_add(min[d], saturating_negation(amount[d]));
		max[d] = saturating_add(max[d], amount[d]);
	}
	return {box(min, max), b.dims};
}

user_box shrink(const user_box& b, point amount) {
	for(std::size_t d = 0; d < 3; ++d) amount[d] = saturating_negation(amount[d]);
	return grow(b, amount);
}

void check_area(const user_box& b) {
	if(!has_area(b.b)) raise_usage_error(repr(b) + " has 2**63 elements or more, which nothing can hold. Intersect it with a smaller box first.");
}

coordinate size_of(const user_box& b) {
	check_area(b);
	return b.b.area();
}

coordinate size_of(const user_region& r) {
	coordinate sum = 0;
	for(const box& b : r.r) {
		if(!has_area(b) || __builtin_add_overflow(sum, b.area(), &sum)) {
			raise_usage_error(repr(r) + " has 2**63 elements or more, which nothing can hold. Intersect it with a smaller box first.");
		}
	}
	return sum;
}

nb::tuple shape_of(const user_box& b) {
	point extents;
	for(std::size_t d = 0; d < 3; ++d) {
		if(__builtin_sub_overflow(b.b.max(d), b.b.min(d), &extents[d])) check_area(b);
	}
	return to_tuple(extents, b.dims);
}

nb::tuple slices_relative_to(const user_box& b, const point& origin) {
	return tuple_of(static_cast<std::size_t>(b.dims), [&](const std::size_t d) {
		coordinate first = 0;
		coordinate end = 0;
		if(!b.b.empty() && (__builtin_sub_overflow(b.b.min(d), origin[d], &first) || __builtin_sub_overflow(b.b.max(d), origin[d], &end))) {
			raise_usage_error(repr(b) + " lies 2**63 elements or more from the first element of the other box.");
		}
		const nb::int_ start(first), stop(end);
		return PySlice_New(start.ptr(), stop.ptr(), nullptr);
	});
}

nb::tuple relative_slices(const user_box& b, const nb::handle origin_box) {
	user_box origin;
	if(!nb::try_cast<user_box>(origin_box, origin)) {
		raise_type_error(std::string("relative_slices takes the Box from whose first element the slices count, not ") + nb::repr(origin_box).c_str() + ".");
	}
	check_same_space(b, "relative to", origin);
	for(std::size_t d = 0; d < 3 && !b.b.empty(); ++d) {
		if(b.b.min(d) < origin.b.min(d)) throw nb::value_error((repr(b) + " begins before " + repr(origin) + ", which would give negative indices.").c_str());
	}
	return slices_relative_to(b, origin.b.min());
}

flat_box to_flat(const user_box& b, const nb::args& args, const nb::kwargs& kwargs) {
	if(args.size() + kwargs.size() > 0) refuse_arguments("flat", args, kwargs, "it takes nothing.");
	return flatten(b.b);
}

user_box from_flat(const flat_box& flat, const int dims) {
	if(dims < 0 || dims > 3) throw nb::value_error("box_from_flat takes six integers, and 0 to 3 dimensions.");
	return {unflatten(flat), dims};
}

/// Whether an element, given as a tuple or (in one dimension) as an integer, lies in `container`, a user_box or user_region.
template <typename Container>
bool contains_element(const Container& container, const nb::handle element, const char* const expected) {
	int dims = 1;
	const bool is_number = PyIndex_Check(element.ptr()) != 0 && !PyBool_Check(element.ptr());
	if(!is_number && (PySequence_Check(element.ptr()) == 0 || PyUnicode_Check(element.ptr()))) {
		raise_type_error(std::string(nb::repr(element).c_str()) + " in " + repr(container) + ": `in` takes " + expected
		                 + ", an element as a tuple of integers, or an integer in one dimension.");
	}
	const point position = to_point(is_number ? nb::make_tuple(element) : nb::borrow(element), 0, dims, "`in`");
	if(container.dims != dims && container.dims != user_region::any_dims) raise_mismatch(nb::repr(element).c_str(), "in", repr(container));
	point end = position;
	for(std::size_t d = 0; d < 3; ++d) {
		if(__builtin_add_overflow(end[d], 1, &end[d])) return false; // no box holds the last coordinate
	}
	const box one(position, end);
	if constexpr(std::is_same_v<Container, user_box>) {
		return container.b.covers(one);
	} else {
		return container.r.covers(one);
	}
}

[[noreturn]] void refuse_as_array(const std::string& part) {
	raise_type_error(part
	                 + " is no array and no index of one. A view is indexed by a box; a NumPy array by slices: array[box.slices] if it covers the whole "
	                   "space, or array[box.relative_slices(origin)] if it begins at the first element of the box `origin`.");
}

[[noreturn]] void refuse_region(const nb::args& args, const nb::kwargs& unknown) {
	const bool has_boxes = args.size() > 0 && nb::isinstance<user_box>(args[0]);
	refuse_arguments("Region", args, unknown,
	    has_boxes ? "a region takes one list of boxes: write Region([box, ...])." : "a region takes one list of boxes: Region([Box((0,), (4,))]).");
}

user_region make_region(const nb::iterable& boxes) {
	user_region result;
	box_vector all;
	user_box first;
	for(const nb::handle item : boxes) {
		user_box b;
		if(!nb::try_cast<user_box>(item, b)) raise_type_error(std::string("Region takes boxes, but got ") + nb::repr(item).c_str() + ".");
		if(all.empty()) first = b;
		check_same_space(first, "and", b);
		result.dims = b.dims;
		all.push_back(b.b);
	}
	result.r = region(std::move(all));
	return result;
}

/// Binds an operator, in both orders. The other operand may be a box.
void bind_operator(nb::class_<user_region>& cls, const std::string& name, const char* const symbol, region (*const combine)(const region&, const region&),
    const char* const doc) {
	const auto apply = [symbol, combine](const user_region& a, const user_region& b) {
		check_same_space(a, symbol, b);
		return user_region{combine(a.r, b.r), std::max(a.dims, b.dims)};
	};
	const auto operand = [](const nb::handle other) {
		const auto part = as_region(other);
		if(!part.has_value()) throw nb::next_overload(); // Python tries the other operand
		return *part;
	};
	cls.def(("__" + name + "__").c_str(), [=](const user_region& a, const nb::handle b) { return apply(a, operand(b)); }, nb::is_operator(),
	    nb::sig(("def __" + name + "__(self, other: Region | Box) -> Region").c_str()), doc);
	cls.def(("__r" + name + "__").c_str(), [=](const user_region& a, const nb::handle b) { return apply(operand(b), a); }, nb::is_operator(),
	    nb::sig(("def __r" + name + "__(self, other: Box) -> Region").c_str()));
}

bool box_contains(const user_box& outer, const nb::handle part) {
	user_box inner;
	if(!nb::try_cast<user_box>(part, inner)) return contains_element(outer, part, "a Box");
	check_same_space(inner, "in", outer);
	return outer.b.covers(inner.b);
}

bool region_contains(const user_region& outer, const nb::handle part) {
	const auto inner = as_region(part);
	if(!inner.has_value()) return contains_element(outer, part, "a Region, a Box");
	check_same_space(*inner, "in", outer);
	return outer.r.covers(inner->r);
}

nb::tuple boxes_of(const user_region& r) {
	return tuple_of(r.r.boxes().size(), [&](const std::size_t i) { return nb::cast(user_box{r.r.boxes()[i], r.dims}).release().ptr(); });
}

/// Of a box or region.
template <typename Part>
Py_hash_t hash_of(const Part& part) {
	digest content;
	content.add(part);
	return static_cast<Py_hash_t>(content.value() >> 1U); // never -1
}

void bind_box(nb::module_& m) {
	nb::class_<user_box> cls(m, "Box", nb::is_final(), box_doc);
	cls.def(
	       "__init__", [](user_box* const self, const nb::handle min, const nb::handle max) { std::construct_at(self, make_box(min, max)); }, "min"_a, "max"_a,
	       nb::sig("def __init__(self, min: collections.abc.Sequence[int], max: collections.abc.Sequence[int]) -> None"))
	    .def(
	        "__init__",
	        [](user_box*, const nb::args& args, const nb::kwargs& kwargs) {
		        refuse_arguments("Box", args, kwargs,
		            "a box takes its first element and one past its last, as two tuples: Box((0, 0), (4, 8)), or Box((0,), (4,)) "
		            "in one dimension.");
	        },
	        nb::sig("def __init__(self, *args: typing.Never, **unknown: typing.Never) -> None"))
	    .def_prop_ro(
	        "min", [](const user_box& b) { return to_tuple(b.b.min(), b.dims); }, nb::sig("def min(self) -> tuple[int, ...]"), "The first element.")
	    .def_prop_ro(
	        "max", [](const user_box& b) { return to_tuple(b.b.max(), b.dims); }, nb::sig("def max(self) -> tuple[int, ...]"),
	        "One past the last element, in every dimension.")
	    .def_prop_ro("shape", &shape_of, nb::sig("def shape(self) -> tuple[int, ...]"), "The number of elements in each dimension.")
	    .def_prop_ro(
	        "size", [](const user_box& b) { return size_of(b); }, R"(The number of elements.

Raises:
    UsageError: If there are 2**63 or more.)")
	    .def_prop_ro(
	        "ndim", [](const user_box& b) { return b.dims; }, "The number of dimensions, 0 to 3.")
	    .def_prop_ro(
	        "slices", [](const user_box& b) { return slices_relative_to(b, point{}); }, nb::sig("def slices(self) -> tuple[slice, ...]"),
	        "One slice per dimension, in global coordinates: indexes an array that covers the whole space.")
	    .def("relative_slices", &relative_slices, nb::arg("origin").none() = nb::none(), nb::sig("def relative_slices(self, origin: Box) -> tuple[slice, ...]"),
	        R"(One slice per dimension, counted from the first element of `origin`: indexes an array that covers `origin`.

Raises:
    DimensionMismatch: If the two boxes differ in their number of dimensions.
    ValueError: If this box begins before `origin`.)")
	    .def("shift", &shift, nb::sig("def shift(self, *offsets: int) -> Box"), R"(The box moved by `offsets`. An empty box stays empty.

Args:
    offsets: One integer per dimension, in elements.

Raises:
    DimensionMismatch: If there are more or fewer integers than dimensions.
    UsageError: If the result would lie beyond the coordinates that there are, -2**63 to 2**63 - 1.)")
	    .def(
	        "shrink", [](const user_box& b, const nb::args& widths, const nb::kwargs& unknown) { return shrink(b, to_amounts(b, widths, unknown, "shrink")); },
	        nb::sig("def shrink(self, *widths: int) -> Box"), R"(The box with `widths` elements less on both sides; empty if nothing is left.

Args:
    widths: One integer per dimension, in elements. Negative ones grow.

Raises:
    DimensionMismatch: If there are more or fewer integers than dimensions.)")
	    .def(
	        "grow", [](const user_box& b, const nb::args& widths, const nb::kwargs& unknown) { return grow(b, to_amounts(b, widths, unknown, "grow")); },
	        nb::sig("def grow(self, *widths: int) -> Box"),
	        R"(The box with `widths` elements more on both sides. An empty box stays empty. The result may reach out of a buffer; `&` cuts it. It ends where the
coordinates end, at -2**63 and 2**63 - 1.

Args:
    widths: One integer per dimension, in elements. Negative ones shrink.

Raises:
    DimensionMismatch: If there are more or fewer integers than dimensions.)")
	    .def("flat", &to_flat, nb::sig("def flat(self) -> tuple[int, int, int, int, int, int]"),
	        "Three coordinates of `min`, then three of `max`, as in graph records; unused dimensions are 0 and 1.")
	    .def("__and__", &intersect, nb::is_operator(), nb::sig("def __and__(self, other: Box) -> Box"), R"(The elements in both boxes.

Raises:
    DimensionMismatch: If the two boxes differ in their number of dimensions.)")
	    .def("__contains__", &box_contains, nb::arg("part").none(), nb::sig("def __contains__(self, part: Box | collections.abc.Sequence[int] | int) -> bool"),
	        "Whether all elements of a box, or one element, are in this one.")
	    .def("__bool__", [](const user_box& b) { return !b.b.empty(); })
	    .def(nb::self == nb::self, nb::sig("def __eq__(self, other: object, /) -> bool"))
	    .def("__hash__", [](const user_box& b) { return hash_of(b.b); })
	    .def(
	        "__array__", [](const user_box& b, const nb::args&, const nb::kwargs&) { refuse_as_array(repr(b)); },
	        nb::sig("def __array__(self, *args: object, **kwargs: object) -> typing.NoReturn"),
	        "Raises ArgumentTypeError: NumPy asks for it when an array is indexed by a box.")
	    .def("__repr__", [](const user_box& b) { return repr(b); })
	    .def(
	        "__reduce__", [](const nb::object& self) { return nb::make_tuple(self.type(), nb::make_tuple(self.attr("min"), self.attr("max"))); },
	        nb::sig("def __reduce__(self) -> tuple[type[Box], tuple[object, ...]]"));
	bind_box_operators(m, cls);
	m.def("box_from_flat", &from_flat, "flat"_a, "dims"_a, nb::sig("def box_from_flat(flat: tuple[int, int, int, int, int, int], dims: int) -> Box"),
	    "The inverse of `Box.flat`.");
}

void bind_region(nb::module_& m) {
	nb::class_<user_region> cls(m, "Region", nb::is_final(), region_doc);
	cls.def(
	       "__init__",
	       [](user_region* const self, const nb::iterable& boxes) {
		       if(nb::isinstance<user_box>(boxes)) throw nb::next_overload(); // it is iterable only to refuse that in words
		       std::construct_at(self, make_region(boxes));
	       },
	       "boxes"_a = nb::tuple(), nb::sig("def __init__(self, boxes: collections.abc.Iterable[Box] = ()) -> None"))
	    .def(
	        "__init__", [](user_region*, const nb::args& args, const nb::kwargs& unknown) { refuse_region(args, unknown); },
	        nb::sig("def __init__(self, *args: typing.Never, **unknown: typing.Never) -> None"))
	    .def_prop_ro("boxes", &boxes_of, nb::sig("def boxes(self) -> tuple[Box, ...]"), "The disjoint boxes of the normal form.")
	    .def_prop_ro(
	        "bounding_box",
	        [](const user_region& r) {
		        if(r.dims == user_region::any_dims) throw nb::value_error("Region() has no bounding box, because its number of dimensions is not known.");
		        return user_box{r.r.bounding_box(), r.dims};
	        },
	        R"(The smallest box that contains the region.

Raises:
    ValueError: If the region was made from no boxes at all.)")
	    .def_prop_ro(
	        "size", [](const user_region& r) { return size_of(r); }, R"(The number of elements.

Raises:
    UsageError: If there are 2**63 or more.)")
	    .def("__contains__", &region_contains, nb::arg("part").none(),
	        nb::sig("def __contains__(self, part: Region | Box | collections.abc.Sequence[int] | int) -> bool"),
	        "Whether all elements of a region or a box, or one element, are in this one.")
	    .def("__bool__", [](const user_region& r) { return !r.r.empty(); })
	    .def(nb::self == nb::self, nb::sig("def __eq__(self, other: object, /) -> bool"))
	    .def("__hash__", [](const user_region& r) { return hash_of(r.r); })
	    .def(
	        "__array__", [](const user_region& r, const nb::args&, const nb::kwargs&) { refuse_as_array(repr(r)); },
	        nb::sig("def __array__(self, *args: object, **kwargs: object) -> typing.NoReturn"),
	        "Raises ArgumentTypeError: NumPy asks for it when an array is indexed by a region.")
	    .def("__repr__", [](const user_region& r) { return repr(r); })
	    .def(
	        "__reduce__", [](const nb::object& self) { return nb::make_tuple(self.type(), nb::make_tuple(self.attr("boxes"))); },
	        nb::sig("def __reduce__(self) -> tuple[type[Region], tuple[object, ...]]"));
	bind_operator(cls, "or", "|", &region_union, R"(The elements in either.

Raises:
    DimensionMismatch: If the two differ in their number of dimensions.)");
	bind_operator(cls, "and", "&", &region_intersection, R"(The elements in both.

Raises:
    DimensionMismatch: If the two differ in their number of dimensions.)");
	bind_operator(cls, "sub", "-", &region_difference, R"(The elements in this region but not in the other.

Raises:
    DimensionMismatch: If the two differ in their number of dimensions.)");
}

} // namespace

void bind_grid(nb::module_& m) {
	bind_box(m);
	bind_region(m);
	bind_range_mapper(m);
}

} // namespace celerity::native
