// SPDX-License-Identifier: MIT
// The arithmetic of fused kernels, for CUDA and for the host. Operations have NumPy's results, bit by bit, for operands of
// the type in which NumPy computes. Nothing depends on C++'s promotion of integers, and contraction has to be off.
#pragma once

#include "fused_types.cuh"

namespace fused {

// ---- arithmetic: an operation on T, in a structure for floats and one for integers

template <typename T>
CELERITY_ITEM bool is_nan(T value) {
	return value != value;
}

template <typename T>
struct quotient {
	T value, rest;
};

// NumPy's divmod of floats, with a divisor other than 0.
template <typename T>
CELERITY_ITEM quotient<T> divide_floats(T a, T b) {
	T rest = CELERITY_MATH fmod(a, b);
	T whole = (a - rest) / b;
	if(rest != 0) {
		if((b < 0) != (rest < 0)) {
			rest += b;
			whole -= T(1);
		}
	} else {
		rest = CELERITY_MATH copysign(T(0), b);
	}
	T floored;
	if(whole != 0) {
		floored = CELERITY_MATH floor(whole);
		if(whole - floored > T(0.5)) { floored += T(1); }
	} else {
		floored = CELERITY_MATH copysign(T(0), a / b);
	}
	return quotient<T>{floored, rest};
}

// Python's division of integers: 0 by 0, and the lowest number by -1 is itself.
template <typename T>
CELERITY_ITEM quotient<T> divide_integers(T a, T b) {
	if(b == 0) { return quotient<T>{T(0), T(0)}; }
	if(is_signed<T>() && b == static_cast<T>(-1)) { return quotient<T>{static_cast<T>(0 - static_cast<uint64>(a)), T(0)}; }
	T whole = static_cast<T>(a / b);
	T rest = static_cast<T>(a % b);
	if(rest != 0 && (rest < 0) != (b < 0)) {
		whole = static_cast<T>(whole - 1);
		rest = static_cast<T>(rest + b);
	}
	return quotient<T>{whole, rest};
}

template <typename T>
inline constexpr bool is_half = is_same<T, half>::value;
template <typename T>
inline constexpr bool is_bool = is_same<T, bool>::value;
template <typename T>
inline constexpr bool is_real = is_float<T>::value;

// An operation on floats, and by way of float32 on float16.
#define CELERITY_BINARY(name, on_float, otherwise) \
	template <typename T> \
	CELERITY_ITEM T op_##name(T a, T b) { \
		if constexpr(is_half<T>) { \
			return narrow(op_##name(widen(a), widen(b))); \
		} else if constexpr(is_real<T>) { \
			return on_float; \
		} else { \
			return otherwise; \
		} \
	}
#define CELERITY_UNARY(name, on_float, otherwise) \
	template <typename T> \
	CELERITY_ITEM T op_##name(T a) { \
		if constexpr(is_half<T>) { \
			return narrow(op_##name(widen(a))); \
		} else if constexpr(is_real<T>) { \
			return on_float; \
		} else { \
			return otherwise; \
		} \
	}
#define CELERITY_FUNCTION(name, function) CELERITY_UNARY(name, CELERITY_MATH function(a), a)

template <typename T>
CELERITY_ITEM T wrapped_add(T a, T b) {
	return is_bool<T> ? T(a || b) : static_cast<T>(static_cast<uint64>(a) + static_cast<uint64>(b));
}
template <typename P>
CELERITY_ITEM complex<P> wrapped_add(complex<P> a, complex<P> b) {
	return complex<P>{a.re + b.re, a.im + b.im};
}
template <typename T>
CELERITY_ITEM T wrapped_subtract(T a, T b) {
	return static_cast<T>(static_cast<uint64>(a) - static_cast<uint64>(b));
}
template <typename P>
CELERITY_ITEM complex<P> wrapped_subtract(complex<P> a, complex<P> b) {
	return complex<P>{a.re - b.re, a.im - b.im};
}
template <typename T>
CELERITY_ITEM T wrapped_multiply(T a, T b) {
	return is_bool<T> ? T(a && b) : static_cast<T>(static_cast<uint64>(a) * static_cast<uint64>(b));
}
template <typename T>
CELERITY_ITEM T wrapped_power(T base, T exponent) {
	T result = T(1);
	for(; exponent > 0; exponent = static_cast<T>(exponent >> 1)) {
		if((exponent & 1) != 0) { result = wrapped_multiply(result, base); }
		base = wrapped_multiply(base, base);
	}
	return result;
}
template <typename T>
CELERITY_ITEM T integer_absolute(T a) {
	return a < 0 ? static_cast<T>(0 - static_cast<uint64>(a)) : a;
}
template <typename T>
CELERITY_ITEM T float_sign(T a) {
	return a > 0 ? T(1) : (a < 0 ? T(-1) : (a == 0 ? T(0) : a));
}

CELERITY_BINARY(add, a + b, wrapped_add(a, b))
CELERITY_BINARY(subtract, a - b, wrapped_subtract(a, b))
CELERITY_BINARY(multiply, a* b, wrapped_multiply(a, b))
CELERITY_BINARY(divide, a / b, a)
CELERITY_BINARY(floor_divide, b == 0 ? a / b : divide_floats(a, b).value, divide_integers(a, b).value)
CELERITY_BINARY(remainder, b == 0 ? CELERITY_MATH fmod(a, b) : divide_floats(a, b).rest, divide_integers(a, b).rest)
CELERITY_BINARY(power, CELERITY_MATH pow(a, b), wrapped_power(a, b))
CELERITY_BINARY(arctan2, CELERITY_MATH atan2(a, b), a)
CELERITY_BINARY(hypot, CELERITY_MATH hypot(a, b), a)
CELERITY_BINARY(copysign, CELERITY_MATH copysign(a, b), a)

CELERITY_UNARY(sqrt, CELERITY_MATH sqrt(a), a)
CELERITY_UNARY(reciprocal, T(1) / a, a)
CELERITY_UNARY(square, a* a, wrapped_multiply(a, a))
CELERITY_UNARY(sign, float_sign(a), static_cast<T>((a > 0) - (a < 0)))
CELERITY_UNARY(floor, CELERITY_MATH floor(a), a)
CELERITY_UNARY(ceil, CELERITY_MATH ceil(a), a)
CELERITY_UNARY(trunc, CELERITY_MATH trunc(a), a)
CELERITY_UNARY(rint, CELERITY_MATH rint(a), a)
CELERITY_FUNCTION(exp, exp)
CELERITY_FUNCTION(exp2, exp2)
CELERITY_FUNCTION(expm1, expm1)
CELERITY_FUNCTION(log, log)
CELERITY_FUNCTION(log2, log2)
CELERITY_FUNCTION(log10, log10)
CELERITY_FUNCTION(log1p, log1p)
CELERITY_FUNCTION(sin, sin)
CELERITY_FUNCTION(cos, cos)
CELERITY_FUNCTION(tan, tan)
CELERITY_FUNCTION(arcsin, asin)
CELERITY_FUNCTION(arccos, acos)
CELERITY_FUNCTION(arctan, atan)
CELERITY_FUNCTION(sinh, sinh)
CELERITY_FUNCTION(cosh, cosh)
CELERITY_FUNCTION(tanh, tanh)
CELERITY_FUNCTION(arcsinh, asinh)
CELERITY_FUNCTION(arccosh, acosh)
CELERITY_FUNCTION(arctanh, atanh)
CELERITY_FUNCTION(cbrt, cbrt)

template <typename T>
CELERITY_ITEM T op_positive(T a) {
	return a;
}
template <typename T>
CELERITY_ITEM T op_conjugate(T a) {
	return a;
}
template <typename P>
CELERITY_ITEM complex<P> op_conjugate(complex<P> a) {
	return complex<P>{a.re, -a.im};
}
template <typename P>
CELERITY_ITEM P op_real(complex<P> a) {
	return a.re;
}
template <typename P>
CELERITY_ITEM P op_imag(complex<P> a) {
	return a.im;
}
template <typename T>
CELERITY_ITEM T op_imag(T) {
	return T();
}
template <typename T>
CELERITY_ITEM T op_negative(T a) {
	if constexpr(is_half<T>) {
		return half{static_cast<uint16>(a.bits ^ 0x8000u)};
	} else if constexpr(is_real<T>) {
		return -a;
	} else {
		return static_cast<T>(0 - static_cast<uint64>(a));
	}
}
template <typename P>
CELERITY_ITEM complex<P> op_negative(complex<P> a) {
	return complex<P>{-a.re, -a.im};
}
template <typename T>
CELERITY_ITEM T op_absolute(T a) {
	if constexpr(is_half<T>) {
		return half{static_cast<uint16>(a.bits & 0x7fffu)};
	} else if constexpr(is_real<T>) {
		return CELERITY_MATH fabs(a);
	} else {
		return integer_absolute(a);
	}
}

// ---- products of complex numbers, for which no rule about bits holds

template <typename P>
CELERITY_ITEM complex<P> op_multiply(complex<P> a, complex<P> b) {
	return complex<P>{a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <typename P>
CELERITY_ITEM complex<P> op_square(complex<P> a) {
	return op_multiply(a, a);
}
// Divides first by the larger part of the divisor, as NumPy does, so that squares do not overflow.
template <typename P>
CELERITY_ITEM complex<P> op_divide(complex<P> a, complex<P> b) {
	const P re = CELERITY_MATH fabs(b.re), im = CELERITY_MATH fabs(b.im);
	if(re == 0 && im == 0) { return complex<P>{a.re / re, a.im / re}; }
	if(re >= im) {
		const P ratio = b.im / b.re, scale = P(1) / (b.re + b.im * ratio);
		return complex<P>{(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
	}
	const P ratio = b.re / b.im, scale = P(1) / (b.im + b.re * ratio);
	return complex<P>{(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
}
template <typename P>
CELERITY_ITEM complex<P> op_reciprocal(complex<P> a) {
	return op_divide(complex<P>{P(1), P(0)}, a);
}
template <typename P>
CELERITY_ITEM P op_absolute(complex<P> a) {
	return CELERITY_MATH hypot(a.re, a.im);
}

// ---- extremes

// Of equal numbers, such as 0 and -0, NumPy takes the second one, but the first one of float16. It takes
// the first one if `nan` is no number.
#define CELERITY_EXTREME(name, symbol, nan) \
	template <typename T> \
	CELERITY_ITEM T op_##name(T a, T b) { \
		if constexpr(is_half<T>) { \
			const float wide_a = widen(a), wide_b = widen(b); \
			return is_nan(wide_##nan) || wide_a symbol wide_b || wide_a == wide_b ? a : b; \
		} else { \
			return is_nan(nan) || a symbol b ? a : b; \
		} \
	}
CELERITY_EXTREME(minimum, <, a)
CELERITY_EXTREME(maximum, >, a)
CELERITY_EXTREME(fmin, <, b)
CELERITY_EXTREME(fmax, >, b)

// ---- comparisons and conditions; the operands of a comparison may be int64 and uint64

// Whether one is signed and the other one is not.
template <typename A, typename B>
CELERITY_ITEM constexpr bool is_mixed() {
	if constexpr(is_same<A, B>::value) {
		return false;
	} else {
		return is_signed<A>() != is_signed<B>();
	}
}

template <typename A, typename B>
CELERITY_ITEM bool is_equal(A a, B b) {
	if constexpr(is_half<A>) {
		return widen(a) == widen(b);
	} else if constexpr(is_mixed<A, B>()) {
		return a >= 0 && b >= 0 && static_cast<uint64>(a) == static_cast<uint64>(b);
	} else {
		return a == b;
	}
}
template <typename A, typename B>
CELERITY_ITEM bool is_less(A a, B b) {
	if constexpr(is_half<A>) {
		return widen(a) < widen(b);
	} else if constexpr(is_mixed<A, B>()) {
		return a < 0 || (b >= 0 && static_cast<uint64>(a) < static_cast<uint64>(b));
	} else {
		return a < b;
	}
}
template <typename P>
CELERITY_ITEM bool is_equal(complex<P> a, complex<P> b) {
	return a.re == b.re && a.im == b.im;
}

template <typename A, typename B>
CELERITY_ITEM bool op_equal(A a, B b) {
	return is_equal(a, b);
}
template <typename A, typename B>
CELERITY_ITEM bool op_not_equal(A a, B b) {
	return !is_equal(a, b);
}
template <typename A, typename B>
CELERITY_ITEM bool op_less(A a, B b) {
	return is_less(a, b);
}
template <typename A, typename B>
CELERITY_ITEM bool op_less_equal(A a, B b) {
	return is_less(a, b) || is_equal(a, b);
}
template <typename A, typename B>
CELERITY_ITEM bool op_greater(A a, B b) {
	return is_less(b, a);
}
template <typename A, typename B>
CELERITY_ITEM bool op_greater_equal(A a, B b) {
	return is_less(b, a) || is_equal(a, b);
}

// NumPy's clip: of equal numbers the bound. With bounds that are no arrays, and of float16, the element.
#define CELERITY_BOUND(name, symbol) \
	template <typename T> \
	CELERITY_ITEM T name(T a, T bound) { \
		if constexpr(is_half<T>) { \
			return is_nan(widen(a)) || widen(a) symbol widen(bound) || widen(a) == widen(bound) ? a : bound; \
		} else { \
			return is_nan(a) || a symbol bound ? a : bound; \
		} \
	}
CELERITY_BOUND(at_least, >)
CELERITY_BOUND(at_most, <)
template <typename T>
CELERITY_ITEM T op_clip_within(T a, T low, T high) {
	const T raised = is_equal(a, low) ? a : at_least(a, low);
	return is_equal(raised, high) ? raised : at_most(raised, high);
}
template <typename T>
CELERITY_ITEM T op_clip(T a, T low, T high) {
	return at_most(at_least(a, low), high);
}

template <typename T>
CELERITY_ITEM bool op_logical_not(T a) {
	return !cast<bool>(a);
}
template <typename T>
CELERITY_ITEM bool op_logical_and(T a, T b) {
	return cast<bool>(a) && cast<bool>(b);
}
template <typename T>
CELERITY_ITEM bool op_logical_or(T a, T b) {
	return cast<bool>(a) || cast<bool>(b);
}
template <typename T>
CELERITY_ITEM bool op_logical_xor(T a, T b) {
	return cast<bool>(a) != cast<bool>(b);
}

template <typename T>
CELERITY_ITEM bool op_isnan(T a) {
	return is_nan(a);
}
CELERITY_ITEM bool op_isnan(half a) { return (a.bits & 0x7fffu) > 0x7c00u; }
template <typename P>
CELERITY_ITEM bool op_isnan(complex<P> a) {
	return is_nan(a.re) || is_nan(a.im);
}
template <typename T>
CELERITY_ITEM bool op_isfinite(T a) {
	if constexpr(is_real<T>) {
		return a - a == 0;
	} else {
		return true;
	}
}
CELERITY_ITEM bool op_isfinite(half a) { return (a.bits & 0x7c00u) != 0x7c00u; }
template <typename P>
CELERITY_ITEM bool op_isfinite(complex<P> a) {
	return op_isfinite(a.re) && op_isfinite(a.im);
}
template <typename T>
CELERITY_ITEM bool op_isinf(T a) {
	return !op_isfinite(a) && !op_isnan(a);
}
template <typename P>
CELERITY_ITEM bool op_isinf(complex<P> a) {
	return op_isinf(a.re) || op_isinf(a.im);
}
template <typename T>
CELERITY_ITEM bool op_signbit(T a) {
	if constexpr(is_half<T>) {
		return a.bits >= 0x8000u;
	} else if constexpr(is_real<T>) {
		return CELERITY_MATH copysign(T(1), a) < 0;
	} else {
		return a < 0;
	}
}

// ---- bits: shifts by as many bits as the type has, and by negative numbers, shift all bits out

template <typename T>
CELERITY_ITEM T op_bitwise_and(T a, T b) {
	return static_cast<T>(a & b);
}
template <typename T>
CELERITY_ITEM T op_bitwise_or(T a, T b) {
	return static_cast<T>(a | b);
}
template <typename T>
CELERITY_ITEM T op_bitwise_xor(T a, T b) {
	return static_cast<T>(a ^ b);
}
template <typename T>
CELERITY_ITEM T op_invert(T a) {
	if constexpr(is_bool<T>) {
		return !a;
	} else {
		return static_cast<T>(~a);
	}
}
template <typename T>
CELERITY_ITEM T op_left_shift(T a, T b) {
	return static_cast<uint64>(b) < 8 * sizeof(T) ? static_cast<T>(static_cast<uint64>(a) << b) : T(0);
}
template <typename T>
CELERITY_ITEM T op_right_shift(T a, T b) {
	return static_cast<uint64>(b) < 8 * sizeof(T) ? static_cast<T>(a >> b) : static_cast<T>(a < 0 ? -1 : 0);
}

} // namespace fused
