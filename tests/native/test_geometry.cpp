// SPDX-License-Identifier: MIT
// Region algebra, region maps, splits and range mappers against element-wise brute force, for runs under sanitizers. Exit status 0 is success.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

#include "scheduler/core/geometry/box_lists.hpp"
#include "scheduler/core/geometry/range_mapper.hpp"
#include "scheduler/core/geometry/region_map.hpp"
#include "scheduler/core/geometry/split.hpp"

using namespace celerity;

namespace {

void require(const bool condition, const std::source_location where = std::source_location::current()) {
	if(condition) return;
	std::fprintf(stderr, "%s:%u: failed in %s\n", where.file_name(), static_cast<unsigned>(where.line()), where.function_name());
	std::exit(1);
}

/// An index space small enough to look at every element.
class element_space {
  public:
	element_space(const int dims, const coordinate extent) {
		for(std::size_t d = 0; d < static_cast<std::size_t>(dims); ++d) m_extents[d] = extent;
	}
	box whole() const { return box::full(m_extents); }
	std::size_t size() const { return static_cast<std::size_t>(m_extents.product()); }

	template <typename F>
	void for_each_index(const box& b, F&& f) const {
		for(coordinate i = b.min(0); i < b.max(0); ++i) {
			for(coordinate j = b.min(1); j < b.max(1); ++j) {
				for(coordinate k = b.min(2); k < b.max(2); ++k) f(static_cast<std::size_t>((i * m_extents[1] + j) * m_extents[2] + k));
			}
		}
	}

	box random_box(std::mt19937& random) const {
		point min;
		point max;
		for(std::size_t d = 0; d < 3; ++d) {
			const coordinate extent = m_extents[d];
			min[d] = extent == 1 ? 0 : std::uniform_int_distribution<coordinate>(0, extent - 1)(random);
			max[d] = extent == 1 ? 1 : std::uniform_int_distribution<coordinate>(min[d], extent)(random);
		}
		return box(min, max);
	}

	region random_region(std::mt19937& random, const int max_boxes) const {
		box_vector boxes;
		for(int i = std::uniform_int_distribution(0, max_boxes)(random); i > 0; --i) boxes.push_back(random_box(random));
		return region(std::move(boxes));
	}

	std::vector<bool> mask(const region& r) const {
		std::vector<bool> m(size());
		for(const box& b : r)
			for_each_index(b, [&](const std::size_t i) {
				require(!m[i]); // no two boxes overlap
				m[i] = true;
			});
		return m;
	}

	/// The normal form, straight from its definition.
	region normal_form(const std::vector<bool>& m) const {
		std::vector<box> boxes;
		for_each_index(whole(), [&](const std::size_t index) {
			if(!m[index]) return;
			const coordinate i = static_cast<coordinate>(index) / (m_extents[1] * m_extents[2]);
			const coordinate j = static_cast<coordinate>(index) / m_extents[2] % m_extents[1];
			const coordinate k = static_cast<coordinate>(index) % m_extents[2];
			boxes.push_back(box(point{{i, j, k}}, point{{i + 1, j + 1, k + 1}}));
		});
		for(const std::size_t d : {2, 1, 0}) boxes = joined_along(boxes, d);
		std::sort(boxes.begin(), boxes.end());
		return region::from_normalized(box_vector(std::span<const box>(boxes)));
	}

  private:
	point m_extents{{1, 1, 1}};

