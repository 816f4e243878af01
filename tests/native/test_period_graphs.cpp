// SPDX-License-Identifier: MIT
// Random templates of kernels, reductions and copies on an emulated GPU, whose periods run one by one and as graphs, with other work before, between and after.
// The emulated driver carries out a graph in any order that its edges allow: an edge that lacks makes values wrong.
// Arguments: [rounds] [seed]
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "check.hpp"
#include "emulated/cuda.hpp"
#include "executor/core/backends/cuda/cuda_backend.hpp"
#include "executor/core/loop/executor_loop.hpp"
#include "scheduler/core/base/arena.hpp"

using namespace celerity;
using namespace std::chrono_literals;

namespace {

using value = std::uint64_t;
constexpr value identity = 0x0000'0003'0000'0007; // of two different words
constexpr coordinate num_elements = 8;

// ---- kernels -------------------------------------------------------------------------------------------------------------------------

struct chunk_1d {
	std::int64_t min, max, global_min, global_max;
};
struct accessor_1d {
	value* data;
	std::int64_t stride;
	std::int64_t extent;
};
struct reducer_1d {
	value* partial; ///< each element holds the identity
	std::int64_t extent;
};

void mix(void* const* const parameters) {
	const auto& out = *static_cast<const accessor_1d*>(parameters[1]);
	const auto& in = *static_cast<const accessor_1d*>(parameters[2]);
	for(coordinate i = 0; i < in.extent; ++i) out.data[i] = out.data[i] * 3 + in.data[i];
}
void fold(void* const* const parameters) {
	const auto& sums = *static_cast<const reducer_1d*>(parameters[1]);
	const auto& in = *static_cast<const accessor_1d*>(parameters[2]);
	for(coordinate i = 0; i < sums.extent; ++i) {
		for(coordinate j = 0; j < num_elements; ++j) sums.partial[i] += in.data[j];
	}
}
void fail(void* const*) { emulated_cuda::trap(); }

const emulated_cuda::function mix_function{{sizeof(chunk_1d), sizeof(accessor_1d), sizeof(accessor_1d)}, mix};
const emulated_cuda::function fold_function{{sizeof(chunk_1d), sizeof(reducer_1d), sizeof(accessor_1d)}, fold};
const emulated_cuda::function fail_function{mix_function.parameter_bytes, fail};

std::shared_ptr<const native_kernel> make_kernel(const emulated_cuda::function& function, const bool reduces = false) {
	using parameter = cuda_function::parameter;
	const parameter accessor{parameter::kind_type::accessor, 1, sizeof(value), {}};
	const auto* const bytes = reinterpret_cast<const std::byte*>(&identity);
	const parameter reducer{parameter::kind_type::reducer, 1, 0, {bytes, bytes + sizeof identity}};
	const std::vector<parameter> parameters{{parameter::kind_type::chunk, 1, 0, {}}, reduces ? reducer : accessor, accessor};
	return std::make_shared<cuda_function>(std::vector{reinterpret_cast<cuda::function>(const_cast<emulated_cuda::function*>(&function))},
	    std::vector<std::uint32_t>{32}, std::vector<std::uint32_t>{}, 0, parameters, false);
}

box all_elements() { return box::full(point{{num_elements, 1, 1}}); }

// ---- a program -----------------------------------------------------------------------------------------------------------------------

struct step {
	enum class kind_type { mix, fold, copy, fail } kind;
	std::size_t target;
	std::size_t source;
};
using steps = std::vector<step>;

/// Plans as the scheduler does, and knows the result: all elements of an array are equal.
class program {
  public:
	program(const int ordinal, const bool with_graphs)
	    : m_executor(executor_options{}, [&](event_count& completions) { return make_backend(ordinal, with_graphs, completions); }) {
		m_executor.set_callbacks(
		    {.progress = [this](const task_id reached, const bool is_epoch) { note_reached(reached, is_epoch); }, .load = {}, .freed = {}});
		m_driver = std::thread([this] { drive(); });
		m_host_tasks = std::thread([this] { call_host_tasks(); });
		begin();
	}
	~program() {
		m_executor.stop();
		m_driver.join();
		m_host_tasks.join();
	}
	program(const program&) = delete;
	program& operator=(const program&) = delete;

	static constexpr std::size_t num_arrays = 6; ///< the first ones on the device, the others on the host

