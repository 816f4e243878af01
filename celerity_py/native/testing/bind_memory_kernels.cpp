// SPDX-License-Identifier: MIT
// Copies and reductions of the executor in host memory, for tests.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "executor/core/memory/nd_copy.hpp"
#include "executor/core/memory/reduce_kernels.hpp"
#include "instruction_conversion.hpp"
#include "look_up.hpp"
#include "testing_bindings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {
namespace {

/// (is_linear, allocated box, offset in bytes)
using layout_tuple = std::tuple<bool, flat_box, std::size_t>;

copy_layout to_layout(const layout_tuple& layout) { return {std::get<0>(layout), unflatten(std::get<1>(layout)), std::get<2>(layout)}; }

void copy_boxes(const std::uintptr_t source, const layout_tuple& source_layout, const std::uintptr_t destination, const layout_tuple& destination_layout,
    const std::vector<flat_box>& boxes, const std::size_t element_size) {
	nd_copy(reinterpret_cast<const void*>(source), to_layout(source_layout), reinterpret_cast<void*>(destination), to_layout(destination_layout),
	    unflatten(boxes), element_size);
}

std::vector<std::tuple<std::size_t, std::size_t>> describe_copy(const layout_tuple& source_layout, const layout_tuple& destination_layout,
    const std::vector<flat_box>& boxes, const std::size_t element_size) {
	std::vector<std::tuple<std::size_t, std::size_t>> shape;
	for_each_strided_copy(to_layout(source_layout), to_layout(destination_layout), unflatten(boxes), element_size,
	    [&](const strided_copy& copy) { shape.emplace_back(copy.num_runs(), copy.run_bytes); });
	return shape;
}

void fold_elements(const std::string& op, const std::string& dtype, const std::uintptr_t source, const std::size_t count, const std::uintptr_t destination) {
	fold(look_up<reduction_op>(op, "op"), look_up<scalar_type>(dtype, "dtype"), reinterpret_cast<const void*>(source), count,
	    reinterpret_cast<void*>(destination));
}

} // namespace

void bind_memory_kernels(nb::module_& m) {
	m.def("copy_boxes", &copy_boxes, "source"_a, "source_layout"_a, "destination"_a, "destination_layout"_a, "boxes"_a, "element_size"_a,
	    R"(Copies boxes between two arrays in host memory, given by their addresses. For tests: nothing is checked.

A layout is (is_linear, allocated box, offset in bytes): a dense row-major array over the box, or the boxes packed one after the other from the offset on.)");
	m.def("copy_shape", &describe_copy, "source_layout"_a, "destination_layout"_a, "boxes"_a, "element_size"_a,
	    "How copy_boxes() would go about it: for each box (number of contiguous runs, bytes per run).");
	m.def("fold", &fold_elements, "op"_a, "dtype"_a, "source"_a, "count"_a, "destination"_a,
	    "Writes the fold of `count` elements at address `source`, in order, to address `destination`. Raises ValueError if the operation is not defined.");
}

} // namespace celerity::native
