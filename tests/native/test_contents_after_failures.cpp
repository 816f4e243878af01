// SPDX-License-Identifier: MIT
// Contents of a buffer after a failure, while an emulated GPU is at work: on streams, and as a graph.
#include <deque>
#include <memory>
#include <vector>

#include "check.hpp"
#include "emulated/cuda.hpp"
#include "executor/core/backends/cuda/cuda_backend.hpp"
#include "executor/core/loop/executor_loop.hpp"
#include "scheduler/core/base/arena.hpp"

using namespace celerity;
using namespace std::chrono_literals;

namespace {

constexpr coordinate num_elements = 8;
constexpr std::uint64_t kernels_per_period = 2;

struct chunk_1d {
	std::int64_t min, max, global_min, global_max;
};
struct accessor_1d {
	std::uint64_t* data;
	std::int64_t stride;
	std::int64_t extent;
};

void increase(void* const* const parameters) {
	const auto& out = *static_cast<const accessor_1d*>(parameters[1]);
	for(coordinate i = 0; i < out.extent; ++i) ++out.data[i];
}
const emulated_cuda::function increase_function{{sizeof(chunk_1d), sizeof(accessor_1d)}, increase};

std::shared_ptr<const native_kernel> make_kernel() {
	using parameter = cuda_function::parameter;
	const std::vector<parameter> parameters{{parameter::kind_type::chunk, 1, 0, {}}, {parameter::kind_type::accessor, 1, sizeof(std::uint64_t), {}}};
	return std::make_shared<cuda_function>(std::vector{reinterpret_cast<cuda::function>(const_cast<emulated_cuda::function*>(&increase_function))},
	    std::vector<std::uint32_t>{32}, std::vector<std::uint32_t>{}, 0, parameters, false);
}

box all_elements() { return box::full(point{{num_elements, 1, 1}}); }

/// A buffer on a GPU, and kernels that increase it. All on the thread of the test.
class increased_buffer {
  public:
	increased_buffer() {
		emit(alloc_instruction{m_allocation, num_elements * sizeof(std::uint64_t), alignof(std::uint64_t), buffer_id(1), all_elements(), {}});
		submit();
	}
	~increased_buffer() {
		emulated_cuda::hold(false);
		while(!m_loop.release_devices()) std::this_thread::sleep_for(1ms);
	}
	increased_buffer(const increased_buffer&) = delete;
	increased_buffer& operator=(const increased_buffer&) = delete;

	void add_kernel() {
		const submission_id submission(++m_last_submission);
		m_loop.launches().add(submission, {m_kernel, {}, all_elements()});
		const std::vector<access_binding> accesses{{buffer_id(1), access_mode::read_write, m_allocation, all_elements(), boxes(), all_elements()}};
		emit(device_kernel_instruction{device_id(0), submission, all_elements(), m_storage.copy(accesses), {}, false});
	}
	void add_period(const std::shared_ptr<const void>& identity) {
		for(std::uint64_t i = 0; i < kernels_per_period; ++i) add_kernel();
		m_batch.replayed = identity;
		m_batch.num_periods = 1;
	}
	void submit() {
		m_loop.submit(std::exchange(m_batch, {}));
		m_loop.run(0ns);
	}
	void wait() {
		while(!m_loop.active_instructions().empty()) m_loop.run(1ms);
	}
	void fail() { m_loop.fail(); }
	bool settle(const std::chrono::nanoseconds timeout) { return m_loop.after_failure().settle(timeout); }
	last_contents recover(const submission_id failed = {}) {
		m_loop.stop();
		return m_loop.after_failure().find(buffer_id(1), {all_elements(), {}}, failed);
	}
	/// `num_kernels` are complete.
	void expect_contents(const std::uint64_t num_kernels) {
		const auto found = recover();
		check(!found.is_spoiled && !found.is_hidden, "the contents are known");
		check(found.writer == submission_id(num_kernels), "the last complete kernel is the writer");
		check(found.parts.size() == 1 && found.parts.front().where == all_elements(), "the contents are in one place");
		check(found.parts.front().memory == first_device_memory_value, "which is the device's memory");
	}