	void run(const steps& todo) {
		for(const auto& what : todo) apply(what);
		hand_over();
	}
	/// One by one until the state recurs, and then in batches of several periods.
	void replay(const steps& todo, const std::vector<std::size_t>& batches, const std::shared_ptr<const void>& identity) {
		for(int repetition = 0; repetition < 3; ++repetition) {
			add_period(todo);
			if(repetition < 2) hand_over();
		}
		const auto period = m_batch.instructions;
		hand_over();
		for(const std::size_t num_periods : batches) {
			for(std::size_t i = 0; i < num_periods; ++i) add_period(todo);
			check_shape(period);
			m_batch.replayed = identity;
			m_batch.num_periods = static_cast<std::uint32_t>(num_periods);
			hand_over();
		}
	}
	/// Compares all values, and returns when the device has done everything.
	void finish() {
		std::vector<access_binding> accesses;
		for(std::size_t i = 0; i < num_arrays; ++i) {
			auto& result = m_results[i];
			copy(result, m_arrays[i]);
			m_expected.push_back(m_arrays[i].content);
			accesses.push_back({buffer_id(1), access_mode::read, result.allocation, all_elements(), boxes(), all_elements()});
		}
		std::vector<instruction_id> dependencies;
		for(const auto& result : m_results) dependencies.push_back(result.last_writer);
		array none;
		emit(host_task_instruction{submission_id(++m_last_submission), all_elements(), m_storage.copy(accesses)}, dependencies, none);
		shut_down();
	}
	void shut_down() {
		array none;
		emit(epoch_instruction{task_id(++m_last_task), submission_id(0), epoch_action::shutdown}, m_front, none);
		hand_over();
		while(!m_is_shut_down) std::this_thread::sleep_for(1ms);
		check(m_reached == m_horizons, "every horizon is reported once, in order");
	}

	executor_statistics statistics() { return m_executor.statistics(); }
	std::vector<active_instruction> active_instructions() { return m_executor.active_instructions(); }
	submission_id last_submission() const { return submission_id(m_last_submission); }
	/// Waits for it.
	executor_failure failure() {
		while(!m_has_failed) std::this_thread::sleep_for(1ms);
		const std::lock_guard lock(m_mutex);
		return m_failure;
	}
	void wait_until_idle() {
		do std::this_thread::sleep_for(20ms);
		while(!m_executor.active_instructions().empty());
	}
	bool was_compared() const { return m_was_compared; }

  private:
	struct array {
		allocation_id allocation;
		value content = 0;
		instruction_id last_writer;
		std::vector<instruction_id> readers;
	};

	arena_block_pool m_blocks;
	arena m_storage{m_blocks};
	std::shared_ptr<const native_kernel> m_mix = make_kernel(mix_function), m_fold = make_kernel(fold_function, true), m_fail = make_kernel(fail_function);
	std::array<array, num_arrays> m_arrays, m_results;
	std::vector<instruction_id> m_front;
	instruction_batch m_batch;
	std::uint64_t m_last_instruction = 0, m_last_task = 0, m_last_submission = 0;
	instruction_id m_pending_horizon;
	std::vector<task_id> m_horizons;
	std::vector<value> m_initial = std::vector<value>(num_elements, 1);

	std::mutex m_mutex;
	std::vector<task_id> m_reached;
	executor_failure m_failure;
	std::vector<value> m_expected;
	std::atomic<bool> m_is_shut_down{false}, m_has_failed{false}, m_was_compared{false};
	executor_loop m_executor;
	std::thread m_driver, m_host_tasks;

	static std::unique_ptr<backend> make_backend(const int ordinal, const bool with_graphs, event_count& completions) {
		cuda_options options;
		options.ordinals = {ordinal};
		options.may_spin = false;
		options.graphs = with_graphs;
		return std::make_unique<cuda_backend>(options, completions);
	}

	void drive() {
		while(true) {
			for(const auto& event : m_executor.run(50ms)) {
				if(const auto* const failed = std::get_if<failed_event>(&event)) {
					const std::lock_guard lock(m_mutex);
					m_failure = failed->failure;
					m_has_failed = true;
				}
				if(std::holds_alternative<shutdown_event>(event)) m_is_shut_down = true;
				if(std::holds_alternative<stopped_event>(event)) return;
			}
		}
	}
	void call_host_tasks() {
		while(const auto call = m_executor.calls().next_host_task()) {
			const auto& task = std::get<host_task_call>(*call);
			for(std::size_t i = 0; i < task.accesses.size(); ++i) {
				const auto* const data = static_cast<const value*>(task.accesses[i].address);
				for(coordinate j = 0; j < num_elements; ++j) check(data[j] == m_expected[i], "the device has computed other values than the program");
			}
			m_was_compared = true;
			m_executor.calls().host_task_done(task.ticket);
		}
	}
	void note_reached(const task_id reached, const bool is_epoch) {
		const std::lock_guard lock(m_mutex);
		if(!is_epoch) m_reached.push_back(reached);
	}

