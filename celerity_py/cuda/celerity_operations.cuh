// SPDX-License-Identifier: MIT
// The operations of reductions: how each combines two elements of each type, as NumPy does, and its identity.
#pragma once

#include "celerity_device.cuh"

namespace celerity {

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

} // namespace detail
} // namespace celerity
