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

// ---- reductions -------------------------------------------------------------------------------------------------------------------

struct sum {};
struct prod {};
struct min {};
struct max {};
struct logical_and {};
struct logical_or {};
struct bitwise_xor {};
struct argmin {};
struct argmax {};

/// An element for `argmin` and `argmax`: a value, and where it is.
template <typename T, int D = 1>
struct placed {
	static_assert(D >= 1 && D <= 3, "places have 1 to 3 dimensions");
	T value;
	long long place[D]; ///< global coordinates; -1: of no value
};

/// The value of an item.
template <typename T, int D>
__device__ __forceinline__ placed<T, D> placed_at(const T& value, const item<D>& where) {
	placed<T, D> result{};
	result.value = value;
	for(int d = 0; d < D; ++d) result.place[d] = where[d];
	return result;
}

namespace detail {

template <typename A, typename B>
inline constexpr bool is_same = false;
template <typename A>
inline constexpr bool is_same<A, A> = true;

template <typename T>
inline constexpr bool is_floating = is_same<T, float> || is_same<T, double>;

/// Types that consist of two floats, or of two doubles, are complex numbers.
template <typename T>
struct parts_of {
	using type = void;
};
template <>
struct parts_of<float2> {
	using type = float;
};
template <>
struct parts_of<double2> {
	using type = double;
};
template <template <typename> class Complex, typename R>
struct parts_of<Complex<R>> {
	using type = R;
};
template <typename T>
inline constexpr bool is_placed = false;
template <typename T, int D>
inline constexpr bool is_placed<placed<T, D>> = true;
template <typename T>
inline constexpr bool is_complex = !is_placed<T> && !is_same<typename parts_of<T>::type, void>;

template <typename T>
__device__ __forceinline__ bool has_same_bits(const T& x, const T& y) {
	unsigned char a[sizeof(T)];
	unsigned char b[sizeof(T)];
	memcpy(a, &x, sizeof x);
	memcpy(b, &y, sizeof y);
	bool is_same = true;
	for(unsigned i = 0; i < sizeof(T); ++i) is_same = is_same && a[i] == b[i];
	return is_same;
}

template <typename To, typename From>
__device__ __forceinline__ To bits_as(const From& from) {
	static_assert(sizeof(To) == sizeof(From), "sizes differ");
	To to;
	memcpy(&to, &from, sizeof to);
	return to;
}

template <int Size>
struct bits_of {
	using type = unsigned;
};
template <>
struct bits_of<8> {
	using type = unsigned long long;
};

template <typename T>
struct pair {
	T a, b;
};

template <typename T>
__device__ __forceinline__ bool is_true(const T& value) {
	if constexpr(is_complex<T>) {
		const auto parts = bits_as<pair<typename parts_of<T>::type>>(value);
		return parts.a != 0 || parts.b != 0;
	} else {
		return value != T(0);
	}
}

/// A minimum or maximum whose bits do not depend on the order: -0 is smaller than 0, and all NaN are one.
template <bool IsMinimum, typename T>
__device__ __forceinline__ T extremum(const T& x, const T& y) {
	using Bits = typename bits_of<sizeof(T)>::type;
	if(x != x || y != y) return bits_as<T>(sizeof(T) == 4 ? Bits(0x7fc00000) : Bits(0x7ff8000000000000));
	if(x == y) return bits_as<T>(IsMinimum ? Bits(bits_as<Bits>(x) | bits_as<Bits>(y)) : Bits(bits_as<Bits>(x) & bits_as<Bits>(y)));
	return (x < y) == IsMinimum ? x : y;
}

/// Of equal values the one with the lowest place, in the order of rows; NaN before all others.
template <bool IsMinimum, typename T, int D>
__device__ __forceinline__ placed<T, D> extremum(const placed<T, D>& x, const placed<T, D>& y) {
	if(y.place[0] == -1) return x;
	if(x.place[0] == -1) return y;
	const bool is_nan = x.value != x.value;
	const bool is_other_nan = y.value != y.value;
	if(is_nan != is_other_nan) return is_nan ? x : y;
	if(!is_nan && x.value != y.value) return (x.value < y.value) == IsMinimum ? x : y;
	for(int d = 0; d < D; ++d) {
		if(x.place[d] != y.place[d]) return x.place[d] < y.place[d] ? x : y;
	}
	return x;
}

/// As NumPy computes it: minima and maxima pass NaN on, sums and products of bool are "or" and "and".
template <typename Op, typename T>
__device__ __forceinline__ T fold(const T& x, const T& y) {
	if constexpr(is_placed<T>) {
		static_assert(is_same<Op, argmin> || is_same<Op, argmax>, "celerity::placed goes with argmin and argmax");
		return extremum<is_same<Op, argmin>>(x, y);
	} else if constexpr(is_same<Op, logical_and> || is_same<Op, logical_or>) {
		const bool result = is_same<Op, logical_and> ? is_true(x) && is_true(y) : is_true(x) || is_true(y);
		if constexpr(is_complex<T>) {
			using R = typename parts_of<T>::type;
			return bits_as<T>(pair<R>{R(result), R(0)});
		} else {
			return T(result);
		}
	} else if constexpr(is_complex<T>) {
		static_assert(is_same<Op, sum> || is_same<Op, prod>, "complex numbers have no order and no bits to combine");
		using R = typename parts_of<T>::type;
		const auto p = bits_as<pair<R>>(x);
		const auto q = bits_as<pair<R>>(y);
		if constexpr(is_same<Op, sum>) {
			return bits_as<T>(pair<R>{p.a + q.a, p.b + q.b});
		} else {
			return bits_as<T>(pair<R>{p.a * q.a - p.b * q.b, p.a * q.b + p.b * q.a});
		}
	} else if constexpr(is_same<Op, sum>) {
		return T(x + y);
	} else if constexpr(is_same<Op, prod>) {
		return T(x * y);
	} else if constexpr(is_floating<T> && (is_same<Op, min> || is_same<Op, max>)) {
		return extremum<is_same<Op, min>>(x, y);
	} else if constexpr(is_same<Op, min>) {
		return y < x ? y : x;
	} else if constexpr(is_same<Op, max>) {
		return x < y ? y : x;
	} else {
		static_assert(is_same<Op, bitwise_xor>,
		    "the operations are sum, prod, min, max, logical_and, logical_or and bitwise_xor, and argmin and argmax of celerity::placed");
		return T(x ^ y);
	}
}

template <typename T, typename Value>
__device__ __forceinline__ T nowhere(const Value& value) {
	T result{};
	result.value = value;
	for(long long& coordinate : result.place) coordinate = -1;
	return result;
}

template <typename Op, typename T>
__device__ __forceinline__ T identity() {
	constexpr bool is_one = is_same<Op, prod> || is_same<Op, logical_and>;
	if constexpr(is_same<Op, argmin>) {
		return nowhere<T>(identity<min, decltype(T::value)>());
	} else if constexpr(is_same<Op, argmax>) {
		return nowhere<T>(identity<max, decltype(T::value)>());
	} else if constexpr(is_complex<T>) {
		using R = typename parts_of<T>::type;
		return bits_as<T>(pair<R>{R(is_one), R(0)});
	} else if constexpr(!is_same<Op, min> && !is_same<Op, max>) {
		return T(is_one);
	} else if constexpr(is_floating<T>) {
		T infinity;
		if constexpr(sizeof(T) == 4) {
			infinity = bits_as<T>(0x7f800000u);
		} else {
			infinity = bits_as<T>(0x7ff0000000000000ull);
		}
		return is_same<Op, min> ? infinity : -infinity;
	} else if constexpr(T(-1) < T(0)) {
		constexpr T highest = T(((unsigned long long)1 << (8 * sizeof(T) - 1)) - 1);
		return is_same<Op, min> ? highest : T(-highest - 1);
	} else {
		return is_same<Op, min> ? T(-1) : T(0); // T(-1) is true for bool
	}
}

// ---- atomically, in device memory

template <typename Word, typename Op, typename T>
__device__ void update_word(T* const address, const T& value) {
	Word old = *(volatile Word*)address;
	while(true) {
		const Word wanted = bits_as<Word>(fold<Op>(bits_as<T>(old), value));
		if(wanted == old) return; // most values change no minimum
		const Word found = atomicCAS((Word*)address, old, wanted);
		if(found == old) return;
		old = found;
	}
}

template <int Size>
struct small_bits {
	using type = unsigned char;
};
template <>
struct small_bits<2> {
	using type = unsigned short;
};

/// Exchanges an element that is smaller than any atomic operation together with the word around it.
template <typename Op, typename T>
__device__ void update_small(T* const address, const T& value) {
	const auto place = (unsigned long long)address;
	auto* const word = (unsigned*)(place & ~3ull);
	const unsigned shift = 8 * (unsigned)(place & 3ull);
	using Bits = typename small_bits<sizeof(T)>::type;
	const unsigned mask = (unsigned)(Bits)-1 << shift;
	unsigned old = *(volatile unsigned*)word;
	while(true) {
		const T result = fold<Op>(bits_as<T>((Bits)(old >> shift)), value);
		const unsigned wanted = (old & ~mask) | ((unsigned)bits_as<Bits>(result) << shift);
		if(wanted == old) return;
		const unsigned found = atomicCAS(word, old, wanted);
		if(found == old) return;
		old = found;
	}
}

/// For elements that are wider than any atomic operation. One lock per kernel source and device: it is held for some instructions.
template <typename T>
__device__ unsigned wide_lock = 0;

template <typename T>
struct words_of {
	unsigned words[(sizeof(T) + 3) / 4];
};

template <typename Op, typename T>
__device__ void update_wide(T* const address, const T& value) {
	constexpr unsigned num_words = sizeof(T) / sizeof(unsigned);
	volatile unsigned* const words = (volatile unsigned*)address;
	bool is_done = false;
	while(!is_done) {
		if(atomicCAS(&wide_lock<T>, 0u, 1u) != 0) continue;
		__threadfence();
		words_of<T> kept;
		for(unsigned i = 0; i < num_words; ++i) kept.words[i] = words[i];
		kept = bits_as<words_of<T>>(fold<Op>(bits_as<T>(kept), value));
		for(unsigned i = 0; i < num_words; ++i) words[i] = kept.words[i];
		__threadfence();
		atomicExch(&wide_lock<T>, 0u);
		is_done = true;
	}
}

template <typename T>
inline constexpr bool is_signed = !is_floating<T> && !is_complex<T> && T(-1) < T(0);

/// The integer that the hardware takes for an operation on one of 4 or 8 bytes.
template <int Size, bool IsSigned>
struct atomic_word {
	using type = unsigned;
};
template <>
struct atomic_word<4, true> {
	using type = int;
};
template <>
struct atomic_word<8, false> {
	using type = unsigned long long;
};
template <>
struct atomic_word<8, true> {
	using type = long long;
};

/// The operations of integers that the hardware knows, besides sums.
template <typename Op, typename T>
inline constexpr bool is_atomic =
    (sizeof(T) == 4 || sizeof(T) == 8) && !is_floating<T> && !is_complex<T> && (is_same<Op, min> || is_same<Op, max> || is_same<Op, bitwise_xor>);

template <typename Op, typename T>
__device__ __forceinline__ void update_atomically(T* const address, const T& value) {
	if constexpr(is_same<Op, bitwise_xor>) {
		using Word = typename atomic_word<sizeof(T), false>::type;
		atomicXor((Word*)address, (Word)value);
	} else {
		using Word = typename atomic_word<sizeof(T), is_signed<T>>::type;
		const T old = *(volatile T*)address;
		if(fold<Op>(old, value) == old) return; // most values change no minimum
		if constexpr(is_same<Op, min>) {
			atomicMin((Word*)address, (Word)value);
		} else {
			atomicMax((Word*)address, (Word)value);
		}
	}
}

template <typename Op, typename T>
__device__ __forceinline__ void update(T* const address, const T& value) {
	if constexpr(is_same<Op, sum> && is_complex<T>) {
		using R = typename parts_of<T>::type;
		const auto parts = bits_as<pair<R>>(value);
		atomicAdd((R*)address, parts.a);
		atomicAdd((R*)address + 1, parts.b);
	} else if constexpr(is_same<Op, sum> && is_floating<T>) {
		atomicAdd(address, value);
	} else if constexpr(is_same<Op, sum> && sizeof(T) == 8 && !is_complex<T>) {
		atomicAdd((unsigned long long*)address, (unsigned long long)value);
	} else if constexpr(is_same<Op, sum> && sizeof(T) == 4) {
		atomicAdd((unsigned*)address, (unsigned)value);
	} else if constexpr(is_atomic<Op, T>) {
		update_atomically<Op>(address, value);
	} else if constexpr(sizeof(T) < 4) {
		update_small<Op>(address, value);
	} else if constexpr(sizeof(T) == 4) {
		update_word<unsigned, Op>(address, value);
	} else if constexpr(sizeof(T) == 8) {
		update_word<unsigned long long, Op>(address, value);
	} else {
		update_wide<Op>(address, value);
	}
}

// ---- within a warp and a block

__device__ __forceinline__ unsigned thread_in_block() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
__device__ __forceinline__ unsigned threads_of_block() { return blockDim.x * blockDim.y * blockDim.z; }

__device__ __forceinline__ unsigned lane() {
	unsigned result = 0;
#ifdef __CUDA_ARCH__
	asm("mov.u32 %0, %%laneid;" : "=r"(result));
#endif
	return result;
}

__device__ __forceinline__ unsigned lowest_lanes(const unsigned count) { return count >= 32 ? ~0u : (1u << count) - 1; }

template <typename T>
__device__ __forceinline__ T from_lane(const unsigned mask, const T& value, const unsigned source) {
	words_of<T> exchanged{};
	memcpy(&exchanged, &value, sizeof value);
	for(unsigned& word : exchanged.words) word = __shfl_sync(mask, word, (int)source);
	T result;
	memcpy(&result, &exchanged, sizeof result);
	return result;
}

/// The fold of the values of all lanes in `mask`, which are those that are here; valid in its lowest lane.
template <typename Op, typename T>
__device__ T fold_warp(const unsigned mask, T value) {
	if((mask & (mask + 1)) == 0) { // lanes 0 to n - 1, as but for kernels that diverge
		for(unsigned distance = 16; distance > 0; distance /= 2) {
			const unsigned source = lane() + distance;
			const T other = from_lane(mask, value, source);
			if(source < 32 && (mask >> source & 1) != 0) value = fold<Op>(value, other);
		}
		return value;
	}
	const unsigned lowest = (unsigned)__ffs((int)mask) - 1;
	T total = from_lane(mask, value, lowest);
	for(unsigned rest = mask & (mask - 1); rest != 0; rest &= rest - 1) {
		const T other = from_lane(mask, value, (unsigned)__ffs((int)rest) - 1);
		total = fold<Op>(total, other);
	}
	return total;
}

/// Whether elements of type `T` lose the fraction of a `U`, as NumPy's `same_kind` rule has it.
template <typename T, typename U>
inline constexpr bool loses_fraction = is_floating<U> && !is_floating<T> && !is_complex<T> && sizeof(T) <= 8;

template <bool Condition>
struct only_if;
template <>
struct only_if<true> {
	using type = int;
};

/// The fold of the values of all threads of the block, which call it together, in an order that depends on their number only; valid in thread 0.
template <typename Op, typename T>
__device__ T fold_block(const T& value) {
	__shared__ alignas(16) unsigned char storage[32 * sizeof(T)];
	const unsigned thread = thread_in_block();
	const unsigned num_threads = threads_of_block();
	const T folded = fold_warp<Op>(lowest_lanes(num_threads - thread / 32 * 32), value);
	__syncthreads(); // an earlier call may still read
	if(thread % 32 == 0) memcpy(storage + thread / 32 * sizeof(T), &folded, sizeof(T));
	__syncthreads();
	T of_warp = identity<Op, T>();
	if(thread >= 32) return of_warp;
	if(thread < (num_threads + 31) / 32) memcpy(&of_warp, storage + thread * sizeof(T), sizeof(T));
	return fold_warp<Op>(lowest_lanes(num_threads), of_warp);
}

} // namespace detail

