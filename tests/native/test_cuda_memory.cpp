// SPDX-License-Identifier: MIT
// The memory of a device that a rank may take, with the emulated driver.
#include <new>

#include "backends/cuda/cuda_backend.hpp"
#include "check.hpp"
#include "emulated/cuda.hpp"
#include "threads/event_count.hpp"

using namespace celerity;

namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

bool is_refused(cuda_backend& devices, const std::size_t size_bytes) {
	try {
		devices.deallocate(memory_of(device_id(0)), devices.allocate(memory_of(device_id(0)), size_bytes, 1), size_bytes, 1);
	} catch(const std::bad_alloc&) { return true; }
	return false;
}

void bound_memory() {
	event_count completions;
	cuda_options options;
	options.ordinals = {0};
	options.most_memory_bytes = 100 * mebibyte;
	cuda_backend devices(options, completions);
	check(devices.most_device_bytes() == options.most_memory_bytes, "the backend tells its limit");
	const memory_id memory = memory_of(device_id(0));
	void* const first = devices.allocate(memory, 10 * mebibyte, 1);
	check(emulated_cuda::held().device_bytes <= options.most_memory_bytes, "a piece for small allocations is within the limit");
	check(!is_refused(devices, 30 * mebibyte), "the rest of the piece can be used");
	check(is_refused(devices, 95 * mebibyte), "more than the limit is refused");
	check(!is_refused(devices, 36 * mebibyte), "an allocation that just fits beside the piece is made");
	devices.deallocate(memory, first, 10 * mebibyte, 1);
	check(!is_refused(devices, 100 * mebibyte), "pieces without allocations make room");
	check(emulated_cuda::held().device_bytes <= options.most_memory_bytes, "no more than the limit was ever taken");
}

} // namespace

int main() {
	emulated_cuda::configure({});
	bound_memory();
	return 0;
}
