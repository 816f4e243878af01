// SPDX-License-Identifier: MIT
// A flag may be written on the stream of what it announces only as long as nothing else has got there, or is about to; its own lane then follows that stream.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

#include "executor/core/backends/cuda/cuda_lane.hpp"

using namespace celerity;

namespace {

void check(const bool condition, const char* const what) {
	if(condition) return;
	std::fprintf(stderr, "FAILED: %s\n", what);
	std::abort();
}

std::atomic<int> last_priority{0};
// The device has passed the first `num_passed` events that were recorded.
std::atomic<int> num_recorded{0};
std::atomic<int> num_passed{1 << 30};
std::atomic<int> num_queries{0};
// By how many more with every question.
std::atomic<int> pace{0};

// Which events streams were told to wait for, by when they were recorded.
std::vector<int> waited_for;

cuda::driver make_driver() {
	cuda::driver d{};
	d.context_set_current = [](cuda::context) { return cuda::success; };
	d.stream_create = [](cuda::stream*, unsigned, const int priority) {
		last_priority = priority;
		return cuda::success;
	};
	d.stream_destroy = [](cuda::stream) { return cuda::success; };
	d.event_create = [](cuda::event* const out, unsigned) {
		*out = reinterpret_cast<cuda::event>(new int(0));
		return cuda::success;
	};
	d.event_destroy = [](const cuda::event event) {
		delete reinterpret_cast<int*>(event);
		return cuda::success;
	};
	d.event_record = [](const cuda::event event, cuda::stream) {
		*reinterpret_cast<int*>(event) = ++num_recorded;
		return cuda::success;
	};
	d.stream_wait_event = [](cuda::stream, const cuda::event event, unsigned) {
		waited_for.push_back(*reinterpret_cast<int*>(event));
		return cuda::success;
	};
	d.event_query = [](const cuda::event event) {
		++num_queries;
		check(event != nullptr, "an event was asked for that there is not");
		const bool has_passed = *reinterpret_cast<int*>(event) <= num_passed;
		num_passed += pace;
		return has_passed ? cuda::success : cuda::error_not_ready;
	};
	return d;
}

const cuda::driver driver = make_driver();

void check_append() {
	cuda_lane lane(driver, nullptr, 0, -3);
	check(last_priority == -3, "the stream gets the priority of its lane");
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
	num_recorded = num_passed = 0;
	for(std::uint64_t sequence = 1; sequence <= 200; ++sequence) lane.record(sequence); // more than there are events at first
	const auto expect = [&](const int passed, const std::uint64_t completed, const int queries, const char* const what) {
		num_passed = passed;
		num_queries = 0;
		check(lane.poll() == completed && lane.completed() == completed, what);
		check(num_queries <= queries, what);
	};
	expect(0, 0, 1, "nothing is complete");
	expect(1, 1, 3, "the first one is");
	expect(4, 4, 5, "three more are");
	expect(199, 199, 197, "all but the last one are");
	expect(200, 200, 1, "the last one is");
	for(std::uint64_t sequence = 201; sequence <= 250; ++sequence) lane.record(sequence);
	expect(250, 250, 2, "all are");
	expect(250, 250, 0, "there is nothing left to ask about");
	num_passed = 1 << 30;
}

// The device does not stand still between two questions.
void check_poll_of_a_busy_device() {
	for(const int events : {1, 2, 3, 5, 60}) {
		for(const int begin : {0, 1, 2, 4}) {
			for(pace = 1; pace <= 4; ++pace) {
				cuda_lane lane(driver, nullptr, 0, 0);
				num_recorded = 0;
				num_passed = begin;
				for(std::uint64_t sequence = 1; sequence <= static_cast<std::uint64_t>(events); ++sequence) lane.record(sequence);
				std::uint64_t completed = 0;
				for(int looks = 0; looks < 200 && completed < static_cast<std::uint64_t>(events); ++looks) {
					const std::uint64_t now = lane.poll();
					check(now >= completed && now <= lane.recorded(), "neither back, nor beyond what was recorded");
					check(now <= static_cast<std::uint64_t>(num_passed), "no further than the device is");
					completed = now;
				}
				check(completed == static_cast<std::uint64_t>(events), "everything is complete in the end");
			}
		}
	}
	pace = 0;
	num_passed = 1 << 30;
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
	num_recorded = num_passed = 0;
	waited_for.clear();
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
	num_passed = 1;
	num_queries = 0;
	check(lane.poll() == 0 && num_queries == 0, "a lane that follows another one asks no device if somebody else does");
	check(lane.poll() == 1, "but otherwise it does, and the first one is complete");
	check(producer.poll() == 1 && lane.poll() == 1, "as the other lane says");
	check(producer.poll() == 1, "which has been asked for again");
	num_passed = 3;
	check(other.poll() == 1 && lane.poll() == 1, "the third one is, but not the second one");
	check(producer.poll() == 2 && lane.poll() == 3, "all are");

	producer.record(3); // event 4
	producer.record(4);
	lane.follow(4, producer, 3);
	lane.follow(5, producer, 4);
	lane.follow(6, other, 1);
	lane.catch_up();
	check(waited_for == std::vector{5}, "the stream waits for the last of each that is not complete");
	lane.record(7); // event 6
	lane.follow(8, producer, 4);
	lane.catch_up();
	lane.catch_up();
	check(waited_for == std::vector{5, 5}, "once");
	lane.record(9);  // event 7
	lane.record(10); // event 8
	num_passed = 7;
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
	num_passed = 1 << 30;
	producer.poll();
	check(lane.poll() == 11, "everything is complete in the end");
}

// More positions in flight than there were events at first, with and without one.
void check_follow_many() {
	num_recorded = num_passed = 0;
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
	for(num_passed = 0; num_passed <= num_recorded; ++num_passed) {
		const auto of_producer = producer.poll();
		const auto now = lane.poll();
		check(now >= completed && now <= of_producer, "in order, and behind the producer");
		completed = now;
	}
	check(completed == 400, "everything is complete in the end");
	num_passed = 1 << 30;
}

} // namespace

int main() {
	check_append();
	check_follow();
	check_follow_many();
	check_poll();
	check_poll_of_a_busy_device();
	check_concurrently();
	std::printf("lane: ok\n");
}
