// SPDX-License-Identifier: MIT
// Queues with a priority or a share of the multiprocessors: which streams their kernels have.
#include "cuda_backend.hpp"

#include <span>
#include <stdexcept>
#include <utility>

namespace celerity {

namespace {

bool is_for_kernels(const lane_kind kind) { return kind == lane_kind::compute || kind == lane_kind::urgent || kind == lane_kind::raised; }

/// The lanes of a class have consecutive numbers, and the classes follow each other.
template <typename Wants, typename Visit>
void for_each_lane_of(const std::span<const lane_class> classes, const Wants& wants, const Visit& visit) {
	lane_index next = 0;
	for(const auto& cls : classes) {
		const lane_index first = next;
		next += cls.size;
		if(!wants(cls)) continue;
		for(lane_index lane = first; lane < next; ++lane) visit(lane);
	}
}

} // namespace

// Not at the start: most programs have one queue, and a stream takes a place among the hardware queues.
void cuda_backend::prepare_queue(const queue_priority queue, const double share) {
	if(queue == 0 && share > 0) throw std::logic_error("a share belongs to the lanes of a priority, and 0 has none of its own");
	if(queue == 0) return;
	const std::lock_guard lock(m_queues_mutex);
	const auto wanted = share > 0 ? queue_state::apart : queue_state::together;
	const auto before = m_queues[queue].load(std::memory_order_relaxed);
	if(before != queue_state::absent && before != wanted) throw std::logic_error("queues of one priority have the same share");
	const cuda::kept_context kept(m_driver);
	if(share > 0) divide_multiprocessors(share);
	if(before == wanted) return;
	const auto is_of_queue = [&](const lane_class& cls) { return cls.queue == queue; };
	for_each_lane_of(m_classes, is_of_queue, [&](const lane_index lane) {
		const auto* const split = m_splits.empty() ? nullptr : &m_splits[m_device_of_lane[lane]];
		m_lanes[lane]->open(split == nullptr ? nullptr : share > 0 ? split->share : split->rest);
	});
	for(auto& worker : m_workers) worker->watch_all();
	m_queues[queue].store(wanted, std::memory_order_release);
}

// Lanes of copies, fetches and flags stay as they are: other devices and ranks wait for them. If a call of the driver fails, the next attempt goes on from there.
void cuda_backend::divide_multiprocessors(const double share) {
	if(m_splits.empty()) {
		std::vector<cuda_split> made;
		try {
			for(const auto& device : m_devices) made.push_back(split_multiprocessors(m_driver, device.handle, device.ordinal, share));
		} catch(...) {
			for(const auto& split : made) destroy_parts(m_driver, split);
			throw;
		}
		m_splits = std::move(made);
		m_share = share;
	}
	if(share != m_share) throw std::logic_error("there is one split, and its shares are equal");
	const auto has_kernels = [](const lane_class& cls) { return is_for_kernels(cls.kind); };
	for_each_lane_of(m_classes, has_kernels, [&](const lane_index lane) {
		if(m_lanes[lane]->is_open() && m_lanes[lane]->part() == nullptr) m_lanes[lane]->open(m_splits[m_device_of_lane[lane]].rest);
	});
}

std::vector<multiprocessor_parts> cuda_backend::parts() {
	const std::lock_guard lock(m_queues_mutex);
	std::vector<multiprocessor_parts> result;
	for(const auto& split : m_splits) result.push_back(split.parts);
	return result;
}

} // namespace celerity
