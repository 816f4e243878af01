// SPDX-License-Identifier: MIT
// Graph generation without Python, for counts of instructions: `bench_generation TOPOLOGY RANKS DEVICES ROUNDS` prints the microseconds of the best round.
// against_base.py builds it with the sources of two commits.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "generation_benchmark.hpp"

int main(const int argc, char** const argv) {
	if(argc != 5) {
		std::fprintf(stderr, "usage: %s TOPOLOGY RANKS DEVICES ROUNDS\n", argv[0]);
		return 2;
	}
	try {
		celerity::native::generation_setup setup;
		setup.topology = argv[1];
		setup.num_ranks = std::strtoul(argv[2], nullptr, 10);
		setup.num_devices = std::strtoul(argv[3], nullptr, 10);
		const auto result = celerity::native::measure_generation(setup, std::strtoul(argv[4], nullptr, 10));
		std::printf("%.1f\n", *std::min_element(result.seconds.begin(), result.seconds.end()) * 1e6);
		return 0;
	} catch(const std::exception& error) {
		std::fprintf(stderr, "%s\n", error.what());
		return 1;
	}
}