// For elements of integers, the overloads for floating-point values are better matches than a conversion.
#define CELERITY_REFUSES_FRACTIONS(function) \
	template <typename U, typename detail::only_if<detail::loses_fraction<T, U>>::type = 0> \
	__device__ void function(const U&) const { \
		static_assert(!detail::loses_fraction<T, U>, \
		    "the elements of this reduction are integers: convert the floating-point value, such as combine((int)x)"); \
	}

/// One element of a partial result of several.
template <typename T, typename Op>
struct reduced_element {
	T* partial; ///< null: outside of the buffer, as a check of bounds has found

	/// Any thread, at any place, any number of times.
	__device__ __forceinline__ void combine(const T& value) const {
#if CELERITY_BOUNDS_CHECK
		if(partial == nullptr) return;
#endif
		detail::update<Op>(partial, value);
	}
	CELERITY_REFUSES_FRACTIONS(combine)
};

template <typename T, typename Op, int D>
struct block_reducer;

/// The partial result of this chunk of a reduction into a buffer of `D` dimensions. The threads of the chunk combine values into its elements.
/// The order in which they do is not fixed, so floating-point sums may differ in their last bits from run to run; they never differ from rank to rank.
template <typename T, typename Op, int D = 0>
struct reducer {
	static_assert(D >= 0 && D <= 3, "buffers have 0 to 3 dimensions");
	T* partial;          ///< all elements, the last dimension varying fastest; they hold the identity before the launch
	long long extent[D]; ///< of the buffer
#if CELERITY_BOUNDS_CHECK
	violation* report;
	long long access;
#endif

