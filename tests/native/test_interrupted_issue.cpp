// SPDX-License-Identifier: MIT
// Work of a higher queue comes, and gets ready, while the executor issues many instructions of a lower one.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "check.hpp"
#include "executor/core/loop/executor_loop.hpp"

using namespace celerity;
using namespace std::chrono_literals;

namespace {

constexpr lane_index copies = 1;
constexpr std::size_t low_bytes = 64, high_bytes = 128;

/// A device that counts allocations, and whose copies are complete when the test says so.
class watched_backend final : public backend {
  public:
	std::vector<std::size_t> allocated; ///< bytes, in order
	std::vector<std::size_t> copied;    ///< likewise
	std::function<void(std::size_t num_allocations)> on_allocation = [](std::size_t) {};
	std::uint64_t num_completed_copies = 0;

	std::span<const lane_class> lane_classes() const override { return m_classes; }
	std::uint32_t kernel_class(device_id, bool, queue_priority) const override { return 0; }
	std::uint32_t copy_class(memory_id, memory_id) const override { return copies; }
	std::uint32_t gather_class(memory_id) const override { return copies; }
	bool defers_kernels() const override { return false; }
	void* allocate(memory_id, const std::size_t size_bytes, std::size_t) override {
		allocated.push_back(size_bytes);
		on_allocation(allocated.size());
		m_memory.push_back(std::make_unique<std::byte[]>(size_bytes));
		return m_memory.back().get();
	}
	void deallocate(memory_id, void*, std::size_t, std::size_t) override {}
	void enqueue_copy(lane_position, const lane_waits&, const copy_operation& copy) override { copied.push_back(copy.size_bytes); }
	void enqueue_gather(lane_position, const lane_waits&, std::span<const copy_operation>) override { std::abort(); }
	void enqueue_reduce(lane_position, const lane_waits&, const reduce_operation&) override { std::abort(); }
	void fill(memory_id, void*, std::size_t, unsigned char) override {}
	bool must_poll() const override { return true; }
	bool begin_kernel(lane_position, std::span<const lane_position>) override { return false; }
	void end_kernel(lane_position) override {}
	std::uint64_t completed(const lane_index lane) override { return lane == copies ? num_completed_copies : 0; }
	void cancel() override {}
	void stop() override {}
	bool release() override { return true; }

  private:
	std::array<lane_class, 2> m_classes{lane_class{lane_kind::compute, device_id(0)}, lane_class{lane_kind::host_to_device, device_id(0), 1, 0, 2}};
	std::vector<std::unique_ptr<std::byte[]>> m_memory;
};

/// An executor with a watched device and queues of two priorities, and instructions that live as long.
class stage {
  public:
	stage() {
		for(const queue_priority queue : {0, 1}) loop.prepare_queue(queue);
	}

	watched_backend* device = nullptr;
	executor_loop loop{executor_options{}, [this](event_count&) {
		                   auto made = std::make_unique<watched_backend>();
		                   device = made.get();
		                   return made;
	                   }};

