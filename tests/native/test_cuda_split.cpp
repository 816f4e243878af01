// SPDX-License-Identifier: MIT
// A GPU in two parts: which numbers of multiprocessors they get, and what happens if a GPU or driver has no such parts.
#include <cmath>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>

#include "backends/cuda/cuda_backend.hpp"
#include "backends/cuda/cuda_split.hpp"
#include "tests/native/check.hpp"
#include "tests/native/emulated/cuda.hpp"

using namespace celerity;

namespace {

const cuda::driver& driver() { return cuda::get_driver(); }

multiprocessor_parts parts_of(const double share) {
	const auto split = split_multiprocessors(driver(), 1, 5, share);
	check(split.share != nullptr && split.rest != nullptr && split.share != split.rest, "each part has a context");
	check(emulated_cuda::held().parts == 2, "there are two parts");
	destroy_parts(driver(), split);
	check(emulated_cuda::held().parts == 0, "nothing is left of the parts");
	return split.parts;
}

void expect(const double share, const std::uint32_t of_share, const std::uint32_t of_rest) {
	const auto parts = parts_of(share);
	std::printf("a share of %.3f: %u multiprocessors, and %u\n", share, parts.share, parts.rest);
	check(parts.share == of_share && parts.rest == of_rest, "a part has the number of multiprocessors that is nearest to its share");
}

template <typename Error>
void expect_error(const std::function<void()>& call, const std::string& text) {
	try {
		call();
	} catch(const Error& error) {
		std::printf("%s\n", error.what());
		check(std::string(error.what()).find(text) != std::string::npos, "the message tells the reason");
		check(emulated_cuda::held().parts == 0, "an attempt that fails leaves no part");
		return;
	}
	check(false, "a share that cannot be is refused");
}

void check_numbers() {
	const auto division = find_division(driver(), 0);
	check(division.total == 30 && division.least == 8 && division.granule == 4, "the driver is asked how it divides");
	expect(0.25, 8, 22);  // 7.5
	expect(0.15, 8, 22);  // 4.5: nearer to 8 than to 0
	expect(0.32, 8, 22);  // 9.6
	expect(0.34, 12, 18); // 10.2
	expect(0.5, 16, 14);  // 15
	expect(0.8, 24, 6);   // 24
}

void check_refusals() {
	const auto split = [](const double share) { return [share] { split_multiprocessors(driver(), 1, 5, share); }; };
	const std::string facts = "GPU 5 has 30 multiprocessors, and the driver makes parts of 8 to 24, in steps of 4: give a share from 0.267 to 0.8";
	expect_error<std::invalid_argument>(split(0.1), "a share of 0.1 rounds to none of its multiprocessors. " + facts);
	expect_error<std::invalid_argument>(split(0.9), "a share of 0.9 rounds to 28 multiprocessors, and the driver makes no such part. " + facts);
	expect_error<std::invalid_argument>(split(0.99), "a share of 0.99 rounds to 28 multiprocessors");
	auto old_driver = driver();
	old_driver.missing_for_parts = "cuGreenCtxStreamCreate";
	expect_error<std::runtime_error>([&] { split_multiprocessors(old_driver, 0, 0, 0.5); },
	    "too old to divide multiprocessors: it lacks cuGreenCtxStreamCreate");
	expect_error<std::runtime_error>([&] { find_division(old_driver, 0); }, "it lacks cuGreenCtxStreamCreate");
	static bool is_second = false;
	auto exhausted = driver();
	exhausted.green_context_create = [](cuda::green_context* const out, const cuda::resource_description of, const cuda::device device, const unsigned flags) {
		if(is_second) return cuda::error_out_of_memory;
		is_second = true;
		return driver().green_context_create(out, of, device, flags);
	};
	expect_error<cuda::driver_error>([&] { split_multiprocessors(exhausted, 0, 0, 0.5); }, "cuGreenCtxCreate failed");
}

void check_backend() {
	event_count completions;
	cuda_options options;
	options.ordinals = {0, 1};
	options.may_spin = false;
	{
		cuda_backend backend(options, completions);
		check(backend.parts().empty(), "at first nothing is divided");
		const device_id device(1);
		const auto borders = backend.kernel_class(device, true, 0);
		expect_error<std::invalid_argument>([&] { backend.prepare_queue(2, 0.01); }, "rounds to none");
		check(backend.parts().empty() && backend.kernel_class(device, false, 2) == backend.kernel_class(device, false, 0), "a refusal changes nothing");
		backend.prepare_queue(1, 0);
		backend.prepare_queue(2, 0.5);
		backend.prepare_queue(3, 0.5);
		backend.prepare_queue(2, 0.5);
		backend.prepare_queue(4, 0);
		check(backend.parts().size() == 2 && backend.parts()[1].share == 16 && backend.parts()[1].rest == 14, "each device is divided once");
		check(emulated_cuda::held().parts == 4, "each device has two parts");
		const auto apart = backend.kernel_class(device, false, 2);
		check(apart != backend.kernel_class(device, false, 0) && apart != backend.kernel_class(device, false, 3), "each priority has its own lanes");
		check(backend.kernel_class(device, true, 2) == apart, "borders of a queue with a share keep to it");
		check(backend.kernel_class(device, true, 1) == borders && backend.kernel_class(device, true, 4) == borders, "and others have the lanes of borders");
		for(const auto& [queue, share] : {std::pair{2U, 0.25}, std::pair{2U, 0.0}, std::pair{1U, 0.5}, std::pair{0U, 0.5}}) {
			bool is_refused = false;
			try {
				backend.prepare_queue(queue, share);
			} catch(const std::logic_error&) { is_refused = true; }
			check(is_refused, "there is one split, and each priority is in one part");
		}
		check(backend.release(), "the devices are idle");
	}
	check(emulated_cuda::held() == emulated_cuda::holdings{}, "nothing is left");
}

} // namespace

int main() {
	emulated_cuda::configure({});
	check_numbers();
	check_refusals();
	check_backend();
	emulated_cuda::settings refusing;
	refusing.refuses_parts = true;
	emulated_cuda::configure(refusing);
	expect_error<std::runtime_error>([] { find_division(driver(), 0); }, "cuDeviceGetDevResource failed");
	return 0;
}
