// SPDX-License-Identifier: MIT
// Arrays of the user on devices become contents of buffers, kernels run on them, and fences give arrays on devices: the driver copies nothing from or to host
// memory, with one and several devices and ranks.
#include "emulated/ranks.hpp"

using namespace emulated_ranks;

extern "C" {
cuda::result cuMemAlloc_v2(cuda::device_pointer* out, std::size_t size_bytes);
cuda::result cuMemFree_v2(cuda::device_pointer address);
}

namespace {

constexpr auto num_elements = static_cast<std::size_t>(extent * extent);

/// Memory of a device that the runtime did not allocate.
class user_array {
  public:
	user_array() {
		if(cuMemAlloc_v2(&m_address, num_elements * sizeof(value)) != cuda::success) die("the emulated device has no memory");
	}
	~user_array() { cuMemFree_v2(m_address); }
	user_array(const user_array&) = delete;
	user_array& operator=(const user_array&) = delete;

	value* data() const { return reinterpret_cast<value*>(m_address); }

  private:
	cuda::device_pointer m_address = 0;
};

class rank_with_arrays : public rank {
  public:
	using rank::rank;

  private:
	user_array m_initial, m_result;

	void apply() override {
		for(coordinate row = 0; row < extent; ++row) {
			for(coordinate column = 0; column < extent; ++column) m_initial.data()[row * extent + column] = at_first(row, column);
		}
		const auto place = memory_of(device_id(static_cast<std::uint32_t>(m_how.num_devices) - 1)); // not where all of it is needed
		std::array<buffer_id, 2> buffers;
		for(auto& made : buffers) {
			buffer_info info;
			info.dims = 2;
			info.extents = point{{extent, extent, 1}};
			info.element_size_bytes = info.element_alignment_bytes = sizeof(value);
			info.initial = buffer_info::initial_contents::user_array;
			info.arrays.push_back({space(), allocation_id::of_user(place, m_executor.allocations().register_user_memory(m_initial.data(), space()))});
			made = m_scheduler.create_buffer(info);
		}
		for(int step = 0; step < m_how.steps; ++step) {
			task next;
			next.accesses = {{buffers[1], access_mode::read_write, range_mapper::one_to_one()}, {buffers[0], access_mode::read, read_by(m_how.reads)}};
			std::swap(buffers[0], buffers[1]);
			submit(std::move(next), m_advance);
		}
		const auto number = m_executor.allocations().register_user_memory(m_result.data(), space());
		task fence;
		fence.kind = task_kind::fence;
		fence.geometry.dims = 2;
		fence.geometry.can_split = false;
		fence.accesses = {{buffers[0], access_mode::read, range_mapper::all()}};
		fence.fence_box = space();
		fence.fence_destination = allocation_id::of_user(memory_of(device_id(0)), number);
		const auto submission = m_scheduler.submit(std::move(fence));
		while(m_completed < submission.value) std::this_thread::sleep_for(1ms);
		m_executor.allocations().unregister_user_memory(number);
		if(!std::equal(expected.begin(), expected.end(), m_result.data())) die("the fence gives other values");
		for(const auto made : buffers) m_scheduler.destroy_buffer(made, 0);
		wait(epoch_action::none);
		wait(epoch_action::shutdown);
	}
};

void check(const std::size_t num_ranks, const std::size_t num_devices) {
	setup how;
	how.num_ranks = num_ranks;
	how.num_devices = num_devices;
	how.steps = 3;
	how.joined_bytes = std::size_t{1} << 16;
	expect_after(how.steps, how.reads);
	const auto before = emulated_cuda::num_host_copies();
	{
		const auto ranks = connect<rank_with_arrays>(how);
		for(const auto& r : ranks) r->start();
		for(const auto& r : ranks) r->join();
		for(const auto& r : ranks) {
			if(!r->release()) die("a device is busy after the end");
		}
	}
	const auto host_copies = emulated_cuda::num_host_copies() - before;
	std::printf("%zu ranks, %zu devices each: %llu copies from or to the host\n", num_ranks, num_devices, static_cast<unsigned long long>(host_copies));
	if(host_copies > 0) die("data passes through host memory");
	expect_nothing_held();
}

} // namespace

int main() {
	emulated_cuda::configure({});
	check(1, 1);
	check(1, 2);
	check(1, 3);
	check(2, 1);
	check(2, 2);
	return 0;
}