	std::span<const box> boxes() { return m_storage.copy(std::vector<box>{all_elements()}); }

	void begin() {
		std::uint64_t last_allocation = 0;
		const auto raw = m_executor.allocations().register_user_memory(m_initial.data(), all_elements());
		array user{{user_memory, raw}, 1, {}, {}};
		const auto allocate = [&](array& made, const memory_id memory) {
			made.allocation = {memory, ++last_allocation};
			emit(alloc_instruction{made.allocation, num_elements * sizeof(value), alignof(value), buffer_id(1), all_elements(), {}}, {}, made);
		};
		for(std::size_t i = 0; i < num_arrays; ++i) {
			allocate(m_results[i], host_memory);
			allocate(m_arrays[i], is_on_device(i) ? memory_id(first_device_memory_value) : host_memory);
			copy(m_arrays[i], user);
		}
		hand_over();
	}
	static bool is_on_device(const std::size_t index) { return index < 4; }

	void hand_over() { m_executor.submit(std::exchange(m_batch, {})); }

	template <typename Operation>
	instruction_id emit(const Operation& operation, std::vector<instruction_id> dependencies, array& written) {
		std::erase(dependencies, instruction_id(0));
		std::sort(dependencies.begin(), dependencies.end());
		dependencies.erase(std::unique(dependencies.begin(), dependencies.end()), dependencies.end());
		const instruction_id id(++m_last_instruction);
		m_batch.instructions.push_back(m_storage.create<instruction>(id, instruction_key{task_id(m_last_task), {}}, instruction_priority(0),
		    m_storage.copy(dependencies), instruction_operation(operation)));
		for(const auto dependency : dependencies) std::erase(m_front, dependency);
		m_front.push_back(id);
		written.last_writer = id;
		written.readers.clear();
		return id;
	}

	static std::vector<instruction_id> before(const array& target, const array& source) {
		auto dependencies = target.readers;
		dependencies.push_back(target.last_writer);
		dependencies.push_back(source.last_writer);
		return dependencies;
	}
	void copy(array& target, array& source) {
		const auto dependencies = before(target, source);
		const auto id = emit(copy_instruction{source.allocation, 0, target.allocation, 0, boxes(), sizeof(value), copy_reason::coherence, buffer_id(1)},
		    dependencies, target);
		source.readers.push_back(id);
		target.content = source.content;
	}
	void launch(const std::shared_ptr<const native_kernel>& kernel, array& target, array& source, const bool reduces) {
		const submission_id submission(++m_last_submission);
		m_executor.launches().add(submission, {kernel, {}, all_elements()});
		std::vector<access_binding> accesses{{buffer_id(1), access_mode::read, source.allocation, all_elements(), boxes(), all_elements()}};
		std::vector<reduction_binding> reductions;
		if(reduces) {
			reductions.push_back({reduction_id(1), buffer_id(1), target.allocation, reduction_op::sum, scalar_type::uint64});
		} else {
			accesses.insert(accesses.begin(), {buffer_id(1), access_mode::read_write, target.allocation, all_elements(), boxes(), all_elements()});
		}
		const auto dependencies = before(target, source);
		const bool is_border = submission.value % 5 == 0;
		const auto id =
		    emit(device_kernel_instruction{device_id(0), submission, all_elements(), m_storage.copy(accesses), m_storage.copy(reductions), is_border},
		        dependencies, target);
		source.readers.push_back(id);
	}

	void apply(const step& what) {
		++m_last_task;
		auto &target = m_arrays[what.target], &source = m_arrays[what.source];
		const bool may_launch = is_on_device(what.target) && is_on_device(what.source);
		const bool is_on_host = !is_on_device(what.target) && !is_on_device(what.source);
		if(&target == &source || is_on_host) return; // the host's lane is not of a device
		if(what.kind == step::kind_type::copy || !may_launch) {
			copy(target, source);
		} else if(what.kind == step::kind_type::fold) {
			launch(m_fold, target, source, true);
			target.content = identity + num_elements * source.content;
		} else if(what.kind == step::kind_type::mix) {
			launch(m_mix, target, source, false);
			target.content = target.content * 3 + source.content;
		} else {
			launch(m_fail, target, source, false);
		}
	}

