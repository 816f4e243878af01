// SPDX-License-Identifier: MIT
// Random programs on several ranks with the emulated driver. Nothing may come to a halt, and all values must be right.
// Arguments: [rounds for each number of queues] [seed] [number of queues] [their depth]
#include <barrier>
#include <functional>
#include <random>

#include <sys/wait.h>
#include <unistd.h>

#include "emulated/ranks.hpp"

using namespace emulated_ranks;

namespace {

/// Each kernel of a rank is told of by one flag to all others, each of which answers by one.
void count_flags(const std::uint32_t kernels_per_step) {
	setup how;
	how.num_ranks = 4;
	how.reads = pattern::all;
	how.steps = 100;
	how.oversubscription = kernels_per_step;
	const auto before = emulated_cuda::num_flag_writes();
	run(how);
	const auto written = emulated_cuda::num_flag_writes() - before;
	const auto most = static_cast<std::uint64_t>(how.steps) * how.num_ranks * kernels_per_step * (1 + how.num_ranks - 1);
	if(written > most) die(std::to_string(written) + " flags were written, and " + std::to_string(most) + " are enough");
}

/// More than one call of the driver takes flags.
void exchange_many_messages() {
	setup how;
	how.num_ranks = 4;
	how.reads = pattern::every_other;
	how.steps = 4;
	run(how);
}

/// Steps of a replay run as graphs, and compute the same.
void replay() {
	for(const std::size_t num_devices : {1U, 2U, 3U, 4U}) {
		for(const auto reads : {pattern::halos, pattern::all}) {
			for(const std::uint32_t oversubscription : {1U, 3U}) {
				for(const std::uint32_t horizon_step : {1U, 3U, 4U}) {
					setup how;
					how.replays = true;
					how.num_devices = num_devices;
					how.reads = reads;
					how.oversubscription = oversubscription;
					how.horizon_step = horizon_step;
					how.border = num_devices > 1 && oversubscription == 1 ? 1 : 0;
					how.steps = 201;
					exchange::num_taken = 0;
					const auto graph_runs = run(how);
					const auto num_taken = exchange::num_taken.load();
					std::printf("replay of %d steps, %zu devices, %u parts, horizons after %u: %lu graphs, %lu copies out of inboxes\n", how.steps, num_devices,
					    oversubscription, horizon_step, graph_runs, num_taken);
					std::fflush(stdout);
					if(graph_runs < 5) die("a replay has hardly used graphs");
					if(num_devices > 1 && oversubscription == 1 && num_taken < graph_runs) die("devices have hardly put data into inboxes");
				}
			}
		}
	}
}

/// Devices compute the borders of others for several repetitions. Each of these has other chunks, and a graph has all of them.
void replay_with_deep_halos() {
	for(const std::size_t num_ranks : {1U, 2U, 4U}) {
		for(const bool split_2d : {false, true}) {
			setup how;
			how.replays = true;
			how.num_ranks = num_ranks;
			how.num_devices = num_ranks == 1 ? 4 : 1;
			how.split_2d = split_2d;
			how.phases = 3;
			how.steps = 601;
			const auto graph_runs = run(how);
			std::printf("replay with deep halos, %zu ranks, split_2d %d: %lu graphs\n", num_ranks, int{split_2d}, graph_runs);
			std::fflush(stdout);
			if(graph_runs < 5) die("a replay with deep halos has hardly used graphs");
		}
	}
}

/// Kernels of queues with priorities have streams and nodes of graphs with these priorities.
void replay_with_priorities() {
	for(const std::size_t num_devices : {1U, 3U}) {
		setup how;
		how.replays = true;
		how.num_devices = num_devices;
		how.num_priorities = 3;
		how.steps = 1001; // the plan is periodic only after as many horizons as the program may be ahead
		const int streams_before = emulated_cuda::num_streams_made(2);
		const int nodes_before = emulated_cuda::num_nodes_made(1);
		if(run(how) < 5) die("a replay with priorities has hardly used graphs");
		if(emulated_cuda::num_streams_made(2) == streams_before) die("no stream has the priority of its queue");
		if(emulated_cuda::num_nodes_made(1) == nodes_before) die("no kernel of a graph has the priority of its queue");
	}
	if(emulated_cuda::num_streams_made(3) != 0) die("there are streams for a queue that does not exist");
}

/// Kernels of a queue with a share run on its multiprocessors, and those of all others on the rest, on streams and in graphs. Copies run anywhere.
void split_between_queues() {
	for(const bool replays : {false, true}) {
		for(const std::size_t num_devices : {1U, 2U}) {
			setup how;
			how.replays = replays;
			how.num_devices = num_devices;
			how.num_priorities = replays ? 2 : 3; // the two tasks of the recording are of both queues
			how.share = 0.3;
			how.border = 1;
			how.steps = replays ? 1001 : 100;
			const auto before = emulated_cuda::num_launches(advancing(how.reads));
			const auto graph_runs = run(how);
			if(replays && graph_runs < 5) die("a replay with a split has hardly used graphs");
			auto launches = emulated_cuda::num_launches(advancing(how.reads));
			for(const auto& [part, count] : before) launches[part] -= count;
			std::printf("split, %zu devices, replays %d: %d launches on 8 multiprocessors, %d on the other 22\n", num_devices, int{replays}, launches[8],
			    launches[22]);
			std::fflush(stdout);
			if(launches[0] != 0) die("a kernel runs outside of both parts");
			if(launches[8] == 0 || launches[22] == 0) die("a part has no kernels");
			if(!replays && 3 * launches[8] > 2 * launches[22]) die("kernels of other queues run on the share");
		}
	}
}

/// Likewise between ranks.
void replay_on_ranks() {
	for(const std::size_t num_ranks : {2U, 4U}) {
		for(const auto reads : {pattern::halos, pattern::from_above, pattern::all}) {
			for(const std::uint32_t oversubscription : {1U, 3U}) {
				setup how;
				how.replays = true;
				how.num_ranks = num_ranks;
				how.odd_ranks_have_graphs = num_ranks == 2 || oversubscription == 1;
				how.peeks = num_ranks == 4;
				how.reads = reads;
				how.oversubscription = oversubscription;
				how.horizon_step = 1 + oversubscription;
				how.border = oversubscription == 1 ? 1 : 0;
				how.steps = 201;
				exchange::num_taken = 0;
				const auto graph_runs = run(how);
				const auto num_taken = exchange::num_taken.load();
				std::printf("replay of %d steps, %zu ranks, %u parts: %lu graphs, %lu copies out of inboxes\n", how.steps, num_ranks, oversubscription,
				    graph_runs, num_taken);
				std::fflush(stdout);
				if(graph_runs < 5) die("a replay has hardly used graphs");
				if(how.odd_ranks_have_graphs && num_taken < graph_runs) die("ranks have hardly put data into inboxes");
			}
		}
	}
}

/// A recording so long that its periods are cut into segments.
void replay_in_segments(const std::uint64_t most_on_a_lane) {
	for(const std::size_t num_ranks : {1U, 2U, 4U}) {
		for(const auto reads : {pattern::halos, pattern::from_above, pattern::all}) {
			setup how;
			how.replays = true;
			how.recorded_steps = 150;
			how.most_on_a_lane = most_on_a_lane;
			how.num_ranks = num_ranks;
			how.num_devices = num_ranks == 1 ? 3 : 1;
			how.odd_ranks_have_graphs = reads != pattern::halos;
			how.peeks = num_ranks == 4;
			how.reads = reads;
			how.horizon_step = 3;
			how.steps = 150 * 8 + 1;
			const auto graph_runs = run(how);
			std::printf("replay of %d steps, 150 of which are recorded, %zu ranks: %lu graphs\n", how.steps, num_ranks, graph_runs);
			std::fflush(stdout);
			if(graph_runs < 12) die("periods have hardly been cut");
		}
	}
}

/// Turns of a long recording with a wait between. In the last one, rank 0 must not wait until rank 1 has done all of its part.
class rank_of_turns : public rank {
  public:
	using rank::rank;
	static inline std::barrier<> all_are_here{2};
	static inline rank* other = nullptr;

