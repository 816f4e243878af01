// SPDX-License-Identifier: MIT
#include "cuda_backend.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "memory/nd_copy.hpp"

namespace celerity {

namespace {

/// Waking another thread costs about as much as copying this much.
constexpr std::size_t inline_copy_bytes = 128 * 1024;
constexpr std::size_t reports_per_block = 256;

} // namespace

cuda_backend::cuda_backend(const cuda_options& options, event_count& completions)
    : cuda_backend(options, completions, cuda::kept_context(cuda::get_driver())) {}

cuda_backend::cuda_backend(const cuda_options& options, event_count& completions, const cuda::kept_context& /* restored at the end */)
    : m_driver(cuda::get_driver()), m_options(options), m_completions(completions), m_devices(m_driver, options.ordinals, options.most_memory_bytes),
      m_lanes(m_devices, options.compute_lanes, options.trace), m_copies(m_devices, options.small_copies),
      m_issuer(m_devices, m_lanes, m_copies, options.reductions), m_ranks(m_devices, m_lanes, m_issuer),
      m_graphs(*this, m_devices, m_lanes, m_issuer, m_copies, options, m_is_cancelled), m_host_progress(m_lanes.size()) {
	m_host_lane = std::make_unique<cpu_lane>(m_host_progress, m_lanes.host_lane(), m_completions, nullptr, options.trace);
	m_pinned = std::make_unique<cuda_pinned_pool>(m_driver, m_devices.front().context, m_completions);
	m_issuer.set_graphs(&m_graphs);
	if(m_devices.size() > 1) m_issuer.start_workers(m_completions, options.may_spin);
}

cuda_backend::~cuda_backend() {
	cuda_backend::stop();
	// Kernels may still run, and to free memory would wait for them: everything stays until the process ends.
	if(!m_is_released) m_lanes.forget();
}

// ---- lanes ------------------------------------------------------------------------------------------------------------------------

std::uint64_t cuda_backend::completed(const lane_index lane) {
	if(lane == m_lanes.host_lane()) return m_host_progress[lane].completed();
	if(!m_issuer.has_workers()) return m_lanes[lane].poll();
	m_issuer.rethrow(lane);
	return m_lanes[lane].completed();
}

std::map<std::string, std::uint64_t> cuda_backend::count_driver_calls() const {
	const auto counts = cuda::count_calls();
	std::map<std::string, std::uint64_t> named;
	for(std::size_t i = 0; i < counts.size(); ++i) named.emplace(names_of<cuda::call>[i], counts[i]);
	return named;
}

std::uintptr_t cuda_backend::stream_handle(const lane_index lane) const {
	return lane == m_lanes.host_lane() ? 0 : reinterpret_cast<std::uintptr_t>(m_lanes[lane].stream());
}

// A kernel whose function has raised is on its lane and not on its stream, for good.
bool cuda_backend::are_streams_idle() {
	const cuda::kept_context kept(m_driver);
	bool are_idle = true;
	for(lane_index lane = 0; lane < m_lanes.size(); ++lane) {
		if(lane == m_lanes.host_lane() || m_lanes[lane].is_idle()) continue;
		are_idle = completed(lane) == m_lanes[lane].recorded() && are_idle;
	}
	return are_idle;
}

void cuda_backend::cancel() {
	m_is_cancelled.store(true, std::memory_order_relaxed);
	m_lanes.cancel();
	for(auto& progress : m_host_progress) progress.cancel();
	m_host_lane->cancel();
}

void cuda_backend::stop() {
	if(m_is_stopped) return;
	m_is_stopped = true;
	cancel();
	m_graphs.stop();
	m_issuer.stop();
	m_host_lane->stop();
	m_pinned->stop();
}

bool cuda_backend::release() {
	if(m_is_released) return true;
	stop();
	const cuda::kept_context kept(m_driver);
	if(!m_lanes.are_idle()) return false;
	m_is_released = true;
	m_is_cancelled.store(false, std::memory_order_relaxed); // graphs may be destroyed
	m_lanes.release();
	m_ranks.release();
	m_devices.release();
	m_graphs.release();
	m_pinned->free_slabs();
	return true;
}

// ---- memory -----------------------------------------------------------------------------------------------------------------------

bool cuda_backend::is_ready_to_allocate(const memory_id memory, const std::size_t size_bytes) {
	return is_device_memory(memory) || m_pinned->is_ready(size_bytes);
}

void* cuda_backend::allocate(const memory_id memory, const std::size_t size_bytes, const std::size_t /* alignment_bytes */) {
	if(!is_device_memory(memory)) return m_pinned->allocate(size_bytes);
	const auto& device = m_devices.of(memory);
	try {
		return device.arena->allocate(size_bytes);
	} catch(const std::bad_alloc&) { trim(memory); }
	try {
		return device.arena->allocate(size_bytes);
	} catch(const std::bad_alloc&) {
		if(!m_options.release_cached_memory) throw;
	}
	m_options.release_cached_memory(device.ordinal);
	return device.arena->allocate(size_bytes);
}

// Several empty slabs may add up to the missing memory. Slabs that another rank has mapped must stay. Freeing waits for all operations on the device.
// These operations end: a wait for another rank is issued only after all operations of this rank that the other rank may need, and the graphs of a run are on
// all devices.
void cuda_backend::trim(const memory_id memory) {
	m_issuer.wait_until_issued();
	m_devices.make_current(m_devices.of(memory).context);
	m_devices.of(memory).arena->free_unused([&](const std::size_t number, const slab_arena::slab& slab) {
		if(m_ranks.is_shared(memory, number)) return false;
		m_driver.check(m_driver.memory_free(cuda::to_device_pointer(slab.address)), "cuMemFree");
		return true;
	});
}

void cuda_backend::deallocate(const memory_id memory, void* const address, const std::size_t /* size_bytes */, const std::size_t /* alignment_bytes */) {
	if(is_device_memory(memory)) {
		m_devices.of(memory).arena->deallocate(address);
	} else {
		m_pinned->deallocate(address);
	}
}

void cuda_backend::fill(const memory_id memory, void* const address, const std::size_t size_bytes, const unsigned char value) {
	if(!is_device_memory(memory)) {
		std::memset(address, value, size_bytes);
	} else {
		m_devices.fill(memory, address, size_bytes, value);
	}
}

// ---- operations on lanes ----------------------------------------------------------------------------------------------------------

void cuda_backend::enqueue_copy(const lane_position position, const lane_waits& waits, const copy_operation& operation) {
	if(position.lane == m_lanes.host_lane()) {
		auto& progress = m_host_progress[position.lane];
		if(waits.positions.empty() && operation.size_bytes <= inline_copy_bytes && progress.completed() + 1 == position.sequence) {
			const lane_trace traced(m_options.trace, position);
			nd_copy(operation.source, operation.destination, operation.boxes, operation.element_size_bytes);
			traced.end();
			progress.publish(position.sequence);
			return;
		}
		m_host_lane->enqueue(position.sequence, waits.positions, operation);
		return;
	}
	m_issuer.hand_over(position, waits, operation);
}

void cuda_backend::enqueue_gather(const lane_position position, const lane_waits& waits, const std::span<const copy_operation> copies) {
	m_issuer.hand_over(position, waits, std::vector<copy_operation>(copies.begin(), copies.end()));
}

bool cuda_backend::begin_kernel(const lane_position position, const std::span<const lane_position> waits) {
	return !m_is_cancelled.load(std::memory_order_relaxed) && m_lanes.begin_kernel(position, waits);
}

void cuda_backend::end_kernel(const lane_position position) {
	m_lanes.end_kernel(position);
	m_issuer.wake(position.lane);
	m_completions.signal();
}

void cuda_backend::enqueue_launch(const lane_position position, const lane_waits& waits, launch_operation&& launch) {
	const auto& kernel = *launch.launch->kernel;
	if(kernel.as_fused() == nullptr && static_cast<const cuda_function&>(kernel).checks_bounds()) {
		auto* const report = take_report();
		m_checked.push_back({position, launch.instruction, report});
		launch.violation = report;
	}
	m_issuer.hand_over(position, waits, std::move(launch));
}

void cuda_backend::enqueue_reduce(const lane_position position, const lane_waits& waits, const reduce_operation& reduce) {
	m_issuer.hand_over(position, waits, reduce);
}

cuda_backend::violation_report* cuda_backend::take_report() {
	if(m_free_reports.empty()) {
		auto* const reports = static_cast<violation_report*>(m_pinned->allocate(reports_per_block * sizeof(violation_report)));
		std::memset(reports, 0, reports_per_block * sizeof(violation_report));
		for(std::size_t i = 0; i < reports_per_block; ++i) m_free_reports.push_back(reports + i);
	}
	auto* const report = m_free_reports.back();
	m_free_reports.pop_back();
	return report;
}

std::optional<bounds_violation> cuda_backend::take_violation() {
	std::optional<bounds_violation> found;
	std::erase_if(m_checked, [&](const checked_launch& checked) {
		if(found.has_value() || m_lanes[checked.position.lane].completed() < checked.position.sequence) return false;
		const auto& report = *checked.report;
		if(report.claimed != 0) {
			found = bounds_violation{checked.kernel, static_cast<std::uint32_t>(report.access), point{{report.index[0], report.index[1], report.index[2]}}};
		}
		*checked.report = {};
		m_free_reports.push_back(checked.report);
		return true;
	});
	return found;
}

} // namespace celerity