	__device__ __forceinline__ static T identity() { return detail::identity<Op, T>(); }
	__device__ __forceinline__ static T fold(const T& x, const T& y) { return detail::fold<Op>(x, y); }

	/// One index per dimension.
	template <typename... Indices>
	__device__ __forceinline__ reduced_element<T, Op> operator()(const Indices... indices) const {
		static_assert(sizeof...(Indices) == D, "a reducer takes one index per dimension of its buffer");
		const long long index[D] = {(long long)indices...};
		return at(index);
	}
	__device__ __forceinline__ reduced_element<T, Op> operator[](const item<D>& where) const { return at(where.index); }
	/// The same as `reducer(i)`.
	__device__ __forceinline__ reduced_element<T, Op> operator[](const long long i) const {
		static_assert(D == 1, "with other than one dimension, write reducer(i, j)");
		return operator()(i);
	}

	/// How many elements the buffer has.
	__device__ __forceinline__ long long size() const {
		long long result = 1;
		for(int d = 0; d < D; ++d) result *= extent[d];
		return result;
	}

	/// A partial result of this block in shared memory, for many values that go to few elements. All threads of the block must call it together, and
	/// call `flush()` of the result together when they are done.
	template <int Capacity>
	__device__ __forceinline__ block_reducer<T, Op, D> in_block(T (&shared)[Capacity]) const {
		return block_reducer<T, Op, D>(*this, shared, Capacity);
	}