  protected:
	static constexpr int num_turns = 6;

	void apply() override {
		if(m_number == 1) other = this;
		initialize();
		const auto recorded = record(make_steps(m_how.recorded_steps));
		for(int turn = 1; turn < num_turns; ++turn) {
			replay(recorded, 1);
			wait(epoch_action::none);
		}
		all_are_here.arrive_and_wait();
		last_turn(recorded);
		finish();
	}
	virtual void last_turn(const std::shared_ptr<const recorded_program>& recorded) = 0;

	static void expect_launches(const int before) {
		for(int looks = 0; emulated_cuda::num_graph_launches() == before; ++looks) {
			if(looks == 400) die("no graph runs before everything is announced");
			std::this_thread::sleep_for(50ms);
		}
	}
};

/// Rank 1 takes no announcement of rank 0, and there is no room for all of them.
class rank_beside_a_standing_one final : public rank_of_turns {
	using rank_of_turns::rank_of_turns;

	void last_turn(const std::shared_ptr<const recorded_program>& recorded) override {
		if(m_number == 0) other->stand(true);
		const auto before = emulated_cuda::num_graph_launches();
		all_are_here.arrive_and_wait();
		replay(recorded, 1);
		if(m_number == 1) return;
		expect_launches(before);
		other->stand(false);
	}
};

/// Rank 1 makes its announcements of the second half once rank 0 has launched a graph.
class rank_beside_a_late_one final : public rank_of_turns {
	using rank_of_turns::rank_of_turns;

