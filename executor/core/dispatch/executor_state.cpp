// SPDX-License-Identifier: MIT
#include "executor_state.hpp"

#include <stdexcept>
#include <thread>
#include <utility>

namespace celerity {

namespace {

remote_waits remote_waits_of(const executor_options& options) {
	if(!options.direct) return remote_waits::none;
	return options.overwrites_wait ? remote_waits::answers : remote_waits::pulls;
}

std::unique_ptr<backend> require(std::unique_ptr<backend> made) {
	if(made == nullptr) throw std::invalid_argument("an executor needs a backend");
	return made;
}

} // namespace

// Application, scheduler and executor threads, and one per device.
bool has_free_cores(const executor_options& options) { return !options.oversubscribed && std::thread::hardware_concurrency() >= 3 + options.num_devices; }

executor_state::executor_state(const executor_options& given, std::unique_ptr<backend> made, executor_inbox& inbox)
    : options(given), trace(given.trace.get()), devices(require(std::move(made))), direct_lanes(devices->direct()), graphs(devices->graphs()),
      launcher(devices->launcher()), calls(given.num_devices, *devices, inbox, trace),
      engine(devices->lane_classes(), {remote_waits_of(given), given.lane_events, given.kernel_order}), network(events.events()),
      transfers(given.rank, *devices, allocations, statistics, network, given.program.get(), trace, given.least_direct_bytes),
      rules{*devices, launches, transfers.direct(), given.num_ranks, given.num_devices} {
	if(given.num_devices == 0 || given.num_devices > max_memories - first_device_memory_value) throw std::invalid_argument("a rank has 1 to 62 devices");
	statistics.memories.resize(first_device_memory_value + given.num_devices);
}

} // namespace celerity
