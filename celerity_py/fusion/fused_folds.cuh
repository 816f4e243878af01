// SPDX-License-Identifier: MIT
// The folds of a pass: each block combines the numbers of its threads, and a further launch combines those of the blocks. The order is that of threads and
// blocks, so that a launch on the same grid gives the same bits.
#pragma once

#include "fused_tiles.cuh"

// The blocks of columns that a block of threads visits: `at` counts them. `x` are the columns of the thread in one.
#define CELERITY_BLOCKS(high, ...) \
	for(coordinate at = static_cast<coordinate>(blockIdx.x);; at += static_cast<coordinate>(gridDim.x)) \
		if(const columns x = __VA_ARGS__; x.begin >= static_cast<coordinate>(high)) { \
			break; \
		} else if(x.are_any)

// Of a pass whose threads share rows: `lane` is the place of the thread in its row.
#define CELERITY_ROWS(lanes) \
	const int lane = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); \
	if(lane >= (lanes)) { return; }

namespace fused {

#define CELERITY_JOIN(name) \
	struct join_##name { \
		template <typename T> \
		static CELERITY_MEMBER T of(T a, T b) { \
			return op_##name(a, b); \
		} \
	};
CELERITY_JOIN(add)
CELERITY_JOIN(multiply)
CELERITY_JOIN(minimum)
CELERITY_JOIN(maximum)
CELERITY_JOIN(logical_or)
CELERITY_JOIN(logical_and)

CELERITY_ITEM int number_in_block() { return static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)); }
CELERITY_ITEM int number_in_grid() { return static_cast<int>(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)); }
CELERITY_ITEM bool is_first() { return number_in_block() == 0 && number_in_grid() == 0; }

#ifdef __CUDACC__
// The numbers of all threads of a block, at most 256, as one of its first thread.
template <typename Join, typename T>
CELERITY_ITEM T join_threads(T value) {
	__shared__ T values[256];
	const int thread = number_in_block();
	values[thread] = value;
	__syncthreads();
	for(int left = static_cast<int>(blockDim.x * blockDim.y * blockDim.z); left > 1;) {
		const int half_way = (left + 1) / 2;
		if(thread + half_way < left) { values[thread] = Join::of(values[thread], values[thread + half_way]); }
		left = half_way;
		__syncthreads();
	}
	return values[0];
}
#endif

// Calls `visit(column, tile)` for the items that a lane has in its row: `Together` at once, which load before they store.
template <int Together, int Lanes, typename Visit>
CELERITY_ITEM void visit_lane(int lane, int64 low, int64 high, const Visit& visit) {
	coordinate column = static_cast<coordinate>(low) + lane;
	const coordinate end = static_cast<coordinate>(high);
	CELERITY_ROLLED for(; end - column > (Together - 1) * Lanes; column += Together * Lanes) { visit(column, tile_of<1, Together, false, true, Lanes>{1}); }
	CELERITY_ROLLED for(; column < end; column += Lanes) { visit(column, tile_of<1, 1, false, true>{1}); }
}

// Stores the number of a block behind the first element of a memory, in which there is place for `Parts` blocks. Those that the grid lacks change nothing.
template <typename Join, int Parts, typename T>
CELERITY_ITEM void store_part(T value, T identity, char* memory) {
	T* const parts = element<T>(memory) + 1;
	const int part = number_in_grid();
#ifdef __CUDACC__
	value = join_threads<Join>(value);
	if(number_in_block() != 0) { return; }
#else // thread by thread
	if(number_in_block() != 0) { value = Join::of(parts[part], value); }
#endif
	parts[part] = value;
	const int count = static_cast<int>(gridDim.x * gridDim.y * gridDim.z);
	for(int lacking = part + count; lacking < Parts; lacking += count) { parts[lacking] = identity; }
}

// Stores the numbers of the lanes of a row as one. All of them call this, and no others of their warp; many lanes are a block.
template <typename Join, int Lanes, typename T>
CELERITY_ITEM void store_row(T value, T* result) {
	const int lane = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
#ifdef __CUDACC__
	if constexpr(Lanes > 1) {
		__shared__ T values[256];
		T* const row = values + (number_in_block() - lane);
		row[lane] = value;
		for(int left = Lanes / 2;; left /= 2) {
			Lanes <= 32 ? __syncwarp() : __syncthreads();
			if(left == 0) { break; }
			if(lane < left) { row[lane] = Join::of(row[lane], row[lane + left]); }
		}
		value = row[0];
		Lanes <= 32 ? __syncwarp() : __syncthreads(); // before the next row
	}
	if(lane == 0) { *result = value; }
#else // thread by thread
	*result = lane == 0 ? value : Join::of(*result, value);
#endif
}

// The numbers of all blocks as one, in the first element. For one block.
template <typename Join, typename T, int Parts>
CELERITY_ITEM void join_parts(char* memory) {
	T* const parts = element<T>(memory) + 1;
#ifdef __CUDACC__
	const int thread = number_in_block(), step = static_cast<int>(blockDim.x);
#else
	const int thread = 0, step = 1;
	if(!is_first()) { return; }
#endif
	T value = parts[thread];
	for(int part = thread + step; part < Parts; part += step) { value = Join::of(value, parts[part]); }
#ifdef __CUDACC__
	value = join_threads<Join>(value);
	__syncthreads(); // a further fold has the same memory for the numbers of its threads
#endif
	if(is_first()) { parts[-1] = value; }
}

} // namespace fused
