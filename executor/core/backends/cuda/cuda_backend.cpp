// SPDX-License-Identifier: MIT
#include "cuda_backend.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "memory/nd_copy.hpp"
#include "scheduler/core/base/overloaded.hpp"

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

/// Waking another thread costs about as much as copying this much.
constexpr std::size_t inline_copy_bytes = 128 * 1024;
/// The alignment of cuMemAlloc. Every vector type and every coalesced access is content with it.
constexpr std::size_t device_alignment_bytes = 512;
constexpr std::size_t reports_per_block = 256;
constexpr std::size_t device_slab_bytes = std::size_t{64} << 20;

} // namespace

cuda_backend::cuda_backend(const cuda_options& options, event_count& completions)
    : m_driver(cuda::get_driver()), m_options(options), m_completions(completions) {
	const cuda::kept_context kept(m_driver);
	if(options.ordinals.empty()) throw std::invalid_argument("the CUDA backend needs at least one device");
	for(const int ordinal : options.ordinals) add_device(ordinal);
	enable_peers();
	int max_pitch = 0;
	m_driver.check(m_driver.device_get_attribute(&max_pitch, cuda::attribute_max_pitch, m_devices.front().handle), "cuDeviceGetAttribute");
	m_max_pitch_bytes = static_cast<std::size_t>(max_pitch);

	for(std::uint32_t d = 0; d < m_devices.size(); ++d) {
		cuda_timeline* timeline = nullptr;
		if(options.trace != nullptr) {
			make_current(m_devices[d].context);
			timeline = m_timelines.emplace_back(std::make_unique<cuda_timeline>(m_driver, m_devices[d].utility, *options.trace)).get();
		}
		for(std::uint32_t role = 0; role < num_roles; ++role) {
			std::uint32_t size = lanes_per_role[role];
			if(role == static_cast<std::uint32_t>(lane_role::compute)) size = std::clamp(options.compute_lanes, 1U, size);
			add_lanes({role_kinds[role], device_id(d), size, cuda_domain, most_shared[role]}, stream_priorities[role], timeline, true);
		}
		for(queue_priority queue = 1; queue <= max_queue_priority; ++queue) {
			// Smaller is more urgent for the driver. Borders and transfers of all queues stay ahead.
			add_lanes({lane_kind::raised, device_id(d), lanes_per_priority, cuda_domain, 0, queue}, -static_cast<int>(queue), timeline, false);
		}
	}
	m_host_lane_index = static_cast<lane_index>(m_lanes.size());
	m_classes.push_back({lane_kind::host_copy, device_id(0), 1, host_domain, 2});
	m_lanes.push_back(nullptr);
	m_device_of_lane.push_back(0);
	if(options.graphs && m_devices.size() > 1) add_graph_lanes();
	m_host_progress = std::vector<lane_progress>(m_lanes.size());
	m_host_lane = std::make_unique<cpu_copy_lane>(m_host_progress, m_host_lane_index, m_completions, nullptr, options.trace);
	m_pinned = std::make_unique<cuda_pinned_pool>(m_driver, m_devices.front().context, m_completions);
	m_parameters.resize(m_devices.size());
	prepare_small_copies();
	if(m_devices.size() > 1) start_workers();
}

void cuda_backend::add_lanes(const lane_class& lanes, const int stream_priority, cuda_timeline* const timeline, const bool are_open) {
	m_classes.push_back(lanes);
	for(std::uint32_t i = 0; i < lanes.size; ++i) {
		const auto number = static_cast<lane_index>(m_lanes.size());
		m_lanes.push_back(
		    std::make_unique<cuda_lane>(m_driver, m_devices[lanes.device.value].context, lanes.device.value, stream_priority, timeline, number, are_open));
		m_device_of_lane.push_back(lanes.device.value);
	}
}

void cuda_backend::start_workers() {
	for(std::uint32_t d = 0; d < m_devices.size(); ++d) {
		std::vector<cuda_lane*> lanes;
		for(lane_index lane = 0; lane < m_lanes.size(); ++lane) {
			if(m_lanes[lane] != nullptr && m_device_of_lane[lane] == d) lanes.push_back(m_lanes[lane].get());
		}
		std::stable_partition(lanes.begin(), lanes.end(), [](const cuda_lane* const lane) { return lane->is_open(); });
		m_workers.push_back(
		    std::make_unique<cuda_worker>([this](cuda_operation& operation) { issue(operation); }, std::move(lanes), m_completions, m_options.may_spin));
	}
}