	void last_turn(const std::shared_ptr<const recorded_program>& recorded) override {
		const auto before = emulated_cuda::num_graph_launches();
		all_are_here.arrive_and_wait();
		if(m_number == 0) return replay(recorded, 1);
		auto steps = make_steps(m_how.recorded_steps);
		for(std::size_t i = 0; i < steps.size(); ++i) {
			if(i == steps.size() / 2) expect_launches(before);
			submit(std::move(steps[i]), m_advance);
		}
	}
};

/// The first segment of a period is on its way to the device before the last transfer of the period is announced.
void begin_before_all_is_announced(const std::uint64_t most_on_a_lane) {
	setup how;
	how.most_on_a_lane = most_on_a_lane;
	how.replays = true;
	how.num_ranks = 2;
	how.odd_ranks_have_graphs = false; // the launches are those of rank 0
	how.horizon_step = 10;
	how.reads = pattern::from_above;
	how.recorded_steps = 1500; // and as many messages, for 1024 of which there is room
	how.steps = 6 * how.recorded_steps;
	if(run<rank_beside_a_standing_one>(how) < 20) die("periods have hardly been cut");
	how.reads = pattern::halos;
	how.recorded_steps = 300;
	how.steps = 6 * how.recorded_steps;
	if(run<rank_beside_a_late_one>(how) < 10) die("periods have hardly been cut");
}

/// A kernel of rank 0 waits for rank 1, whose device does nothing. The end of rank 0's executor ends the kernel, and nothing that follows it may run.
void stop_a_kernel_that_waits() {
	setup how;
	how.num_ranks = 2;
	how.replays = true; // in graphs
	how.steps = 1'000'000; // so that no rank comes to the end
	const auto ranks = connect(how);
	for(const auto& r : ranks) r->start();
	for(int looks = 0; emulated_cuda::num_graph_launches() < 10; ++looks) {
		if(looks == 100) die("no graph runs");
		std::this_thread::sleep_for(50ms);
	}
	emulated_cuda::hold(true, 1);
	std::this_thread::sleep_for(300ms);
	if(emulated_cuda::is_lost(0)) die("a kernel that waits has ended by itself");
	const auto written = emulated_cuda::num_flag_writes();
	ranks[0]->stop_executor();
	for(int looks = 0; !emulated_cuda::is_lost(0); ++looks) {
		if(looks == 100) die("a kernel waits for a rank, though the executor has ended");
		std::this_thread::sleep_for(50ms);
	}
	std::this_thread::sleep_for(50ms);
	if(emulated_cuda::num_flag_writes() != written) die("a flag says that data is ready which never came");
	std::fflush(nullptr);
	_exit(0); // the other rank never ends
}

/// The end of a run that has failed does not wait for its device, and keeps the memory until the device is idle.
void release_a_busy_device() {
	setup how;
	expect_after(how.steps, how.reads); // its devices may come to the end
	const auto ranks = connect(how);
	emulated_cuda::hold(true);
	ranks.front()->start();
	std::this_thread::sleep_for(100ms);
	const auto before = emulated_cuda::held();
	ranks.front()->leave();
	if(ranks.front()->release()) die("memory is given back while operations run on it");
	if(emulated_cuda::held().device_bytes != before.device_bytes) die("memory is given back while operations run on it");
	emulated_cuda::hold(false);
	for(int looks = 0; !ranks.front()->release(); ++looks) {
		if(looks == 100) die("the memory of a device that is idle is not given back");
		std::this_thread::sleep_for(50ms);
	}
	expect_nothing_held();
	std::fflush(nullptr);
	_exit(0); // the program of the rank never ends
}

/// In a process of its own: the settings of the driver are for good.
bool succeeds(const std::function<int()>& body) {
	const pid_t child = fork();
	if(child == 0) {
		const int status = body();
		std::fflush(nullptr);
		_exit(status);
	}
	int status = 0;
	return waitpid(child, &status, 0) == child && status == 0;
}

int run_rounds(const int rounds, const emulated_cuda::settings& emulated) {
	std::mt19937 random(emulated.seed);
	const auto pick = [&](const std::initializer_list<int> values) { return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size())); };
	const std::array<const char*, 3> names{"halos", "from above", "all is read"};
	emulated_cuda::configure(emulated);
	replay();
	replay_with_deep_halos();
	replay_with_priorities();
	split_between_queues();
	replay_on_ranks();
	// A rank that issues instructions one by one holds up the graphs of others if its queues are full. They take so many.
	const bool has_room = emulated.queue_depth >= 1024;
	constexpr std::uint64_t few_on_a_lane = 10;
	if(has_room) {
		replay_in_segments(few_on_a_lane);
		begin_before_all_is_announced(few_on_a_lane);
	}
