// SPDX-License-Identifier: MIT
// Fused kernels, and what the maker needs to know of a submit.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "executor/core/devices/fused_kernel.hpp"
#include "fused_threads.hpp"
#include "submit/local_accesses.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {
namespace {

/// (access, dimensions of the buffer, bytes of an element, strides of its dimensions, whether it is a reduction)
using flat_memory = std::tuple<std::size_t, std::uint32_t, std::size_t, std::vector<std::int64_t>, bool>;
/// (functions, functions without vectors, threads)
using flat_pass = std::tuple<std::vector<std::uintptr_t>, std::vector<std::uintptr_t>, std::optional<flat_threads>>;
/// (passes, first byte of the scalars, bytes)
using flat_structure = std::tuple<std::vector<flat_pass>, std::size_t, std::size_t>;
/// (offset, strides)
using flat_scratch = std::pair<std::int64_t, std::vector<std::int64_t>>;
/// (bounds, parts)
using flat_items = std::pair<std::vector<std::int64_t>, std::int64_t>;
/// (chunk, structure, items by pass, numbers, scratch, bytes of scratch memory, parts by memory)
using flat_chunk =
    std::tuple<user_box, std::size_t, std::vector<flat_items>, std::vector<std::int64_t>, std::vector<flat_scratch>, std::size_t, std::vector<user_box>>;

/// Python's object keeps the code of the functions, which lives as long as C++ refers to the kernel through that object.
void make_kernel(fused_kernel* const place, const std::vector<flat_memory>& memories, const std::vector<flat_structure>& structures,
    const std::vector<flat_chunk>& chunks, const nb::handle /* code */) {
	std::vector<fused_memory> made_memories;
	for(const auto& [access, dims, size_bytes, strides, is_reduction] : memories) {
		made_memories.push_back({access, dims, size_bytes, strides, is_reduction});
	}
	std::vector<fused_structure> made_structures;
	for(const auto& [passes, first_byte, size_bytes] : structures) {
		made_structures.push_back({{}, first_byte, size_bytes});
		for(const auto& [functions, single, threads] : passes) {
			made_structures.back().passes.push_back({functions, single, threads ? to_threads(*threads) : fused_threads()});
		}
	}
	std::vector<fused_chunk> made_chunks;
	for(const auto& [chunk, structure, items, numbers, scratch, scratch_bytes, parts] : chunks) {
		made_chunks.push_back({chunk.b, structure, {}, numbers, {}, scratch_bytes, {}});
		for(const auto& part : parts) made_chunks.back().parts.push_back(part.b);
		for(const auto& [bounds, parts] : items) made_chunks.back().items.push_back({bounds, parts});
		for(const auto& [offset, strides] : scratch) made_chunks.back().scratch.push_back({offset, strides});
	}
	new(place) fused_kernel(std::move(made_memories), std::move(made_structures), std::move(made_chunks));
}

/// A pass as it is launched: (functions, bounds of the items, grid, block, the parameter block, and where strides, numbers and scalars begin in it, in words)
using flat_launch = std::tuple<std::vector<std::uintptr_t>, std::vector<std::int64_t>, extents, extents, nb::bytes, std::array<std::size_t, 3>>;
/// The address of an allocation, and where it lies in its buffer.
using flat_place = std::optional<std::pair<std::uintptr_t, user_box>>;

std::vector<flat_launch> launches_of(const fused_kernel& kernel, const user_box& chunk, const std::vector<flat_place>& places,
    const std::vector<flat_place>& reductions, const nb::bytes& scalars, const std::uintptr_t scratch) {
	const auto* const first = static_cast<const std::byte*>(scalars.data());
	const native_launch launch{nullptr, {first, first + scalars.size()}, chunk.b};
	launch_operation operation;
	operation.launch = &launch;
	const auto to_place = [](const flat_place& place) {
		return place ? array_place{reinterpret_cast<std::byte*>(place->first), &place->second.b} : array_place{};
	};
	for(const auto& place : places) operation.access_places.push_back(to_place(place));
	for(const auto& place : reductions) operation.reduction_places.push_back(to_place(place));
	const auto& known = kernel.find(chunk.b);
	const auto& passes = kernel.structure_of(known).passes;
	fused_block block;
	const auto at = kernel.fill(known, operation, reinterpret_cast<const void*>(scratch), block);
	std::vector<flat_launch> result;
	for(std::size_t i = 0; i < passes.size(); ++i) {
		const auto grid = fused_kernel::begin_pass(known.items[i], passes[i].threads, at, block);
		if(!grid) continue;
		const nb::bytes words(block.words(), block.size() * sizeof(std::int64_t));
		const std::int64_t count = std::max<std::int64_t>(known.items[i].parts, 1);
		for(std::int64_t part = 0; part < count; ++part) {
			result.emplace_back(passes[i].functions_of(*grid), known.items[i].part(part, count), grid->blocks, grid->threads, words,
			    std::array{at.strides, at.numbers, at.scalars});
		}
	}
	return result;
}

} // namespace

void bind_fused_kernels(nb::module_& m) {
	nb::class_<native_kernel>(m, "NativeKernel", "A kernel that native code launches.");
	nb::class_<fused_kernel, native_kernel>(m, "FusedLaunch", "A fused kernel for the chunks of a task on this rank. Immutable.")
	    .def("__init__", &make_kernel, "memories"_a, "structures"_a, "chunks"_a, "code"_a, nb::keep_alive<1, 5>(),
	        R"(memories: (access, dimensions of its buffer, bytes of an element, strides of the element's dimensions, whether it is the partial result of a
reduction, and then the number of that) each.

structures: (passes, first byte of the scalars, their bytes). A pass is (functions, functions without vectors, threads): of GPUs CUfunctions, one per
local device each, of CPU devices one address, no other and None. Threads are (shape, memories of vectors, margins of vectors, place of their bounds among the
numbers, shape of the functions without vectors, most blocks), as in `fusion.launches.PassLaunch`. A shape is (block, items of each thread), x first. A memory of vectors is (memory, its first stride, dimensions, bytes of an item).

chunks: (box, structure, items by pass, numbers, scratch, its bytes, parts). Items are (bounds, parts): 0 parts are as many as suits the device. A part of scratch memory is (offset of the element at the origin of all coordinates,
strides), in bytes. Parts are by memory a box of a periodic access, an empty one of others; none if there are no periodic accesses.

code: has the functions, and lives as long as the launch.)")
	    .def(
	        "scratch_bytes", [](const fused_kernel& self, const user_box& chunk) { return self.find(chunk.b).scratch_bytes; }, "chunk"_a,
	        "The scratch memory that a chunk needs.")
	    .def("launches", &launches_of, "chunk"_a, "places"_a, "reductions"_a, "scalars"_a, "scratch"_a,
	        R"(What the passes of a chunk are launched with, in their order, for whoever launches them by hand. Passes without items are left out.

places: by access, the address of an allocation and where it lies in its buffer; None for an empty access. reductions: the same of partial results. scratch: the address of memory of `scratch_bytes`.

Returns (functions, bounds of the items, grid, block, the parameter block, and the words in it at which strides, numbers and scalars begin) each.)");
	nb::class_<local_accesses>(m, "LocalAccesses", "What the chunks of this rank's devices access.")
	    .def_prop_ro("key", &local_accesses::key, "Equal for equal chunks and regions.")
	    .def("chunks", &local_accesses::chunks, "Each chunk, with the region of each access.");
}

} // namespace celerity::native
