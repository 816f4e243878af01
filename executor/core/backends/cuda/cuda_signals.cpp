// SPDX-License-Identifier: MIT
#include "cuda_signals.hpp"

#include <algorithm>

namespace celerity {

// For writes, a flag of 0 means the usual order.
void enqueue_flags(const cuda::driver& driver, const cuda::stream stream, const int kind, const std::span<const shared_flag> flags) {
	small_vector<cuda::memory_operation, 8> operations;
	for(std::size_t first = 0; first < flags.size(); first += cuda::max_memory_operations) {
		operations.clear();
		for(const auto& flag : flags.subspan(first, std::min(flags.size() - first, cuda::max_memory_operations))) {
			operations.push_back({kind, cuda::to_device_pointer(flag.address), flag.value, cuda::wait_value_geq, 0, 0});
		}
		driver.check(driver.stream_batch(stream, static_cast<unsigned>(operations.size()), operations.data(), 0), "cuStreamBatchMemOp");
	}
}

bool cuda_signals::add(const lane_position& producer, const std::uint32_t device, const signal& added) {
	if(!m_signals.empty() && (producer != m_producer || device != m_device)) return false;
	m_producer = producer;
	m_device = device;
	m_signals.push_back(added);
	return true;
}

small_vector<shared_flag, 8> cuda_signals::flags() const {
	small_vector<shared_flag, 8> written;
	for(const auto& signal : m_signals) {
		if(signal.flag.address != nullptr) written.push_back(signal.flag);
	}
	return written;
}

void cuda_signals::follow_producer(const std::span<const std::unique_ptr<cuda_lane>> lanes) const {
	for(const auto& signal : m_signals) lanes[signal.position.lane]->follow(signal.position.sequence, *lanes[m_producer.lane], m_producer.sequence);
}

bool cuda_signals::write_behind_producer(const cuda::driver& driver, const std::span<const std::unique_ptr<cuda_lane>> lanes) const {
	auto& lane = *lanes[m_producer.lane];
	if(lane.device() != m_device) return false;
	const auto written = flags();
	const auto write = [&] { enqueue_flags(driver, lane.stream(), cuda::memory_operation_write, std::span(written.data(), written.size())); };
	if(written.empty() ? lane.recorded() < m_producer.sequence : !lane.append_behind(m_producer.sequence, write)) return false;
	follow_producer(lanes);
	return true;
}

} // namespace celerity