cuda_backend::~cuda_backend() {
	cuda_backend::stop();
	if(m_is_released) return;
	// Kernels may still run, and to free memory would wait for them: everything stays until the process ends.
	for(auto& lane : m_lanes) {
		if(lane != nullptr) lane->forget();
	}
	for(auto& timeline : m_timelines) timeline->forget();
}

void cuda_backend::add_device(const int ordinal) {
	auto& device = m_devices.emplace_back();
	device.ordinal = ordinal;
	m_driver.check(m_driver.device_get(&device.handle, ordinal), "cuDeviceGet");
	// Never freed: modules, and arrays and streams of CuPy live in it.
	m_driver.check(m_driver.primary_context_retain(&device.context, device.handle), "cuDevicePrimaryCtxRetain");
	make_current(device.context);
	m_driver.check(m_driver.stream_create(&device.utility, cuda::stream_non_blocking, 0), "cuStreamCreateWithPriority");
	device.arena = std::make_unique<slab_arena>(
	    [this, d = m_devices.size() - 1, context = device.context](const std::size_t size_bytes) {
		    const std::size_t most_bytes = m_options.most_memory_bytes;
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
void cuda_backend::enable_peers() {
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

cuda_topology cuda_backend::probe(const std::span<const int> ordinals) {
	const auto& driver = cuda::get_driver();
	cuda_topology topology;
	for(const int from : ordinals) {
		cuda::device self = 0;
		std::size_t memory_bytes = 0;
		driver.check(driver.device_get(&self, from), "cuDeviceGet");
		driver.check(driver.device_total_memory(&memory_bytes, self), "cuDeviceTotalMem");
		if(from == ordinals.front() || memory_bytes < topology.smallest_memory_bytes) topology.smallest_memory_bytes = memory_bytes;
		for(const int to : ordinals) {
			auto& link_rank = topology.link_ranks.emplace_back(std::uint8_t{0});
			if(from == to) continue;
			cuda::device other = 0;
			int can = 0;
			int rank = 0;
			driver.check(driver.device_get(&other, to), "cuDeviceGet");
			driver.check(driver.device_can_access_peer(&can, self, other), "cuDeviceCanAccessPeer");
			if(can == 0) topology.all_peers = false;
			if(can != 0) driver.check(driver.device_get_p2p_attribute(&rank, cuda::p2p_attribute_performance_rank, self, other), "cuDeviceGetP2PAttribute");
			link_rank = can != 0 ? static_cast<std::uint8_t>(std::clamp<int>(rank, 0, system_capabilities::worst_link)) : system_capabilities::worst_link;
		}
	}
	return topology;
}

// ---- lanes ------------------------------------------------------------------------------------------------------------------------

namespace {
std::uint32_t class_index(const device_id device, const lane_role role) { return device.value * classes_per_device + static_cast<std::uint32_t>(role); }
} // namespace

std::uint32_t cuda_backend::kernel_class(const device_id device, const bool is_urgent, const queue_priority queue) const {
	const auto state = m_queues[queue].load(std::memory_order_acquire);
	// Borders of a queue with a share keep to its multiprocessors. The lanes for borders of the other queues are on the rest.
	if(is_urgent && state != queue_state::apart) return class_index(device, lane_role::urgent);
	if(state == queue_state::absent) return class_index(device, lane_role::compute);
	return class_index(device, lane_role::urgent) + queue;
}

std::uint32_t cuda_backend::copy_class(const memory_id from, const memory_id to) const {
	if(is_device_memory(from)) {
		// Between devices the source writes: its producer is on the same device, and writes across the link are faster than reads.
		return class_index(device_of(from), is_device_memory(to) ? lane_role::peer : lane_role::device_to_host);
	}
	if(is_device_memory(to)) return class_index(device_of(to), lane_role::host_to_device);
	return static_cast<std::uint32_t>(m_classes.size()) - 1;
}

std::uint32_t cuda_backend::gather_class(const memory_id to) const { return class_index(device_of(to), lane_role::peer); }

std::uint32_t cuda_backend::pull_class(const memory_id to) const { return class_index(is_device_memory(to) ? device_of(to) : device_id(0), lane_role::pull); }

std::uint32_t cuda_backend::signal_class(const memory_id from) const {
	return class_index(is_device_memory(from) ? device_of(from) : device_id(0), lane_role::signal);
}

// The current context is not remembered, because CuPy changes it too. The call costs nothing if the context is current already.
void cuda_backend::make_current(const cuda::context context) const { m_driver.check(m_driver.context_set_current(context), "cuCtxSetCurrent"); }

std::uint64_t cuda_backend::completed(const lane_index lane) {
	if(m_lanes[lane] == nullptr) return m_host_progress[lane].completed();
	if(!m_workers.empty()) {
		m_workers[m_device_of_lane[lane]]->rethrow();
		return m_lanes[lane]->completed();
	}
	return m_lanes[lane]->poll();
}

bool cuda_backend::wait_for(const cuda::stream stream, const std::span<const lane_position> waits) {
	for(const auto& wait : waits) {
		// An instruction that the engine counts as issued may still be with the worker of another device. The worker issues it, as no operation waits for a newer one.
		if(!m_lanes[wait.lane]->wait_until_recorded(wait.sequence)) return false;
		m_lanes[wait.lane]->make_wait(stream, wait.sequence);
	}
	return true;
}

std::map<std::string, std::uint64_t> cuda_backend::count_driver_calls() const {
	const auto counts = cuda::count_calls();
	std::map<std::string, std::uint64_t> named;
	for(std::size_t i = 0; i < counts.size(); ++i) named.emplace(names_of<cuda::call>[i], counts[i]);
	return named;
}

std::uintptr_t cuda_backend::stream_handle(const lane_index lane) const {
	return m_lanes[lane] == nullptr ? 0 : reinterpret_cast<std::uintptr_t>(m_lanes[lane]->stream());
}

void cuda_backend::cancel() {
	m_is_cancelled.store(true, std::memory_order_relaxed);
	for(auto& lane : m_lanes) {
		if(lane != nullptr) lane->cancel();
	}
	for(auto& progress : m_host_progress) progress.cancel();
	m_host_lane->cancel();
}

void cuda_backend::stop() {
	if(m_is_stopped) return;
	m_is_stopped = true;
	cancel();
	if(m_stop_word != nullptr) std::atomic_ref(*m_stop_word).store(1, std::memory_order_relaxed);
	for(auto& worker : m_workers) worker->stop();
	m_host_lane->stop();
	m_pinned->stop();
}

void cuda_backend::close_peers() {
	const cuda::kept_context kept(m_driver);
	m_driver.context_set_current(m_devices.front().context);
	for(const auto& [handle, address] : std::exchange(m_opened, {})) m_driver.ipc_close_handle(cuda::to_device_pointer(address));
}

bool cuda_backend::release() {
	if(m_is_released) return true;
	stop();
	const cuda::kept_context kept(m_driver);
	if(!are_lanes_idle()) return false;
	m_is_released = true;
	m_is_cancelled.store(false, std::memory_order_relaxed); // graphs may be destroyed
	m_lanes.clear();
	for(const auto& split : m_splits) destroy_parts(m_driver, split);
	m_timelines.clear();
	close_peers();
	for(const auto& [address, size_bytes] : m_adopted) m_driver.host_unregister(address);
	for(auto& device : m_devices) {
		m_driver.context_set_current(device.context);
		for(const auto& slab : device.arena->slabs()) {
			if(slab.size_bytes > 0) m_driver.memory_free(cuda::to_device_pointer(slab.address));
		}
		m_driver.stream_destroy(device.utility);
	}
	if(m_flag_stream != nullptr) m_driver.stream_destroy(m_flag_stream);
	m_pinned->free_slabs();
	if(m_stop_word != nullptr) m_driver.host_free(m_stop_word);
	return true;
}

void cuda_backend::record_unfinished_kernels() {
	for(auto& lane : m_lanes) {
		if(lane == nullptr || lane->claimed() <= lane->recorded()) continue;
		make_current(lane->context());
		lane->record(lane->claimed());
	}
}

// The last look may have been long ago. A second look is for lanes that follow others.
bool cuda_backend::are_lanes_idle() {
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

// ---- memory -----------------------------------------------------------------------------------------------------------------------

bool cuda_backend::is_ready_to_allocate(const memory_id memory, const std::size_t size_bytes) {
	return is_device_memory(memory) || m_pinned->is_ready(size_bytes);
}

void* cuda_backend::allocate(const memory_id memory, const std::size_t size_bytes, const std::size_t /* alignment_bytes */) {
	if(!is_device_memory(memory)) return m_pinned->allocate(size_bytes);
	auto& device = m_devices.at(device_of(memory).value);
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
	for(const auto& worker : m_workers) worker->wait_until_issued(worker->num_pushed());
	make_current(m_devices.at(device_of(memory).value).context);
	m_devices.at(device_of(memory).value).arena->free_unused([&](const std::size_t number, const slab_arena::slab& slab) {
		if(m_handles.contains(slab_number(memory, number))) return false;
		m_driver.check(m_driver.memory_free(cuda::to_device_pointer(slab.address)), "cuMemFree");
		return true;
	});
}

void cuda_backend::deallocate(const memory_id memory, void* const address, const std::size_t /* size_bytes */, const std::size_t /* alignment_bytes */) {
	if(is_device_memory(memory)) {
		m_devices.at(device_of(memory).value).arena->deallocate(address);
	} else {
		m_pinned->deallocate(address);
	}
}

void cuda_backend::fill(const memory_id memory, void* const address, const std::size_t size_bytes, const unsigned char value) {
	if(!is_device_memory(memory)) {
		std::memset(address, value, size_bytes);
		return;
	}
	const auto& device = m_devices.at(device_of(memory).value);
	make_current(device.context);
	m_driver.check(m_driver.fill_async(cuda::to_device_pointer(address), value, size_bytes, device.utility), "cuMemsetD8Async");
	m_driver.check(m_driver.stream_synchronize(device.utility), "cuStreamSynchronize");
}

// ---- operations on lanes; those of copies are in cuda_backend_copies.cpp -----------------------------------------------------

void cuda_backend::enqueue_copy(const lane_position position, const lane_waits& waits, const copy_operation& operation) {
	if(position.lane == m_host_lane_index) {
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
	hand_over(position, waits, operation);
}

void cuda_backend::enqueue_gather(const lane_position position, const lane_waits& waits, const std::span<const copy_operation> copies) {
	hand_over(position, waits, std::vector<copy_operation>(copies.begin(), copies.end()));
}

void cuda_backend::hand_over(const lane_position position, const lane_waits& waits, decltype(cuda_operation::what)&& what) {
	cuda_operation operation{position, small_vector<lane_position, 4>(waits.positions), {}, std::move(what), {}};
	for(const auto& answer : waits.answers) {
		if(!is_reached(answer)) operation.answers.push_back(answer);
	}
	// The engine issues a wait for another rank behind all operations that the other rank may need first. These must be on the streams of all devices
	// by then, and not only with the workers: the driver may hold a worker up, or block it behind this wait.
	// A graph may wait for those of other devices in the same way.
	if(!operation.answers.empty() || std::holds_alternative<std::vector<pull_operation>>(operation.what)
	    || std::holds_alternative<cuda_graph_step>(operation.what)) {
		for(const auto& worker : m_workers) operation.behind.push_back(worker->num_pushed());
	}
	if(m_workers.empty()) {
		issue(operation);
	} else {
		m_workers[m_device_of_lane[operation.position.lane]]->push(std::move(operation));
	}
}

void cuda_backend::issue(cuda_operation& operation) {
	auto& lane = *m_lanes[operation.position.lane];
	for(std::uint32_t d = 0; d < operation.behind.size(); ++d) {
		if(d != lane.device() && !m_workers[d]->wait_until_issued(operation.behind[d])) return;
	}
	make_current(lane.context());
	std::visit(overloaded{
	               [&](const cuda_signals& signals) { issue_signals(operation, signals); },
	               [&](const std::vector<pull_operation>& pulls) { issue_pulls(operation, pulls); },
	               [&](const auto& what) { issue_at(operation.position, operation, what); },
	           },
	    operation.what);
}

void cuda_backend::issue_signals(const cuda_operation& operation, const cuda_signals& signals) {
	if(signals.write_behind_producer(m_driver, m_lanes)) return;
	for(const auto& [position, flag] : signals) {
		if(!issue_at(position, operation, flag)) return;
	}
}

// ---- kernels ----------------------------------------------------------------------------------------------------------------------

bool cuda_backend::begin_kernel(const lane_position position, const std::span<const lane_position> waits) {
	if(m_is_cancelled.load(std::memory_order_relaxed)) return false;
	auto& lane = *m_lanes[position.lane];
	make_current(lane.context());
	// The older operations of the stream first: behind these waits they might never run, if another rank needs them to end the waits.
	if(!lane.wait_until_recorded(position.sequence - 1)) return false;
	lane.claim(position.sequence);
	if(!wait_for(lane.stream(), waits)) return false;
	lane.begin(position.sequence);
	return true;
}

void cuda_backend::end_kernel(const lane_position position) {
	auto& lane = *m_lanes[position.lane];
	make_current(lane.context());
	lane.record(position.sequence);
	if(!m_workers.empty()) m_workers[m_device_of_lane[position.lane]]->wake();
	m_completions.signal();
}

void cuda_backend::enqueue_launch(const lane_position position, const lane_waits& waits, launch_operation&& launch) {
	if(static_cast<const cuda_function&>(*launch.launch->kernel).checks_bounds()) {
		auto* const report = take_report();
		m_checked.push_back({position, launch.instruction, report});
		launch.violation = report;
	}
	hand_over(position, waits, std::move(launch));
}

void cuda_backend::enqueue_fold(const lane_position position, const lane_waits& waits, const fold_operation& fold) { hand_over(position, waits, fold); }

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
		if(found.has_value() || m_lanes[checked.position.lane]->completed() < checked.position.sequence) return false;
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

// By fills: a graph that copied from the memory of the host would read it at each launch.
void cuda_backend::store(const cuda::stream stream, void* const destination, const std::span<const std::byte> value, const std::size_t count) {
	const auto address = cuda::to_device_pointer(destination);
	const auto fill = [&]<typename Unit>(const Unit, const auto fill_all, const auto fill_columns) {
		std::vector<Unit> units(value.size() / sizeof(Unit));
		std::memcpy(units.data(), value.data(), value.size());
		for(std::size_t first = 0, last = 0; first < units.size(); first = last) {
			while(last < units.size() && units[last] == units[first]) ++last;
			if(last - first == units.size()) {
				m_driver.check(fill_all(address, units[first], count * units.size(), stream), "cuMemsetAsync");
			} else { // the same columns of all elements
				m_driver.check(fill_columns(address + first * sizeof(Unit), value.size(), units[first], last - first, count, stream), "cuMemset2DAsync");
			}
		}
	};
	if(value.size() % sizeof(unsigned) == 0) {
		fill(unsigned{}, m_driver.fill_words_async, m_driver.fill_words_2d_async);
	} else {
		using byte = unsigned char;
		fill(byte{}, m_driver.fill_async, m_driver.fill_2d_async);
	}
}

void cuda_backend::issue_on(cuda_lane& lane, const fold_operation& fold) {
	if(m_options.folds == nullptr) throw std::logic_error("these devices have no kernels that fold");
	m_options.folds->launch(m_driver, lane.device(), lane.stream(), fold);
}

void cuda_backend::issue_on(cuda_lane& lane, const launch_operation& launch) {
	const auto& function = static_cast<const cuda_function&>(*launch.launch->kernel);
	std::size_t reducer = 0;
	for(const auto& parameter : function.parameters()) {
		if(parameter.kind != cuda_function::parameter::kind_type::reducer) continue;
		const auto& place = launch.reduction_places[reducer++];
		store(lane.stream(), place.address, parameter.identity, static_cast<std::size_t>(place.array->area()));
	}
	auto& parameters = m_parameters[launch.instruction->device.value];
	parameters.pack(function, launch);
	const auto grid = function.grid(launch.instruction->chunk);
	const auto block = function.block();
	m_driver.check(m_driver.launch(function.function(launch.instruction->device), grid[0], grid[1], grid[2], block[0], block[1], block[2],
	                   function.shared_bytes(), lane.stream(), parameters.pointers(), nullptr),
	    "cuLaunchKernel");
}

} // namespace celerity
