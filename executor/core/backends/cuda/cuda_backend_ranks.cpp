// SPDX-License-Identifier: MIT
// Transfers between the ranks of a host, on the streams of cuda_backend.
#include "cuda_backend.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "transfers/flag_segment.hpp"

namespace celerity {

shared_location cuda_backend::locate(const memory_id memory, const void* const address) const {
	const auto& arena = *m_devices.at(device_of(memory).value).arena;
	const auto where = arena.locate(address);
	const auto& slab = arena.slabs()[where.slab];
	shared_location location;
	location.slab = slab_number(memory, where.slab);
	location.slab_size_bytes = slab.size_bytes;
	location.offset_bytes = where.offset_bytes;
	auto [known, is_new] = m_handles.try_emplace(location.slab);
	if(is_new) {
		make_current(m_devices.at(device_of(memory).value).context);
		m_driver.check(m_driver.ipc_get_handle(&known->second, cuda::to_device_pointer(slab.address)), "cuIpcGetMemHandle");
	}
	static_assert(sizeof known->second == sizeof location.handle);
	std::memcpy(location.handle.data(), &known->second, sizeof known->second);
	return location;
}

void* cuda_backend::open_peer_slab(const shared_location& location) {
	if(const auto known = m_opened.find(location.handle); known != m_opened.end()) return known->second;
	make_current(m_devices.front().context);
	cuda::ipc_handle handle{};
	std::memcpy(&handle, location.handle.data(), sizeof handle);
	cuda::device_pointer address = 0;
	m_driver.check(m_driver.ipc_open_handle(&address, handle, cuda::ipc_lazy_enable_peer_access), "cuIpcOpenMemHandle");
	auto* const opened = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
	m_opened.emplace(location.handle, opened);
	return opened;
}

void cuda_backend::adopt_flags(void* const address, const std::size_t size_bytes) {
	make_current(m_devices.front().context);
	const auto code = m_driver.host_register(address, size_bytes, cuda::host_memory_portable | cuda::host_memory_mapped);
	if(code == cuda::error_host_memory_already_registered) return;
	m_driver.check(code, "cuMemHostRegister");
	m_adopted.emplace_back(address, size_bytes);
	cuda::device_pointer mapped = 0;
	m_driver.check(m_driver.host_get_device_pointer(&mapped, address, 0), "cuMemHostGetDevicePointer");
	if(mapped != cuda::to_device_pointer(address)) throw std::runtime_error("the GPU sees registered memory at another address than the host");
}

void cuda_backend::enqueue_signal(const lane_position position, const lane_waits& waits, const shared_flag& flag, const bool depends_on_one) {
	if(!depends_on_one) {
		flush();
		hand_over(position, waits, flag);
		return;
	}
	const auto device = m_device_of_lane[position.lane];
	if(m_kept_signals.add(waits.positions[0], device, {position, flag})) return;
	flush();
	m_kept_signals.add(waits.positions[0], device, {position, flag});
}

void cuda_backend::flush() {
	if(m_kept_signals.is_empty()) return;
	const auto signals = std::exchange(m_kept_signals, {});
	hand_over(signals.position(), {std::span(&signals.producer(), 1), {}}, signals);
}

void cuda_backend::issue_on(cuda_lane& lane, const shared_flag& flag) {
	if(flag.address != nullptr) enqueue_flags(m_driver, lane.stream(), cuda::memory_operation_write, std::span(&flag, 1));
}

/// A GPU with a display ends kernels that run for seconds.
bool cuda_backend::may_kernels_wait() {
	return std::none_of(m_devices.begin(), m_devices.end(), [&](const device_state& device) {
		int has_timeout = 0;
		m_driver.check(m_driver.device_get_attribute(&has_timeout, cuda::attribute_kernel_timeout, device.handle), "cuDeviceGetAttribute");
		return has_timeout != 0;
	});
}

void cuda_backend::make_stop_word() {
	make_current(m_devices.front().context);
	void* word = nullptr;
	m_driver.check(m_driver.host_allocate(&word, sizeof(std::uint32_t), cuda::host_memory_portable | cuda::host_memory_mapped), "cuMemHostAlloc");
	m_stop_word = static_cast<std::uint32_t*>(word);
	*m_stop_word = 0;
}

void cuda_backend::prepare_small_copies() {
	m_small_copies.resize(m_devices.size());
	for(std::size_t d = 0; d < m_options.small_copies.size(); ++d) m_small_copies[d].set_functions(m_options.small_copies[d]);
	if(m_options.graphs_exchange && m_devices.size() == 1 && may_kernels_wait()) make_stop_word();
}

void cuda_backend::enqueue_pulls(const lane_position position, const lane_waits& waits, const std::span<const pull_operation> pulls) {
	hand_over(position, waits, std::vector<pull_operation>(pulls.begin(), pulls.end()));
}

void cuda_backend::issue_pulls(const cuda_operation& operation, const std::vector<pull_operation>& pulls) {
	auto& lane = *m_lanes[operation.position.lane];
	auto& small = m_small_copies[lane.device()];
	// A kernel reaches a peer's slab only from the device in whose context the slab was opened. Copy engines reach it from every device.
	small.clear();
	const bool is_small = m_devices.size() == 1 && small.is_available()
	                      && std::all_of(pulls.begin(), pulls.end(), [&](const pull_operation& pull) { return add(small, pull.copy); });
	if(issue_at(operation.position, operation, fetch{pulls, is_small ? &small : nullptr})) { write_answers(lane, pulls); }
}

bool cuda_backend::must_wait(const shared_flag& ready) { return ready.address != nullptr && !is_reached(ready); }

void cuda_backend::issue_on(cuda_lane& lane, const fetch& fetched) {
	small_vector<shared_flag, 8> ready; // of several messages that share one, once
	std::size_t num_enqueued = 0;
	const auto wait = [&] {
		enqueue_flags(m_driver, lane.stream(), cuda::memory_operation_wait, std::span(ready.data() + num_enqueued, ready.size() - num_enqueued));
		num_enqueued = ready.size();
	};
	for(const auto& pull : fetched.pulls) {
		if(must_wait(pull.ready) && std::find(ready.begin(), ready.end(), pull.ready) == ready.end()) ready.push_back(pull.ready);
		if(fetched.kernel != nullptr) continue;
		wait();
		copy(lane.stream(), pull.copy);
	}
	if(fetched.kernel == nullptr) return;
	wait();
	fetched.kernel->launch(m_driver, lane.stream());
}

// After the event of the position: an instruction that waits for the data need not wait for the flag, too.
void cuda_backend::write_answers(cuda_lane& lane, const std::vector<pull_operation>& pulls) {
	small_vector<shared_flag, 8> answers;
	for(const auto& pull : pulls) {
		if(pull.answer.address == nullptr) continue;
		if(!wait_for(lane.stream(), pull.answer_after)) return;
		answers.push_back(pull.answer);
	}
	enqueue_flags(m_driver, lane.stream(), cuda::memory_operation_write, std::span(answers.data(), answers.size()));
}

} // namespace celerity
