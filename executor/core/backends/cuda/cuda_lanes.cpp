// SPDX-License-Identifier: MIT
#include "cuda_lanes.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace celerity {

namespace {

/// Kinds of lanes per device, in the order of their classes.
enum class lane_role : std::uint32_t { compute, host_to_device, device_to_host, peer, pull, signal, urgent };
constexpr std::uint32_t num_roles = 7;
constexpr std::array<lane_kind, num_roles> role_kinds{
    lane_kind::compute, lane_kind::host_to_device, lane_kind::device_to_host, lane_kind::peer, lane_kind::pull, lane_kind::signal, lane_kind::urgent};
/// Classes per device: the roles, then the kernels of queues with priority 1, 2, ...
constexpr std::uint32_t classes_per_device = num_roles + max_queue_priority;
/// Together fewer than the 32 hardware queues, so that a stream that waits for another rank blocks no other stream. The lanes of kernels are the most that
/// may run at the same time; the engine uses no more of them than it needs. Each stream that waits for a flag makes the GPU slower to notice others: with
/// two that fetch, a step takes 1 to 3 µs longer than with one, though the next fetch is in place when the one before is through.
constexpr std::array<std::uint32_t, num_roles> lanes_per_role{max_compute_lanes, 2, 2, 4, 1, 2, 2};
/// For the kernels of a queue with a priority. These streams exist only if there is such a queue.
constexpr std::uint32_t lanes_per_priority = 6;
/// See lane_class::most_shared. Kernels need no limit, as the device itself prefers those of streams with priority.
constexpr std::array<std::uint32_t, num_roles> most_shared{0, 2, 2, 4, 0, 0, 0};
/// The blocks of a kernel that starts later go first if its stream has priority. A fetch is such a kernel, too. The driver takes the nearest
/// priority that the device has.
constexpr std::array<int, num_roles> stream_priorities{0, 0, 0, -100, -100, 0, -100};

/// Lanes that can wait for each other without the host.
constexpr std::uint32_t cuda_domain = 0;
constexpr std::uint32_t host_domain = 1;

std::uint32_t class_index(const device_id device, const lane_role role) { return device.value * classes_per_device + static_cast<std::uint32_t>(role); }

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

cuda_lanes::cuda_lanes(const cuda_devices& devices, const std::uint32_t compute_lanes, trace_recorder* const trace)
    : m_driver(devices.driver()), m_devices(devices) {
	for(std::uint32_t d = 0; d < m_devices.size(); ++d) {
		cuda_timeline* timeline = nullptr;
		if(trace != nullptr) {
			m_devices.make_current(m_devices[d].context);
			timeline = m_timelines.emplace_back(std::make_unique<cuda_timeline>(m_driver, m_devices[d].utility, *trace)).get();
		}
		for(std::uint32_t role = 0; role < num_roles; ++role) {
			std::uint32_t size = lanes_per_role[role];
			if(role == static_cast<std::uint32_t>(lane_role::compute)) size = std::clamp(compute_lanes, 1U, size);
			add_lanes({role_kinds[role], device_id(d), size, cuda_domain, most_shared[role]}, stream_priorities[role], timeline, true);
		}
		for(queue_priority queue = 1; queue <= max_queue_priority; ++queue) {
			// Smaller is more urgent for the driver. Borders and transfers of all queues stay ahead.
			add_lanes({lane_kind::raised, device_id(d), lanes_per_priority, cuda_domain, 0, queue}, -static_cast<int>(queue), timeline, false);
		}
	}
	m_host_lane = static_cast<lane_index>(m_lanes.size());
	m_classes.push_back({lane_kind::host_copy, device_id(0), 1, host_domain, 2});
	m_lanes.push_back(nullptr);
	m_device_of_lane.push_back(0);
}

void cuda_lanes::add_lanes(const lane_class& lanes, const int stream_priority, cuda_timeline* const timeline, const bool are_open) {
	m_classes.push_back(lanes);
	for(std::uint32_t i = 0; i < lanes.size; ++i) {
		const auto number = static_cast<lane_index>(m_lanes.size());
		m_lanes.push_back(
		    std::make_unique<cuda_lane>(m_driver, m_devices[lanes.device.value].context, lanes.device.value, stream_priority, timeline, number, are_open));
		m_device_of_lane.push_back(lanes.device.value);
	}
}

lane_index cuda_lanes::add_for_graphs(const std::uint32_t device) {
	m_lanes.push_back(std::make_unique<cuda_lane>(m_driver, m_devices[device].context, device, 0));
	m_device_of_lane.push_back(device);
	return static_cast<lane_index>(m_lanes.size() - 1);
}

std::vector<cuda_lane*> cuda_lanes::of_device(const std::uint32_t device) const {
	std::vector<cuda_lane*> lanes;
	for(lane_index lane = 0; lane < m_lanes.size(); ++lane) {
		if(m_lanes[lane] != nullptr && m_device_of_lane[lane] == device) lanes.push_back(m_lanes[lane].get());
	}
	std::stable_partition(lanes.begin(), lanes.end(), [](const cuda_lane* const lane) { return lane->is_open(); });
	return lanes;
}

// ---- classes ----------------------------------------------------------------------------------------------------------------------

std::uint32_t cuda_lanes::kernel_class(const device_id device, const bool is_urgent, const queue_priority queue) const {
	const auto state = m_queues[queue].load(std::memory_order_acquire);
	// Borders of a queue with a share keep to its multiprocessors. The lanes for borders of the other queues are on the rest.
	if(is_urgent && state != queue_state::apart) return class_index(device, lane_role::urgent);
	if(state == queue_state::absent) return class_index(device, lane_role::compute);
	return class_index(device, lane_role::urgent) + queue;
}

std::uint32_t cuda_lanes::copy_class(const memory_id from, const memory_id to) const {
	if(is_device_memory(from)) {
		// Between devices the source writes: its producer is on the same device, and writes across the link are faster than reads.
		return class_index(device_of(from), is_device_memory(to) ? lane_role::peer : lane_role::device_to_host);
	}
	if(is_device_memory(to)) return class_index(device_of(to), lane_role::host_to_device);
	return static_cast<std::uint32_t>(m_classes.size()) - 1;
}

std::uint32_t cuda_lanes::gather_class(const memory_id to) const { return class_index(device_of(to), lane_role::peer); }

std::uint32_t cuda_lanes::pull_class(const memory_id to) const { return class_index(is_device_memory(to) ? device_of(to) : device_id(0), lane_role::pull); }

std::uint32_t cuda_lanes::signal_class(const memory_id from) const {
	return class_index(is_device_memory(from) ? device_of(from) : device_id(0), lane_role::signal);
}

// ---- queues with a priority or a share of the multiprocessors ---------------------------------------------------------------------

// Not at the start: most programs have one queue, and a stream takes a place among the hardware queues.
void cuda_lanes::prepare_queue(const queue_priority queue, const double share) {
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
	if(m_on_open) m_on_open();
	m_queues[queue].store(wanted, std::memory_order_release);
}

// Lanes of copies, fetches and flags stay as they are: other devices and ranks wait for them. If a call of the driver fails, the next attempt goes on from there.
void cuda_lanes::divide_multiprocessors(const double share) {
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

std::vector<multiprocessor_parts> cuda_lanes::parts() {
	const std::lock_guard lock(m_queues_mutex);
	std::vector<multiprocessor_parts> result;
	for(const auto& split : m_splits) result.push_back(split.parts);
	return result;
}

// ---- positions --------------------------------------------------------------------------------------------------------------------

bool cuda_lanes::wait_for(const cuda::stream stream, const std::span<const lane_position> waits) {
	for(const auto& wait : waits) {
		// An instruction that the engine counts as issued may still be with the worker of another device. The worker issues it, as no operation waits for a newer one.
		if(!m_lanes[wait.lane]->wait_until_recorded(wait.sequence)) return false;
		m_lanes[wait.lane]->make_wait(stream, wait.sequence);
	}
	return true;
}

bool cuda_lanes::begin_kernel(const lane_position position, const std::span<const lane_position> waits) {
	auto& lane = *m_lanes[position.lane];
	m_devices.make_current(lane.context());
	// The older operations of the stream first: behind these waits they might never run, if another rank needs them to end the waits.
	if(!lane.wait_until_recorded(position.sequence - 1)) return false;
	lane.claim(position.sequence);
	if(!wait_for(lane.stream(), waits)) return false;
	lane.begin(position.sequence);
	return true;
}

void cuda_lanes::end_kernel(const lane_position position) {
	auto& lane = *m_lanes[position.lane];
	m_devices.make_current(lane.context());
	lane.record(position.sequence);
}

void cuda_lanes::cancel() {
	for(auto& lane : m_lanes) {
		if(lane != nullptr) lane->cancel();
	}
}

void cuda_lanes::record_unfinished_kernels() {
	for(auto& lane : m_lanes) {
		if(lane == nullptr || lane->claimed() <= lane->recorded()) continue;
		m_devices.make_current(lane->context());
		lane->record(lane->claimed());
	}
}

// The last look may have been long ago. A second look is for lanes that follow others.
bool cuda_lanes::are_idle() {
	bool is_idle = false;
	try {
		record_unfinished_kernels();
		for(int look = 0; look < 2 && !is_idle; ++look) {
			is_idle = true;
			for(auto& lane : m_lanes) {
				if(lane == nullptr || lane->is_idle()) continue;
				lane->poll();
				is_idle = is_idle && lane->is_idle();
			}
		}
	} catch(const cuda::driver_error&) { return false; }
	return is_idle;
}

void cuda_lanes::forget() {
	for(auto& lane : m_lanes) {
		if(lane != nullptr) lane->forget();
	}
	for(auto& timeline : m_timelines) timeline->forget();
}

void cuda_lanes::release() {
	m_lanes.clear();
	for(const auto& split : m_splits) destroy_parts(m_driver, split);
	m_timelines.clear();
}

} // namespace celerity
