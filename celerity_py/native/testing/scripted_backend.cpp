// SPDX-License-Identifier: MIT
#include "scripted_backend.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include "executor/core/backends/cpu/cpu_lane.hpp"
#include "executor/core/transfers/flag_memory.hpp"

namespace celerity::native {

namespace {

constexpr unsigned char poison = 0xff;
constexpr std::align_val_t alignment{64};
constexpr std::uint32_t most_shared = 2;

void raise(const shared_flag& flag) { std::atomic_ref(*flag.address).store(flag.value, std::memory_order_release); }

} // namespace

scripted_backend::scripted_backend(const scripted_options& options) : m_options(options), m_fifos(options.num_devices + 1) {
	const auto add = [&](const lane_kind kind, const std::uint32_t device, const std::uint32_t queue, const std::uint32_t size, const std::uint32_t domain) {
		const bool is_shared =
		    kind == lane_kind::host_to_device || kind == lane_kind::device_to_host || (kind == lane_kind::compute && !options.is_stream_like);
		m_classes.push_back({kind, device_id(device), size, domain, is_shared ? most_shared : 0});
		for(std::uint32_t i = 0; i < size; ++i) m_lanes.emplace_back().queue = queue;
	};
	for(std::uint32_t d = 0; d < options.num_devices; ++d) { // in the order of `role`
		add(lane_kind::compute, d, d, options.num_compute_lanes, 0);
		for(const auto kind :
		    {lane_kind::urgent, lane_kind::host_to_device, lane_kind::device_to_host, lane_kind::peer, lane_kind::signal, lane_kind::pull, lane_kind::raised}) {
			add(kind, d, d, options.num_other_lanes, 0);
		}
	}
	add(lane_kind::host_copy, 0, static_cast<std::uint32_t>(options.num_devices), 1, options.host_copies_apart ? 1 : 0);
}

scripted_backend::~scripted_backend() {
	for(const auto& [address, size] : m_live) ::operator delete(const_cast<void*>(address), alignment);
	for(const auto& [address, size] : m_dead) ::operator delete(address, alignment);
}

std::uint32_t scripted_backend::kernel_class(const device_id device, const bool is_urgent, const queue_priority queue) const {
	return class_of(is_urgent ? role::urgent : queue > 0 && m_options.is_stream_like ? role::raised : role::compute, device.value);
}

std::uint32_t scripted_backend::copy_class(const memory_id from, const memory_id to) const {
	if(!is_device_memory(to)) {
		return is_device_memory(from) ? class_of(role::to_host, device_of(from).value) : static_cast<std::uint32_t>(m_classes.size() - 1);
	}
	return class_of(!is_device_memory(from) ? role::to_device : from == to ? role::compute : role::peer, device_of(to).value);
}

std::uint32_t scripted_backend::gather_class(const memory_id to) const { return class_of(role::peer, device_of(to).value); }
std::uint32_t scripted_backend::signal_class(const memory_id from) const { return class_of(role::signal, device_of(from).value); }
std::uint32_t scripted_backend::pull_class(const memory_id to) const { return class_of(role::pull, is_device_memory(to) ? device_of(to).value : 0); }

// ---- memory ---------------------------------------------------------------------------------------------------------------------

void* scripted_backend::allocate(const memory_id /* memory */, const std::size_t size_bytes, const std::size_t /* alignment_bytes */) {
	void* const address = ::operator new(std::max<std::size_t>(size_bytes, 1), alignment);
	std::memset(address, poison, size_bytes);
	m_live.emplace(address, size_bytes);
	return address;
}

void scripted_backend::deallocate(const memory_id /* memory */, void* const address, const std::size_t size_bytes, const std::size_t /* alignment_bytes */) {
	if(m_live.erase(address) == 0) throw std::logic_error("memory is freed that nobody has");
	std::memset(address, poison, size_bytes);
	m_dead.emplace_back(static_cast<std::byte*>(address), size_bytes);
}

void scripted_backend::fill(const memory_id /* memory */, void* const address, const std::size_t size_bytes, const unsigned char value) {
	std::memset(address, value, size_bytes);
}

shared_location scripted_backend::locate(const memory_id /* memory */, const void* const address) const {
	const auto found = m_live.find(address);
	if(found == m_live.end()) throw std::logic_error("an announced allocation does not exist");
	shared_location location;
	location.slab_size_bytes = found->second;
	std::memcpy(location.handle.data(), &address, sizeof address);
	return location;
}

void* scripted_backend::open_peer_slab(const shared_location& location) {
	void* address = nullptr; // all ranks live in one process
	std::memcpy(&address, location.handle.data(), sizeof address);
	return address;
}

// ---- enqueueing -----------------------------------------------------------------------------------------------------------------

scripted_backend::operation scripted_backend::make(const step_kind kind, const lane_waits& waits) {
	operation op;
	op.kind = kind;
	op.waits.assign(waits.positions.begin(), waits.positions.end());
	op.answers.assign(waits.answers.begin(), waits.answers.end());
	return op;
}

void scripted_backend::enqueue(const lane_position position, operation&& op) {
	auto& lane = m_lanes.at(position.lane);
	if(!lane.waiting.emplace(position.sequence, std::move(op)).second || position.sequence <= lane.reached) {
		throw std::logic_error("two operations have one place on a lane");
	}
	m_fifos[lane.queue].push_back(position);
}

void scripted_backend::enqueue_copy(const lane_position position, const lane_waits& waits, const copy_operation& copy) {
	enqueue_gather(position, waits, std::span(&copy, 1));
}

void scripted_backend::enqueue_gather(const lane_position position, const lane_waits& waits, const std::span<const copy_operation> copies) {
	auto op = make(step_kind::copy, waits);
	for(const auto& copy : copies) op.steps.push_back({{}, copy, {}, {}});
	enqueue(position, std::move(op));
}

void scripted_backend::enqueue_reduce(const lane_position position, const lane_waits& waits, const reduce_operation& reduce) {
	auto op = make(step_kind::reduce, waits);
	op.reduce = reduce;
	enqueue(position, std::move(op));
}

void scripted_backend::enqueue_launch(const lane_position position, const lane_waits& waits, launch_operation&& launch) {
	auto op = make(step_kind::launch, waits);
	const auto& kernel = *launch.instruction;
	op.launch = {kernel.submission, kernel.chunk, kernel.accesses, {}, {}};
	op.launch.access_places.assign(launch.access_places.begin(), launch.access_places.end());
	op.launch.reduction_places.assign(launch.reduction_places.begin(), launch.reduction_places.end());
	enqueue(position, std::move(op));
}

bool scripted_backend::begin_kernel(const lane_position position, const std::span<const lane_position> waits) {
	enqueue(position, make(step_kind::kernel, {waits, {}}));
	m_begun = position;
	return true;
}

void scripted_backend::enqueue_signal(const lane_position position, const lane_waits& waits, const shared_flag& flag, const bool depends_on_one) {
	auto op = make(step_kind::signal, waits);
	op.flag = flag;
	op.is_early = depends_on_one;
	if(op.is_early && (op.waits.size() != 1 || !op.answers.empty())) throw std::logic_error("there are several waits, or none");
	m_kept.emplace_back(position, std::move(op));
}

void scripted_backend::flush() {
	for(auto& [position, op] : m_kept) {
		if(op.is_early && op.flag.address != nullptr) m_early.push_back({position});
		enqueue(position, std::move(op));
	}
	m_kept.clear();
}

void scripted_backend::enqueue_pulls(const lane_position position, const lane_waits& waits, const std::span<const pull_operation> pulls) {
	flush(); // nobody else does before pulls: another rank may need the flags before it raises those that these pulls wait for
	auto op = make(step_kind::pull, waits);
	op.steps.assign(pulls.begin(), pulls.end());
	enqueue(position, std::move(op));
}

// ---- steps ----------------------------------------------------------------------------------------------------------------------

bool scripted_backend::are_passed(const std::span<const lane_position> positions) const {
	return std::all_of(positions.begin(), positions.end(), [this](const lane_position& p) { return is_passed(p); });
}

bool scripted_backend::can_step(const operation& op) const {
	if(op.num_fetched == 0 && !op.must_say_so && (!are_passed(op.waits) || !std::all_of(op.answers.begin(), op.answers.end(), is_reached))) return false;
	if(op.kind != step_kind::pull) return true;
	if(op.must_say_so) return are_passed(op.steps[op.num_fetched].answer_after);
	if(op.num_fetched == op.steps.size()) return true;
	const auto& ready = op.steps[op.num_fetched].ready;
	return ready.address == nullptr || is_reached(ready);
}

bool scripted_backend::can_step(const lane_index number) const {
	const auto& lane = m_lanes[number];
	if(lane.waiting.empty() || lane.waiting.begin()->first != lane.reached + 1) return false;
	const auto& fifo = m_fifos[lane.queue];
	const bool shares = m_options.single_fifo && lane.queue < m_options.num_devices;
	if(shares && fifo.front() != lane_position{number, lane.reached + 1}) return false;
	return can_step(lane.waiting.begin()->second);
}

std::vector<std::int64_t> scripted_backend::possible_steps() const {
	std::vector<std::int64_t> steps;
	for(lane_index lane = 0; lane < m_lanes.size(); ++lane) {
		if(can_step(lane)) steps.push_back(lane);
	}
	for(std::size_t i = 0; i < m_early.size(); ++i) {
		const auto& op = m_lanes[m_early[i].position.lane].waiting.at(m_early[i].position.sequence);
		if(are_passed(op.waits)) steps.push_back(-1 - static_cast<std::int64_t>(i));
	}
	return steps;
}

bool scripted_backend::pull_once(operation& op) {
	if(op.num_fetched == op.steps.size()) return true;
	const auto& pull = op.steps[op.num_fetched];
	if(op.must_say_so) {
		raise(pull.answer);
		op.must_say_so = false;
		++op.num_fetched;
	} else {
		carry_out(pull);
		op.must_say_so = pull.answer.address != nullptr;
		if(!op.must_say_so) ++op.num_fetched;
	}
	return op.num_fetched == op.steps.size();
}

scripted_backend::step_result scripted_backend::step(const std::int64_t which) {
	if(which < 0) {
		const auto early = m_early.begin() + (-1 - which);
		const auto position = early->position;
		auto& op = m_lanes[position.lane].waiting.at(position.sequence);
		raise(op.flag);
		op.is_written = true;
		m_early.erase(early);
		return {step_kind::signal, position};
	}
	const auto number = static_cast<lane_index>(which);
	if(number >= m_lanes.size() || !can_step(number)) throw std::invalid_argument("this step is not possible now");
	auto& lane = m_lanes[number];
	auto& op = lane.waiting.begin()->second;
	const lane_position position{number, lane.reached + 1};
	const auto kind = op.kind;
	if(kind == step_kind::pull && !pull_once(op)) return {kind, position};
	if(kind == step_kind::copy) {
		for(const auto& copy : op.steps) carry_out(copy);
	} else if(kind == step_kind::reduce) {
		carry_out(op.reduce);
	} else if(kind == step_kind::signal && op.flag.address != nullptr && !op.is_written) {
		std::erase_if(m_early, [&](const early_flag& early) { return early.position == position; });
		raise(op.flag);
	}
	m_launched = std::move(op.launch);
	lane.waiting.erase(lane.waiting.begin());
	lane.reached = position.sequence;
	std::erase(m_fifos[lane.queue], position);
	return {kind, position, &m_launched};
}

std::string scripted_backend::find_leftovers() const {
	for(const auto& lane : m_lanes) {
		if(!lane.waiting.empty()) return "operations on lanes";
	}
	if(!m_kept.empty()) return "signals that were kept back";
	for(const auto& [address, size] : m_dead) {
		if(std::any_of(address, address + size, [](const std::byte b) { return b != std::byte{poison}; })) return "writes into memory that was freed before";
	}
	return {};
}

} // namespace celerity::native
