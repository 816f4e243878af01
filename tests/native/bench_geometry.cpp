// SPDX-License-Identifier: MIT
// The cost of region algebra, region maps and range mappers. The random inputs follow the upstream project's grid benchmarks in their parameters, so that
// the figures can be compared: boxes at uniform positions of a grid, extents 1 + binomial(max_extent - 1, 1/2), seeds 42 or (13, 37).
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "scheduler/core/geometry/range_mapper.hpp"
#include "scheduler/core/geometry/region_map.hpp"
#include "scheduler/core/geometry/split.hpp"

using namespace celerity;

namespace {

volatile std::size_t sink = 0; // keeps results alive

/// Microseconds per call: the best of several batches, because the machine may be busy.
template <typename F>
double measure(F&& f) {
	using clock = std::chrono::steady_clock;
	const auto time_batch = [&](const int calls) {
		const auto begin = clock::now();
		for(int i = 0; i < calls; ++i) sink = sink + f();
		return std::chrono::duration<double, std::micro>(clock::now() - begin).count();
	};
	int calls = 1;
	while(time_batch(calls) < 400) calls *= 2;
	double best = 1e300;
	for(int i = 0; i < 40; ++i) best = std::min(best, time_batch(calls) / calls);
	return best;
}

struct input_size {
	const char* label;
	coordinate grid;
	int max_extent;
	int num_boxes;
};

box_vector random_boxes(const input_size& size, const int num_boxes, const int dims, const unsigned seed) {
	std::minstd_rand random(seed);
	std::uniform_int_distribution<coordinate> position(0, size.grid - 1);
	std::binomial_distribution<coordinate> extent(size.max_extent - 1, 0.5);
	box_vector boxes;
	while(static_cast<int>(boxes.size()) < num_boxes) {
		point min;
		point max{{1, 1, 1}};
		bool fits = true;
		for(std::size_t d = 0; d < static_cast<std::size_t>(dims); ++d) {
			min[d] = position(random);
			max[d] = min[d] + 1 + extent(random);
			fits = fits && max[d] <= size.grid;
		}
		if(fits) boxes.push_back(box(min, max));
	}
	return boxes;
}

void bench_region_algebra() {
	const std::array<input_size, 3> sizes{{{"small", 10, 5, 4}, {"medium", 50, 1, 50}, {"large", 200, 20, 100}}};
	std::printf("%-40s %10s %10s %10s\n", "region algebra, us", "small", "medium", "large");
	for(const int dims : {2, 3}) {
		std::array<std::string, 4> rows;
		for(const input_size& size : sizes) {
			const region a(random_boxes(size, size.num_boxes, dims, 13));
			const region b(random_boxes(size, size.num_boxes, dims, 37));
			const box_vector boxes = random_boxes(size, size.num_boxes == 100 ? 200 : size.num_boxes, dims, 42);
			const std::array<double, 4> times{measure([&] { return region_union(a, b).boxes().size(); }),
			    measure([&] { return region_intersection(a, b).boxes().size(); }), measure([&] { return region_difference(a, b).boxes().size(); }),
			    measure([&] { return region(boxes).boxes().size(); })};
			for(std::size_t i = 0; i < 4; ++i) {
				std::array<char, 32> text{};
				std::snprintf(text.data(), text.size(), " %10.3f", times[i]);
				rows[i] += text.data();
			}
		}
		const std::array<const char*, 4> names{"union", "intersection", "difference", "normalise random boxes"};
		for(std::size_t i = 0; i < 4; ++i) std::printf("%dd %-37s%s\n", dims, names[i], rows[i].c_str());
	}
	for(const int dims : {1, 2, 3}) {
		const int per_side = dims == 1 ? 1000 : dims == 2 ? 32 : 10;
		box_vector tiles;
		for(int i = 0; i < per_side; ++i) {
			for(int j = 0; j < (dims > 1 ? per_side : 1); ++j) {
				for(int k = 0; k < (dims > 2 ? per_side : 1); ++k) {
					const point min{{i * 5, dims > 1 ? j * 5 : 0, dims > 2 ? k * 5 : 0}};
					tiles.push_back(box(min, point{{min[0] + 5, dims > 1 ? min[1] + 5 : 1, dims > 2 ? min[2] + 5 : 1}}));
				}
			}
		}
		std::printf("%dd %-37s %10.3f\n", dims, "normalise a tiling of 1000", measure([&] { return region(tiles).boxes().size(); }));
	}
}

void report(const char* const name, const double us) { std::printf("%-50s %8.1f ns\n", name, us * 1e3); }

void bench_single_boxes() {
	const region a(box(point{{0, 0, 0}}, point{{64, 64, 1}}));
	const region b(box(point{{32, 0, 0}}, point{{96, 64, 1}}));
	const region far(box(point{{65, 0, 0}}, point{{96, 64, 1}}));
	report("union of two boxes that merge", measure([&] { return region_union(a, b).boxes().size(); }));
	report("union of two boxes apart", measure([&] { return region_union(a, far).boxes().size(); }));
	report("intersection of two boxes", measure([&] { return region_intersection(a, b).boxes().size(); }));
	report("difference of two boxes", measure([&] { return region_difference(a, b).boxes().size(); }));
	region rows;
	for(int i = 0; i < 4; ++i) add_to(rows, box(point{{i * 32, 0, 0}}, point{{i * 32 + 8, 64, 1}}));
	report("intersection of four rows with a box", measure([&] { return region_intersection(rows, a).boxes().size(); }));
	report("difference of four rows and a box", measure([&] { return region_difference(rows, a).boxes().size(); }));
	report("difference of a box and four rows", measure([&] { return region_difference(a, rows).boxes().size(); }));
	report("union of four rows and a box", measure([&] { return region_union(rows, a).boxes().size(); }));
}

void bench_region_maps() {
	struct wide_value { // as large as an access front with a few readers
		std::array<std::uint64_t, 8> ids{};
		bool operator==(const wide_value&) const = default;
	};
	std::printf("\nregion map: entries, us for a pass over all chunks / ns per call\n");
	for(const int count : {1, 4, 16, 32, 64, 128, 1024, 4096}) {
		const coordinate height = 8;
		const box domain = box::full(point{{count * height, 1024, 1}});
		const auto chunk = [&](const int i) { return box(point{{i * height, 0, 0}}, point{{(i + 1) * height, 1024, 1}}); };
		const auto halo = [&](const int i) { return intersection(box(point{{i * height - 1, 0, 0}}, point{{(i + 1) * height + 1, 1024, 1}}), domain); };
		region_map<std::uint64_t> ids(domain, 0);
		region_map<wide_value> fronts(domain, {});
		for(int i = 0; i < count; ++i) {
			ids.update(chunk(i), static_cast<std::uint64_t>(i + 1));
			fronts.update(chunk(i), wide_value{{static_cast<std::uint64_t>(i + 1)}});
		}
		std::uint64_t next = 10000;
		const auto per_call = [&](const auto& f) {
			return 1e3 / count * measure([&] {
				for(int i = 0; i < count; ++i) f(i);
				return std::size_t{1};
			});
		};
		std::printf("%5d entries: query %6.1f  query halo %6.1f  update %6.1f  update wide %6.1f  modify %6.1f  cut rows and rejoin %7.1f  transform %8.1f\n",
		    count, per_call([&](const int i) { ids.query(chunk(i), [&](const box&, const std::uint64_t v) { sink = sink + v; }); }),
		    per_call([&](const int i) { ids.query(halo(i), [&](const box&, const std::uint64_t v) { sink = sink + v; }); }),
		    per_call([&](const int i) { ids.update(chunk(i), ++next); }), per_call([&](const int i) { fronts.update(chunk(i), wide_value{{++next}}); }),
		    per_call([&](const int i) { ids.modify(chunk(i), [&](std::uint64_t& v) { v = ++next; }); }), per_call([&](const int i) {
			    const box whole = chunk(i);
			    ids.modify(box(whole.min(), point{{whole.min(0) + 1, 1024, 1}}), [&](std::uint64_t& v) { v = ++next; });
			    ids.modify(box(point{{whole.max(0) - 1, 0, 0}}, whole.max()), [&](std::uint64_t& v) { v = ++next; });
			    ids.update(whole, ++next);
		    }),
		    per_call([&](const int) { ids.transform([&](std::uint64_t& v) { v += 1; }); }));
	}
}

void bench_range_mappers() {
	const box whole = box::full(point{{1024, 1024, 1}});
	const box chunk(point{{256, 0, 0}}, point{{512, 1024, 1}});
	const box tile(point{{256, 256, 0}}, point{{512, 512, 1}});
	const auto map = [&](const char* const name, const range_mapper& mapper, const box& of, const int kernel_dims) {
		report(name, measure([&] { return mapper.map(of, whole, kernel_dims, whole, 2).boxes().size(); }));
	};
	std::printf("\n");
	map("one_to_one", range_mapper::one_to_one(), chunk, 2);
	map("all", range_mapper::all(), chunk, 2);
	map("slice", range_mapper::built_in(range_mapper::kind::slice, 1, point{{1, 0, 0}}), tile, 2);
	map("neighborhood box", range_mapper::built_in(range_mapper::kind::neighborhood, 2, point{{1, 1, 0}}), tile, 2);
	map("neighborhood axes of rows", range_mapper::built_in(range_mapper::kind::neighborhood, 2, point{{1, 1, 0}}, range_mapper::along_axes), chunk, 2);
	map("neighborhood axes of a tile", range_mapper::built_in(range_mapper::kind::neighborhood, 2, point{{1, 1, 0}}, range_mapper::along_axes), tile, 2);
	range_mapper::table_type table;
	const box_vector chunks = split(whole, point{{1, 1, 1}}, cut_rows, 128);
	for(const box& b : chunks) table.emplace_back(b, region(b));
	const range_mapper mapper = range_mapper::from_table(std::move(table));
	std::size_t next = 0;
	report("table of 128, in order", measure([&] { return mapper.map(chunks[next++ % 128], whole, 2, whole, 2).boxes().size(); }));
	report("table of 128, out of order", measure([&] { return mapper.map(chunks[(next += 37) % 128], whole, 2, whole, 2).boxes().size(); }));
	report("split_1d into 4", measure([&] { return split(whole, point{{1, 1, 1}}, cut_rows, 4).size(); }));
	report("split_1d into 128", measure([&] { return split(whole, point{{1, 1, 1}}, cut_rows, 128).size(); }));
	report("split_2d into 128", measure([&] { return split(whole, point{{1, 1, 1}}, cut_tiles, 128).size(); }));
}

} // namespace

int main() {
	bench_region_algebra();
	bench_single_boxes();
	bench_region_maps();
	bench_range_mappers();
}
