// SPDX-License-Identifier: MIT
// Counts the calls of the driver per step of a stencil, with one device per rank, if the devices are far behind: then nothing that a stream could wait for has
// happened yet. A change that adds a call to a step fails here.
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

/// `most` calls of each kind in one step of all ranks.
void check_calls(setup how, const std::array<double, counted_calls.size()>& most) {
	constexpr int few = 8;
	constexpr int many = 24;
	how.steps = few;
	const auto start = count_until_issued(how);
	how.steps = many;
	const auto all = count_until_issued(how);
	std::printf("%5zu  %6u  %9d", how.num_ranks, how.border, int{how.kernels_raise});
	double sum = 0;
	bool are_few = true;
	for(std::size_t i = 0; i < counted_calls.size(); ++i) {
		const auto kind = static_cast<std::size_t>(counted_calls[i]);
		const double per_step = static_cast<double>(all[kind] - start[kind]) / (many - few);
		std::printf("  %18.2f", per_step);
		sum += per_step;
		are_few = are_few && per_step <= most[i];
	}
	std::printf("  %6.2f\n", sum);
	std::fflush(stdout);
	if(!are_few) die("a step makes more calls of the driver than it needs");
}

} // namespace

int main() {
	emulated_cuda::configure({});
	std::printf("calls per step of all ranks\nranks  border  exchanges");
	for(const auto kind : counted_calls) std::printf("  %18s", name_of(kind));
	std::printf("  %6s\n", "sum");
	const auto check = [](const std::size_t num_ranks, const std::uint32_t border, const bool exchanges, const std::array<double, counted_calls.size()>& most) {
		setup how;
		how.num_ranks = num_ranks;
		how.border = border;
		how.kernels_wait = how.kernels_raise = exchanges;
		how.joined_bytes = std::size_t{1} << 16;
		check_calls(how, most);
	};
	check(1, 0, false, {1, 0, 0, 1, 0});
	check(1, 3, false, {1, 0, 0, 1, 0});
	check(2, 0, false, {4, 0, 8, 4, 4});
	check(2, 3, false, {6, 0, 8, 6, 8});
	check(3, 0, false, {6, 0, 12, 6, 6});
	check(3, 3, false, {11, 0, 16, 11, 16});
	// A kernel raises flags only if the announcement of the other rank has come by then: some flags more.
	check(2, 0, true, {4, 0, 4, 4, 4});
	check(2, 3, true, {6, 0, 5, 6, 8});
	check(3, 0, true, {6, 0, 6, 6, 6});
	check(3, 3, true, {11, 0, 9, 11, 16});
	return 0;
}
