// SPDX-License-Identifier: MIT
// The parameters of a launch: accessors find their elements wherever the parts of a periodic access lie.
#include <cstdint>
#include <deque>
#include <vector>

#include "executor/core/backends/cuda/cuda_function.hpp"
#include "tests/native/check.hpp"

using namespace celerity;

namespace {

using value = std::int64_t;
using kind = cuda_function::parameter::kind_type;

/// As the device header lays a periodic accessor out; a unit test compares the header with the executor's description.
struct periodic_3d {
	struct {
		std::uintptr_t data;
		std::int64_t stride[2];
	} parts[8];
	std::int64_t split[3];
	std::int64_t extent[3];

	value at(const point& where) const {
		std::size_t number = 0;
		std::int64_t offset = where[2];
		for(std::size_t d = 0; d < 3; ++d) number = number * 2 + (where[d] >= split[d] ? 1 : 0);
		for(std::size_t d = 0; d < 2; ++d) offset += where[d] * parts[number].stride[d];
		return *reinterpret_cast<const value*>(parts[number].data + static_cast<std::uintptr_t>(offset) * sizeof(value));
	}
};

const point extents{{30, 20, 10}};

value number_of(const point& where) { return (where[0] * 100 + where[1]) * 100 + where[2]; }

template <typename F>
void for_each_point(const box& b, F&& f) {
	for(coordinate i = b.min(0); i < b.max(0); ++i)
		for(coordinate j = b.min(1); j < b.max(1); ++j)
			for(coordinate k = b.min(2); k < b.max(2); ++k) f(point{{i, j, k}});
}

/// Parts, each with the box that is allocated for it. `is_whole`: a single allocation, and no parts.
void check_access(const std::vector<std::pair<box, box>>& parts, const bool is_whole = false) {
	std::deque<box> arrays;
	std::deque<std::vector<value>> memory;
	std::vector<access_part> bound;
	launch_operation launch;
	// Another access before and behind, so that places belong to the right accesses.
	const box single(point{{0, 0, 0}}, point{{1, 1, 1}});
	value before = -1;
	value behind = -2;
	launch.access_places.push_back({reinterpret_cast<std::byte*>(&before), &single});
	box_vector accessed;
	for(const auto& [part, allocated] : parts) {
		accessed.push_back(part);
		auto& values = memory.emplace_back();
		for_each_point(allocated, [&](const point& where) { values.push_back(number_of(where)); });
		bound.push_back({allocation_id{memory_id(2), memory.size()}, part});
		launch.access_places.push_back({reinterpret_cast<std::byte*>(values.data()), &arrays.emplace_back(allocated)});
	}
	launch.access_places.push_back({reinterpret_cast<std::byte*>(&behind), &single});
	if(is_whole) bound.clear();

	const box whole(point{}, extents);
	const std::vector<box> one{single};
	const std::vector<access_binding> accesses{
	    {buffer_id(1), access_mode::read, allocation_id{memory_id(2), 90}, single, one, single},
	    {buffer_id(2), access_mode::read, is_whole ? allocation_id{memory_id(2), 1} : allocation_id{memory_id(2), 0}, whole, accessed, whole, bound},
	    {buffer_id(3), access_mode::read, allocation_id{memory_id(2), 91}, single, one, single},
	};
	const device_kernel_instruction kernel{device_id(0), submission_id(1), single, accesses, {}};
	native_launch registered;
	registered.space = single;
	launch.launch = &registered;
	launch.instruction = &kernel;
	const cuda_function::parameter plain{kind::accessor, 1, sizeof(value), {}};
	const cuda_function function({}, {1}, {}, 0, {{kind::chunk, 1, 0, {}}, plain, {kind::periodic_accessor, 3, sizeof(value), {}}, plain}, false);
	packed_parameters packed;
	packed.pack(function, launch);

	check(**static_cast<value* const*>(packed.pointers()[1]) == before, "the access before has its place");
	check(**static_cast<value* const*>(packed.pointers()[3]) == behind, "the access behind has its place");
	const auto& accessor = *static_cast<const periodic_3d*>(packed.pointers()[2]);
	for(std::size_t d = 0; d < 3; ++d) check(accessor.extent[d] == extents[d], "an accessor has the extents of the buffer");
	for(const auto& [part, allocated] : parts)
		for_each_point(part, [&](const point& where) { check(accessor.at(where) == number_of(where), "an accessor finds each element"); });
}

/// Intervals in each dimension. Their product are the parts, and some of them may be missing.
void check_product(const std::vector<std::vector<std::pair<coordinate, coordinate>>>& intervals, const coordinate padding) {
	std::vector<std::pair<box, box>> parts;
	for(const auto& i : intervals[0])
		for(const auto& j : intervals[1])
			for(const auto& k : intervals[2]) {
				const box part(point{{i.first, j.first, k.first}}, point{{i.second, j.second, k.second}});
				const box larger(point{{i.first - padding, j.first, k.first}}, point{{i.second, j.second + padding, k.second}});
				parts.emplace_back(part, intersection(larger, box(point{}, extents)));
			}
	check_access(parts);
	if(parts.size() == 8) { // as with shape="axes"
		check_access({parts[0], parts[4], parts[2], parts[1]});
		check_access({parts[7], parts[3], parts[5], parts[6]});
	}
}

} // namespace

int main() {
	check_access({{box(point{}, extents), box(point{}, extents)}}, true);
	check_access({{box(point{{3, 4, 5}}, point{{6, 7, 8}}), box(point{{2, 4, 5}}, point{{6, 9, 9}})}}, true);
	for(const coordinate padding : {0, 1}) {
		check_product({{{0, 11}, {29, 30}}, {{0, 20}}, {{0, 10}}}, padding);
		check_product({{{0, 2}, {14, 30}}, {{0, 20}}, {{0, 3}, {9, 10}}}, padding);
		check_product({{{4, 8}}, {{0, 1}, {13, 20}}, {{2, 5}}}, padding);
		check_product({{{0, 11}, {28, 30}}, {{0, 3}, {10, 20}}, {{0, 4}, {6, 10}}}, padding);
	}
	// The part in the middle of a plus is a little larger than those at the other side.
	check_access({{box(point{{0, 0, 0}}, point{{6, 7, 10}}), box(point{{0, 0, 0}}, point{{6, 7, 10}})},
	    {box(point{{29, 1, 0}}, point{{30, 6, 10}}), box(point{{28, 1, 0}}, point{{30, 6, 10}})},
	    {box(point{{1, 18, 0}}, point{{5, 20, 10}}), box(point{{1, 18, 0}}, point{{5, 20, 10}})}});
	return 0;
}