	/// With horizons at the end and between.
	void add_period(const steps& todo) {
		for(std::size_t i = 0; i < todo.size(); ++i) {
			if(i % 50 == 49) add_horizon();
			apply(todo[i]);
		}
		add_horizon();
	}

	/// The horizon before it stands for everything older.
	void add_horizon() {
		const task_id task(++m_last_task);
		array none;
		const auto horizon = emit(horizon_instruction{task, submission_id(m_last_submission)}, m_front, none);
		m_horizons.push_back(task);
		const auto applied = std::exchange(m_pending_horizon, horizon);
		for(auto* const arrays : {&m_arrays, &m_results}) {
			for(auto& array : *arrays) {
				array.last_writer = std::max(array.last_writer, applied);
				std::erase_if(array.readers, [&](const instruction_id reader) { return reader < applied; });
			}
		}
	}

	/// Each period of the batch has the edges of `period`.
	void check_shape(const std::vector<const instruction*>& period) const {
		const std::size_t size = period.size();
		check(m_batch.instructions.size() % size == 0, "the batch consists of whole periods");
		for(std::size_t i = 0; i < m_batch.instructions.size(); ++i) {
			const auto &first = *period[i % size], &item = *m_batch.instructions[i];
			const auto is_shifted = [&](const instruction_id a, const instruction_id b) { return b.value - a.value == item.id.value - first.id.value; };
			check(std::equal(first.dependencies.begin(), first.dependencies.end(), item.dependencies.begin(), item.dependencies.end(), is_shifted),
			    "the template recurs");
		}
	}
};

// ---- tests ---------------------------------------------------------------------------------------------------------------------------

steps random_steps(std::mt19937& random, const std::size_t count) {
	steps result;
	for(std::size_t i = 0; i < count; ++i) {
		const auto kind = std::array{step::kind_type::mix, step::kind_type::mix, step::kind_type::fold, step::kind_type::copy}[random() % 4];
		result.push_back({kind, random() % program::num_arrays, random() % program::num_arrays});
	}
	result.push_back({step::kind_type::mix, 0, 1}); // two operations at least
	result.push_back({step::kind_type::mix, 1, 0});
	return result;
}

executor_statistics run_random(const std::uint32_t seed, const bool with_graphs) {
	std::mt19937 random(seed);
	program made(0, with_graphs);
	for(int part = 0; part < 3; ++part) {
		emulated_cuda::hold(true); // whatever could be waited for is waited for
		made.run(random_steps(random, random() % 10));
		std::vector<std::size_t> batches;
		for(std::size_t i = random() % 6 + 1; i > 0; --i) batches.push_back(random() % 20 + 1);
		const std::size_t num_steps = random() % 8 == 0 ? 300 + random() % 200 : random() % 12; // some periods are cut into segments
		made.replay(random_steps(random, num_steps), batches, std::make_shared<int>(part));
		if(random() % 2 == 0) continue;
		std::this_thread::sleep_for(10ms);
		emulated_cuda::hold(false);
	}
	made.run(random_steps(random, 5));
	std::this_thread::sleep_for(10ms);
	emulated_cuda::hold(false);
	made.finish();
	check(made.was_compared(), "the values have been compared");
	return made.statistics();
}

void check_random(const std::uint32_t seed) {
	const auto with = run_random(seed, true);
	const auto without = run_random(seed, false);
	check(with.graph_runs > 0 && without.graph_runs == 0, "graphs run where they are switched on");
	check(with.instructions == without.instructions, "a graph counts its instructions one by one");
	check(with.copies == without.copies && with.copied_bytes == without.copied_bytes, "a graph counts its copies one by one");
	check(executor_statistics(without).copies[copy_reason::coherence] > 0, "there are copies");
}

/// More templates than graphs are kept, and all of them gone in the end.
void check_cache() {
	constexpr int num_templates = 40;
	const int num_before = emulated_cuda::num_live_graphs();
	std::mt19937 random(1);
	program made(0, true);
	std::vector<steps> todo;
	std::vector<std::shared_ptr<const void>> identities;
	for(int i = 0; i < num_templates; ++i) {
		todo.push_back(random_steps(random, 3));
		identities.push_back(std::make_shared<int>(i));
	}
	emulated_cuda::hold(true); // many graphs are in flight when others take their places
	for(int turn = 0; turn < 2; ++turn) {
		for(int i = 0; i < num_templates; ++i) made.replay(todo[static_cast<std::size_t>(i)], {2}, identities[static_cast<std::size_t>(i)]);
	}
	std::this_thread::sleep_for(100ms);
	emulated_cuda::hold(false);
	while(made.statistics().graph_runs < 2 * num_templates) std::this_thread::sleep_for(1ms);
	check(emulated_cuda::num_live_graphs() - num_before == 32, "as many graphs are kept as there is room for");
	identities.clear();
	made.finish();
	check(emulated_cuda::num_live_graphs() == num_before, "graphs go with their templates");
}

/// A period of more segments than other graphs are kept: all of them stay, beside the graphs of other templates.
void check_segments() {
	const int num_before = emulated_cuda::num_live_graphs();
	std::mt19937 random(1);
	program made(0, true);
	const auto longest = random_steps(random, 6000), brief = random_steps(random, 5);
	const std::array identities{std::make_shared<int>(0), std::make_shared<int>(1)};
	std::uint64_t num_runs = 0;
	int num_made = 0;
	for(int turn = 0; turn < 3; ++turn) {
		const int made_before = emulated_cuda::num_graphs_made();
		made.replay(longest, {1}, identities[0]);
		made.replay(brief, {1}, identities[1]);
		made.wait_until_idle();
		num_made = emulated_cuda::num_graphs_made() - made_before;
		const auto runs = made.statistics().graph_runs - std::exchange(num_runs, made.statistics().graph_runs);
		check(runs > 40, "a long period runs in segments");
		check(num_made == (turn == 0 ? static_cast<int>(runs) : 0), "each segment takes a graph, which serves all periods");
	}
	const auto counts = made.statistics().instructions;
	check(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}) > 3 * 4 * 4300, "a period is longer than any graph");
	check(emulated_cuda::num_live_graphs() - num_before == static_cast<int>(num_runs / 3), "the graphs of all segments are kept");
	made.finish();
}

