// SPDX-License-Identifier: MIT
// A flag may be written on the stream of the producer that it announces only as long as no other work is there or about to come. The flag's own lane then follows
// that stream.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

#include "executor/core/backends/cuda/cuda_lane.hpp"
#include "tests/native/scripted_driver.hpp"

using namespace celerity;
using scripted::device;
using scripted::driver;

namespace {

constexpr double everything = std::numeric_limits<double>::infinity();

void check_append() {
	cuda_lane lane(driver, nullptr, 0, -3);
	check(device.last_priority == -3, "the stream gets the priority of its lane");
	int appended = 0;
	const auto append = [&] { ++appended; };
	lane.record(1);
	check(lane.append_behind(1, append) && appended == 1, "nothing has followed");
	check(lane.append_behind(1, append) && appended == 2, "a second flag follows the first one");
	lane.claim(2);
	check(!lane.append_behind(1, append), "somebody is about to put waits on the stream");
	lane.record(2);
	check(!lane.append_behind(1, append), "something has followed");
	check(lane.append_behind(2, append) && appended == 3, "which is the last one now");
	check(lane.poll() == 2, "both positions are complete");
}

// As few questions as possible: they cost as much as launches.
void check_poll() {
	cuda_lane lane(driver, nullptr, 0, 0);
	device.now = device.complete = 0;
	for(std::uint64_t sequence = 1; sequence <= 200; ++sequence) lane.record(sequence); // more than there are events at first
	const auto expect = [&](const int passed, const std::uint64_t completed, const int queries, const char* const what) {
		device.complete = passed;
		device.num_queries = 0;
		check(lane.poll() == completed && lane.completed() == completed, what);
		check(device.num_queries <= queries, what);
	};
	expect(0, 0, 1, "nothing is complete");
	expect(1, 1, 3, "the first one is");
	expect(4, 4, 5, "three more are");
	expect(199, 199, 197, "all but the last one are");
	expect(200, 200, 1, "the last one is");
	for(std::uint64_t sequence = 201; sequence <= 250; ++sequence) lane.record(sequence);
	expect(250, 250, 2, "all are");
	expect(250, 250, 0, "there is nothing left to ask about");
	device.complete = everything;
}

// The device does not stand still between two questions.
void check_poll_of_a_busy_device() {
	for(const int events : {1, 2, 3, 5, 60}) {
		for(const int begin : {0, 1, 2, 4}) {
			for(device.pace = 1; device.pace <= 4; ++device.pace) {
				cuda_lane lane(driver, nullptr, 0, 0);
				device.now = 0;
				device.complete = begin;
				for(std::uint64_t sequence = 1; sequence <= static_cast<std::uint64_t>(events); ++sequence) lane.record(sequence);
				std::uint64_t completed = 0;
				for(int looks = 0; looks < 200 && completed < static_cast<std::uint64_t>(events); ++looks) {
					const std::uint64_t now = lane.poll();
					check(now >= completed && now <= lane.recorded(), "neither back, nor beyond what was recorded");
					check(now <= static_cast<std::uint64_t>(device.complete), "no further than the device is");
					completed = now;
				}
				check(completed == static_cast<std::uint64_t>(events), "everything is complete in the end");
			}
		}
	}
	device.pace = 0;
	device.complete = everything;
}

// Whatever claims the lane meanwhile, an appended flag lies before the work that follows.
void check_concurrently() {
	cuda_lane lane(driver, nullptr, 0, 0);
	lane.record(1);
	std::atomic<bool> has_claimed{false};
	for(std::uint64_t sequence = 2; sequence < 2000; ++sequence) {
		has_claimed = false;
		std::thread launcher([&] {
			lane.claim(sequence);
			has_claimed = true;
			lane.record(sequence);
		});
		bool was_claimed = false;
		const bool is_behind = lane.append_behind(sequence - 1, [&] { was_claimed = has_claimed; });
		check(!is_behind || !was_claimed, "a flag got behind a claim");
		launcher.join();
	}
}

// A position that follows another lane is complete with it, and not before those in front of it; nothing is put on the stream for it.
void check_follow() {
	device.now = device.complete = 0;
	device.waited_for.clear();
	cuda_lane producer(driver, nullptr, 0, 0);
	cuda_lane other(driver, nullptr, 0, 0);
	cuda_lane lane(driver, nullptr, 0, 0);
	producer.record(1); // event 1
	producer.record(2);
	other.record(1); // event 3
	lane.follow(1, producer, 1);
	lane.follow(2, producer, 2);
	lane.follow(3, other, 1);
	check(lane.recorded() == 3 && lane.poll() == 0, "the others have not got there");
	check(producer.poll() == 0, "nor has the first of them");
	device.complete = 1;
	device.num_queries = 0;
	check(lane.poll() == 0 && device.num_queries == 0, "a lane that follows another one asks no device if somebody else does");
	check(lane.poll() == 1, "but otherwise it does, and the first one is complete");
	check(producer.poll() == 1 && lane.poll() == 1, "as the other lane says");
	check(producer.poll() == 1, "which has been asked for again");
	device.complete = 3;
	check(other.poll() == 1 && lane.poll() == 1, "the third one is, but not the second one");
	check(producer.poll() == 2 && lane.poll() == 3, "all are");

	producer.record(3); // event 4
	producer.record(4);
	lane.follow(4, producer, 3);
	lane.follow(5, producer, 4);
	lane.follow(6, other, 1);
	lane.catch_up();
	check(device.waited_for == std::vector{5.0}, "the stream waits for the last of each that is not complete");
	lane.record(7); // event 6
	lane.follow(8, producer, 4);
	lane.catch_up();
	lane.catch_up();
	check(device.waited_for == std::vector{5.0, 5.0}, "once");
	lane.record(9); // event 7
	lane.record(10); // event 8
	device.complete = 7;
	check(lane.poll() == 3, "what follows an incomplete one is not complete");
	check(producer.poll() == 4 && lane.poll() == 9, "up to what the device has passed");
	check(!lane.make_wait(nullptr, 8), "there is nothing to wait for");
	lane.follow(11, producer, 5);
	producer.record(5);
	bool is_refused = false;
	try {
		lane.make_wait(nullptr, 11);
	} catch(const std::logic_error&) { is_refused = true; }
	check(is_refused, "there is no event to wait for");
	device.complete = everything;
	producer.poll();
	check(lane.poll() == 11, "everything is complete in the end");
}

// More positions in flight than there were events at first, with and without one.
void check_follow_many() {
	device.now = device.complete = 0;
	cuda_lane producer(driver, nullptr, 0, 0);
	cuda_lane lane(driver, nullptr, 0, 0);
	for(std::uint64_t sequence = 1; sequence <= 400; ++sequence) {
		producer.record(sequence); // an odd event
		if(sequence % 3 == 0) {
			lane.follow(sequence, producer, sequence);
		} else {
			lane.record(sequence);
		}
	}
	std::uint64_t completed = 0;
	for(device.complete = 0; device.complete <= device.now; ++device.complete) {
		const auto of_producer = producer.poll();
		const auto now = lane.poll();
		check(now >= completed && now <= of_producer, "in order, and behind the producer");
		completed = now;
	}
	check(completed == 400, "everything is complete in the end");
	device.complete = everything;
}

} // namespace

int main() {
	device.tick = 1; // the device's clock counts recorded events
	check_append();
	check_follow();
	check_follow_many();
	check_poll();
	check_poll_of_a_busy_device();
	check_concurrently();
	std::printf("lane: ok\n");
}