  private:
	friend struct block_reducer<T, Op, D>;

	__device__ __forceinline__ long long offset(const long long (&index)[D]) const {
		long long result = index[0];
		for(int d = 1; d < D; ++d) result = result * extent[d] + index[d];
		return result;
	}

	__device__ __forceinline__ reduced_element<T, Op> at(const long long (&index)[D]) const {
#if CELERITY_BOUNDS_CHECK
		for(int d = 0; d < D; ++d) {
			if(index[d] >= 0 && index[d] < extent[d]) continue;
			detail::complain<D>(report, access, index);
			return {nullptr};
		}
#endif
		return {partial + offset(index)};
	}
};

/// The partial result of one block; made by `reducer::in_block`. Of a buffer that has more elements than the shared memory, it combines into the partial
/// result of the chunk instead.
template <typename T, typename Op, int D>
struct block_reducer {
	__device__ __forceinline__ block_reducer(const reducer<T, Op, D>& whole, T* const shared, const long long capacity)
	    : m_whole(whole), m_shared(shared), m_fits(whole.size() <= capacity) {
		if(!m_fits) return;
		for(long long i = detail::thread_in_block(); i < m_whole.size(); i += detail::threads_of_block()) m_shared[i] = m_whole.identity();
		__syncthreads();
	}

