// SPDX-License-Identifier: MIT
// Counts the calls of the driver per step of a stencil, with one device per rank, if the devices are far behind: then nothing that a stream could wait for has
// happened yet. A change that adds a call to a step fails here.
// Also counts the waits of graphs that lie on several devices.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "emulated/ranks.hpp"

using namespace emulated_ranks;

namespace {

using cuda::call;
constexpr std::array counted_calls{call::launch, call::copy, call::flags, call::event_record, call::event_wait};

/// Of all ranks, until everything is issued.
cuda::call_counts count_until_issued(setup how) {
	how.holds_devices = true;
	const auto before = cuda::count_calls();
	std::thread running([&] { run(how); });
	auto latest = cuda::count_calls();
	for(int quiet = 0; quiet < 50; ++quiet) {
		std::this_thread::sleep_for(20ms);
		const auto now = cuda::count_calls();
		const auto is_equal = [&](const call kind) { return now[static_cast<std::size_t>(kind)] == latest[static_cast<std::size_t>(kind)]; };
		if(now == before || !std::all_of(counted_calls.begin(), counted_calls.end(), is_equal)) quiet = 0;
		latest = now;
	}
	emulated_cuda::hold(false);
	running.join();
	for(std::size_t i = 0; i < latest.size(); ++i) latest[i] -= before[i];
	return latest;
}

using calls_per_step = std::array<double, counted_calls.size()>;

/// In one step of all ranks.
calls_per_step count_per_step(setup how) {
	constexpr int few = 8;
	constexpr int many = 24;
	how.steps = few;
	const auto start = count_until_issued(how);
	how.steps = many;
	const auto all = count_until_issued(how);
	calls_per_step counts;
	for(std::size_t i = 0; i < counts.size(); ++i) {
		const auto kind = static_cast<std::size_t>(counted_calls[i]);
		counts[i] = static_cast<double>(all[kind] - start[kind]) / (many - few);
	}
	return counts;
}

/// A rank that gets no processor announces its messages late, and then its neighbours cannot join flags: a count on a busy machine may be too high. No count is
/// too low.
void check_calls(const setup& how, const calls_per_step& most) {
	constexpr int most_attempts = 10;
	for(int attempt = 0; attempt < most_attempts; ++attempt) {
		const auto counts = count_per_step(how);
		std::printf("%5zu  %6u", how.num_ranks, how.border);
		for(const double count : counts) std::printf("  %18.2f", count);
		std::printf("  %6.2f\n", std::accumulate(counts.begin(), counts.end(), 0.0));
		std::fflush(stdout);
		if(std::ranges::equal(counts, most, std::ranges::less_equal{})) return;
	}
	die("a step makes more calls of the driver than it needs");
}

/// Two runs of a graph with a part on each of two devices. A part runs behind the parts of the run before on the other device; its own stream keeps the order.
void check_waits_of_parts() {
	const box elements = box::full(point{{16, 1, 1}});
	event_count completions;
	cuda_options options;
	options.ordinals = {0, 1};
	options.may_spin = false;
	options.graphs = true;
	options.small_copies.assign(2, {handle_of(small_copies_function<few_small_copies>), handle_of(small_copies_function<max_small_copies>),
	                                   handle_of(exchange_function), handle_of(set_flags_function), handle_of(advance_flags_function)});
	cuda_backend backend(options, completions);
	auto* const graphs = backend.graphs();
	if(graphs == nullptr) die("the devices carry out no graphs");
	std::vector<graph_operation> operations(2);
	std::vector<std::pair<memory_id, void*>> allocated;
	for(std::uint32_t d = 0; d < 2; ++d) {
		const auto memory = memory_of(device_id(d));
		const auto place = [&] {
			allocated.emplace_back(memory, backend.allocate(memory, 64, 16));
			return array_place{static_cast<std::byte*>(allocated.back().second), &elements};
		};
		operations[d].device = device_id(d);
		const auto source = place();
		operations[d].what = copy_operation{source, place(), {&elements, 1}, 4, 64};
	}
	auto graph = graphs->make(operations, 0);
	const auto classes = backend.lane_classes();
	std::uint32_t lane = 0;
	for(std::uint32_t before = 0; before < backend.kernel_class(device_id(0), false, 0); ++before) lane += classes[before].size;

	emulated_cuda::hold(true);
	const auto start = cuda::count_calls();
	for(std::uint64_t run = 1; run <= 2; ++run) graphs->enqueue({lane_index(lane), run}, {}, *graph, {});
	const auto count = [&](const call kind) { return cuda::count_calls()[static_cast<std::size_t>(kind)] - start[static_cast<std::size_t>(kind)]; };
	for(int attempt = 0; attempt < 1000 && count(call::graph) < 4; ++attempt) std::this_thread::sleep_for(10ms);
	std::this_thread::sleep_for(100ms); // for the thread that issues the end of the second run
	const auto num_waits = count(call::event_wait);
	std::printf("two runs on two devices: %zu launches of graphs, %zu waits\n", static_cast<std::size_t>(count(call::graph)),
	    static_cast<std::size_t>(num_waits));
	emulated_cuda::hold(false);
	while(backend.completed(lane_index(lane)) < 2) std::this_thread::sleep_for(1ms);
	graph.reset();
	backend.stop();
	if(count(call::graph) != 4) die("each run launches a graph on each device");
	if(num_waits != 2 + 2 * 2) die("a part of a run waits for other events than those of the other device, or the end of a run for others than its parts");
	for(const auto& [memory, address] : allocated) backend.deallocate(memory, address, 64, 16);
	if(!backend.release()) die("the devices are not idle");
}

} // namespace

int main() {
	emulated_cuda::configure({});
	check_waits_of_parts();
	std::printf("calls per step of all ranks\nranks  border");
	for(const auto kind : counted_calls) std::printf("  %18s", name_of(kind));
	std::printf("  %6s\n", "sum");
	const auto check = [](const std::size_t num_ranks, const std::uint32_t border, const calls_per_step& most) {
		setup how;
		how.num_ranks = num_ranks;
		how.border = border;
		how.joined_bytes = std::size_t{1} << 16;
		check_calls(how, most);
	};
	check(1, 0, {1, 0, 0, 1, 0});
	check(1, 3, {1, 0, 0, 1, 0});
	check(2, 0, {4, 0, 8, 4, 4});
	check(2, 3, {6, 0, 8, 6, 8});
	check(3, 0, {6, 0, 12, 6, 6});
	check(3, 3, {11, 0, 16, 11, 16});
	return 0;
}
