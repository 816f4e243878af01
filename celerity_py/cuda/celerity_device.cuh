// SPDX-License-Identifier: MIT
// The types and functions with which CUDA kernels of celerity_py are written. Every `celerity.CudaKernel` includes it by itself.
//
//     __global__ void scale(celerity::chunk<2> chunk, accessor<float, 2> y, accessor<const float, 2> x, float factor) {
//         const auto item = chunk.item();
//         if(!chunk.contains(item)) return; // blocks overhang the chunk
//         y[item] = factor * x(item[0], item[1]);
//     }
//
// All coordinates are those of the whole index space and of the whole buffers, 64 bits wide. The parameters are filled in by cuda_function.cpp:
// their layouts must not differ. -DCELERITY_BOUNDS_CHECK=1 makes accessors check every element against the declared access.
#pragma once

#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#endif

#ifndef CELERITY_ITEMS // of each thread, as the CudaKernel says; x last
#define CELERITY_ITEMS 1, 1, 1
#endif

namespace celerity {

/// How many neighbouring items each thread works on, along z, y, and x.
constexpr int items_per_thread[3] = {CELERITY_ITEMS};

/// The position of one thread in the index space.
template <int D>
struct item {
	static_assert(D >= 0 && D <= 3, "index spaces have 0 to 3 dimensions");
	long long index[D > 0 ? D : 1];

	__device__ __forceinline__ long long operator[](const int dim) const { return index[dim]; }
};

/// The part of the index space that this launch is responsible for; x is the last dimension. Of 0 dimensions, it is one item.
template <int D>
struct chunk {
	static_assert(D >= 0 && D <= 3, "index spaces have 0 to 3 dimensions");
	long long min[D > 0 ? D : 1];
	long long max[D > 0 ? D : 1]; ///< one past the last item
	long long global_min[D > 0 ? D : 1];
	long long global_max[D > 0 ? D : 1];

	/// How many items along a dimension each thread works on, as the `CudaKernel` says.
	__device__ __forceinline__ static constexpr int items(const int dim) { return items_per_thread[D > 0 ? 3 - D + dim : 2]; }

	/// This thread's item, the first one if it has several, which are neighbours. It may lie past the end of the chunk.
	__device__ __forceinline__ celerity::item<D> item() const {
		celerity::item<D> result;
		constexpr int last = D > 0 ? D - 1 : 0;
		result.index[last] = min[last] + ((long long)blockIdx.x * blockDim.x + threadIdx.x) * items(last);
		if constexpr(D > 1) result.index[D - 2] = min[D - 2] + ((long long)blockIdx.y * blockDim.y + threadIdx.y) * items(D - 2);
		if constexpr(D > 2) result.index[D - 3] = min[D - 3] + ((long long)blockIdx.z * blockDim.z + threadIdx.z) * items(D - 3);
		return result;
	}

	__device__ __forceinline__ bool contains(const celerity::item<D>& where) const {
		bool is_inside = true;
		for(int d = 0; d < (D > 0 ? D : 1); ++d) { // unsigned: one comparison for both ends
			is_inside = is_inside && (unsigned long long)(where.index[d] - min[d]) < (unsigned long long)(max[d] - min[d]);
		}
		return is_inside;
	}

	/// Items of the whole grid along a dimension: the step of a loop over more items than it has.
	__device__ __forceinline__ long long step(const int dim) const {
		if(dim == D - 1 || D == 0) return (long long)gridDim.x * blockDim.x * items(dim);
		if(dim == D - 2) return (long long)gridDim.y * blockDim.y * items(dim);
		return (long long)gridDim.z * blockDim.z * items(dim);
	}
};

/// Where a kernel that checks bounds reports the first element that it would have accessed outside of its declared access.
/// It lies in host memory, all zero before the launch.
struct violation {
	int claimed;        ///< not 0: the rest is valid once the kernel is complete
	int access;         ///< which of the task's accesses, from 0; its reductions are behind them
	long long index[3]; ///< in the buffer, as many as it has dimensions
};

namespace detail {

inline constexpr int max_boxes = 8; ///< of more, an accessor gets the bounding box

/// Whether one access to memory gets so many neighbours.
template <typename T, int N>
inline constexpr bool fit_together = N > 0 && N <= 16 && N * sizeof(T) <= 16 && (N & (N - 1)) == 0 && (sizeof(T) & (sizeof(T) - 1)) == 0;

/// Accesses out of bounds read and write this instead.
template <int Words>
__device__ alignas(16) long long sink[Words];

template <typename T>
struct without_const {
	using type = T;
};
template <typename T>
struct without_const<const T> {
	using type = T;
};

template <int N>
__device__ void complain(violation* const report, const long long access, const long long (&index)[N]) {
	if(report == nullptr || atomicCAS_system(&report->claimed, 0, 1) != 0) return;
	report->access = (int)access;
	for(int d = 0; d < N; ++d) report->index[d] = index[d];
}

template <int N>
struct bounds {
	long long num_boxes;
	long long low[max_boxes][N];
	long long high[max_boxes][N];
	violation* report;
	long long access;

