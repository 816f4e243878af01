// SPDX-License-Identifier: MIT
// Launches and types of fused kernels, for CUDA and for the host, and conversions between types with NumPy's results.
#pragma once

#ifdef __CUDACC__
#define CELERITY_ITEM static __device__ __forceinline__
#define CELERITY_MEMBER __device__ __forceinline__
#define CELERITY_KERNEL extern "C" __global__
#define CELERITY_MATH ::
#else // whoever includes this on a host declares blockIdx, threadIdx, blockDim and gridDim, and calls kernels thread by thread
#include <cmath>
#include <cstring>
#define CELERITY_ITEM static inline
#define CELERITY_MEMBER
#define CELERITY_KERNEL extern "C"
#define CELERITY_MATH std::
#endif

namespace fused {

using int8 = signed char;
using int16 = short;
using int32 = int;
using int64 = long long;
using uint8 = unsigned char;
using uint16 = unsigned short;
using uint32 = unsigned int;
using uint64 = unsigned long long;

struct half {
	uint16 bits;
};

template <typename T>
struct complex {
	T re, im;
};

// What a launch gives, by value and without gaps: addresses of the elements at the origins, strides in bytes, numbers,
// and scalars of 16 bytes each.
template <int Memories, int Strides, int Numbers, int Scalars>
struct launch_of {
	char* memories[Memories > 0 ? Memories : 1];
	int64 strides[Strides > 0 ? Strides : 1];
	int64 numbers[Numbers > 0 ? Numbers : 1];
	char scalars[16 * (Scalars > 0 ? Scalars : 1)];
};

template <typename T>
CELERITY_ITEM T* element(char* address) {
	return reinterpret_cast<T*>(address);
}

template <typename T>
CELERITY_ITEM T scalar(const char* scalars, int place) {
	T result;
	CELERITY_MATH memcpy(&result, scalars + 16 * place, sizeof(T));
	return result;
}

// An element of a table among the scalars, which begins at the byte `at`.
template <typename T>
CELERITY_ITEM T table(const char* scalars, int64 at) {
	T result;
	CELERITY_MATH memcpy(&result, scalars + at, sizeof(T));
	return result;
}

// ---- types

template <typename To, typename From>
CELERITY_ITEM To same_bits(From value) {
	static_assert(sizeof(To) == sizeof(From), "");
	To result;
	CELERITY_MATH memcpy(&result, &value, sizeof(To));
	return result;
}

template <typename T>
struct is_float {
	static constexpr bool value = false;
};
template <>
struct is_float<float> {
	static constexpr bool value = true;
};
template <>
struct is_float<double> {
	static constexpr bool value = true;
};

template <typename A, typename B>
struct is_same {
	static constexpr bool value = false;
};
template <typename A>
struct is_same<A, A> {
	static constexpr bool value = true;
};

// Half the range of each integer is negative where it has a sign.
template <typename T>
CELERITY_ITEM constexpr bool is_signed() {
	return static_cast<T>(-1) < static_cast<T>(0);
}

template <typename T>
struct bits_reader {
	static CELERITY_MEMBER T read(uint64 bits) { return static_cast<T>(bits); }
};
template <>
struct bits_reader<half> {
	static CELERITY_MEMBER half read(uint64 bits) { return half{static_cast<uint16>(bits)}; }
};
template <>
struct bits_reader<float> {
	static CELERITY_MEMBER float read(uint64 bits) { return same_bits<float>(static_cast<uint32>(bits)); }
};
template <>
struct bits_reader<double> {
	static CELERITY_MEMBER double read(uint64 bits) { return same_bits<double>(bits); }
};

template <typename T>
CELERITY_ITEM T from_bits(uint64 bits) {
	return bits_reader<T>::read(bits);
}

// ---- float16: computed in float32, and rounded after each operation

CELERITY_ITEM float widen(half value) {
	const uint32 sign = static_cast<uint32>(value.bits & 0x8000u) << 16;
	const uint32 exponent = (value.bits >> 10) & 0x1fu;
	const uint32 mantissa = value.bits & 0x3ffu;
	if(exponent == 0x1fu) { return same_bits<float>(sign | 0x7f800000u | (mantissa << 13)); }
	if(exponent != 0) { return same_bits<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13)); }
	const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
	return sign != 0 ? -magnitude : magnitude;
}

