// SPDX-License-Identifier: MIT
#include "cuda_ranks.hpp"

#include <cstring>
#include <stdexcept>
#include <utility>

namespace celerity {

shared_location cuda_ranks::locate(const memory_id memory, const void* const address) const {
	const auto& arena = *m_devices.of(memory).arena;
	const auto where = arena.locate(address);
	const auto& slab = arena.slabs()[where.slab];
	shared_location location;
	location.slab = slab_number(memory, where.slab);
	location.slab_size_bytes = slab.size_bytes;
	location.offset_bytes = where.offset_bytes;
	auto [known, is_new] = m_handles.try_emplace(location.slab);
	if(is_new) {
		m_devices.make_current(m_devices.of(memory).context);
		m_driver.check(m_driver.ipc_get_handle(&known->second, cuda::to_device_pointer(slab.address)), "cuIpcGetMemHandle");
	}
	static_assert(sizeof known->second == sizeof location.handle);
	std::memcpy(location.handle.data(), &known->second, sizeof known->second);
	return location;
}

void* cuda_ranks::open_peer_slab(const shared_location& location) {
	if(const auto known = m_opened.find(location.handle); known != m_opened.end()) return known->second;
	m_devices.make_current(m_devices.front().context);
	cuda::ipc_handle handle{};
	std::memcpy(&handle, location.handle.data(), sizeof handle);
	cuda::device_pointer address = 0;
	m_driver.check(m_driver.ipc_open_handle(&address, handle, cuda::ipc_lazy_enable_peer_access), "cuIpcOpenMemHandle");
	auto* const opened = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
	m_opened.emplace(location.handle, opened);
	return opened;
}

void cuda_ranks::adopt_flags(void* const address, const std::size_t size_bytes) {
	m_devices.make_current(m_devices.front().context);
	const auto code = m_driver.host_register(address, size_bytes, cuda::host_memory_portable | cuda::host_memory_mapped);
	if(code == cuda::error_host_memory_already_registered) return;
	m_driver.check(code, "cuMemHostRegister");
	m_adopted.emplace_back(address, size_bytes);
	cuda::device_pointer mapped = 0;
	m_driver.check(m_driver.host_get_device_pointer(&mapped, address, 0), "cuMemHostGetDevicePointer");
	if(mapped != cuda::to_device_pointer(address)) throw std::runtime_error("the GPU sees registered memory at another address than the host");
}

void cuda_ranks::close_peers() {
	const cuda::kept_context kept(m_driver);
	m_driver.context_set_current(m_devices.front().context);
	for(const auto& [handle, address] : std::exchange(m_opened, {})) m_driver.ipc_close_handle(cuda::to_device_pointer(address));
}

void cuda_ranks::enqueue_signal(const lane_position position, const lane_waits& waits, const shared_flag& flag, const bool depends_on_one) {
	if(!depends_on_one) {
		flush();
		m_issuer.hand_over(position, waits, flag);
		return;
	}
	const auto device = m_lanes.device_index(position.lane);
	if(m_kept_signals.add(waits.positions[0], device, {position, flag})) return;
	flush();
	m_kept_signals.add(waits.positions[0], device, {position, flag});
}

void cuda_ranks::flush() {
	if(m_kept_signals.is_empty()) return;
	const auto signals = std::exchange(m_kept_signals, {});
	m_issuer.hand_over(signals.position(), {std::span(&signals.producer(), 1), {}}, signals);
}

void cuda_ranks::enqueue_pulls(const lane_position position, const lane_waits& waits, const std::span<const pull_operation> pulls) {
	m_issuer.hand_over(position, waits, std::vector<pull_operation>(pulls.begin(), pulls.end()));
}

void cuda_ranks::release() {
	close_peers();
	for(const auto& [address, size_bytes] : m_adopted) m_driver.host_unregister(address);
}

} // namespace celerity