void check_failure() {
	program made(1, true);
	made.run({{step::kind_type::mix, 0, 1}});
	made.wait_until_idle();
	emulated_cuda::hold(true);
	made.replay({{step::kind_type::mix, 0, 1}, {step::kind_type::fail, 2, 0}}, {3}, std::make_shared<int>(0));
	std::this_thread::sleep_for(50ms);
	const auto active = made.active_instructions();
	const auto is_run = [](const active_instruction& item) { return item.text.find("as one graph runs or waits on its stream") != std::string::npos; };
	check(std::any_of(active.begin(), active.end(), is_run), "a report names the run");
	emulated_cuda::hold(false);
	const auto failure = made.failure();
	check(failure.kind == executor_failure::kind_type::device, "a failure of the device");
	for(std::uint64_t submission = made.last_submission().value; submission > made.last_submission().value - 6; --submission) {
		const auto found = std::find(failure.in_flight.begin(), failure.in_flight.end(), submission_id(submission));
		check(found != failure.in_flight.end(), "the failure names all kernels of the graph");
	}
}

void check_destruction() {
	program made(2, true);
	made.wait_until_idle();
	emulated_cuda::hold(true, 2);
	for(int i = 0; i < 3; ++i) made.replay({{step::kind_type::mix, 0, 1}, {step::kind_type::mix, 1, 0}}, {4, 2}, std::make_shared<int>(0));
	std::this_thread::sleep_for(50ms);
}

} // namespace

int main(const int argc, const char** const argv) {
	const int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
	const auto seed = static_cast<std::uint32_t>(argc > 2 ? std::atoi(argv[2]) : 1);
	emulated_cuda::configure({.seed = seed});
	alarm(static_cast<unsigned>(60 + 2 * rounds)); // a program that stands still ends
	for(int round = 0; round < rounds; ++round) check_random(seed + static_cast<std::uint32_t>(round));
	check(emulated_cuda::num_nodes_made(5) > 0, "borders go first in graphs");
	check_cache();
	check_segments();
	check_failure();
	check_destruction();
	std::fflush(nullptr);
	_exit(0); // a device is held
}
