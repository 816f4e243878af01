// SPDX-License-Identifier: MIT
// The device header, compiled for the host: prints layouts, and what chunks, accessors and reducers compute, as "name value" lines.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#define __device__
#define __shared__
#define __forceinline__ inline

struct extents {
	unsigned x = 1, y = 1, z = 1;
};
extents gridDim, blockDim;
extents blockIdx{0, 0, 0}, threadIdx{0, 0, 0};
struct alignas(8) float2 {
	float x, y;
};
struct alignas(16) double2 {
	double x, y;
};

template <typename T>
T atomicCAS(T* const address, const T expected, const T wanted) {
	const T old = *address;
	if(old == expected) *address = wanted;
	return old;
}
template <typename T>
T atomicCAS_system(T* const address, const T expected, const T wanted) {
	return atomicCAS(address, expected, wanted);
}
template <typename T>
T atomicAdd(T* const address, const T value) {
	const T old = *address;
	*address = T(old + value);
	return old;
}
template <typename T>
T atomicExch(T* const address, const T value) {
	const T old = *address;
	*address = value;
	return old;
}
void __threadfence() {}
void __syncthreads() {}
unsigned __activemask() { return 1; }
unsigned __shfl_sync(unsigned, const unsigned value, int) { return value; }
int __ffs(const int mask) { return __builtin_ffs(mask); }

#include "celerity_device.cuh"

using celerity::accessor;
using celerity::chunk;
using celerity::reducer;

namespace {

void show(const char* const name, const long long value) { std::printf("%s %lld\n", name, value); }

#define OFFSET(type, member) show(#type "." #member, (long long)offsetof(type, member))
#define SIZE(type) show("sizeof " #type, (long long)sizeof(type))

using chunk0 = chunk<0>;
using chunk1 = chunk<1>;
using chunk2 = chunk<2>;
using chunk3 = chunk<3>;
using accessor0 = accessor<float, 0>;
using accessor1 = accessor<const char, 1>;
using accessor2 = accessor<double, 2>;
using accessor3 = accessor<float, 3>;
using reducer1 = reducer<char, celerity::sum>;
using violation = celerity::violation;

#define CHUNK(type) \
	SIZE(type); \
	OFFSET(type, min); \
	OFFSET(type, max); \
	OFFSET(type, global_min); \
	OFFSET(type, global_max)
#if CELERITY_BOUNDS_CHECK
#define ACCESSOR(type) \
	SIZE(type); \
	OFFSET(type, data); \
	OFFSET(type, stride); \
	OFFSET(type, bounds.num_boxes); \
	OFFSET(type, bounds.low); \
	OFFSET(type, bounds.high); \
	OFFSET(type, bounds.report); \
	OFFSET(type, bounds.access)
#else
#define ACCESSOR(type) \
	SIZE(type); \
	OFFSET(type, data); \
	OFFSET(type, stride)
#endif

void show_layouts() {
	CHUNK(chunk0);
	CHUNK(chunk1);
	CHUNK(chunk2);
	CHUNK(chunk3);
	ACCESSOR(accessor0);
	ACCESSOR(accessor1);
	ACCESSOR(accessor2);
	ACCESSOR(accessor3);
	SIZE(reducer1);
	OFFSET(reducer1, partial);
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
	for(const long long columns : {32, 37}) {
		std::vector<T> memory;
		auto out = make_accessor<T, 2>(memory, {2, 3}, {6, 3 + columns}, nullptr);
		for(long long y = 2; y < 6; ++y) {
			for(long long x = 3; x <= 3 + columns - N; ++x) {
				for(std::size_t i = 0; i < memory.size(); ++i) memory[i] = T(i % 100);
				auto values = accessor<T, 2>(out).template load<N>(y, x);
				for(int i = 0; i < N; ++i) wrong += values[i] != out(y, x + i), values[i] = T(100 + i);
				out.template store<N>(values, y, x);
				const std::size_t first = std::size_t((y - 2) * columns + x - 3);
				for(std::size_t i = 0; i < memory.size(); ++i) wrong += memory[i] != (i - first < N ? T(100 + i - first) : T(i % 100));
			}
		}
	}
	return wrong;
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

void check_nan() {
	const float nan = __builtin_nanf("");
	float partial = 0;
	reducer<float, celerity::min>{&partial}.combine(nan);
	show("nan minimum", partial != partial);
	reducer<float, celerity::max>{&partial}.combine(7);
	show("nan maximum", partial != partial);
}

} // namespace

int main() {
	show_layouts();
	check_items();
	check_neighbours();
	check_far_indices();
	check_bounds();
	check_reducers();
	check_nan();
}
