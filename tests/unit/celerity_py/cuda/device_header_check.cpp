// SPDX-License-Identifier: MIT
// The device header, compiled for the host: prints layouts, and what chunks, accessors and reducers compute, as "name value" lines.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "device_on_host.hpp"

#include "celerity_reducers.cuh"

using celerity::accessor;
using celerity::chunk;
using celerity::reducer;

namespace {

void show(const char* const name, const long long value) { std::printf("%s %lld\n", name, value); }

#define OFFSET(type, member) show(#type "." #member, (long long)offsetof(type, member))
#define COMMA ,
#define SIZE(type) show("sizeof " #type, (long long)sizeof(type))

using chunk0 = chunk<0>;
using chunk1 = chunk<1>;
using chunk2 = chunk<2>;
using chunk3 = chunk<3>;
using accessor0 = accessor<float, 0>;
using accessor1 = accessor<const char, 1>;
using accessor2 = accessor<double, 2>;
using accessor3 = accessor<float, 3>;
using periodic1 = accessor<const char, 1, celerity::wrap>;
using periodic2 = accessor<double, 2, celerity::wrap>;
using periodic3 = accessor<float, 3, celerity::wrap>;
using reducer0 = reducer<char, celerity::sum>;
using reducer1 = reducer<char, celerity::sum, 1>;
using reducer3 = reducer<double, celerity::max, 3>;
using violation = celerity::violation;

#define CHUNK(type) \
	SIZE(type); \
	OFFSET(type, min); \
	OFFSET(type, max); \
	OFFSET(type, global_min); \
	OFFSET(type, global_max)
#if CELERITY_BOUNDS_CHECK
#define BOUNDS(type) \
	OFFSET(type, bounds.num_boxes); \
	OFFSET(type, bounds.low); \
	OFFSET(type, bounds.high); \
	OFFSET(type, bounds.report); \
	OFFSET(type, bounds.access)
#define REDUCER(type) \
	SIZE(type); \
	OFFSET(type, partial); \
	OFFSET(type, extent); \
	OFFSET(type, report); \
	OFFSET(type, access)
#else
#define BOUNDS(type)
#define REDUCER(type) \
	SIZE(type); \
	OFFSET(type, partial); \
	OFFSET(type, extent)
#endif
#define ACCESSOR(type) \
	SIZE(type); \
	OFFSET(type, data); \
	OFFSET(type, stride); \
	OFFSET(type, extent); \
	BOUNDS(type)
#define PERIODIC(type) \
	SIZE(type); \
	OFFSET(type, parts); \
	OFFSET(type, parts[1].stride); \
	OFFSET(type, split); \
	OFFSET(type, extent); \
	BOUNDS(type)

void show_layouts() {
	CHUNK(chunk0);
	CHUNK(chunk1);
	CHUNK(chunk2);
	CHUNK(chunk3);
	ACCESSOR(accessor0);
	ACCESSOR(accessor1);
	ACCESSOR(accessor2);
	ACCESSOR(accessor3);
	PERIODIC(periodic1);
	PERIODIC(periodic2);
	PERIODIC(periodic3);
	SIZE(reducer0);
	OFFSET(reducer0, partial);
	REDUCER(reducer1);
	REDUCER(reducer3);
	SIZE(violation);
	OFFSET(violation, claimed);
	OFFSET(violation, access);
	OFFSET(violation, index);
}

/// An accessor of a buffer whose box [low, high) is allocated and accessed.
template <typename T, int D>
accessor<T, D> make_accessor(std::vector<T>& memory, const std::vector<long long>& low, const std::vector<long long>& high, violation* const report) {
	accessor<T, D> result{};
	long long stride = 1;
	long long origin = 0;
	for(int d = D - 1; d >= 0; --d) {
		if(d < D - 1) result.stride[d] = stride;
		result.extent[d] = high[d];
		origin += low[d] * stride;
		stride *= high[d] - low[d];
	}
	memory.assign((std::size_t)stride, T());
	result.data = (T*)((std::uintptr_t)memory.data() - (std::uintptr_t)origin * sizeof(T));
#if CELERITY_BOUNDS_CHECK
	result.bounds.num_boxes = 1;
	for(int d = 0; d < D; ++d) {
		result.bounds.low[0][d] = low[d];
		result.bounds.high[0][d] = high[d];
	}
	result.bounds.report = report;
	result.bounds.access = 4;
#else
	(void)report;
#endif
	return result;
}

/// Runs `f` with every thread of a launch over `chunk`.
template <int D, typename F>
void launch(const chunk<D>& where, const extents block, const F& f) {
	blockDim = block;
	const auto blocks = [&](const int d, const unsigned threads) {
		return d < 0 || d >= D ? 1u : (unsigned)((where.max[d] - where.min[d] + threads - 1) / threads);
	};
	gridDim = {blocks(D - 1, block.x), blocks(D - 2, block.y), blocks(D - 3, block.z)};
	for(blockIdx.z = 0; blockIdx.z < gridDim.z; ++blockIdx.z)
		for(blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)
			for(blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x)
				for(threadIdx.z = 0; threadIdx.z < block.z; ++threadIdx.z)
					for(threadIdx.y = 0; threadIdx.y < block.y; ++threadIdx.y)
						for(threadIdx.x = 0; threadIdx.x < block.x; ++threadIdx.x) f();
	blockIdx = threadIdx = {0, 0, 0};
}

void check_items() {
	std::vector<int> memory;
	long long wrong = 0;
	long long overhang = 0;
	{
		const chunk<0> where{{0}, {1}, {0}, {1}};
		auto a = make_accessor<int, 0>(memory, {}, {}, nullptr);
		launch(where, {4, 1, 1}, [&] {
			if(where.contains(where.item())) a() += 1;
			else ++overhang;
		});
		wrong += memory[0] != 1;
	}
	{
		const chunk<1> where{{5}, {12}, {0}, {20}};
		auto a = make_accessor<int, 1>(memory, {5}, {12}, nullptr);
		launch(where, {4, 1, 1}, [&] {
			const auto item = where.item();
			if(where.contains(item)) a[item] += (int)item[0], a[item[0]] += 0;
			else ++overhang;
		});
		for(int i = 5; i < 12; ++i) wrong += memory[(std::size_t)i - 5] != i || a(i) != i;
	}
	{
		const chunk<2> where{{3, 100}, {8, 107}, {0, 0}, {50, 200}};
		auto a = make_accessor<int, 2>(memory, {2, 98}, {9, 110}, nullptr);
		launch(where, {4, 2, 1}, [&] {
			const auto item = where.item();
			if(where.contains(item)) a[item] += (int)(1000 * item[0] + item[1]);
			else ++overhang;
		});
		for(int i = 2; i < 9; ++i)
			for(int j = 98; j < 110; ++j) wrong += a(i, j) != (i >= 3 && i < 8 && j >= 100 && j < 107 ? 1000 * i + j : 0);
	}
	{
		const chunk<3> where{{1, 2, 3}, {4, 5, 10}, {0, 0, 0}, {9, 9, 99}};
		auto a = make_accessor<int, 3>(memory, {1, 2, 3}, {4, 5, 10}, nullptr);
		launch(where, {4, 2, 2}, [&] {
			const auto item = where.item();
			if(where.contains(item)) a[item] += (int)(100 * item[0] + 10 * item[1] + item[2]);
			else ++overhang;
		});
		for(unsigned short i = 1; i < 4; ++i)
			for(long j = 2; j < 5; ++j)
				for(std::size_t k = 3; k < 10; ++k) wrong += a(i, j, k) != int(100 * i + 10 * j + (long)k);
		gridDim = {5, 6, 7};
		wrong += where.step(0) != 7 * 2 || where.step(1) != 6 * 2 || where.step(2) != 5 * 4;
	}
	show("wrong items", wrong);
	show("overhanging threads", overhang);
}

/// Loads and stores neighbours from each place of a row on, in rows of several alignments.
template <typename T, int N>
long long count_wrong_neighbours() {
	long long wrong = 0;
	long long num_together = 0;
	for(const long long columns : {32, 37}) {
		std::vector<T> memory;
		auto out = make_accessor<T, 2>(memory, {2, 3}, {6, 3 + columns}, nullptr);
		for(long long y = 2; y < 6; ++y) {
			for(long long x = 3; x <= 3 + columns - N; ++x) {
				const bool are_together = accessor<T, 2>(out).template lie_together<N>(x);
				num_together += are_together;
				wrong += are_together && (unsigned long long)&out(y, x) % (N * sizeof(T)) != 0;
				for(std::size_t i = 0; i < memory.size(); ++i) memory[i] = T(i % 100);
				auto values = accessor<T, 2>(out).template load<N>(y, x);
				for(int i = 0; i < N; ++i) wrong += values[i] != out(y, x + i), values[i] = T(100 + i);
				out.template store<N>(values, y, x);
				const std::size_t first = std::size_t((y - 2) * columns + x - 3);
				for(std::size_t i = 0; i < memory.size(); ++i) wrong += memory[i] != (i - first < N ? T(100 + i - first) : T(i % 100));
			}
		}
	}
	// The rows of 32 elements begin at multiples of 16 bytes.
#if CELERITY_BOUNDS_CHECK
	const long long expected = 0;
#else
	const long long expected = 4 * (32 / N) + (N == 1 ? 4 * 37 : 0);
#endif
	return wrong + (num_together != expected);
}

void check_neighbours() {
	show("wrong neighbours", count_wrong_neighbours<signed char, 16>() + count_wrong_neighbours<short, 8>() + count_wrong_neighbours<float, 1>()
	                             + count_wrong_neighbours<float, 2>() + count_wrong_neighbours<float, 4>() + count_wrong_neighbours<double, 2>()
	                             + count_wrong_neighbours<double, 1>());
#if CELERITY_BOUNDS_CHECK
	violation report{};
	std::vector<float> memory;
	const auto a = make_accessor<float, 1>(memory, {8}, {14}, &report);
	a.load<4>(10);
	show("claimed by a load inside", report.claimed);
	a.load<4>(12);
	show("claimed by a load past the end", report.index[0]);
	report = {};
	a.store(celerity::neighbours<float, 4>{{1, 1, 1, 1}}, 12);
	show("claimed by a store past the end", report.index[0]);
	show("stored inside", (long long)(memory[4] + memory[5]));
#endif
}

/// Reads around a box of a buffer in which each element is a number of its own.
void check_outside() {
	std::vector<int> memory;
	violation report{};
	const auto a = make_accessor<int, 2>(memory, {0, 2}, {5, 9}, &report); // columns 0 and 1 of the buffer are not there
	for(int i = 0; i < 5; ++i)
		for(int j = 2; j < 9; ++j) a(i, j) = 10 * i + j;
	const accessor<const int, 2> u = *(const accessor<const int, 2>*)&a;
	long long wrong = 0;
	for(long long i = -3; i < 8; ++i)
		for(long long j = -3; j < 12; ++j) {
			const bool is_outside = i < 0 || i >= 5 || j < 0 || j >= 9;
			if(is_outside || j >= 2) wrong += u.at_or(-7, i, j) != (is_outside ? -7 : 10 * i + j);
		}
	wrong += u.at_or(-7, 1, -(1ll << 62)) != -7;
	show("wrong elements or values", wrong);
	show("claimed around the buffer", report.claimed);
	std::vector<int> single;
	const auto only = make_accessor<int, 0>(single, {}, {}, nullptr);
	only() = 3;
	show("at_or of a single element", only.at_or(5));
#if CELERITY_BOUNDS_CHECK
	u.at_or(-7, 4, 1);
	show("claimed column", report.index[1]);
#endif
}

/// A 2-D buffer of 40 x 90, of which two opposite corners lie in memory, in four parts.
void check_periodic() {
	std::vector<int> memory[4];
	accessor<int, 2, celerity::wrap> u{};
	const long long low[2][2] = {{0, 38}, {0, 85}}, high[2][2] = {{12, 40}, {7, 90}};
	violation report{};
	for(int d = 0; d < 2; ++d) {
		u.split[d] = low[d][1];
		u.extent[d] = high[d][1];
	}
#if CELERITY_BOUNDS_CHECK
	u.bounds.num_boxes = 4;
	u.bounds.report = &report;
#endif
	for(int part = 0; part < 4; ++part) {
		const int y = part / 2, x = part % 2;
		auto a = make_accessor<int, 2>(memory[part], {low[0][y], low[1][x]}, {high[0][y], high[1][x]}, nullptr);
		for(long long i = low[0][y]; i < high[0][y]; ++i)
			for(long long j = low[1][x]; j < high[1][x]; ++j) a(i, j) = int(100 * i + j);
		u.parts[part].data = a.data;
		u.parts[part].stride[0] = a.stride[0];
#if CELERITY_BOUNDS_CHECK
		for(int d = 0; d < 2; ++d) {
			u.bounds.low[part][d] = a.bounds.low[0][d];
			u.bounds.high[part][d] = a.bounds.high[0][d];
		}
#endif
	}
	long long wrong = 0;
	for(long long i = -2; i < 12; ++i)
		for(long long j = -5; j < 7; ++j) {
			const int expected = int(100 * ((i + 40) % 40) + (j + 90) % 90);
			const celerity::item<2> item = {{i, j}};
			for(const long long turn : {-40ll * 900, -40ll, 0ll, 40ll, 40ll * 70}) wrong += u(i + turn, j - 9 * turn / 4) != expected;
			wrong += u[item] != expected;
			u(i, j) += 1;
		}
	for(const auto& part : memory)
		for(const int number : part) wrong += number == 0;
	wrong += memory[3][0] != 100 * 38 + 85 + 1;
	std::vector<int> line;
	const auto whole = make_accessor<int, 1>(line, {0}, {5}, nullptr);
	for(int i = 0; i < 5; ++i) whole(i) = i;
	accessor<const int, 1, celerity::wrap> v{};
	v.parts[0] = v.parts[1] = {whole.data, {}};
	v.split[0] = v.extent[0] = 5;
#if CELERITY_BOUNDS_CHECK
	v.bounds.num_boxes = 1;
	v.bounds.high[0][0] = 5;
#endif
	for(int i = -12; i < 12; ++i) wrong += v[i] != (i + 20) % 5;
	show("wrong in periodic buffers", wrong);
	show("claimed in the periodic halo", report.claimed);
#if CELERITY_BOUNDS_CHECK
	u(-3, 0) = 1;
	show("claimed row", report.index[0]);
#endif
}

void check_far_indices() {
	// 2^33 rows of 2^20 elements: nothing may be computed in 32 bits.
	std::vector<char> memory;
	const long long row = 1ll << 33;
	auto a = make_accessor<char, 2>(memory, {row, 0}, {row + 2, 1 << 20}, nullptr);
	a(row + 1, (1 << 20) - 1) = 1;
	show("far element", memory.back());
}

void check_bounds() {
#if CELERITY_BOUNDS_CHECK
	violation report{};
	std::vector<int> memory;
	auto a = make_accessor<int, 2>(memory, {2, 3}, {6, 9}, &report);
	a.bounds.num_boxes = 2; // [2:4, 3:5] and [4:6, 7:9]
	const long long boxes[2][2][2] = {{{2, 3}, {4, 5}}, {{4, 7}, {6, 9}}};
	for(int b = 0; b < 2; ++b) {
		for(int d = 0; d < 2; ++d) {
			a.bounds.low[b][d] = boxes[b][0][d];
			a.bounds.high[b][d] = boxes[b][1][d];
		}
	}
	a(2, 3) = a(3, 4) = a(4, 7) = a(5, 8) = 1;
	show("claimed inside", report.claimed);
	a(4, 6) = 7; // between the boxes
	a(-1, 3) = 8;
	show("claimed outside", report.claimed);
	show("access", report.access);
	show("index 0", report.index[0]);
	show("index 1", report.index[1]);
	int touched = 0;
	for(const int value : memory) touched += value;
	show("touched", touched);
	a.bounds.report = nullptr;
	a(100, 100) = 1; // nobody to tell
#endif
}

template <typename T>
T plain(const long long a, long long) {
	return T(a);
}
template <>
float2 plain<float2>(const long long a, const long long b) {
	return {float(a), float(b)};
}
template <>
double2 plain<double2>(const long long a, const long long b) {
	return {double(a), double(b)};
}

/// Prints the bytes of the identity, those of what 3 (+ i), 1, 5 (- 2i) and 2 become, and how many bytes around them have changed.
template <typename T, typename Op>
void check_reducer(const char* const name) {
	alignas(16) unsigned char memory[48];
	std::memset(memory, 0xaa, sizeof memory);
	T* const partial = (T*)(memory + 16 + (sizeof(T) < 4 ? sizeof(T) : 0)); // small ones not at the start of a word
	const reducer<T, Op> out{partial};
	const T identity = out.identity();
	*partial = identity;
	gridDim = blockDim = {1, 1, 1};
	out.combine(plain<T>(3, 1));
	out.combine(plain<T>(1, 0));
	out.combine_block(plain<T>(5, -2));
	out.combine(plain<T>(2, 0));
	long long damaged = 0;
	for(unsigned char* p = memory; p < memory + sizeof memory; ++p) {
		if(p < (unsigned char*)partial || p >= (unsigned char*)(partial + 1)) damaged += *p != 0xaa;
	}
	std::printf("%s ", name);
	const unsigned char* bytes = (const unsigned char*)&identity;
	for(std::size_t i = 0; i < sizeof(T); ++i) std::printf("%02x", bytes[i]);
	std::printf(" ");
	for(std::size_t i = 0; i < sizeof(T); ++i) std::printf("%02x", ((const unsigned char*)partial)[i]);
	std::printf(" %lld\n", damaged);
}

#define REDUCE(dtype, type, op) check_reducer<type, celerity::op>(#dtype "_" #op)
#define REDUCE_ANY(dtype, type) \
	REDUCE(dtype, type, sum); \
	REDUCE(dtype, type, prod); \
	REDUCE(dtype, type, logical_and); \
	REDUCE(dtype, type, logical_or)
#define REDUCE_ORDERED(dtype, type) \
	REDUCE_ANY(dtype, type); \
	REDUCE(dtype, type, min); \
	REDUCE(dtype, type, max)
#define REDUCE_INTEGER(dtype, type) \
	REDUCE_ORDERED(dtype, type); \
	REDUCE(dtype, type, bitwise_xor)

void check_reducers() {
	REDUCE_INTEGER(bool, bool);
	REDUCE_INTEGER(int8, signed char);
	REDUCE_INTEGER(uint8, unsigned char);
	REDUCE_INTEGER(int16, short);
	REDUCE_INTEGER(uint16, unsigned short);
	REDUCE_INTEGER(int32, int);
	REDUCE_INTEGER(uint32, unsigned);
	REDUCE_INTEGER(int64, long long);
	REDUCE_INTEGER(uint64, unsigned long long);
	REDUCE_ORDERED(float32, float);
	REDUCE_ORDERED(float64, double);
	REDUCE_ANY(complex64, float2);
	REDUCE_ANY(complex128, double2);
}

template <typename T, typename Op, int D>
reducer<T, Op, D> make_reducer(std::vector<T>& memory, const std::vector<long long>& extent, violation* const report) {
	reducer<T, Op, D> result{};
	std::size_t size = 1;
	for(int d = 0; d < D; ++d) size *= std::size_t(result.extent[d] = extent[(std::size_t)d]);
	memory.assign(size, result.identity());
	result.partial = memory.data();
#if CELERITY_BOUNDS_CHECK
	result.report = report;
	result.access = 2;
#else
	(void)report;
#endif
	return result;
}

/// Each thread combines with element (item * 5) % elements; blocks of 4 threads, each of which has a partial result of its own if `Capacity` suffices.
template <int Capacity>
void check_array(const char* const name) {
	std::vector<int> memory;
	const auto sums = make_reducer<int, celerity::sum, 2>(memory, {2, 3}, nullptr);
	gridDim = blockDim = {1, 1, 1};
	if constexpr(Capacity > 0) {
		for(int block = 0; block < 3; ++block) { // of one thread, which has all items of the block
			int shared[Capacity];
			const auto bins = sums.in_block(shared);
			for(int i = 4 * block; i < 4 * block + 4; ++i) bins(i * 5 % 6 / 3, i * 5 % 3).combine(i);
			const celerity::item<2> first{{0, 0}};
			bins[first].combine(1);
			if(Capacity >= 6 && block == 0) show((std::string(name) + " before the flush").c_str(), memory[0]);
			bins.flush();
		}
	} else {
		for(int i = 0; i < 12; ++i) sums(i * 5 % 6 / 3, i * 5 % 3).combine(i);
		const celerity::item<2> first{{0, 0}};
		for(int block = 0; block < 3; ++block) sums[first].combine(1);
	}
	for(std::size_t i = 0; i < memory.size(); ++i) show((std::string(name) + " " + std::to_string(i)).c_str(), memory[i]);
}

void check_arrays() {
	check_array<0>("array");
	check_array<6>("array in a block");
	check_array<5>("array that does not fit");
	std::vector<unsigned char> memory;
	const auto counts = make_reducer<unsigned char, celerity::max, 3>(memory, {3, 5, 7}, nullptr);
	counts(2, 4, 6).combine(9);
	counts(2, 4, 6).combine(4);
	counts(1, 0, 0).combine(3);
	show("size of an array", counts.size());
	show("last element", memory.back());
	show("element of the second plane", memory[35]);
	long long total = 0;
	for(const auto value : memory) total += value;
	show("total of the array", total);
#if CELERITY_BOUNDS_CHECK
	violation report{};
	std::vector<float> values;
	const auto sums = make_reducer<float, celerity::sum, 1>(values, {4}, &report);
	sums[3].combine(1);
	show("claimed by a value inside", report.claimed);
	float shared[4];
	const auto bins = sums.in_block(shared);
	bins[4].combine(1);
	bins.flush();
	show("claimed by a value past the end", report.index[0]);
	show("reduction of the violation", report.access);
	report = {};
	sums[-1].combine(1);
	show("claimed by a value before the start", report.index[0]);
	show("sum of all values", (long long)(values[0] + values[1] + values[2] + values[3]));
#endif
}

/// Blocks of one thread have an element each.
void check_order() {
	std::vector<float> partials(6, 0);
	celerity::ordered_reducer<float, celerity::sum> sums{};
	sums.partials = partials.data();
	gridDim = {3, 2, 1};
	blockDim = {1, 1, 1};
	for(blockIdx.y = 0; blockIdx.y < 2; ++blockIdx.y) {
		for(blockIdx.x = 0; blockIdx.x < 3; ++blockIdx.x) {
			sums.combine_block(float(10 * blockIdx.y + blockIdx.x));
			sums.combine_block(0.5f);
		}
	}
	blockIdx = {0, 0, 0};
	for(int block = 0; block < 6; ++block) show(("twice of block " + std::to_string(block)).c_str(), (long long)(2 * partials[(std::size_t)block]));
	SIZE(celerity::ordered_reducer<double COMMA celerity::sum>);
	const auto bits = [](const float value) { return (long long)celerity::detail::bits_as<unsigned>(value); };
	using celerity::detail::fold;
	show("minimum of two zeros", bits(fold<celerity::min>(0.0f, -0.0f)));
	show("minimum of two zeros, swapped", bits(fold<celerity::min>(-0.0f, 0.0f)));
	show("maximum of two zeros", bits(fold<celerity::max>(0.0f, -0.0f)));
	show("maximum of two zeros, swapped", bits(fold<celerity::max>(-0.0f, 0.0f)));
	const float nans[] = {celerity::detail::bits_as<float>(0xffc01234u), celerity::detail::bits_as<float>(0x7fc00001u), 1};
	for(const float x : nans) {
		for(const float y : nans) {
			if(x != x || y != y) show("nan", bits(fold<celerity::max>(x, y)));
		}
	}
}

/// Combines values with places by a warp, and in an array; prints values and places.
template <typename Op>
void check_places(const char* const name) {
	using celerity::placed;
	const float nan = __builtin_nanf("");
	const auto tell = [&](const std::string& what, const placed<float, 2>& found) {
		show((name + (" " + what) + " value").c_str(), found.value != found.value ? -99 : (long long)found.value);
		show((name + (" " + what) + " place").c_str(), found.place[0] * 100 + found.place[1]);
	};
	std::vector<placed<float, 2>> memory;
	const auto extrema = make_reducer<placed<float, 2>, Op, 1>(memory, {2}, nullptr);
	show((name + std::string(" of no values")).c_str(), memory[0].place[0] + memory[0].place[1]);
	show((name + std::string(" begins at the end")).c_str(), memory[0].value * 0 != 0);
	const float values[2][4] = {{3, 1, 3, 1}, {1, 2, nan, nan}};
	placed<float, 2> single = reducer<placed<float, 2>, Op>::identity();
	const reducer<placed<float, 2>, Op> out{&single};
	gridDim = blockDim = {1, 1, 1};
	for(long long j = 3; j >= 0; --j) {
		for(long long i = 1; i >= 0; --i) {
			const celerity::item<2> where{{i, j}};
			extrema(i).combine(celerity::placed_at(values[i][j], where));
			if(i == 0) out.combine({values[i][j], {i, j}});
		}
	}
	out.combine_block(reducer<placed<float, 2>, Op>::identity());
	tell("of one", single);
	tell("of numbers", memory[0]);
	tell("of nan", memory[1]);
}

void check_nan() {
	const float nan = __builtin_nanf("");
	float partial = 0;
	reducer<float, celerity::min>{&partial}.combine(nan);
	show("nan minimum", partial != partial);
	reducer<float, celerity::max>{&partial}.combine(7);
	show("nan maximum", partial != partial);
}

void check_elements() {
	using matrix = celerity::element<float, 2, 3>;
	SIZE(matrix);
	std::vector<matrix> memory;
	const auto out = make_accessor<matrix, 2>(memory, {0, 0}, {2, 2}, nullptr);
	out(1, 0)(1, 2) = 7;
	out(1, 0)(0, 1) = 5;
	for(int n = 0; n < 24; ++n) show(("component " + std::to_string(n)).c_str(), (long long)memory[n / 6].values[n % 6]);
	const matrix& element = out(1, 0);
	show("component read", (long long)element(1, 2));
	const celerity::element<int, 3> vector = {{1, 2, 3}};
	show("sum of a vector", vector[2] + vector(1));
}

} // namespace

int main() {
	show_layouts();
	check_elements();
	check_items();
	check_neighbours();
	check_outside();
	check_periodic();
	check_far_indices();
	check_bounds();
	check_reducers();
	check_arrays();
	check_order();
	SIZE(celerity::placed<float>);
	SIZE(celerity::placed<signed char COMMA 3>);
	check_places<celerity::argmin>("argmin");
	check_places<celerity::argmax>("argmax");
	check_nan();
}
