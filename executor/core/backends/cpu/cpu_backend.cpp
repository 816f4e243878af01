// SPDX-License-Identifier: MIT
#include "cpu_backend.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "memory/reduce_kernels.hpp"
#include "threads/start_thread.hpp"

namespace celerity {

namespace {

/// Waking another thread costs about as much as copying this much.
constexpr std::size_t inline_copy_bytes = 128 * 1024;
/// So many items of a simple fused kernel take less time than to wake another thread. Those of the longest one take a millisecond, in which the executor does
/// nothing else.
constexpr std::int64_t inline_kernel_items = 4 * 1024;
/// A cache line, and enough for every vector type.
constexpr std::size_t min_alignment_bytes = 64;
constexpr std::size_t page_bytes = 4096;
/// Huge pages save most of the faults of a new array, and half of the time in which MPI moves it to another process. NumPy asks for them from the same size.
constexpr std::size_t least_huge_bytes = std::size_t{4} << 20;
/// Pages are taken as they are touched, so that a large slab costs nothing.
constexpr std::size_t slab_bytes = std::size_t{64} << 20;
/// One runs, and the next one is there when it ends. A kernel or copy of a higher queue waits for no more than these.
constexpr std::uint32_t most_shared = 2;

std::size_t effective_alignment(const std::size_t size_bytes, const std::size_t alignment_bytes) {
	return std::max({alignment_bytes, min_alignment_bytes, size_bytes >= page_bytes ? page_bytes : 0});
}

} // namespace

cpu_backend::cpu_backend(const std::size_t num_devices, event_count& completions, const bool can_be_direct, trace_recorder* const trace,
    const std::size_t kernel_threads)
    : m_num_devices(num_devices), m_completions(completions), m_can_be_direct(can_be_direct), m_trace(trace),
      m_progress((can_be_direct ? 4 : 2) * num_devices + (can_be_direct ? 2 : 1)), m_waiting(m_progress, trace), m_kernel_starts_ns(num_devices),
      m_lane_threads(m_progress.size()) {
	for(const auto kind : {lane_kind::compute, lane_kind::peer}) {
		for(std::uint32_t d = 0; d < num_devices; ++d) m_classes.push_back({kind, device_id(d), 1, 0, most_shared});
	}
	m_classes.push_back({lane_kind::host_copy, device_id(0), 1, 0, most_shared});
	if(can_be_direct) {
		for(const auto kind : {lane_kind::signal, lane_kind::pull}) {
			for(std::uint32_t d = 0; d < num_devices; ++d) m_classes.push_back({kind, device_id(d), 1, 0});
		}
		m_classes.push_back({lane_kind::pull, device_id(0), 1, 0});
	}
	for(std::size_t d = 0; d < num_devices; ++d) m_kernels.push_back(std::make_unique<kernel_workshop>(kernel_threads));
	for(std::size_t lane = 0; lane < m_lane_threads.size(); ++lane) {
		m_lane_threads[lane] = std::make_unique<cpu_lane>(m_progress, static_cast<lane_index>(lane), m_completions, &m_flags, m_trace);
	}
}

cpu_backend::~cpu_backend() { cpu_backend::stop(); }

std::uint32_t cpu_backend::copy_class(const memory_id from, const memory_id to) const {
	const auto devices = static_cast<std::uint32_t>(m_num_devices);
	if(is_device_memory(to)) return devices + device_of(to).value;
	if(is_device_memory(from)) return devices + device_of(from).value;
	return 2 * devices;
}

std::uint32_t cpu_backend::signal_class(const memory_id from) const { return static_cast<std::uint32_t>(2 * m_num_devices + 1) + device_of(from).value; }

std::uint32_t cpu_backend::pull_class(const memory_id to) const {
	const auto first = static_cast<std::uint32_t>(3 * m_num_devices + 1);
	return is_device_memory(to) ? first + device_of(to).value : first + static_cast<std::uint32_t>(m_num_devices);
}

// ---- memory ---------------------------------------------------------------------------------------------------------------------

void* cpu_backend::make_slab(const std::size_t size_bytes) {
	// The system grants more shared memory than there is, and kills the process that touches it.
	const auto host_bytes = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
	if(size_bytes > host_bytes || m_arena->total_bytes() > host_bytes - size_bytes) throw std::bad_alloc();
	m_slabs.push_back(shared_memory::create(size_bytes));
	return m_slabs.back().address();
}

shared_location cpu_backend::locate(const memory_id /* memory */, const void* const address) const {
	const auto found = m_arena->locate(address);
	const auto& slab = m_slabs[found.slab];
	shared_location location{found.slab, slab.size_bytes(), found.offset_bytes, {}};
	std::transform(slab.path().begin(), slab.path().end(), location.handle.begin(), [](const char c) { return static_cast<std::byte>(c); });
	return location;
}

void* cpu_backend::open_peer_slab(const shared_location& location) {
	auto& slab = m_peer_slabs[location.handle];
	if(slab.address() == nullptr) {
		std::string path;
		for(auto c = location.handle.begin(); c != location.handle.end() && *c != std::byte{0}; ++c) path.push_back(static_cast<char>(*c));
		slab = shared_memory::open(path, location.slab_size_bytes);
	}
	return slab.address();
}

void* cpu_backend::allocate(const memory_id memory, const std::size_t size_bytes, const std::size_t alignment_bytes) {
	if(lies_in_arena(memory)) return m_arena->allocate(size_bytes);
	void* const address = ::operator new(size_bytes, std::align_val_t{effective_alignment(size_bytes, alignment_bytes)});
#ifdef MADV_HUGEPAGE
	if(size_bytes >= least_huge_bytes) madvise(address, size_bytes / page_bytes * page_bytes, MADV_HUGEPAGE);
#endif
	return address;
}

void cpu_backend::deallocate(const memory_id memory, void* const address, const std::size_t size_bytes, const std::size_t alignment_bytes) {
	if(lies_in_arena(memory)) return m_arena->deallocate(address);
	::operator delete(address, std::align_val_t{effective_alignment(size_bytes, alignment_bytes)});
}

// ---- lanes ----------------------------------------------------------------------------------------------------------------------

void cpu_backend::enqueue(const lane_position position, const lane_waits& waits, const std::span<const pull_operation> pulls, const std::size_t size_bytes,
    const reduce_operation& reduce) {
	if(!std::all_of(waits.answers.begin(), waits.answers.end(), is_reached)) {
		std::vector<pull_operation> all;
		for(const auto& answer : waits.answers) all.push_back({answer, {}, {}, {}});
		all.insert(all.end(), pulls.begin(), pulls.end());
		m_lane_threads[position.lane]->enqueue(position.sequence, waits.positions, all, [reduce] { celerity::carry_out(reduce); });
		return;
	}
	const auto are_complete = [&](const std::span<const lane_position> positions) {
		return std::all_of(positions.begin(), positions.end(), [&](const lane_position& p) { return m_progress[p.lane].completed() >= p.sequence; });
	};
	const auto needs_no_flag = [&](const pull_operation& pull) {
		return (pull.ready.address == nullptr || is_reached(pull.ready)) && are_complete(pull.answer_after);
	};
	if(size_bytes > inline_copy_bytes || !std::all_of(pulls.begin(), pulls.end(), needs_no_flag)) {
		m_lane_threads[position.lane]->enqueue(position.sequence, waits.positions, pulls, [reduce] { celerity::carry_out(reduce); });
	} else if(m_waiting.may_begin(position, waits.positions)) {
		m_waiting.carry_out(position, [&] { carry_out(pulls, reduce); });
	} else {
		m_waiting.add(position, waits.positions, [this, all = small_vector<pull_operation, 1>(pulls), reduce] { carry_out(all, reduce); });
	}
}

void cpu_backend::carry_out(const std::span<const pull_operation> pulls, const reduce_operation& reduce) {
	for(const auto& pull : pulls) {
		celerity::carry_out(pull);
		if(pull.answer.address != nullptr) m_flags.raise(pull.answer);
	}
	celerity::carry_out(reduce);
}

void cpu_backend::enqueue_copy(const lane_position position, const lane_waits& waits, const copy_operation& copy) {
	const pull_operation pull{{}, copy, {}, {}};
	enqueue(position, waits, std::span(&pull, 1), copy.size_bytes);
}

void cpu_backend::enqueue_gather(const lane_position position, const lane_waits& waits, const std::span<const copy_operation> copies) {
	small_vector<pull_operation, 8> pulls;
	for(const auto& copy : copies) pulls.push_back({{}, copy, {}, {}});
	enqueue_pulls(position, waits, std::span(pulls.data(), pulls.size()));
}

void cpu_backend::enqueue_reduce(const lane_position position, const lane_waits& waits, const reduce_operation& reduce) {
	enqueue(position, waits, {}, reduce.count * reduce.num_elements * size_of(reduce.type), reduce);
}

void cpu_backend::enqueue_signal(const lane_position position, const lane_waits& waits, const shared_flag& flag, const bool /* depends_on_one */) {
	const pull_operation pull{{}, {}, flag, {}};
	enqueue(position, waits, std::span(&pull, 1), 0);
}

void cpu_backend::enqueue_pulls(const lane_position position, const lane_waits& waits, const std::span<const pull_operation> pulls) {
	std::size_t size_bytes = 0;
	for(const auto& pull : pulls) size_bytes += pull.copy.size_bytes;
	enqueue(position, waits, pulls, size_bytes);
}

void cpu_backend::fill(const memory_id /* memory */, void* const address, const std::size_t size_bytes, const unsigned char value) {
	std::memset(address, value, size_bytes);
}

void cpu_backend::enqueue_launch(const lane_position position, const lane_waits& waits, launch_operation&& launch) {
	auto& own = *m_kernels[launch.instruction->device.value];
	const auto scratch = own.scratch_for(launch);
	const bool is_short = waits.answers.empty() && count_items(launch) <= inline_kernel_items;
	if(is_short && m_waiting.may_begin(position, waits.positions)) return m_waiting.carry_out(position, [&] { own.carry_out(launch, *scratch); });
	auto work = [launch = std::move(launch), scratch, &own] { own.carry_out(launch, *scratch); };
	if(is_short) return m_waiting.add(position, waits.positions, std::move(work));
	small_vector<pull_operation, 1> answers;
	for(const auto& answer : waits.answers) answers.push_back({answer, {}, {}, {}});
	m_lane_threads[position.lane]->enqueue(position.sequence, waits.positions, std::span(answers.data(), answers.size()), std::move(work));
}

bool cpu_backend::begin_kernel(const lane_position position, const std::span<const lane_position> waits) {
	for(const auto& wait : waits) {
		if(!m_progress[wait.lane].wait(wait.sequence)) return false;
	}
	if(!m_progress[position.lane].wait(position.sequence - 1)) return false; // a native kernel may come first
	if(m_trace != nullptr) m_kernel_starts_ns[position.lane] = now_ns();
	return !m_progress[position.lane].is_cancelled();
}

void cpu_backend::end_kernel(const lane_position position) {
	if(m_trace != nullptr) trace_lane(*m_trace, position, m_kernel_starts_ns[position.lane], now_ns());
	m_progress[position.lane].publish(position.sequence);
	m_completions.signal();
}

void cpu_backend::adopt_flags(void* const address, const std::size_t size_bytes) {
	m_flags.add(address, size_bytes);
	if(m_arena != nullptr) return;
	m_arena = std::make_unique<slab_arena>([this](const std::size_t bytes) { return make_slab(bytes); }, page_bytes, slab_bytes);
	m_listener = start_thread("for acknowledgements of other ranks", [this, address] { listen(address); });
}

void cpu_backend::listen(void* const own_flags) {
	while(true) {
		const auto seen = flag_board::prepare_answer(own_flags);
		if(m_is_cancelled.load(std::memory_order_relaxed)) return;
		m_completions.signal();
		flag_board::wait_for_answer(own_flags, seen);
	}
}

void cpu_backend::cancel() {
	m_is_cancelled.store(true, std::memory_order_seq_cst);
	for(auto& progress : m_progress) progress.cancel();
	for(auto& lane : m_lane_threads) lane->cancel();
	m_flags.wake_all();
}

void cpu_backend::stop() {
	if(std::exchange(m_is_stopped, true)) return; // the memory of the flags may be gone
	cancel();
	for(auto& lane : m_lane_threads) lane->stop();
	if(m_listener.joinable()) m_listener.join();
}

bool cpu_backend::release() {
	m_arena.reset();
	m_slabs.clear();
	m_peer_slabs.clear();
	return true;
}

} // namespace celerity
