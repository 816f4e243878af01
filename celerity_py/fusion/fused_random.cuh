// SPDX-License-Identifier: MIT
// Random numbers of fused kernels: those of `celerity_random.cuh`, for CUDA and for the host.
#pragma once

#include "fused_operations.cuh"

#ifndef __CUDACC__ // each operation is rounded by itself, as contraction is off
#define __device__
#define __forceinline__ inline
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }
#endif
#include "celerity_random.cuh"

namespace fused {

// The element of an array of random numbers.
struct place_of_random {
	int64 index[3];
};

#define CELERITY_RANDOM(name, call, T) \
	CELERITY_ITEM T op_random_##name(int64 i, int64 j, int64 k, int64 seed, int64 stream) { \
		return celerity::random::call<T>(place_of_random{{i, j, k}}, static_cast<uint32>(seed), static_cast<uint32>(stream)); \
	}
CELERITY_RANDOM(uniform32, uniform, float)
CELERITY_RANDOM(uniform64, uniform, double)
CELERITY_RANDOM(normal32, normal, float)
CELERITY_RANDOM(normal64, normal, double)

// One of the four words of an element.
CELERITY_ITEM uint32 op_random_bits(int64 i, int64 j, int64 k, int64 seed, int64 stream, int64 word) {
	const auto bits = celerity::random::bits_of(place_of_random{{i, j, k}}, static_cast<uint32>(seed), static_cast<uint32>(stream));
	const auto& [a, b, c, d] = bits.words;
	return word < 2 ? (word == 0 ? a : b) : (word == 2 ? c : d);
}

} // namespace fused