	__device__ __forceinline__ bool contain(const long long (&index)[N]) const {
		for(long long b = 0; b < num_boxes; ++b) {
			bool is_inside = true;
			for(int d = 0; d < N; ++d) is_inside = is_inside && index[d] >= low[b][d] && index[d] < high[b][d];
			if(is_inside) return true;
		}
		return false;
	}

	__device__ void complain(const long long (&index)[N]) const { detail::complain<N>(report, access, index); }
};

} // namespace detail

/// An element of a buffer that was made with `element=`: `Extents` numbers, the last dimension varying fastest.
template <typename T, int... Extents>
struct element {
	static_assert(sizeof...(Extents) > 0 && ((Extents > 0) && ...), "an element has at least one number in each dimension");
	T values[(Extents * ...)];

	/// One index per dimension of the element.
	template <typename... Indices>
	__device__ __forceinline__ T& operator()(const Indices... indices) {
		return values[position(indices...)];
	}
	template <typename... Indices>
	__device__ __forceinline__ const T& operator()(const Indices... indices) const {
		return values[position(indices...)];
	}

	/// The same as `element(i)`.
	__device__ __forceinline__ T& operator[](const int i) { return operator()(i); }
	__device__ __forceinline__ const T& operator[](const int i) const { return operator()(i); }

  private:
	template <typename... Indices>
	__device__ __forceinline__ static constexpr int position(const Indices... indices) {
		static_assert(sizeof...(Indices) == sizeof...(Extents), "an element takes one index per dimension: write e(i, j), or e[i] for one dimension");
		int result = 0;
		((result = result * Extents + (int)indices), ...);
		return result;
	}
};

/// Neighbours along the last dimension of a buffer.
template <typename T, int N>
struct alignas(detail::fit_together<T, N> ? N * sizeof(T) : alignof(T)) neighbours {
	static_assert(detail::fit_together<T, N>, "load<N> and store<N> access 1, 2, 4, 8 or 16 neighbours, of 16 bytes at most together");
	T values[N];

	__device__ __forceinline__ T& operator[](const int i) { return values[i]; }
	__device__ __forceinline__ const T& operator[](const int i) const { return values[i]; }
};

/// Nothing follows on the last element of a buffer.
struct ends {};
/// The first element of a buffer follows on the last one, in all dimensions.
struct wrap {};

/// A buffer in the memory of this device, indexed by global coordinates; `T` is const for read accesses.
template <typename T, int D, typename Beyond = ends>
struct accessor {
	static_assert(D >= 0 && D <= 3, "buffers have 0 to 3 dimensions");
	T* data;                             ///< where the element (0, ...) would be, which need not be there
	long long stride[D > 1 ? D - 1 : 1]; ///< elements between neighbours, of all dimensions but the last
	long long extent[D > 0 ? D : 1];     ///< of the buffer
#if CELERITY_BOUNDS_CHECK
	detail::bounds<(D > 0 ? D : 1)> bounds;
#endif

	/// One index per dimension.
	template <typename... Indices>
	__device__ __forceinline__ T& operator()(const Indices... indices) const {
		static_assert(sizeof...(Indices) == D, "an accessor takes one index per dimension of its buffer");
		const long long index[D > 0 ? D : 1] = {(long long)indices...};
		return at(index);
	}

	__device__ __forceinline__ T& operator[](const item<D>& where) const { return at(where.index); }

	/// The element at these indices, or `value` if they lie outside of the buffer.
	template <typename... Indices>
	__device__ __forceinline__ typename detail::without_const<T>::type at_or(const typename detail::without_const<T>::type& value,
	    const Indices... indices) const {
		static_assert(sizeof...(Indices) == D, "at_or takes a value, and one index per dimension of the buffer");
		const long long index[D > 0 ? D : 1] = {(long long)indices...};
		for(int d = 0; d < D; ++d) { // unsigned: one comparison for both ends
			if((unsigned long long)index[d] >= (unsigned long long)extent[d]) return value;
		}
		return at(index);
	}

	/// The element at these indices and those behind it along the last dimension, `N` in all: 1, 2, 4, 8 or 16, and at most 16 bytes. All must be
	/// in the buffer. It is one access to memory if they `lie_together`.
	template <int N, typename... Indices>
	__device__ __forceinline__ auto load(const Indices... indices) const {
		static_assert(D > 0 && sizeof...(Indices) == D, "an accessor takes one index per dimension of its buffer");
		long long index[D > 0 ? D : 1] = {(long long)indices...};
		neighbours<typename detail::without_const<T>::type, N> result;
		if(lie_together<N>(index[D - 1])) {
			result = *(const decltype(result)*)(data + offset(index));
		} else {
			for(int i = 0; i < N; ++i, ++index[D - 1]) result[i] = at(index);
		}
		return result;
	}