	/// An element of the partial result of this block.
	struct element {
		T* in_block;
		reduced_element<T, Op> in_chunk; ///< instead, if `in_block` is null

		/// Any thread, between `in_block` and `flush`, any number of times.
		__device__ __forceinline__ void combine(const T& value) const {
			if(in_block != nullptr) {
				detail::update<Op>(in_block, value);
			} else {
				in_chunk.combine(value);
			}
		}
		CELERITY_REFUSES_FRACTIONS(combine)
	};

	/// One index per dimension.
	template <typename... Indices>
	__device__ __forceinline__ element operator()(const Indices... indices) const {
		static_assert(sizeof...(Indices) == D, "a reducer takes one index per dimension of its buffer");
		const long long index[D] = {(long long)indices...};
		return at(index);
	}
	__device__ __forceinline__ element operator[](const item<D>& where) const { return at(where.index); }
	/// The same as `block_reducer(i)`.
	__device__ __forceinline__ element operator[](const long long i) const {
		static_assert(D == 1, "with other than one dimension, write reducer(i, j)");
		return operator()(i);
	}

	/// Combines the partial result of the block with that of the chunk. All threads of the block must call it together.
	__device__ __forceinline__ void flush() const {
		if(!m_fits) return;
		__syncthreads();
		for(long long i = detail::thread_in_block(); i < m_whole.size(); i += detail::threads_of_block()) {
			const T value = m_shared[i];
			if(!detail::has_same_bits(value, m_whole.identity())) detail::update<Op>(m_whole.partial + i, value);
		}
	}

