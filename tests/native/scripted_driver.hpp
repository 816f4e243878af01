// SPDX-License-Identifier: MIT
// A CUDA driver for tests of a single class. It does nothing by itself: the test says how far the device is, and how the host's memory behaves. The driver in
// emulated/ has devices that work.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "executor/core/backends/cuda/cuda_driver.hpp"
#include "tests/native/check.hpp"

namespace scripted {

namespace cuda = celerity::cuda;

struct event {
	bool measures_time = false;
	bool is_recorded = false;
	double reached = 0; ///< by the device's clock
};

struct device_script {
	/// A recorded event is reached at `now`, after `tick` has been added to it.
	double now = 0;
	double tick = 0;
	/// All events up to then are complete. Each query adds `pace` to it.
	double complete = std::numeric_limits<double>::infinity();
	double pace = 0;
	// The requests to the driver.
	int num_queries = 0;
	int last_priority = 0;
	std::vector<double> waited_for; ///< the times of the events
	std::set<event*> events;        ///< that exist
	std::mutex mutex;               ///< for calls of the driver; tests look when no other thread makes any
};

struct host_script {
	std::atomic<bool> has_memory{true};
	std::atomic<bool> is_stuck{false};
	std::atomic<int> duration_ms{0}; ///< of an allocation
	std::set<void*> pinned;
	std::vector<std::thread::id> pinned_by;
	std::mutex mutex;
};

inline device_script device;
inline host_script host;

inline event& at(const cuda::event handle) {
	auto* const found = reinterpret_cast<event*>(handle);
	check(device.events.contains(found), "an event is used that does not exist");
	return *found;
}

inline cuda::driver make_driver() {
	cuda::driver d{};
	d.context_set_current = [](cuda::context) { return cuda::success; };
	d.stream_create = [](cuda::stream* const out, unsigned, const int priority) {
		*out = reinterpret_cast<cuda::stream>(&device); // any address
		device.last_priority = priority;
		return cuda::success;
	};
	d.stream_destroy = [](cuda::stream) { return cuda::success; };
	d.stream_synchronize = [](cuda::stream) { return cuda::success; };
	d.stream_wait_event = [](cuda::stream, const cuda::event handle, unsigned) {
		const std::lock_guard lock(device.mutex);
		device.waited_for.push_back(at(handle).reached);
		return cuda::success;
	};
	d.event_create = [](cuda::event* const out, const unsigned flags) {
		auto made = std::make_unique<event>();
		made->measures_time = (flags & cuda::event_disable_timing) == 0;
		const std::lock_guard lock(device.mutex);
		device.events.insert(made.get());
		*out = reinterpret_cast<cuda::event>(made.release());
		return cuda::success;
	};
	d.event_destroy = [](const cuda::event handle) {
		const std::lock_guard lock(device.mutex);
		const std::unique_ptr<event> gone(&at(handle));
		device.events.erase(gone.get());
		return cuda::success;
	};
	d.event_record = [](const cuda::event handle, cuda::stream) {
		const std::lock_guard lock(device.mutex);
		at(handle).is_recorded = true;
		at(handle).reached = device.now += device.tick;
		return cuda::success;
	};
	d.event_query = [](const cuda::event handle) {
		const std::lock_guard lock(device.mutex);
		++device.num_queries;
		const bool is_complete = at(handle).reached <= device.complete;
		device.complete += device.pace;
		return is_complete ? cuda::success : cuda::error_not_ready;
	};
	d.event_elapsed = [](float* const out, const cuda::event from, const cuda::event to) {
		const std::lock_guard lock(device.mutex);
		check(at(from).measures_time && at(to).measures_time, "an event without time is asked for its time");
		check(at(from).is_recorded && at(to).is_recorded, "an event is asked for its time that was never recorded");
		*out = static_cast<float>(at(to).reached - at(from).reached);
		return cuda::success;
	};
	d.host_allocate = [](void** const out, const std::size_t size_bytes, unsigned) {
		std::this_thread::sleep_for(std::chrono::milliseconds(host.duration_ms));
		while(host.is_stuck) std::this_thread::yield();
		if(!host.has_memory) return cuda::error_out_of_memory;
		const std::lock_guard lock(host.mutex);
		*out = std::aligned_alloc(4096, size_bytes);
		host.pinned.insert(*out);
		host.pinned_by.push_back(std::this_thread::get_id());
		return cuda::success;
	};
	d.host_free = [](void* const address) {
		const std::lock_guard lock(host.mutex);
		check(host.pinned.erase(address) == 1, "memory is given back once");
		std::free(address);
		return cuda::success;
	};
	return d;
}

inline const cuda::driver driver = make_driver();

} // namespace scripted
