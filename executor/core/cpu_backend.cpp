// SPDX-License-Identifier: MIT
#include "cpu_backend.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "nd_copy.hpp"

namespace celerity {

namespace {

/// Waking another thread costs about as much as copying this much.
constexpr std::size_t inline_copy_bytes = 128 * 1024;
/// A cache line, and enough for every vector type.
constexpr std::size_t min_alignment_bytes = 64;
/// Large arrays begin on a page, so that the kernel may back them with huge pages.
constexpr std::size_t page_bytes = 4096;

std::size_t effective_alignment(const std::size_t size_bytes, const std::size_t alignment_bytes) {
	return std::max({alignment_bytes, min_alignment_bytes, size_bytes >= page_bytes ? page_bytes : 0});
}

} // namespace

cpu_backend::cpu_backend(const std::size_t num_devices, event_count& completions)
    : m_num_devices(num_devices), m_completions(completions), m_progress(2 * num_devices + 1), m_copy_lanes(2 * num_devices + 1) {
	for(const auto kind : {lane_kind::compute, lane_kind::peer}) {
		for(std::uint32_t d = 0; d < num_devices; ++d) m_classes.push_back({kind, device_id(d), 1, 0});
	}
	m_classes.push_back({lane_kind::host_copy, device_id(0), 1, 0});
	for(std::size_t lane = num_devices; lane < m_copy_lanes.size(); ++lane) {
		m_copy_lanes[lane] = std::make_unique<cpu_copy_lane>(m_progress, static_cast<lane_index>(lane), m_completions);
	}
}

cpu_backend::~cpu_backend() { cpu_backend::stop(); }

std::uint32_t cpu_backend::copy_class(const memory_id from, const memory_id to) const {
	const auto devices = static_cast<std::uint32_t>(m_num_devices);
	if(is_device_memory(to)) return devices + device_of(to).value;
	if(is_device_memory(from)) return devices + device_of(from).value;
	return 2 * devices;
}

void* cpu_backend::allocate(const memory_id /* memory */, const std::size_t size_bytes, const std::size_t alignment_bytes) {
	return ::operator new(size_bytes, std::align_val_t{effective_alignment(size_bytes, alignment_bytes)});
}

void cpu_backend::deallocate(
    const memory_id /* memory */, void* const address, const std::size_t size_bytes, const std::size_t alignment_bytes) {
	::operator delete(address, std::align_val_t{effective_alignment(size_bytes, alignment_bytes)});
}

void cpu_backend::enqueue_copy(const lane_position position, const std::span<const lane_position> waits, const copy_operation& copy) {
	auto& progress = m_progress[position.lane];
	if(waits.empty() && copy.size_bytes <= inline_copy_bytes && progress.completed() + 1 == position.sequence) {
		nd_copy(copy.source, *copy.source_layout, copy.destination, *copy.destination_layout, copy.boxes, copy.element_size_bytes);
		progress.publish(position.sequence);
		return;
	}
	m_copy_lanes[position.lane]->enqueue(position.sequence, waits, copy);
}

void cpu_backend::fill(const memory_id /* memory */, void* const address, const std::size_t size_bytes, const unsigned char value) {
	std::memset(address, value, size_bytes);
}

bool cpu_backend::begin_kernel(const lane_position position, const std::span<const lane_position> waits) {
	for(const auto& wait : waits) {
		if(!m_progress[wait.lane].wait(wait.sequence)) return false;
	}
	return !m_progress[position.lane].is_cancelled();
}

void cpu_backend::end_kernel(const lane_position position) {
	m_progress[position.lane].publish(position.sequence);
	m_completions.signal();
}

void cpu_backend::cancel() {
	for(auto& progress : m_progress) progress.cancel();
	for(auto& lane : m_copy_lanes) {
		if(lane != nullptr) lane->cancel();
	}
}

void cpu_backend::stop() {
	cancel();
	for(auto& lane : m_copy_lanes) {
		if(lane != nullptr) lane->stop();
	}
}

} // namespace celerity