	/// Likewise, to write.
	template <int N, typename... Indices>
	__device__ __forceinline__ void store(const neighbours<T, N>& values, const Indices... indices) const {
		static_assert(D > 0 && sizeof...(Indices) == D, "an accessor takes one index per dimension of its buffer");
		long long index[D > 0 ? D : 1] = {(long long)indices...};
		if(lie_together<N>(index[D - 1])) {
			*(neighbours<T, N>*)(data + offset(index)) = values;
		} else {
			for(int i = 0; i < N; ++i, ++index[D - 1]) at(index) = values[i];
		}
	}

	/// Whether `load<N>` and `store<N>` are one access to memory at this index of the last dimension: the addresses are multiples of the neighbours' size in
	/// all rows. A kernel that loads only where this is true needs no code for single elements there, and fewer registers. False if bounds are checked.
	template <int N>
	__device__ __forceinline__ bool lie_together(const long long last) const {
		static_assert(D > 0 && detail::fit_together<T, N>, "load<N> and store<N> access 1, 2, 4, 8 or 16 neighbours, of 16 bytes at most together");
#if CELERITY_BOUNDS_CHECK
		(void)last;
		return false;
#else
		unsigned long long bytes = (unsigned long long)(data + last);
		for(int d = 0; d + 1 < D; ++d) bytes |= (unsigned long long)stride[d] * sizeof(T);
		return bytes % (N * sizeof(T)) == 0;
#endif
	}

	/// The same as `accessor(i)`.
	__device__ __forceinline__ T& operator[](const long long i) const {
		static_assert(D == 1, "with other than one dimension, write accessor(i, j)");
		return operator()(i);
	}

  private:
	__device__ __forceinline__ T& at(const long long (&index)[D > 0 ? D : 1]) const {
#if CELERITY_BOUNDS_CHECK
		if constexpr(D > 0) {
			if(!bounds.contain(index)) {
				bounds.complain(index);
				return *(T*)detail::sink<(sizeof(T) + 7) / 8>;
			}
		}
#endif
		return data[offset(index)];
	}

	__device__ __forceinline__ long long offset(const long long (&index)[D > 0 ? D : 1]) const {
		if constexpr(D == 0) return 0;
		if constexpr(D == 1) return index[0];
		if constexpr(D == 2) return index[0] * stride[0] + index[1];
		if constexpr(D == 3) return index[0] * stride[0] + index[1] * stride[1] + index[2];
	}
};

/// A periodic buffer, of an access with `wrap=True`: indices go on beyond its ends, so that -1 is the last element.
template <typename T, int D>
struct accessor<T, D, wrap> {
	static_assert(D >= 1 && D <= 3, "periodic buffers have 1 to 3 dimensions");
	/// Elements that lie together in memory.
	struct part {
		T* data;                             ///< as of an accessor
		long long stride[D > 1 ? D - 1 : 1]; ///< likewise
	};
	part parts[1 << D];  ///< bit D - 1 - d: the part holds the elements from `split[d]` on
	long long split[D];
	long long extent[D]; ///< of the buffer
#if CELERITY_BOUNDS_CHECK
	detail::bounds<D> bounds;
#endif

	/// One index per dimension.
	template <typename... Indices>
	__device__ __forceinline__ T& operator()(const Indices... indices) const {
		static_assert(sizeof...(Indices) == D, "an accessor takes one index per dimension of its buffer");
		const long long index[D] = {(long long)indices...};
		return at(index);
	}

	__device__ __forceinline__ T& operator[](const item<D>& where) const { return at(where.index); }

	/// The same as `accessor(i)`.
	__device__ __forceinline__ T& operator[](const long long i) const {
		static_assert(D == 1, "with other than one dimension, write accessor(i, j)");
		return operator()(i);
	}

  private:
	__device__ __forceinline__ T& at(const long long (&index)[D]) const {
		long long inside[D];
		int number = 0;
		for(int d = 0; d < D; ++d) {
			inside[d] = index[d];
			if((unsigned long long)inside[d] >= (unsigned long long)extent[d]) {
				inside[d] += inside[d] < 0 ? extent[d] : -extent[d];
				if((unsigned long long)inside[d] >= (unsigned long long)extent[d]) { // a halo wider than the buffer
					inside[d] %= extent[d];
					if(inside[d] < 0) inside[d] += extent[d];
				}
			}
			number = number * 2 + (inside[d] >= split[d] ? 1 : 0);
		}
#if CELERITY_BOUNDS_CHECK
		if(!bounds.contain(inside)) {
			bounds.complain(inside);
			return *(T*)detail::sink<(sizeof(T) + 7) / 8>;
		}
#endif
		return *address<0>(number, inside);
	}

	/// Compares the number with constants: an index that the compiler does not know would move the parameter to local memory.
	template <int I>
	__device__ __forceinline__ T* address(const int number, const long long (&inside)[D]) const {
		if constexpr(I + 1 < 1 << D) {
			if(number != I) return address<I + 1>(number, inside);
		}
		if constexpr(D == 1) return parts[I].data + inside[0];
		if constexpr(D == 2) return parts[I].data + inside[0] * parts[I].stride[0] + inside[1];
		if constexpr(D == 3) return parts[I].data + inside[0] * parts[I].stride[0] + inside[1] * parts[I].stride[1] + inside[2];
	}
};

} // namespace celerity
