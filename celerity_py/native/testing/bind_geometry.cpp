// SPDX-License-Identifier: MIT
// Splits and region maps, for tests.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <vector>

#include "scheduler/core/geometry/region_map.hpp"
#include "scheduler/core/geometry/split.hpp"
#include "testing_bindings.hpp"
#include "submit/user_geometry.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {
namespace {

nb::list as_list(const box_vector& chunks, const int dims) {
	nb::list result;
	for(const box& chunk : chunks) result.append(user_box{chunk, dims});
	return result;
}

point granularity_of(const nb::tuple& granularity) {
	int dims = 0;
	return to_point(granularity, 1, dims, "A granularity");
}

auto affine(const int factor, const int offset) {
	return [=](int& value) { value = value * factor + offset; };
}

/// A region map from elements to integers.
class region_map_for_tests {
  public:
	using entries = std::vector<std::pair<user_box, int>>;

	region_map_for_tests(const user_box& domain, const int initial) : m_map(domain.b, initial), m_dims(domain.dims) {}

	void update(const user_region& where, const int value) { m_map.update(where.r, value); }
	void update_box(const user_box& where, const int value) { m_map.update(where.b, value); }
	/// v := v * factor + offset
	void modify(const user_region& where, const int factor, const int offset) { m_map.modify(where.r, affine(factor, offset)); }
	void modify_box(const user_box& where, const int factor, const int offset) { m_map.modify(where.b, affine(factor, offset)); }
	void transform(const int factor, const int offset) { m_map.transform(affine(factor, offset)); }

	entries query(const user_box& where) const {
		entries found;
		m_map.query(where.b, [&](const box& b, const int value) { found.emplace_back(user_box{b, m_dims}, value); });
		return found;
	}
	entries all() const {
		entries found;
		m_map.for_each([&](const box& b, const int value) { found.emplace_back(user_box{b, m_dims}, value); });
		return found;
	}
	std::size_t size() const { return m_map.size(); }

  private:
	region_map<int> m_map;
	int m_dims;
};

} // namespace

void bind_geometry(nb::module_& m) {
	m.def(
	    "split",
	    [](const user_box& space, const nb::tuple& granularity, const cut_costs& costs, const std::size_t count) {
		    return as_list(split(space.b, granularity_of(granularity), costs, count), space.dims);
	    },
	    "space"_a, "granularity"_a, "costs"_a, "count"_a,
	    nb::sig("def split(space: celerity_py._native.Box, granularity: tuple[int, ...], costs: tuple[float, float, float], count: int) -> "
	            "list[celerity_py._native.Box]"));
	m.def(
	    "split_by_weights",
	    [](const user_box& space, const nb::tuple& granularity, const std::vector<double>& weights) {
		    return as_list(split_by_weights(space.b, granularity_of(granularity), weights), space.dims);
	    },
	    "space"_a, "granularity"_a, "weights"_a,
	    nb::sig("def split_by_weights(space: celerity_py._native.Box, granularity: tuple[int, ...], weights: collections.abc.Sequence[float]) -> "
	            "list[celerity_py._native.Box]"));
	m.def(
	    "split_into_blocks",
	    [](const user_box& space, const nb::tuple& granularity, const coordinate extent) {
		    return as_list(split_into_blocks(space.b, granularity_of(granularity), extent), space.dims);
	    },
	    "space"_a, "granularity"_a, "extent"_a,
	    nb::sig("def split_into_blocks(space: celerity_py._native.Box, granularity: tuple[int, ...], extent: int) -> list[celerity_py._native.Box]"));
	nb::class_<region_map_for_tests>(m, "RegionMap", "Maps the elements of a box to integers.")
	    .def(nb::init<const user_box&, int>(), "domain"_a, "initial"_a)
	    .def("update", &region_map_for_tests::update_box, "where"_a, "value"_a)
	    .def("update", &region_map_for_tests::update, "where"_a, "value"_a)
	    .def("modify", &region_map_for_tests::modify_box, "where"_a, "factor"_a, "offset"_a, "Replaces each value v in `where` by v * factor + offset.")
	    .def("modify", &region_map_for_tests::modify, "where"_a, "factor"_a, "offset"_a)
	    .def("transform", &region_map_for_tests::transform, "factor"_a, "offset"_a)
	    .def("query", &region_map_for_tests::query, "where"_a)
	    .def("entries", &region_map_for_tests::all)
	    .def("__len__", &region_map_for_tests::size);
}

} // namespace celerity::native