	instruction_id add(const instruction_operation& operation, const queue_priority queue, const std::vector<instruction_id>& dependencies = {}) {
		const instruction_id id(m_instructions.size() + 1);
		const auto& kept = m_dependencies.emplace_back(dependencies);
		m_instructions.push_back({id, instruction_key{task_id(1), {}}, priority_of_queue(queue), kept, operation});
		m_batch.instructions.push_back(&m_instructions.back());
		return id;
	}
	instruction_id allocate(const std::size_t size_bytes, const queue_priority queue, const std::vector<instruction_id>& dependencies = {}) {
		return add(alloc_instruction{{memory_of(device_id(0)), ++m_last_allocation}, size_bytes, 8, buffer_id(1), box::full(point{{8, 1, 1}}), {}}, queue,
		    dependencies);
	}
	/// Between the first two allocations.
	instruction_id copy(const std::span<const box> boxes, const queue_priority queue, const std::vector<instruction_id>& dependencies) {
		return add(copy_instruction{{memory_of(device_id(0)), 1}, 0, {memory_of(device_id(0)), 2}, 0, boxes, 8, copy_reason::coherence, buffer_id(1)}, queue,
		    dependencies);
	}
	void submit() { loop.submit(std::exchange(m_batch, {})); }
	/// Whether the completion of a submission was among the events.
	bool run() {
		bool has_completed = false;
		for(const auto& event : loop.run(0ns)) {
			check(!std::holds_alternative<failed_event>(event), "the executor has not failed");
			has_completed |= std::holds_alternative<completed_event>(event);
		}
		return has_completed;
	}
	/// How many allocations came before the first one of the higher queue.
	std::size_t place_of_high() const {
		return static_cast<std::size_t>(std::find(device->allocated.begin(), device->allocated.end(), high_bytes) - device->allocated.begin());
	}

  private:
	std::deque<instruction> m_instructions;
	std::deque<std::vector<instruction_id>> m_dependencies;
	instruction_batch m_batch;
	std::uint64_t m_last_allocation = 0;
};

void newcomers_go_first() {
	stage s;
	for(int i = 0; i < 50; ++i) s.allocate(low_bytes, 0);
	s.submit();
	s.allocate(high_bytes, 1);
	s.device->on_allocation = [&](const std::size_t count) {
		if(count == 3) s.submit();
	};
	check(!s.run(), "nothing is announced");
	check(s.device->allocated.size() == 51, "all instructions are carried out");
	check(s.place_of_high() == 3, "an instruction of a higher queue goes before those that are ready");
}

void what_gets_ready_goes_first() {
	stage s;
	static const std::array<box, 1> boxes{box::full(point{{8, 1, 1}})};
	const auto source = s.allocate(low_bytes, 1), destination = s.allocate(low_bytes, 1);
	const auto copied = s.copy(boxes, 1, {source, destination});
	s.allocate(high_bytes, 1, {copied});
	for(int i = 0; i < 50; ++i) s.allocate(low_bytes, 0);
	s.submit();
	s.device->on_allocation = [&](const std::size_t count) {
		if(count == 10) s.device->num_completed_copies = 1;
	};
	check(!s.run(), "nothing is announced");
	check(s.device->allocated.size() == 53, "all instructions are carried out");
	check(s.place_of_high() == 10, "the end of an operation of a higher queue is seen at once");
}

void brief_copies_fill_no_places_of_others() {
	stage s;
	static const std::array<box, 1> few{box::full(point{{8, 1, 1}})}, many{box::full(point{{4096, 1, 1}})};
	const auto source = s.allocate(low_bytes, 0), destination = s.allocate(low_bytes, 0);
	for(const std::span<const box> boxes : {std::span<const box>(few), std::span<const box>(many)}) {
		for(int i = 0; i < 30; ++i) s.copy(boxes, 0, {source, destination});
	}
	s.submit();
	s.run();
	const auto& copied = s.device->copied;
	check(std::count(copied.begin(), copied.end(), 8 * 8) == issue_turns::most_brief, "many brief copies are in flight");
	check(std::count(copied.begin(), copied.end(), 4096 * 8) == 2, "few others are");
}

void what_others_wait_for_leaves_first() {
	stage s;
	s.add(fence_instruction{submission_id(1)}, 1);
	for(int i = 0; i < 50; ++i) s.allocate(low_bytes, 0);
	s.submit();
	check(s.run(), "the completion of a fence leaves");
	check(s.device->allocated.empty(), "it leaves before instructions of lower queues are issued");
	s.run();
	check(s.device->allocated.size() == 50, "all instructions are carried out");
}

} // namespace

int main() {
	newcomers_go_first();
	what_gets_ready_goes_first();
	what_others_wait_for_leaves_first();
	brief_copies_fill_no_places_of_others();
}
