// SPDX-License-Identifier: MIT
// The cost of the out-of-order engine per instruction, alone: submit + next + complete.
// Built with the native tests, which do not run it.
#include <array>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "executor/core/engine/out_of_order_engine.hpp"

using namespace celerity;

namespace {

/// `width` chains of kernels, a copy to a neighbour's chain after each step, a horizon every `horizon_step` steps: the shape of a stencil.
struct graph {
	struct node {
		std::vector<instruction_id> dependencies;
		issue_policy policy = issue_policy::plain;
		std::uint32_t lane_class = 0;
		instruction_key key;
	};
	std::vector<node> nodes; ///< id = index + 1

	instruction_id add(node n) {
		nodes.push_back(std::move(n));
		return instruction_id(nodes.size());
	}
};

graph make_chains(const std::uint32_t num_devices, const int steps) {
	graph g;
	std::vector<instruction_id> last(num_devices, instruction_id(0));
	instruction_id horizon(0);
	for(int step = 0; step < steps; ++step) {
		for(std::uint32_t d = 0; d < num_devices; ++d) {
			std::vector<instruction_id> dependencies;
			if(last[d].value != 0) dependencies.push_back(last[d]);
			last[d] = g.add({dependencies, issue_policy::plain, d, {task_id(static_cast<std::uint64_t>(step)), instruction_key::phase_type::work}});
		}
		if(step % 4 == 3) {
			std::vector<instruction_id> dependencies(last);
			if(horizon.value != 0) dependencies.push_back(horizon);
			horizon = g.add({dependencies, issue_policy::clock, 0, {task_id(static_cast<std::uint64_t>(step)), instruction_key::phase_type::work}});
		}
	}
	return g;
}

/// On one device `width` kernels that have nothing to do with each other, then one that needs all of them, again and again.
graph make_forks(const std::uint32_t width, const int steps) {
	graph g;
	instruction_id join(0);
	for(int step = 0; step < steps; ++step) {
		const instruction_key key{task_id(static_cast<std::uint64_t>(step)), instruction_key::phase_type::work};
		std::vector<instruction_id> before;
		if(join.value != 0) before.push_back(join);
		std::vector<instruction_id> kernels;
		for(std::uint32_t k = 0; k < width; ++k) kernels.push_back(g.add({before, issue_policy::plain, 0, key}));
		join = g.add({kernels, issue_policy::plain, 0, key});
		if(step % 4 == 3) join = g.add({{join}, issue_policy::clock, 0, key});
	}
	return g;
}

graph make_stencil(const std::uint32_t num_devices, const int steps) {
	graph g;
	const std::uint32_t first_copy_class = num_devices;
	std::vector<instruction_id> last(num_devices, instruction_id(0));
	std::vector<std::array<instruction_id, 2>> halos(num_devices, {instruction_id(0), instruction_id(0)});
	instruction_id horizon(0);
	for(int step = 0; step < steps; ++step) {
		const auto task = task_id(static_cast<std::uint64_t>(step));
		const auto previous = last;
		for(std::uint32_t d = 0; d < num_devices; ++d) {
			std::vector<instruction_id> dependencies;
			if(previous[d].value != 0) dependencies = {previous[d], halos[d][0], halos[d][1]};
			last[d] = g.add({dependencies, issue_policy::plain, d, {task, instruction_key::phase_type::work}});
		}
		for(std::uint32_t d = 0; d < num_devices; ++d) {
			for(const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
				const std::uint32_t neighbour = (d + (side == 0 ? num_devices - 1 : 1)) % num_devices;
				std::vector<instruction_id> dependencies{last[neighbour]};
				if(neighbour != d) dependencies.push_back(last[d]);
				halos[d][side] = g.add({dependencies, issue_policy::plain, first_copy_class + d, {task, instruction_key::phase_type::work}});
			}
		}
		if(step % 4 == 3) {
			std::vector<instruction_id> dependencies;
			for(std::uint32_t d = 0; d < num_devices; ++d) dependencies.insert(dependencies.end(), halos[d].begin(), halos[d].end());
			if(horizon.value != 0) dependencies.push_back(horizon);
			horizon = g.add({dependencies, issue_policy::clock, 0, {task, instruction_key::phase_type::work}});
		}
	}
	return g;
}

/// Processor time: the machine may have other things to do.
double thread_nanoseconds() {
	timespec now{};
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

/// Keeps about `window` instructions in flight; lanes complete in order, one after the other.
double nanoseconds_per_instruction(const graph& g, const std::vector<lane_class>& classes, const bool track_keys, const std::size_t window) {
	out_of_order_engine engine(classes, {track_keys ? remote_waits::pulls : remote_waits::none});
	std::vector<out_of_order_engine::completed_instruction> completed;
	std::size_t num_completed = 0;
	std::size_t next_submit = 0;
	lane_index next_lane = 0;
	issue item;
	const double begin = thread_nanoseconds();
	while(num_completed < g.nodes.size()) {
		while(next_submit < g.nodes.size() && engine.num_live() < window) {
			const auto& n = g.nodes[next_submit++];
			engine.submit({.id = instruction_id(next_submit), .key = n.key, .dependencies = n.dependencies, .policy = n.policy, .lane_class = n.lane_class});
		}
		while(engine.next(item)) {}
		const auto& lanes = engine.lanes();
		for(lane_index i = 0; i < lanes.num_lanes(); ++i, next_lane = (next_lane + 1) % static_cast<lane_index>(lanes.num_lanes())) {
			if(lanes.in_flight(next_lane) > 0) engine.complete_lane(next_lane, lanes.completed(next_lane) + 1);
		}
		engine.take_completed(completed);
		num_completed += completed.size();
	}
	return (thread_nanoseconds() - begin) / static_cast<double>(g.nodes.size());
}

std::vector<lane_class> make_classes(const std::uint32_t num_devices, const std::uint32_t compute_lanes) {
	std::vector<lane_class> classes;
	for(std::uint32_t d = 0; d < num_devices; ++d) classes.push_back({lane_kind::compute, device_id(d), compute_lanes, 0});
	for(std::uint32_t d = 0; d < num_devices; ++d) classes.push_back({lane_kind::peer, device_id(d), 1, 0});
	return classes;
}

} // namespace

int main() {
	std::printf("%-10s %8s %6s %6s %12s\n", "graph", "devices", "lanes", "keys", "ns/instr");
	for(const std::uint32_t devices : {1U, 4U, 8U}) {
		for(const std::uint32_t lanes : {1U, 12U}) {
			for(const bool keys : {false, true}) {
				for(const auto& [name, g] :
				    {std::pair{"forks", make_forks(10, 30'000)}, std::pair{"chains", make_chains(devices, 400'000 / static_cast<int>(devices))},
				        std::pair{"stencil", make_stencil(devices, 130'000 / static_cast<int>(devices))}}) {
					std::printf("%-10s %8u %6u %6s %12.0f\n", name, devices, devices * (lanes + 1), keys ? "yes" : "no",
					    nanoseconds_per_instruction(g, make_classes(devices, lanes), keys, 1000));
				}
			}
		}
	}
}