  private:
	const allocation_id m_allocation{memory_id(first_device_memory_value), 1};
	const std::shared_ptr<const native_kernel> m_kernel = make_kernel();
	arena_block_pool m_blocks;
	arena m_storage{m_blocks};
	instruction_batch m_batch;
	std::uint64_t m_last_instruction = 0, m_last_submission = 0;
	executor_loop m_loop{executor_options{}, [](event_count& completions) {
		                     cuda_options options;
		                     options.ordinals = {0};
		                     options.may_spin = false;
		                     options.graphs = true;
		                     return std::make_unique<cuda_backend>(options, completions);
	                     }};

	std::span<const box> boxes() { return m_storage.copy(std::vector<box>{all_elements()}); }

	/// Behind the instruction before.
	template <typename Operation>
	void emit(const Operation& operation) {
		std::vector<instruction_id> dependencies;
		if(m_last_instruction > 0) dependencies.push_back(instruction_id(m_last_instruction));
		m_batch.instructions.push_back(m_storage.create<instruction>(instruction_id(++m_last_instruction), instruction_key{task_id(m_last_instruction), {}},
		    instruction_priority(0), m_storage.copy(dependencies), instruction_operation(operation)));
	}
};

/// Kernels on streams, or as a graph.
void add_work(increased_buffer& buffer, const bool as_graph, const std::shared_ptr<const void>& identity) {
	if(as_graph) {
		buffer.add_period(identity);
	} else {
		for(std::uint64_t i = 0; i < kernels_per_period; ++i) buffer.add_kernel();
	}
	buffer.submit();
}

void work_under_way_is_awaited(const bool as_graph) {
	const auto identity = std::make_shared<int>();
	increased_buffer buffer;
	add_work(buffer, as_graph, identity);
	buffer.wait();
	const int launched = emulated_cuda::num_graph_launches();
	emulated_cuda::hold(true);
	add_work(buffer, as_graph, identity);
	check(emulated_cuda::num_graph_launches() - launched == as_graph, "a period is one graph");
	buffer.fail();
	check(!buffer.settle(2ms), "the device is at work");
	emulated_cuda::hold(false);
	check(buffer.settle(10s), "the device has done its work");
	buffer.expect_contents(2 * kernels_per_period);
}

void work_that_does_not_end_has_begun(const bool as_graph) {
	const auto identity = std::make_shared<int>();
	increased_buffer buffer;
	add_work(buffer, as_graph, identity);
	buffer.wait();
	emulated_cuda::hold(true);
	add_work(buffer, as_graph, identity);
	buffer.fail();
	check(!buffer.settle(2ms), "the device is at work");
	const auto found = buffer.recover();
	check(found.is_spoiled && found.culprit.value > kernels_per_period, "a kernel on a stream has begun, and is named");
	emulated_cuda::hold(false);
	check(buffer.recover().is_spoiled, "what happens after stop() does not count");
}

void work_that_was_not_issued_does_not_count() {
	increased_buffer buffer;
	add_work(buffer, false, nullptr);
	buffer.wait();
	buffer.fail();
	add_work(buffer, false, nullptr);
	check(buffer.settle(10s), "nothing is on streams");
	buffer.expect_contents(kernels_per_period);
}

void what_a_failed_task_has_written_counts_for_nothing() {
	increased_buffer buffer;
	add_work(buffer, false, nullptr);
	buffer.wait();
	buffer.fail();
	check(buffer.settle(10s), "nothing is on streams");
	const auto found = buffer.recover(submission_id(kernels_per_period));
	check(found.is_spoiled && found.culprit == submission_id(kernels_per_period), "the failed task is named");
}

} // namespace

int main() {
	for(const bool as_graph : {false, true}) {
		work_under_way_is_awaited(as_graph);
		work_that_does_not_end_has_begun(as_graph);
	}
	work_that_was_not_issued_does_not_count();
	what_a_failed_task_has_written_counts_for_nothing();
}