  private:
	reducer<T, Op, D> m_whole;
	T* m_shared;
	bool m_fits;

	__device__ __forceinline__ element at(const long long (&index)[D]) const {
		const auto in_chunk = m_whole.at(index);
		return {m_fits && in_chunk.partial != nullptr ? m_shared + m_whole.offset(index) : nullptr, in_chunk};
	}
};

/// The partial result of this chunk of a reduction into a buffer of one element.
template <typename T, typename Op>
struct reducer<T, Op, 0> {
	T* partial; ///< holds the identity before the launch

	__device__ __forceinline__ static T identity() { return detail::identity<Op, T>(); }
	__device__ __forceinline__ static T fold(const T& x, const T& y) { return detail::fold<Op>(x, y); }

	/// Any thread, at any place, any number of times.
	__device__ void combine(const T& value) const {
		const unsigned mask = __activemask();
		const T folded = detail::fold_warp<Op>(mask, value);
		if(detail::lane() == (unsigned)__ffs((int)mask) - 1) detail::update<Op>(partial, folded);
	}
	CELERITY_REFUSES_FRACTIONS(combine)

	/// The same with one access to memory per block, for large index spaces. All threads of the block must call it together, those whose item is not
	/// in the chunk with `identity()`.
	__device__ void combine_block(const T& value) const {
		const T total = detail::fold_block<Op>(value);
		if(detail::thread_in_block() == 0) detail::update<Op>(partial, total);
	}
	CELERITY_REFUSES_FRACTIONS(combine_block)
};

/// A reduction into a buffer of one element in an order that depends only on the blocks and their threads, as `deterministic=True` asks for. Each block has
/// a partial result to itself.
template <typename T, typename Op>
struct ordered_reducer {
	T* partials;          ///< of each block, in the order of their numbers; they hold the identity before the launch
	long long num_blocks; ///< of the largest grid
#if CELERITY_BOUNDS_CHECK
	violation* report;
	long long access;
#endif

	__device__ __forceinline__ static T identity() { return detail::identity<Op, T>(); }
	__device__ __forceinline__ static T fold(const T& x, const T& y) { return detail::fold<Op>(x, y); }

	/// All threads of the block must call it together, any number of times, those whose item is not in the chunk with `identity()`.
	__device__ void combine_block(const T& value) const {
		const T total = detail::fold_block<Op>(value);
		if(detail::thread_in_block() != 0) return;
		T& partial = partials[((long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x];
		partial = fold(partial, total);
	}
	CELERITY_REFUSES_FRACTIONS(combine_block)
};

#undef CELERITY_REFUSES_FRACTIONS

} // namespace celerity
