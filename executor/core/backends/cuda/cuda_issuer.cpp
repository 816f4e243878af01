// SPDX-License-Identifier: MIT
#include "cuda_issuer.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <variant>

#include "cuda_graph_launcher.hpp"
#include "scheduler/core/base/overloaded.hpp"
#include "transfers/flag_memory.hpp"

namespace celerity {

namespace {

bool must_wait(const shared_flag& ready) { return ready.address != nullptr && !is_reached(ready); }

} // namespace

cuda_issuer::cuda_issuer(const cuda_devices& devices, cuda_lanes& lanes, cuda_copies& copies, std::shared_ptr<const cuda_reductions> reductions)
    : m_driver(devices.driver()), m_devices(devices), m_lanes(lanes), m_copies(copies), m_reductions(std::move(reductions)), m_parameters(devices.size()),
      m_blocks(devices.size()) {}

void cuda_issuer::start_workers(event_count& completions, const bool may_spin) {
	for(std::uint32_t d = 0; d < m_devices.size(); ++d) {
		m_workers.push_back(
		    std::make_unique<cuda_worker>([this](cuda_operation& operation) { issue(operation); }, m_lanes.of_device(d), completions, may_spin));
	}
	m_lanes.on_open([this] {
		for(auto& worker : m_workers) worker->watch_all();
	});
}

void cuda_issuer::wake(const lane_index lane) {
	if(!m_workers.empty()) m_workers[m_lanes.device_index(lane)]->wake();
}

void cuda_issuer::wait_until_issued() const {
	for(const auto& worker : m_workers) worker->wait_until_issued(worker->num_pushed());
}

void cuda_issuer::stop() {
	for(auto& worker : m_workers) worker->stop();
}

void cuda_issuer::hand_over(const lane_position position, const lane_waits& waits, decltype(cuda_operation::what)&& what) {
	cuda_operation operation{position, small_vector<lane_position, 4>(waits.positions), {}, std::move(what), {}};
	for(const auto& answer : waits.answers) {
		if(!is_reached(answer)) operation.answers.push_back(answer);
	}
	// The engine issues a wait for another rank behind all operations that the other rank may need first. These must be on the streams of all devices
	// by then, and not only with the workers: the driver may hold a worker up, or block it behind this wait.
	// A graph may wait for those of other devices in the same way.
	if(!operation.answers.empty() || std::holds_alternative<std::vector<pull_operation>>(operation.what)
	    || std::holds_alternative<cuda_graph_work>(operation.what)) {
		for(const auto& worker : m_workers) operation.behind.push_back(worker->num_pushed());
	}
	if(m_workers.empty()) {
		issue(operation);
	} else {
		m_workers[m_lanes.device_index(operation.position.lane)]->push(std::move(operation));
	}
}

template <typename What>
bool cuda_issuer::issue_at(const lane_position position, const cuda_operation& operation, const What& what) {
	auto& lane = m_lanes[position.lane];
	lane.catch_up();
	// Events first, as they are likely to have happened already: a stream takes longer to look at a flag than at an event.
	enqueue_flags(m_driver, lane.stream(), cuda::memory_operation_wait, std::span(operation.answers.data(), operation.answers.size()));
	if(!m_lanes.wait_for(lane.stream(), std::span(operation.waits.data(), operation.waits.size()))) return false;
	lane.begin(position.sequence);
	issue_on(lane, what);
	lane.record(position.sequence);
	return true;
}

void cuda_issuer::issue(cuda_operation& operation) {
	auto& lane = m_lanes[operation.position.lane];
	for(std::uint32_t d = 0; d < operation.behind.size(); ++d) {
		if(d != lane.device() && !m_workers[d]->wait_until_issued(operation.behind[d])) return;
	}
	m_devices.make_current(lane.context());
	std::visit(overloaded{
	               [&](const cuda_signals& signals) { issue_signals(operation, signals); },
	               [&](const std::vector<pull_operation>& pulls) { issue_pulls(operation, pulls); },
	               [&](const auto& what) { issue_at(operation.position, operation, what); },
	           },
	    operation.what);
}

void cuda_issuer::issue_signals(const cuda_operation& operation, const cuda_signals& signals) {
	if(signals.write_behind_producer(m_driver, m_lanes.all())) return;
	for(const auto& [position, flag] : signals) {
		if(!issue_at(position, operation, flag)) return;
	}
}

void cuda_issuer::issue_on(cuda_lane& lane, const cuda_graph_work& work) { m_graphs->issue(lane, work); }

// ---- kernels ----------------------------------------------------------------------------------------------------------------------

// By fills: a graph that copied from the memory of the host would read it at each launch.
void cuda_issuer::store(const cuda::stream stream, void* const destination, const std::span<const std::byte> value, const std::size_t count) {
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

void cuda_issuer::issue_on(cuda_lane& lane, const reduce_operation& reduce) {
	if(m_reductions == nullptr) throw std::logic_error("these devices have no kernels that reduce");
	m_reductions->launch(m_driver, lane.device(), lane.stream(), reduce);
}

void cuda_issuer::launch(kernel_target& target, const cuda::kernel_parameters& kernel) {
	if(target.lane == nullptr) {
		m_driver.check(m_driver.graph_set_kernel(target.graph, target.nodes->nodes.at(target.next++), &kernel), "cuGraphExecKernelNodeSetParams");
		return;
	}
	m_driver.check(m_driver.launch(kernel.function, kernel.grid_x, kernel.grid_y, kernel.grid_z, kernel.block_x, kernel.block_y, kernel.block_z,
	                   kernel.shared_bytes, target.lane->stream(), kernel.values, nullptr),
	    "cuLaunchKernel");
	if(target.nodes != nullptr) target.nodes->nodes.push_back(m_driver.latest_nodes(target.lane->stream()).front());
}

cuda_kernel_nodes cuda_issuer::capture_on(cuda_lane& lane, const launch_operation& launch) {
	cuda_kernel_nodes nodes;
	issue_kernels({&lane, &nodes}, launch);
	return nodes;
}

void cuda_issuer::issue_passes(kernel_target& target, const launch_operation& launched, const fused_kernel& kernel) {
	const auto device = launched.instruction->device;
	const auto& chunk = kernel.find(launched.instruction->chunk);
	auto& block = m_blocks[device.value];
	cuda::device_pointer scratch = 0; // of the stream, or of the graph that is being captured
	if(target.lane == nullptr) {
		scratch = target.nodes->scratch;
	} else if(chunk.scratch_bytes > 0) {
		m_driver.check(m_driver.allocate_async(&scratch, chunk.scratch_bytes, target.lane->stream()), "cuMemAllocAsync");
		if(target.nodes != nullptr) target.nodes->scratch = scratch;
	}
	const auto at = kernel.fill(chunk, launched, reinterpret_cast<const void*>(scratch), block);
	void* parameters[]{block.words()};
	const auto& passes = kernel.structure_of(chunk).passes;
	for(std::size_t i = 0; i < passes.size(); ++i) {
		const auto grid = fused_kernel::begin_pass(chunk.items[i], passes[i].threads, at, block);
		if(!grid) continue;
		const auto function = reinterpret_cast<cuda::function>(passes[i].functions_of(*grid).at(device.value));
		const auto& [blocks, threads, is_single] = *grid;
		launch(target, {function, blocks[0], blocks[1], blocks[2], threads[0], threads[1], threads[2], 0, parameters, nullptr, nullptr, nullptr});
	}
	if(target.lane != nullptr && chunk.scratch_bytes > 0) m_driver.check(m_driver.free_async(scratch, target.lane->stream()), "cuMemFreeAsync");
}

void cuda_issuer::issue_kernels(kernel_target target, const launch_operation& launched) {
	if(const auto* const fused = launched.launch->kernel->as_fused()) return issue_passes(target, launched, *fused);
	const auto& function = static_cast<const cuda_function&>(*launched.launch->kernel);
	std::size_t reducer = 0;
	for(const auto& parameter : function.parameters()) {
		if(parameter.kind != cuda_function::parameter::kind_type::reducer) continue;
		if(target.lane == nullptr) break; // a graph stores it at each launch
		const auto& place = launched.reduction_places[reducer++];
		store(target.lane->stream(), place.address, parameter.identity, static_cast<std::size_t>(place.array->area()));
	}
	const auto device = launched.instruction->device;
	auto& parameters = m_parameters[device.value];
	parameters.pack(function, launched);
	const auto grid = function.grid(launched.instruction->chunk);
	const auto block = function.block();
	launch(target, {function.function(device), grid[0], grid[1], grid[2], block[0], block[1], block[2], function.shared_bytes(), parameters.pointers(), nullptr,
	                   nullptr, nullptr});
}

// ---- with other ranks -------------------------------------------------------------------------------------------------------------

void cuda_issuer::issue_on(cuda_lane& lane, const shared_flag& flag) {
	if(flag.address != nullptr) enqueue_flags(m_driver, lane.stream(), cuda::memory_operation_write, std::span(&flag, 1));
}

void cuda_issuer::issue_pulls(const cuda_operation& operation, const std::vector<pull_operation>& pulls) {
	auto& lane = m_lanes[operation.position.lane];
	auto& small = m_copies.small(lane.device());
	// A kernel reaches a peer's slab only from the device in whose context the slab was opened. Copy engines reach it from every device.
	small.clear();
	const bool is_small = m_devices.size() == 1 && small.is_available()
	                      && std::all_of(pulls.begin(), pulls.end(), [&](const pull_operation& pull) { return cuda_copies::add(small, pull.copy); });
	if(issue_at(operation.position, operation, fetch{pulls, is_small ? &small : nullptr})) { write_answers(lane, pulls); }
}

void cuda_issuer::issue_on(cuda_lane& lane, const fetch& fetched) {
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
		m_copies.copy(lane.stream(), pull.copy);
	}
	if(fetched.kernel == nullptr) return;
	wait();
	fetched.kernel->launch(m_driver, lane.stream());
}

// After the event of the position: an instruction that waits for the data need not wait for the flag, too.
void cuda_issuer::write_answers(cuda_lane& lane, const std::vector<pull_operation>& pulls) {
	small_vector<shared_flag, 8> answers;
	for(const auto& pull : pulls) {
		if(pull.answer.address == nullptr) continue;
		if(!m_lanes.wait_for(lane.stream(), pull.answer_after)) return;
		answers.push_back(pull.answer);
	}
	enqueue_flags(m_driver, lane.stream(), cuda::memory_operation_write, std::span(answers.data(), answers.size()));
}

} // namespace celerity
