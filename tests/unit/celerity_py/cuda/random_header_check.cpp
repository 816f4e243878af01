// SPDX-License-Identifier: MIT
// The device header for random numbers, compiled for the host: writes a record for each item of a box of three dimensions.
#include <cmath>
#include <cstdio>
#include <cstdlib>

#define __device__
#define __forceinline__ inline

double __dadd_rn(const double a, const double b) { return a + b; }
double __dmul_rn(const double a, const double b) { return a * b; }
double __dsqrt_rn(const double a) { return std::sqrt(a); }

#include "celerity_random.cuh"

namespace {

struct item {
	long long index[3];
};

struct record {
	celerity::random::bits bits;
	double uniform_double, normal_double;
	float uniform_float, normal_float;
};

} // namespace

/// Arguments: the first and the last item of the box, then seed and stream.
int main(const int, const char* const* const arguments) {
	long long numbers[8];
	for(int i = 0; i < 8; ++i) numbers[i] = std::atoll(arguments[i + 1]);
	const auto seed = (unsigned)numbers[6], stream = (unsigned)numbers[7];
	using namespace celerity::random;
	for(long long x = numbers[0]; x <= numbers[3]; ++x) {
		for(long long y = numbers[1]; y <= numbers[4]; ++y) {
			for(long long z = numbers[2]; z <= numbers[5]; ++z) {
				const item where{{x, y, z}};
				const record found{bits_of(where, seed, stream), uniform<double>(where, seed, stream), normal<double>(where, seed, stream),
				    uniform<float>(where, seed, stream), normal<float>(where, seed, stream)};
				std::fwrite(&found, sizeof found, 1, stdout);
			}
		}
	}
}
