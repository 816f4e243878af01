// SPDX-License-Identifier: MIT
// The executor under all its threads, for the thread and address sanitizers: random programs of copies and kernels over several devices, with a
// scheduler thread that drops old instructions, launcher threads, host-task threads, an unreliable network, spectators, failures and stops.
// Arguments: [rounds] [seed]
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "executor/core/loop/executor_loop.hpp"
#include "scheduler/core/base/arena.hpp"

using namespace celerity;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t num_devices = 3;
/// Small enough to be copied inline, or large enough for the copy lanes.
constexpr std::size_t num_elements[2] = {64, 40'000};

[[noreturn]] void die(const char* const what) {
	std::fprintf(stderr, "FAILED: %s\n", what);
	std::abort();
}

box elements(const std::size_t count) { return box::full(point{{static_cast<coordinate>(count), 1, 1}}); }

/// Plans a random program and knows its result: every array is uniform, so one number stands for it.
class planner {
  public:
	planner(executor_loop& executor, const std::uint32_t seed) : m_executor(executor), m_random(seed), m_count(num_elements[seed % 2]) {
		m_arenas.push_back({task_id(0), std::make_unique<arena>(m_blocks)});
		for(std::uint8_t memory = host_memory.value; memory < first_device_memory_value + num_devices; ++memory) {
			m_arrays.push_back({{memory_id(memory), 1}, 0, {}, {}});
		}
	}

	/// The executor has reached a horizon or epoch: instructions before the one before it are dropped, as the scheduler does.
	void notify_reached(const task_id task) {
		const std::lock_guard lock(m_mutex);
		m_reached.push_back(task);
	}

	void run(const int steps, double* const result) {
		for(auto& array : m_arrays) {
			emit(alloc_instruction{array.allocation, m_count * sizeof(double), alignof(double), buffer_id(1), elements(m_count), {}}, {}, array);
		}
		const auto raw = m_executor.allocations().register_user_memory(result, elements(m_count));
		array user{{user_memory, raw}, 0, {}, {}};
		copy(user, m_arrays[0]);
		for(auto& array : m_arrays) {
			if(&array != &m_arrays[0]) copy(m_arrays[0], array);
		}
		for(int step = 0; step < steps; ++step) {
			random_step();
			if(step % 7 == 6) flush(step);
		}
		copy(m_arrays[0], user);
		expected = m_arrays[0].value;
		emit(fence_instruction{submission_id(1)}, {user.last_writer}, user);
		for(auto& array : m_arrays) {
			std::vector<instruction_id> dependencies = array.readers;
			dependencies.push_back(array.last_writer);
			emit(free_instruction{array.allocation, m_count * sizeof(double)}, dependencies, array);
		}
		finish();
	}

	double expected = 0;

  private:
	struct array {
		allocation_id allocation;
		double value = 0;
		instruction_id last_writer;
		std::vector<instruction_id> readers;
	};
	struct generation {
		task_id bounded_by;
		std::unique_ptr<arena> storage;
	};

	executor_loop& m_executor;
	std::mt19937 m_random;
	std::size_t m_count;
	arena_block_pool m_blocks;
	std::deque<generation> m_arenas;
	std::vector<array> m_arrays; // host memory, then devices
	std::vector<instruction_id> m_front;
	instruction_batch m_batch;
	std::uint64_t m_last_instruction = 0;
	std::uint64_t m_last_task = 0;
	std::mutex m_mutex;
	std::vector<task_id> m_reached;

	/// Some programs have a single queue.
	const std::size_t m_num_priorities = m_random() % 3 == 0 ? 1 : max_queue_priority + 1;

	std::size_t pick(const std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(m_random); }

	template <typename Operation>
	instruction_id emit(const Operation& operation, std::vector<instruction_id> dependencies, array& written) {
		auto& storage = *m_arenas.back().storage;
		std::erase(dependencies, instruction_id(0));
		std::sort(dependencies.begin(), dependencies.end());
		dependencies.erase(std::unique(dependencies.begin(), dependencies.end()), dependencies.end());
		const instruction_id id(++m_last_instruction);
		m_batch.instructions.push_back(storage.create<instruction>(id, instruction_key{task_id(m_last_task), {}},
		    static_cast<instruction_priority>(pick(3)) + priority_of_queue(static_cast<queue_priority>(pick(m_num_priorities))), storage.copy(dependencies),
		    instruction_operation(operation)));
		for(const auto dependency : dependencies) std::erase(m_front, dependency);
		m_front.push_back(id);
		written.last_writer = id;
		written.readers.clear();
		return id;
	}

	void copy(array& from, array& to) {
		auto dependencies = to.readers;
		dependencies.push_back(to.last_writer);
		dependencies.push_back(from.last_writer);
		auto& storage = *m_arenas.back().storage;
		const auto boxes = storage.copy(std::vector<box>{elements(m_count)});
		const auto id =
		    emit(copy_instruction{from.allocation, 0, to.allocation, 0, boxes, sizeof(double), copy_reason::coherence, buffer_id(1)}, dependencies, to);
		from.readers.push_back(id);
		to.value = from.value;
	}

	void increment(array& target) {
		auto dependencies = target.readers;
		dependencies.push_back(target.last_writer);
		auto& storage = *m_arenas.back().storage;
		const auto accesses = storage.copy(std::vector<access_binding>{
		    {buffer_id(1), access_mode::read_write, target.allocation, elements(m_count), storage.copy(std::vector<box>{elements(m_count)})}});
		if(is_device_memory(target.allocation.memory)) {
			emit(device_kernel_instruction{device_of(target.allocation.memory), submission_id(++m_last_task), elements(m_count), accesses, {}}, dependencies,
			    target);
		} else {
			emit(host_task_instruction{submission_id(++m_last_task), elements(m_count), accesses}, dependencies, target);
		}
		target.value += 1;
	}

	void random_step() {
		const std::size_t a = pick(m_arrays.size());
		const std::size_t b = pick(m_arrays.size());
		if(a == b || pick(2) == 0) {
			increment(m_arrays[a]);
		} else {
			copy(m_arrays[a], m_arrays[b]);
		}
	}

	/// Ends a generation with a horizon, hands the batch over, and drops the nodes that may go.
	void flush(const int step) {
		const task_id task(++m_last_task);
		array none;
		const auto front = m_front;
		emit(horizon_instruction{task, submission_id(m_last_task)}, front, none);
		if(step % 3 == 0) {
			for(auto& array : m_arrays) array = {array.allocation, array.value, none.last_writer, {}};
		}
		m_arenas.back().bounded_by = task;
		m_executor.submit(std::move(m_batch));
		m_batch = {};
		m_arenas.push_back({task_id(0), std::make_unique<arena>(m_blocks)});

		const std::lock_guard lock(m_mutex);
		for(const auto reached : m_reached) {
			// Once horizon k + 1 is reached, what lies before horizon k can go.
			while(m_arenas.size() > 2 && m_arenas[1].bounded_by.value != 0 && m_arenas[1].bounded_by <= reached) m_arenas.pop_front();
		}
		m_reached.clear();
		while(m_arenas.size() > 60) die("generations pile up"); // a throttled scheduler would block; this one only looks
	}

	void finish() {
		array none;
		emit(epoch_instruction{task_id(++m_last_task), submission_id(2), epoch_action::shutdown}, m_front, none);
		m_executor.submit(std::move(m_batch));
	}
};

enum class ending { shutdown, failure, stop };

void add_one(const std::vector<bound_access>& accesses) {
	for(const auto& access : accesses) {
		auto* const data = static_cast<double*>(access.address);
		for(coordinate i = 0; i < access.allocated_box.extent(0); ++i) data[i] += 1;
	}
}

std::vector<std::thread> start_workers(executor_loop& executor) {
	std::vector<std::thread> threads;
	for(std::uint32_t d = 0; d < num_devices; ++d) {
		threads.emplace_back([&executor, d] {
			while(const auto call = executor.next_kernel(device_id(d))) {
				add_one(call->accesses);
				executor.calls().kernel_returned(call->ticket);
			}
		});
	}
	for(int i = 0; i < 2; ++i) {
		threads.emplace_back([&executor] {
			while(const auto call = executor.calls().next_host_task()) {
				add_one(std::get<host_task_call>(*call).accesses);
				executor.calls().host_task_done(std::get<host_task_call>(*call).ticket);
			}
		});
	}
	return threads;
}

void run_program(const std::uint32_t seed, const ending how) {
	executor_loop executor(executor_options{1, rank_id(0), num_devices, seed % 3 == 0, seed % 5 == 0, seed % 7 == 0});
	auto plan = std::make_unique<planner>(executor, seed);
	executor.set_callbacks({.progress = [&](const task_id task, bool) { plan->notify_reached(task); }, .load = {}, .freed = {}});
	std::vector<double> result(num_elements[seed % 2], 0.0);
	std::atomic<bool> is_over{false};

	auto workers = start_workers(executor);
	std::thread scheduler([&] {
		executor.set_scheduler_busy(true);
		plan->run(300, result.data());
		executor.set_scheduler_busy(false);
	});
	std::thread spectator([&] {
		while(!is_over) {
			(void)executor.active_instructions();
			(void)executor.statistics();
			executor.wake();
			std::this_thread::sleep_for(100us);
		}
	});
	std::thread driver([&] {
		while(!is_over) {
			const auto events = executor.run(50ms);
			executor.validate();
			for(const auto& event : events) {
				if(std::holds_alternative<failed_event>(event)) die(std::get<failed_event>(event).failure.text.c_str());
				if(std::holds_alternative<shutdown_event>(event) || std::holds_alternative<stopped_event>(event)) return;
			}
		}
	});
	if(how == ending::shutdown) {
		driver.join();
	} else {
		std::this_thread::sleep_for(std::chrono::milliseconds(seed % 20));
		if(how == ending::failure) executor.fail();
		std::this_thread::sleep_for(2ms);
		executor.stop();
		driver.join();
	}
	is_over = true;
	scheduler.join();
	spectator.join();
	executor.stop();
	plan->notify_reached(task_id(0));
	for(auto& worker : workers) worker.join();
	if(how == ending::shutdown) {
		for(const double value : result) {
			if(value != plan->expected) die("wrong result");
		}
	}
	plan.reset(); // the scheduler may go before the executor once that has been stopped
}

} // namespace

int main(const int argc, const char* const* const argv) {
	const int rounds = argc > 1 ? std::atoi(argv[1]) : 60;
	const auto first_seed = static_cast<std::uint32_t>(argc > 2 ? std::atoi(argv[2]) : 1);
	for(int round = 0; round < rounds; ++round) {
		const std::uint32_t seed = first_seed + static_cast<std::uint32_t>(round);
		run_program(seed, round % 4 == 2 ? ending::failure : round % 4 == 3 ? ending::stop : ending::shutdown);
	}
	std::printf("%d programs\n", rounds);
}