	static std::vector<box> joined_along(const std::vector<box>& boxes, const std::size_t d) {
		std::map<std::array<coordinate, 4>, std::map<coordinate, coordinate>> lines; // other two intervals -> intervals along d
		const std::size_t a = d == 0 ? 1 : 0;
		const std::size_t b = d == 2 ? 1 : 2;
		for(const box& each : boxes) lines[{each.min(a), each.max(a), each.min(b), each.max(b)}][each.min(d)] = each.max(d);
		std::vector<box> result;
		for(const auto& [others, intervals] : lines) {
			for(auto it = intervals.begin(); it != intervals.end();) {
				point min;
				point max;
				min[a] = others[0], max[a] = others[1], min[b] = others[2], max[b] = others[3];
				min[d] = it->first;
				for(max[d] = it->first; it != intervals.end() && it->first == max[d]; ++it) max[d] = it->second;
				result.push_back(box(min, max));
			}
		}
		return result;
	}
};

template <typename F>
std::vector<bool> combine(const std::vector<bool>& a, const std::vector<bool>& b, F&& f) {
	std::vector<bool> result(a.size());
	for(std::size_t i = 0; i < a.size(); ++i) result[i] = f(a[i], b[i]);
	return result;
}

void region_algebra_agrees_with_masks(std::mt19937& random) {
	for(int round = 0; round < 6000; ++round) {
		const element_space space(round % 4, 7);
		const int max_boxes = round % 16 < 12 ? 4 : 40;
		const region a = space.random_region(random, max_boxes);
		const region b = space.random_region(random, max_boxes);
		const std::vector<bool> mask_a = space.mask(a);
		const std::vector<bool> mask_b = space.mask(b);
		require(a == space.normal_form(mask_a));
		const region both = space.normal_form(combine(mask_a, mask_b, std::logical_and<>()));
		const region either = space.normal_form(combine(mask_a, mask_b, std::logical_or<>()));
		const region only_a = space.normal_form(combine(mask_a, mask_b, std::greater<>()));
		require(region_intersection(a, b) == both);
		require(region_union(a, b) == either);
		require(region_difference(a, b) == only_a);
		require(a.overlaps(b) == !both.empty());
		require(a.covers(b) == (either == a));
		require(a.area() == std::count(mask_a.begin(), mask_a.end(), true));
		region sum = a;
		add_to(sum, b);
		require(sum == either);
		const box one = space.random_box(random);
		require(a.covers(one) == (region_union(a, one) == a));
		require(a.overlaps(one) == !region_intersection(a, one).empty());
		require(a.bounding_box().covers(region_intersection(a, one).bounding_box()));
	}
}

void sparse_regions_agree_with_masks(std::mt19937& random) {
	for(int round = 0; round < 150; ++round) {
		const element_space space(round % 3 + 1, round % 3 == 0 ? 400 : round % 3 == 1 ? 60 : 14);
		const auto scatter = [&] {
			box_vector boxes;
			for(int i = 0; i < 60; ++i) {
				const box b = space.random_box(random);
				point max = b.max();
				for(std::size_t d = 0; d < 3; ++d) max[d] = std::min(max[d], b.min(d) + 4);
				boxes.push_back(box(b.min(), max));
			}
			return region(std::move(boxes));
		};
		const region a = scatter();
		const region b = scatter();
		const std::vector<bool> mask_a = space.mask(a);
		const std::vector<bool> mask_b = space.mask(b);
		require(a == space.normal_form(mask_a));
		require(region_union(a, b) == space.normal_form(combine(mask_a, mask_b, std::logical_or<>())));
		require(region_intersection(a, b) == space.normal_form(combine(mask_a, mask_b, std::logical_and<>())));
		require(region_difference(a, b) == space.normal_form(combine(mask_a, mask_b, std::greater<>())));
		require(region_difference(a, region_union(a, b)).empty());
	}
}

void box_lists_are_merged_and_split_as_promised(std::mt19937& random) {
	for(int round = 0; round < 1000; ++round) {
		const element_space space(round % 4, 8);
		const region r = space.random_region(random, 6);
		box_vector boxes(r.boxes());
		for(int i = 0; i < 3; ++i) {
			if(const box b = space.random_box(random); !b.empty()) boxes.push_back(b);
		}
		const region before(boxes);
		box_vector merged = boxes;
		merge_connected_boxes(merged);
		require(region(merged) == before);
		box_vector apart = boxes;
		merge_overlapping_bounding_boxes(apart);
		require(region(apart).covers(before));
		for(std::size_t i = 0; i < apart.size(); ++i) {
			for(std::size_t j = 0; j < i; ++j) require(!apart[i].overlaps(apart[j]));
		}
		const box_vector parts = connected_bounding_boxes(r);
		require(region(parts).covers(r));

		std::vector<region> regions;
		for(int i = 0; i < 5; ++i) regions.push_back(space.random_region(random, 3));
		const std::vector<region> inputs = regions;
		symmetrically_split_overlapping_regions(regions);
		for(std::size_t i = 0; i < regions.size(); ++i) {
			require(!regions[i].empty());
			for(std::size_t j = 0; j < i; ++j) require(!regions[i].overlaps(regions[j]));
		}
		for(const region& input : inputs) {
			region sum;
			for(const region& part : regions) {
				require(input.covers(part) || !input.overlaps(part));
				if(input.covers(part)) add_to(sum, part);
			}
			require(sum == input);
		}
	}
}

box_vector sorted(box_vector boxes) {
	std::sort(boxes.begin(), boxes.end());
	return boxes;
}

/// Merges two boxes that `are_related`, as long as there are any.
template <typename Related>
box_vector merge_by_pairs(box_vector boxes, Related&& are_related) {
	for(std::size_t i = 0; i < boxes.size(); ++i) {
		for(std::size_t j = 0; j < boxes.size(); ++j) {
			if(i == j || !are_related(boxes[i], boxes[j])) continue;
			boxes[i] = bounding_box(boxes[i], boxes[j]);
			boxes.swap_remove(j);
			i = j = 0;
		}
	}
	return boxes;
}

void many_boxes_are_merged_as_few_are(std::mt19937& random) {
	const auto next = [&](const int bound) { return std::uniform_int_distribution(0, bound - 1)(random); };
	for(int round = 0; round < 300; ++round) {
		const int dims = 1 + round % 3;
		const auto random_box = [&](const int space, const int extent) {
			point min;
			point max{{1, 1, 1}};
			for(int d = 0; d < dims; ++d) max[static_cast<std::size_t>(d)] = 1 + (min[static_cast<std::size_t>(d)] = next(space)) + next(extent);
			return box(min, max);
		};
		box_vector boxes;
		const int count = 20 + next(60);
		for(int i = 0; i < count; ++i) boxes.push_back(random_box(dims == 1 ? 300 : 40, 4));

		box_vector apart = boxes;
		merge_overlapping_bounding_boxes(apart);
		require(sorted(apart) == sorted(merge_by_pairs(boxes, [](const box& a, const box& b) { return a.overlaps(b); })));

		box_vector merged = apart;
		merge_connected_boxes(merged);
		require(region(merged) == region(apart));
		for(std::size_t i = 0; i < merged.size(); ++i) {
			for(std::size_t j = 0; j < i; ++j) require(region(box_vector{merged[i], merged[j]}).boxes().size() > 1);
		}

		box_vector one_more = merged;
		const box added = random_box(40, 12);
		merge_into(one_more, added);
		merged.push_back(added);
		require(region(one_more) == region(merge_by_pairs(merged, [](const box& a, const box& b) { return a.overlaps(b); })));

		const region r(boxes);
		const box_vector parts = connected_bounding_boxes(r);
		require(region(parts).covers(r));
		require(contiguous_boxes(r).size() <= parts.size());

		const box_index index(boxes);
		for(int i = 0; i < 10; ++i) {
			const box where = random_box(40, 10);
			std::vector<std::size_t> found;
			index.for_each_overlapping(where, [&](const std::size_t position, const box& b) {
				require(boxes[position] == b);
				found.push_back(position);
			});
			std::sort(found.begin(), found.end());
			std::vector<std::size_t> expected;
			for(std::size_t k = 0; k < boxes.size(); ++k) {
				if(boxes[k].overlaps(where)) expected.push_back(k);
			}
			require(found == expected);
			require(index.covers(where) == std::any_of(boxes.begin(), boxes.end(), [&](const box& b) { return b.covers(where); }));
		}
	}
}

void corners_do_not_connect() {
	const box a = box::full(point{{2, 2, 1}});
	const box corner(point{{2, 2, 0}}, point{{4, 4, 1}});
	const box edge(point{{0, 2, 0}}, point{{1, 5, 1}});
	require(connected_bounding_boxes(region(box_vector{a, corner})).size() == 2);
	require(connected_bounding_boxes(region(box_vector{a, edge})).size() == 1);
}

/// A value that owns memory, which the address sanitizer follows.
struct owning_value {
	std::vector<int> ids;
	bool operator==(const owning_value&) const = default;
};

template <typename V, typename Make>
void region_map_agrees_with_an_array(std::mt19937& random, const Make& make, const int dims, const coordinate extent, const int num_values, const int steps) {
	const element_space space(dims, extent);
	region_map<V> map(space.whole(), make(0));
	std::vector<int> expected(space.size(), 0);
	const auto check = [&](const box& where) {
		coordinate area = 0;
		map.query(where, [&](const box& part, const V& value) {
			require(where.covers(part) && !part.empty());
			area += part.area();
			space.for_each_index(part, [&](const std::size_t i) { require(make(expected[i]) == value); });
		});
		require(area == where.area());
	};
	const auto next = [&](const int bound) { return std::uniform_int_distribution(0, bound - 1)(random); };
	for(int step = 0; step < steps; ++step) {
		const region where = next(3) == 0 ? space.random_region(random, 3) : region(space.random_box(random));
		const int value = next(num_values);
		const auto rotate = [&](const int v) { return (v + value) % num_values; };
		const auto rotate_value = [&](V& v) {
			for(int candidate = 0; candidate < num_values; ++candidate) {
				if(v == make(candidate)) {
					v = make(rotate(candidate));
					return;
				}
			}
			require(false);
		};
		if(next(2) == 0) {
			map.update(where, make(value));
			for(const box& b : where) space.for_each_index(b, [&](const std::size_t i) { expected[i] = value; });
		} else {
			if(next(2) == 0) {
				map.modify(where, rotate_value);
			} else { // its answer on merging changes no value
				map.modify(where, [&](V& v) {
					rotate_value(v);
					return next(2) == 0;
				});
			}
			for(const box& b : where) space.for_each_index(b, [&](const std::size_t i) { expected[i] = rotate(expected[i]); });
		}
		if(next(40) == 0) {
			map.transform([&](V& v) { v = v == make(0) ? make(1) : v; });
			std::replace(expected.begin(), expected.end(), 0, 1);
		}
		check(space.random_box(random));
		if(step % 50 == 0) check(space.whole());
		std::size_t entries = 0;
		map.for_each([&](const box&, const V&) { ++entries; });
		require(entries == map.size());
		if(std::count(expected.begin(), expected.end(), expected[0]) == static_cast<std::ptrdiff_t>(expected.size())) require(map.size() == 1);
	}
	check(space.whole());
	map.transform([&](V& v) { v = make(0); });
	require(map.size() == 1);
}

void region_maps_agree_with_arrays(std::mt19937& random) {
	const auto number = [](const int v) { return v; };
	const auto owning = [](const int v) { return owning_value{std::vector<int>(static_cast<std::size_t>(v) + 1, v)}; };
	for(int round = 0; round < 200; ++round) {
		region_map_agrees_with_an_array<int>(random, number, round % 4, 6, 3, 60);
		region_map_agrees_with_an_array<owning_value>(random, owning, round % 4, 5, 2, 60);
	}
	for(int round = 0; round < 3; ++round) { // many entries
		region_map_agrees_with_an_array<int>(random, number, 1, 700, 1000, 500);
		region_map_agrees_with_an_array<int>(random, number, 2, 40, 1000, 500);
		region_map_agrees_with_an_array<owning_value>(random, owning, 2, 40, 4, 500);
		region_map_agrees_with_an_array<int>(random, number, 3, 12, 1000, 500);
	}
}

/// Of thousands of entries, many groups of leaves.
void large_region_maps_agree_with_arrays(std::mt19937& random) {
	const element_space space(2, 120);
	const auto next = [&](const int bound) { return std::uniform_int_distribution(0, bound - 1)(random); };
	const auto small_box = [&](const int extent) {
		const point min{{next(120), next(120), 0}};
		return intersection(box(min, point{{min[0] + 1 + next(extent), min[1] + 1 + next(extent), 1}}), space.whole());
	};
	region_map<int> map(space.whole(), 0);
	std::vector<int> expected(space.size(), 0);
	const auto check = [&](const box& where) {
		coordinate area = 0;
		map.query(where, [&](const box& part, const int value) {
			area += part.area();
			space.for_each_index(part, [&](const std::size_t i) { require(expected[i] == value); });
		});
		require(area == where.area());
	};
	for(int step = 0; step < 12000; ++step) {
		const box where = small_box(next(200) == 0 ? 60 : 2);
		if(next(3) == 0) {
			map.modify(where, [](int& value) { value = (value + 1) % 1000; });
			space.for_each_index(where, [&](const std::size_t i) { expected[i] = (expected[i] + 1) % 1000; });
		} else {
			const int value = next(1000);
			map.update(where, value);
			space.for_each_index(where, [&](const std::size_t i) { expected[i] = value; });
		}
		check(small_box(8));
		if(step % 1000 == 0) check(space.whole());
	}
	require(map.size() > 2000);
	check(space.whole());
}

void writing_a_partition_with_one_value_gives_one_entry(std::mt19937& random) {
	const element_space space(2, 64);
	for(int round = 0; round < 20; ++round) {
		region_map<int> map(space.whole(), 0);
		box_vector parts = split(space.whole(), point{{1, 1, 1}}, cut_tiles, std::size_t{1} << (round % 10));
		std::shuffle(parts.begin(), parts.end(), random);
		int value = 0;
		for(const box& b : parts) map.update(b, ++value);
		require(map.size() == parts.size());
		std::shuffle(parts.begin(), parts.end(), random);
		for(const box& b : parts) map.update(b, 7);
		require(map.size() == 1);
	}
}

void splits_are_partitions() {
	for(const coordinate extent_0 : {0, 1, 2, 7, 64, 100}) {
		for(const coordinate extent_1 : {1, 5, 64}) {
			for(const coordinate granularity : {1, 2, 8}) {
				for(const std::size_t count : {1, 2, 3, 4, 6, 12, 16, 31}) {
					const box space(point{{3, 5, 0}}, point{{3 + extent_0, 5 + extent_1, 1}});
					for(const box_vector& chunks :
					    {split(space, point{{granularity, 1, 1}}, cut_rows, count), split(space, point{{granularity, granularity, 1}}, cut_tiles, count)}) {
						require(region(chunks) == region(space));
						require(chunks.size() <= count);
						coordinate area = 0;
						for(const box& chunk : chunks) {
							require(!chunk.empty());
							area += chunk.area();
							require(chunk.extent(0) % granularity == 0 || chunk.max(0) == space.max(0));
						}
						require(area == space.area());
					}
				}
			}
		}
	}
}

void neighborhoods_agree_with_element_wise_dilation(std::mt19937& random) {
	for(int round = 0; round < 2000; ++round) {
		const int dims = round % 4;
		const element_space space(dims, 9);
		const box chunk = space.random_box(random);
		const box buffer = bounding_box(space.random_box(random), box(point{}, point{{1, 1, 1}}));
		point extents;
		for(std::size_t d = 0; d < static_cast<std::size_t>(dims); ++d) extents[d] = std::uniform_int_distribution(0, 2)(random);
		box_vector grown;
		for(std::size_t d = 0; d < 3; ++d) {
			point min = chunk.min();
			point max = chunk.max();
			min[d] -= extents[d];
			max[d] += extents[d];
			if(!chunk.empty()) grown.push_back(box(min, max));
		}
		const auto mapper = range_mapper::built_in(range_mapper::kind::neighborhood, dims, extents, range_mapper::along_axes);
		require(mapper.map(chunk, space.whole(), dims, buffer, dims) == region_intersection(region(grown), buffer));
	}
}

void a_table_knows_only_its_chunks() {
	const box whole = box::full(point{{64, 1, 1}});
	const box_vector chunks = split(whole, point{{1, 1, 1}}, cut_rows, 7);
	range_mapper::table_type entries;
	for(const box& b : chunks) entries.emplace_back(b, region(box(point{{b.min(0) + 1, 0, 0}}, point{{b.max(0) + 1, 1, 1}})));
	const range_mapper mapper = range_mapper::from_table(std::move(entries));
	for(const box& b : chunks) require(mapper.map(b, whole, 1, whole, 1).boxes()[0].min(0) == b.min(0) + 1);
	require(mapper.map(chunks[6], whole, 1, whole, 1).bounding_box().max(0) == 64);
	bool has_thrown = false;
	try {
		(void)mapper.map(whole, whole, 1, whole, 1);
	} catch(const std::logic_error&) { has_thrown = true; }
	require(has_thrown);
}

} // namespace

int main() {
	std::mt19937 random(42);
	region_algebra_agrees_with_masks(random);
	sparse_regions_agree_with_masks(random);
	box_lists_are_merged_and_split_as_promised(random);
	many_boxes_are_merged_as_few_are(random);
	corners_do_not_connect();
	region_maps_agree_with_arrays(random);
	large_region_maps_agree_with_arrays(random);
	writing_a_partition_with_one_value_gives_one_entry(random);
	splits_are_partitions();
	neighborhoods_agree_with_element_wise_dilation(random);
	a_table_knows_only_its_chunks();
	std::puts("ok");
}
