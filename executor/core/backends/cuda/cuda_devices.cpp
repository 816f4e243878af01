// SPDX-License-Identifier: MIT
#include "cuda_devices.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>

#include "scheduler/core/vocabulary/instruction.hpp"

namespace celerity {

namespace {

/// The alignment of cuMemAlloc. Every vector type and every coalesced access is content with it.
constexpr std::size_t device_alignment_bytes = 512;
constexpr std::size_t device_slab_bytes = std::size_t{64} << 20;

} // namespace

cuda_devices::cuda_devices(const cuda::driver& driver, const std::span<const int> ordinals, const std::size_t most_memory_bytes)
    : m_driver(driver), m_most_memory_bytes(most_memory_bytes) {
	if(ordinals.empty()) throw std::invalid_argument("the CUDA backend needs at least one device");
	for(const int ordinal : ordinals) add(ordinal);
	enable_peers();
}

void cuda_devices::add(const int ordinal) {
	auto& device = m_devices.emplace_back();
	device.ordinal = ordinal;
	m_driver.check(m_driver.device_get(&device.handle, ordinal), "cuDeviceGet");
	// Never freed: modules, and arrays and streams of CuPy live in it.
	m_driver.check(m_driver.primary_context_retain(&device.context, device.handle), "cuDevicePrimaryCtxRetain");
	make_current(device.context);
	m_driver.check(m_driver.stream_create(&device.utility, cuda::stream_non_blocking, 0), "cuStreamCreateWithPriority");
	device.arena = std::make_unique<slab_arena>(
	    [this, d = m_devices.size() - 1, context = device.context](const std::size_t size_bytes) {
		    const std::size_t most_bytes = m_most_memory_bytes;
		    if(most_bytes > 0 && m_devices[d].arena->total_bytes() + size_bytes > most_bytes) throw std::bad_alloc();
		    cuda::device_pointer address = 0;
		    make_current(context);
		    const auto code = m_driver.memory_allocate(&address, size_bytes);
		    if(code == cuda::error_out_of_memory) throw std::bad_alloc();
		    m_driver.check(code, "cuMemAlloc");
		    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
	    },
	    device_alignment_bytes, device_slab_bytes);
}

// Another library of the process may have enabled the access before. That is no error.
void cuda_devices::enable_peers() {
	for(auto& from : m_devices) {
		make_current(from.context);
		for(auto& to : m_devices) {
			int can = 0;
			if(&from == &to || m_driver.device_can_access_peer(&can, from.handle, to.handle) != cuda::success || can == 0) continue;
			const auto code = m_driver.context_enable_peer_access(to.context, 0);
			if(code != cuda::error_peer_access_already_enabled) m_driver.check(code, "cuCtxEnablePeerAccess");
		}
	}
}

cuda_topology cuda_devices::probe(const std::span<const int> ordinals) {
	const auto& driver = cuda::get_driver();
	cuda_topology topology;
	for(const int from : ordinals) {
		cuda::device self = 0;
		std::size_t memory_bytes = 0;
		driver.check(driver.device_get(&self, from), "cuDeviceGet");
		driver.check(driver.device_total_memory(&memory_bytes, self), "cuDeviceTotalMem");
		if(from == ordinals.front() || memory_bytes < topology.smallest_memory_bytes) topology.smallest_memory_bytes = memory_bytes;
		for(const int to : ordinals) {
			auto& grade = topology.link_grades.emplace_back(std::uint8_t{0});
			if(from == to) continue;
			cuda::device other = 0;
			int can = 0;
			int rank = 0;
			driver.check(driver.device_get(&other, to), "cuDeviceGet");
			driver.check(driver.device_can_access_peer(&can, self, other), "cuDeviceCanAccessPeer");
			if(can != 0) driver.check(driver.device_get_p2p_attribute(&rank, cuda::p2p_attribute_performance_rank, self, other), "cuDeviceGetP2PAttribute");
			grade = can != 0 ? static_cast<std::uint8_t>(std::clamp<int>(rank, 0, system_capabilities::worst_link)) : system_capabilities::worst_link;
			if(can == 0) topology.all_peers = false;
		}
	}
	return topology;
}

void cuda_devices::fill(const memory_id memory, void* const address, const std::size_t size_bytes, const unsigned char value) const {
	const auto& device = of(memory);
	make_current(device.context);
	m_driver.check(m_driver.fill_async(cuda::to_device_pointer(address), value, size_bytes, device.utility), "cuMemsetD8Async");
	m_driver.check(m_driver.stream_synchronize(device.utility), "cuStreamSynchronize");
}

bool cuda_devices::may_kernels_wait() const {
	return std::none_of(m_devices.begin(), m_devices.end(), [&](const cuda_device& device) {
		int has_timeout = 0;
		m_driver.check(m_driver.device_get_attribute(&has_timeout, cuda::attribute_kernel_timeout, device.handle), "cuDeviceGetAttribute");
		return has_timeout != 0;
	});
}

void cuda_devices::release() {
	for(auto& device : m_devices) {
		m_driver.context_set_current(device.context);
		for(const auto& slab : device.arena->slabs()) {
			if(slab.size_bytes > 0) m_driver.memory_free(cuda::to_device_pointer(slab.address));
		}
		m_driver.stream_destroy(device.utility);
	}
}

} // namespace celerity
