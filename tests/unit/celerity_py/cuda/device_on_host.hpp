// SPDX-License-Identifier: MIT
// What the device header takes from CUDA, for one thread of the host.
#pragma once

#include <cstring>
#include <utility>

#define __device__
#define __global__
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
	return std::exchange(*address, T(*address + value));
}
template <typename T>
T atomicMin(T* const address, const T value) {
	return std::exchange(*address, *address < value ? *address : value);
}
template <typename T>
T atomicMax(T* const address, const T value) {
	return std::exchange(*address, *address < value ? value : *address);
}
template <typename T>
T atomicXor(T* const address, const T value) {
	return std::exchange(*address, T(*address ^ value));
}
template <typename T>
T atomicExch(T* const address, const T value) {
	return std::exchange(*address, value);
}
void __threadfence() {}
void __syncthreads() {}
unsigned __activemask() { return 1; }
unsigned __shfl_sync(unsigned, const unsigned value, int) { return value; }
int __ffs(const int mask) { return __builtin_ffs(mask); }
