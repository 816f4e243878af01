// SPDX-License-Identifier: MIT
// Random numbers by global index, the same bits as those of celerity_py/random.py. Every `celerity.CudaKernel` includes it by itself.
//
//     x[item] = celerity::random::normal<float>(item, seed, step);
//
// The numbers depend on nothing but the coordinates of the item, the seed and the stream. `normal` uses additions, multiplications, divisions and
// square roots only, each rounded by itself: these give the same bits on every processor.
#pragma once

namespace celerity {
namespace random {

/// The 128 random bits of an item.
struct bits {
	unsigned words[4];
};

/// Philox 4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
__device__ __forceinline__ bits philox(bits counter, unsigned key_0, unsigned key_1) {
	for(int round = 0; round < 10; ++round) {
		const unsigned (&c)[4] = counter.words;
		const unsigned long long a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
		counter = {{(unsigned)(b >> 32) ^ c[1] ^ key_0, (unsigned)b, (unsigned)(a >> 32) ^ c[3] ^ key_1, (unsigned)a}};
		key_0 += 0x9E3779B9u;
		key_1 += 0xBB67AE85u;
	}
	return counter;
}

/// The bits of an item, or of any other coordinates in an array `index`, from 0.
template <typename Item>
__device__ __forceinline__ bits bits_of(const Item& where, const unsigned seed, const unsigned stream = 0) {
	// A buffer has fewer than 2^63 elements, so at most one of its coordinates has more than 32 bits.
	bits counter{};
	constexpr int dims = sizeof(where.index) / sizeof(where.index[0]);
	for(int d = 0; d < dims; ++d) {
		counter.words[d] = (unsigned)where.index[d];
		counter.words[3] ^= (unsigned)((unsigned long long)where.index[d] >> 32);
	}
	return philox(counter, seed, stream);
}

namespace detail {

__device__ __forceinline__ double add_product(const double a, const double b, const double c) { return __dadd_rn(__dmul_rn(a, b), c); }

/// 53 of 64 bits.
__device__ __forceinline__ unsigned long long join(const unsigned high, const unsigned low) { return ((unsigned long long)(high >> 5) << 26) + (low >> 6); }

/// The natural logarithm, for 0 < x <= 1, by the series of artanh.
__device__ __forceinline__ double log(const double x) {
	int exponent;
	double mantissa = frexp(x, &exponent);
	if(mantissa < 0.7071067811865476) {
		mantissa *= 2;
		exponent -= 1;
	}
	const double s = (mantissa - 1) / (mantissa + 1);
	const double square = __dmul_rn(s, s);
	double sum = 1.0 / 23;
	for(int n = 21; n > 0; n -= 2) sum = add_product(sum, square, 1.0 / n);
	return add_product(__dmul_rn(2, s), sum, __dmul_rn(exponent, 0.6931471805599453));
}

/// The sine of x right angles, for 0 <= x <= 1, by its series: the factors are (pi / 2)^n / n! with alternating signs, from n = 21 down to 1.
__device__ __forceinline__ double sine(const double x) {
	constexpr double factors[11] = {2.571422892860474e-16, -4.377065467313742e-14, 6.0669357311061955e-12, -6.688035109811468e-10, 5.692172921967927e-08,
	    -3.598843235212085e-06, 0.00016044118478735983, -0.004681754135318688, 0.07969262624616705, -0.6459640975062463, 1.5707963267948966};
	const double square = __dmul_rn(x, x);
	double sum = factors[0];
	for(int i = 1; i < 11; ++i) sum = add_product(sum, square, factors[i]);
	return __dmul_rn(x, sum);
}

/// By Box and Muller: a radius from `u`, 0 < u <= 1, and the cosine of an angle of `quadrant + part` right angles.
__device__ __forceinline__ double normal(const double u, const unsigned quadrant, const double part) {
	const double radius = __dsqrt_rn(-2 * log(u));
	const double cosine = sine(quadrant % 2 == 0 ? 1 - part : part);
	return __dmul_rn(radius, quadrant == 1 || quadrant == 2 ? -cosine : cosine);
}

} // namespace detail

/// Uniform in [0, 1): multiples of 2^-24 as float, of 2^-53 as double.
template <typename T, typename Item>
__device__ __forceinline__ T uniform(const Item& where, const unsigned seed, const unsigned stream = 0) {
	static_assert(sizeof(T) == 4 || sizeof(T) == 8, "random numbers are float or double");
	const bits random = bits_of(where, seed, stream);
	if constexpr(sizeof(T) == 4) {
		return (T)(random.words[0] >> 8) * T(0x1p-24);
	} else {
		return (T)detail::join(random.words[0], random.words[1]) * T(0x1p-53);
	}
}

/// Of the normal distribution with mean 0 and variance 1; at most 6.7 from 0 as float, 8.6 as double.
template <typename T, typename Item>
__device__ __forceinline__ T normal(const Item& where, const unsigned seed, const unsigned stream = 0) {
	static_assert(sizeof(T) == 4 || sizeof(T) == 8, "random numbers are float or double");
	const bits random = bits_of(where, seed, stream);
	const auto& [a, b, c, d] = random.words;
	if constexpr(sizeof(T) == 4) {
		return (T)detail::normal(((double)a + 1) * 0x1p-32, b >> 30, (b & 0x3fffffff) * 0x1p-30);
	} else {
		const unsigned long long part = ((unsigned long long)(c & 0x3fffffff) << 21) + (d >> 11);
		return detail::normal((double)(detail::join(a, b) + 1) * 0x1p-53, c >> 30, (double)part * 0x1p-51);
	}
}

} // namespace random
} // namespace celerity
