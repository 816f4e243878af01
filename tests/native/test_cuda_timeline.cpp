// SPDX-License-Identifier: MIT
// A lane and its timeline on a driver that only pretends: streams whose clock differs from the host's, and events that remember when they were reached.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>

#include "executor/core/backends/cuda/cuda_lane.hpp"
#include "executor/core/backends/cuda/cuda_timeline.hpp"
#include "tests/native/scripted_driver.hpp"

using namespace celerity;
using scripted::device;
using scripted::driver;

namespace {

double host_ms() { return 1e-6 * static_cast<double>(now_ns()); }

/// The device's clock is ahead of the host's by this much.
double ahead_ms = 0;

struct lane_on_a_device {
	trace_recorder trace{1 << 16};
	cuda_timeline timeline;
	cuda_lane lane;
	std::uint64_t last = 0;

	lane_on_a_device() : timeline((device.now = device.complete = host_ms() + ahead_ms, driver), nullptr, trace), lane(driver, nullptr, 0, 0, &timeline, 7) {}

	/// Work that begins and ends at these times of the host.
	void put(const double begin_ms, const double end_ms) {
		device.now = begin_ms + ahead_ms;
		lane.begin(++last);
		device.now = end_ms + ahead_ms;
		lane.record(last);
	}
	void complete_all() {
		device.complete = 1e300;
		check(lane.poll() == last, "not all is complete");
	}
};

/// The error of the begin of the first of two pieces of work.
double error_of_begin_ms(const double offset_ms) {
	ahead_ms = offset_ms;
	lane_on_a_device gpu;
	const double now_ms = host_ms();
	gpu.put(now_ms + 0.2, now_ms + 1.2);
	gpu.put(now_ms + 1.2, now_ms + 2.7);
	while(host_ms() < now_ms + 5) {}
	gpu.complete_all();
	const auto found = gpu.trace.events();
	check(found.size() == 2, "one event per position");
	const auto first = std::get<traced_lane>(found[0].action);
	check(first.lane == 7 && first.position == 1 && std::get<traced_lane>(found[1].action).position == 2, "lane and position are told");
	check(std::abs(1e-6 * static_cast<double>(found[1].end_ns - found[1].start_ns) - 1.5) < 1e-3, "the duration is measured");
	ahead_ms = 0;
	return std::abs(1e-6 * static_cast<double>(found[0].start_ns) - now_ms - 0.2);
}

void check_times_are_those_of_the_host() {
	for(const double offset_ms : {0.0, 1e6, -1e6}) {
		double error_ms = 1e300; // this thread may lose its core at the moment when the clocks are compared
		for(int attempt = 0; attempt < 20 && error_ms > 0.1; ++attempt) error_ms = std::min(error_ms, error_of_begin_ms(offset_ms));
		check(error_ms <= 0.1, "the begin is that of the host's clock");
	}
}

void check_growth_keeps_what_is_in_flight() {
	lane_on_a_device gpu;
	const double now_ms = host_ms();
	constexpr int count = 1000;
	for(int i = 0; i < count; ++i) gpu.put(now_ms + 100 + i, now_ms + 100 + i + 0.5);
	device.complete = 0;
	check(gpu.lane.poll() == 0, "nothing is complete");
	check(gpu.lane.make_wait(nullptr, 500), "what is in flight can be waited for");
	gpu.complete_all();
	const auto found = gpu.trace.events();
	check(found.size() == count, "nothing is lost");
	for(const auto& event : found) check(std::abs(static_cast<double>(event.end_ns - event.start_ns) - 5e5) < 2e4, "every position has its own times");
}

void check_a_clock_that_drifts_is_held() {
	lane_on_a_device gpu;
	for(int i = 0; i < 60; ++i) {
		ahead_ms += i < 30 ? 0.5 : -0.5; // first it gains on the host's clock, then it loses
		const double before_ms = host_ms();
		gpu.put(before_ms + 0.1, before_ms + 0.3);
		const double put_ms = host_ms(); // later than planned, if this thread has lost its core
		while(host_ms() < put_ms + 0.4) {}
		gpu.complete_all();
		const double after_ms = host_ms();
		const auto event = gpu.trace.events().back();
		check(std::get<traced_lane>(event.action).position == gpu.last, "events are found in their order");
		check(1e-6 * static_cast<double>(event.start_ns) >= before_ms - 1e-3, "nothing begins before it is issued");
		check(1e-6 * static_cast<double>(event.end_ns) <= after_ms + 1e-3, "nothing ends after it is complete");
	}
	ahead_ms = 0;
}

// A difference of an hour, told as a float in milliseconds, is right to a quarter of one only.
void check_the_reference_is_renewed() {
	device.now = device.complete = host_ms();
	trace_recorder trace(1 << 16);
	cuda_timeline timeline(driver, nullptr, trace, 1);
	cuda_lane lane(driver, nullptr, 0, 0, &timeline);
	double last_ms = 0;
	std::int64_t last_ns = 0;
	int num_wrong = 0; // this thread may lose its core between looking at its clock and putting work on the lane
	constexpr int count = 200;
	for(std::uint64_t i = 1; i <= count; ++i) {
		const double begin_ms = host_ms() + 0.05;
		device.now = begin_ms;
		lane.begin(i);
		device.now = begin_ms + 0.1;
		lane.record(i);
		while(host_ms() < begin_ms + 0.5) {}
		device.complete = 1e300;
		check(lane.poll() == i, "not all is complete");
		const auto start_ns = trace.events().back().start_ns;
		const double error_ms = 1e-6 * static_cast<double>(start_ns - last_ns) - (begin_ms - last_ms);
		num_wrong += i > 1 && std::abs(error_ms) > 1e-3;
		last_ms = begin_ms;
		last_ns = start_ns;
	}
	check(num_wrong < count / 4, "a new reference has another time than the old one");
}

void check_nothing_is_recorded_without_a_timeline() {
	cuda_lane lane(driver, nullptr, 0, 0);
	lane.begin(1);
	check(device.events.empty(), "an event for nothing");
	lane.record(1);
	device.complete = 1e300;
	check(lane.poll() == 1 && device.events.size() == 1 && !(*device.events.begin())->measures_time, "events measure time although nobody asks");
}

} // namespace

int main() {
	check_times_are_those_of_the_host();
	check_growth_keeps_what_is_in_flight();
	check_a_clock_that_drifts_is_held();
	check_the_reference_is_renewed();
	check_nothing_is_recorded_without_a_timeline();
	check(device.events.empty(), "events are left over");
	std::printf("CUDA timeline: all right\n");
}
