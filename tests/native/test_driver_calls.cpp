// SPDX-License-Identifier: MIT
// Counts the calls of the driver per step of a stencil, with one device per rank, if the devices are far behind: then nothing that a stream could wait for has
// happened yet. A change that adds a call to a step fails here.
#include <algorithm>
#include <numeric>

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

} // namespace

int main() {
	emulated_cuda::configure({});
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
