// SPDX-License-Identifier: MIT
// Copies and reductions of the executor in host memory, and the grids of fused kernels, for tests.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "executor/core/memory/nd_copy.hpp"
#include "executor/core/memory/reduce_kernels.hpp"
#include "flat_values.hpp"
#include "fused_threads.hpp"
#include "look_up.hpp"
#include "testing_bindings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {
namespace {

/// The box of a dense array; without value if the data lies packed.
using array_box = std::optional<flat_box>;

/// An array_place that owns its box.
struct given_place {
	box array;
	array_place place;

	given_place(const std::uintptr_t address, const array_box& given) : place{reinterpret_cast<std::byte*>(address)} {
		if(!given.has_value()) return;
		array = unflatten(*given);
		place.array = &array;
	}
	given_place(const given_place&) = delete;
	given_place& operator=(const given_place&) = delete;
};

void copy_boxes(const std::uintptr_t source, const array_box& source_array, const std::uintptr_t destination, const array_box& destination_array,
    const std::vector<flat_box>& boxes, const std::size_t element_size) {
	nd_copy(given_place(source, source_array).place, given_place(destination, destination_array).place, unflatten(boxes), element_size);
}

std::vector<std::tuple<std::size_t, std::size_t>> describe_copy(const array_box& source_array, const array_box& destination_array,
    const std::vector<flat_box>& boxes, const std::size_t element_size) {
	const given_place source(0, source_array), destination(0, destination_array);
	std::vector<std::tuple<std::size_t, std::size_t>> shape;
	for_each_strided_copy(source.place.array, destination.place.array, unflatten(boxes), element_size,
	    [&](const strided_copy& copy) { shape.emplace_back(copy.num_runs(), copy.run_bytes); });
	return shape;
}

void reduce_elements(const std::string& op, const std::string& dtype, const std::uintptr_t source, const std::size_t count, const std::uintptr_t destination,
    const std::size_t num_elements) {
	reduce_partials(look_up<reduction_op>(op, "op"), look_up<scalar_type>(dtype, "dtype"), reinterpret_cast<const void*>(source), count, num_elements,
	    reinterpret_cast<void*>(destination));
}

/// None if there are no items.
using begun_pass = std::optional<std::tuple<extents, extents, bool, std::vector<std::int64_t>>>;

begun_pass begin_pass(const std::vector<std::int64_t>& bounds, const flat_threads& threads, const std::vector<std::int64_t>& words, const std::size_t strides,
    const std::size_t numbers) {
	fused_block block;
	for(const auto word : words) block.put(word);
	const auto grid = fused_kernel::begin_pass({bounds}, to_threads(threads), {strides, numbers, 0}, block);
	if(!grid) return std::nullopt;
	return std::tuple{grid->blocks, grid->threads, grid->is_single, std::vector(block.words(), block.words() + block.size())};
}

} // namespace

void bind_memory_kernels(nb::module_& m) {
	m.def("copy_boxes", &copy_boxes, "source"_a, "source_array"_a.none(), "destination"_a, "destination_array"_a.none(), "boxes"_a, "element_size"_a,
	    R"(Copies boxes between two arrays in host memory, given by their addresses. For tests: nothing is checked.

Data lies in a dense row-major array over the given box, or packed, box after box, if that is None.)");
	m.def("copy_shape", &describe_copy, "source_array"_a.none(), "destination_array"_a.none(), "boxes"_a, "element_size"_a,
	    "How copy_boxes() would go about it: for each box (number of contiguous runs, bytes per run).");
	m.def("reduce", &reduce_elements, "op"_a, "dtype"_a, "source"_a, "count"_a, "destination"_a, "num_elements"_a = 1,
	    "Reduces `count` arrays at address `source`, in order and element by element, to address `destination`. Raises ValueError if the operation is not defined.");
	m.def("begin_pass", &begin_pass, "bounds"_a, "threads"_a, "words"_a, "strides"_a, "numbers"_a,
	    R"((blocks of the grid, threads of a block, whether those of the function without vectors, the parameter block with the columns of vectors), x first; None
if there are no items.

Arguments are those of FusedLaunch, and the words of the block, with the places where strides and numbers begin.)");
}

} // namespace celerity::native