// Rounds to the nearest, to even. `magnitude` has the sign bit cleared; 52 or 23 bits of mantissa.
template <int MantissaBits, int Bias>
CELERITY_ITEM half round_bits(uint64 magnitude, uint32 sign) {
	constexpr uint64 infinity = static_cast<uint64>(2 * Bias + 1) << MantissaBits;
	if(magnitude > infinity) { return half{static_cast<uint16>(sign | 0x7e00u)}; }
	const int64 exponent = static_cast<int64>(magnitude >> MantissaBits) - Bias;
	if(exponent > 15) { return half{static_cast<uint16>(sign | 0x7c00u)}; }
	if(exponent < -26) { return half{static_cast<uint16>(sign)}; }
	constexpr uint64 hidden = static_cast<uint64>(1) << MantissaBits;
	const uint64 mantissa = (magnitude & (hidden - 1)) | (magnitude >= hidden ? hidden : 0);
	// Subnormal numbers lose further bits. A carry of the rounding goes into the exponent, and up to infinity.
	const int dropped = MantissaBits - 10 + (exponent < -14 ? static_cast<int>(-14 - exponent) : 0);
	const uint64 rest = mantissa & ((static_cast<uint64>(1) << dropped) - 1);
	const uint64 middle = static_cast<uint64>(1) << (dropped - 1);
	uint64 kept = mantissa >> dropped;
	if(rest > middle || (rest == middle && (kept & 1) != 0)) { ++kept; }
	if(exponent >= -14) { kept += static_cast<uint64>(exponent + 14) << 10; }
	return half{static_cast<uint16>(sign | kept)};
}

CELERITY_ITEM half narrow(float value) {
	const uint32 bits = same_bits<uint32>(value);
	return round_bits<23, 127>(bits & 0x7fffffffu, (bits >> 16) & 0x8000u);
}

CELERITY_ITEM half narrow(double value) {
	const uint64 bits = same_bits<uint64>(value);
	return round_bits<52, 1023>(bits & 0x7fffffffffffffffull, static_cast<uint32>(bits >> 48) & 0x8000u);
}

// ---- conversions

template <typename To>
struct caster {
	template <typename From>
	static CELERITY_MEMBER To from(From value) {
		return static_cast<To>(value);
	}
	static CELERITY_MEMBER To from(half value) { return static_cast<To>(widen(value)); }
	template <typename P>
	static CELERITY_MEMBER To from(complex<P> value) {
		return static_cast<To>(value.re);
	}
};
template <>
struct caster<bool> {
	template <typename From>
	static CELERITY_MEMBER bool from(From value) {
		return value != 0;
	}
	static CELERITY_MEMBER bool from(half value) { return (value.bits & 0x7fffu) != 0; }
	template <typename P>
	static CELERITY_MEMBER bool from(complex<P> value) {
		return value.re != 0 || value.im != 0;
	}
};
template <>
struct caster<half> {
	template <typename From>
	static CELERITY_MEMBER half from(From value) {
		return narrow(static_cast<float>(value));
	}
	static CELERITY_MEMBER half from(double value) { return narrow(value); }
	static CELERITY_MEMBER half from(half value) { return value; }
	template <typename P>
	static CELERITY_MEMBER half from(complex<P> value) {
		return narrow(value.re);
	}
};
template <typename P>
struct caster<complex<P>> {
	template <typename From>
	static CELERITY_MEMBER complex<P> from(From value) {
		return complex<P>{caster<P>::from(value), P(0)};
	}
	template <typename Q>
	static CELERITY_MEMBER complex<P> from(complex<Q> value) {
		return complex<P>{static_cast<P>(value.re), static_cast<P>(value.im)};
	}
};

template <typename To, typename From>
CELERITY_ITEM To cast(From value) {
	return caster<To>::from(value);
}

} // namespace fused