#ifndef __SANITIZE_THREAD__
	count_flags(1);
	count_flags(2);
	exchange_many_messages();
#endif
	for(int round = 0; round < rounds; ++round) {
		setup how;
		how.num_ranks = static_cast<std::size_t>(pick({1, 2, 4, 4}));
#ifdef __SANITIZE_THREAD__
		how.num_ranks = 1; // it takes two mappings of the same flags for different memory
#endif
		how.num_devices = 4 / how.num_ranks;
		how.replays = pick({0, 0, 1}) != 0;
		how.reads = static_cast<pattern>(pick({0, 0, 1, 2}));
		how.split_2d = pick({0, 1, 1}) != 0;
		how.border = static_cast<std::uint32_t>(pick({0, 3, 3}));
		how.compute_lanes = static_cast<std::uint32_t>(pick({1, 4, 12}));
		how.oversubscription = static_cast<std::uint32_t>(pick({1, 1, 2}));
		how.overwrites_wait = pick({0, 1, 1, 1}) != 0;
		how.steps = pick({50, 200, 400});
		how.odd_ranks_have_graphs = pick({0, 1}) != 0;
		how.peeks = pick({0, 1}) != 0;
		if(how.replays) how.num_devices = how.num_ranks > 1 ? 1 : how.num_devices; // graphs of ranks with several devices exchange nothing
		how.horizon_step = static_cast<std::uint32_t>(pick({1, 4}));
		how.most_on_a_lane = static_cast<std::uint64_t>(pick({1, 10, 120, 1000'000}));
		if(how.replays && has_room && pick({0, 1}) != 0) {
			how.recorded_steps = 100;
			how.steps *= 10;
			how.most_on_a_lane = std::min(how.most_on_a_lane, few_on_a_lane);
		}
		how.joined_bytes = static_cast<std::size_t>(pick({0, 1 << 16}));
		how.num_priorities = static_cast<queue_priority>(pick({1, 2, 5}));
		how.share = pick({0, 1}) != 0 ? 0.5 : 0.0;
		std::printf(
		    "%zu queues of %zu; %zu ranks, %zu devices each, %s, split %d, border %u, %u parts on %u lanes, overwrites wait %d, %d steps, replays %d of %d, %lu on a lane, horizons after %u, %zu bytes joined, %u priorities, share %.1f\n",
		    emulated.num_queues, emulated.queue_depth, how.num_ranks, how.num_devices, names[static_cast<std::size_t>(how.reads)], how.split_2d ? 2 : 1,
		    how.border, how.oversubscription, how.compute_lanes, int{how.overwrites_wait}, how.steps, int{how.replays}, how.recorded_steps, how.most_on_a_lane,
		    how.horizon_step, how.joined_bytes, how.num_priorities, how.share);
		std::fflush(stdout);
		run(how);
	}
	return 0;
}

} // namespace

int main(const int argc, const char** const argv) {
	const auto argument = [&](const int index, const int otherwise) { return argc > index ? std::atoi(argv[index]) : otherwise; };
#ifndef __SANITIZE_THREAD__
	const auto stop = [] {
		emulated_cuda::configure({});
		stop_a_kernel_that_waits();
		return 1;
	};
	if(!succeeds(stop)) return 1;
#endif
	const auto release = [] {
		emulated_cuda::configure({});
		release_a_busy_device();
		return 1;
	};
	if(!succeeds(release)) return 1;
	std::vector<int> numbers_of_queues{1, 2, 5, 32};
	if(argc > 3) numbers_of_queues = {argument(3, 0)};
	for(const int num_queues : numbers_of_queues) {
		emulated_cuda::settings emulated;
		emulated.instantiation_waits = true;
		emulated.seed = static_cast<std::uint32_t>(argument(2, 1) + num_queues);
		emulated.num_queues = static_cast<std::size_t>(num_queues);
		emulated.queue_depth = static_cast<std::size_t>(argument(4, num_queues % 2 == 0 ? 1024 : 64));
		if(!succeeds([&] { return run_rounds(argument(1, 3), emulated); })) return 1;
	}
	std::puts("all values are right");
	return 0;
}
