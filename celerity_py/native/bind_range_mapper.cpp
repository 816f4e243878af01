// SPDX-License-Identifier: MIT
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <string_view>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "look_up.hpp"
#include "named_tuple.hpp"
#include "scheduler/core/geometry/range_mapper.hpp"
#include "submit/user_geometry.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {
namespace {

user_region region_of(const nb::handle part) {
	const auto found = as_region(part);
	if(!found.has_value()) raise_type_error(std::string("a mapper takes boxes and regions, but got ") + nb::repr(part).c_str() + ".");
	return *found;
}

range_mapper fixed(const nb::handle part) {
	const user_region where = region_of(part);
	if(where.dims == user_region::any_dims)
		raise_usage_error(
		    "access.fixed() takes a box or a region with a number of dimensions, but got Region(). Write Box((0,), (0,)) for nothing in one dimension.");
	return range_mapper::fixed(where.r, where.dims);
}

range_mapper built_in(const std::string_view kind, const nb::handle numbers, const nb::handle options) {
	int count = 0, num_options = 0;
	const point values = to_point(numbers, 0, count, "RangeMapper.built_in()");
	const auto found = look_up<range_mapper::kind>(kind, "the kind of a mapper");
	return range_mapper::built_in(found, count, values, to_point(options, range_mapper::absent, num_options, "RangeMapper.built_in()"));
}

range_mapper table(const nb::list& entries) {
	range_mapper::table_type results;
	results.reserve(nb::len(entries));
	for(const nb::handle entry : entries) results.emplace_back(nb::cast<const user_box&>(entry[0]).b, region_of(entry[1]).r);
	return range_mapper::from_table(std::move(results));
}

user_region region_for(const range_mapper& mapper, const user_box& chunk, const user_box& whole, const user_box& buffer) {
	return {mapper.map(chunk.b, whole.b, whole.dims, buffer.b, buffer.dims), buffer.dims};
}

} // namespace

void bind_range_mapper(nb::module_& m) {
	named_tuple<mapper_misfit>::bind(m, "MapperMisfit", "How a mapper fails to fit a kernel and a buffer, and the number that some kinds are about.");
	nb::class_<range_mapper>(m, "RangeMapper", nb::is_final(),
	    "Which part of a buffer a part of an index space touches. Immutable; results are clamped to the buffer.")
	    .def_static("built_in", &built_in, "kind"_a, "numbers"_a = nb::tuple(), "options"_a = nb::tuple(),
	        nb::sig("def built_in(kind: str, numbers: tuple[int, ...] = (), options: tuple[int, ...] = ()) -> RangeMapper"),
	        "The mapper of this name in `celerity_py.access`, with its arguments by position and by name. An option of -1, or one left out, is not given.")
	    .def_static("fixed", &fixed, "where"_a, nb::sig("def fixed(where: Box | Region) -> RangeMapper"))
	    .def_static("table", &table, "entries"_a, nb::sig("def table(entries: list[tuple[Box, Box | Region]]) -> RangeMapper"),
	        "The results of a Python callable, for each chunk that `Scheduler.chunks_for` lists.")
	    .def("region", &region_for, "chunk"_a, "whole"_a, "buffer_box"_a, nb::sig("def region(self, chunk: Box, whole: Box, buffer_box: Box) -> Region"),
	        "The part of a buffer, whose box is `buffer_box`, that a chunk of the index space `whole` accesses; of a built-in mapper that fits both.")
	    .def("describe", &range_mapper::describe, "As the user would write it.")
	    .def("__repr__", [](const range_mapper& mapper) { return "access." + mapper.describe(); });
}

} // namespace celerity::native
