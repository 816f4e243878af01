// SPDX-License-Identifier: MIT
// Sums over all devices of a rank on the emulated driver: step by step and as graphs, with the old value and without. Each step reads the sum of the step
// before, on all devices, and no data touches the host.
#include <cstdio>

#include "emulated/ranks.hpp"

namespace {

using namespace emulated_ranks;

constexpr coordinate num_sums = 5;

struct reducer_2d {
	value* partial; ///< each element holds the identity
	std::int64_t extent[2];
};

void count(void* const* const parameters) {
	const auto& in = *static_cast<const accessor_2d*>(parameters[1]);
	const auto& sums = *static_cast<const reducer_2d*>(parameters[2]);
	for_each_item(*static_cast<const chunk_2d*>(parameters[0]), [&](const auto row, const auto column) { sums.partial[column % num_sums] += in(row, column); });
}

void add(void* const* const parameters) {
	const auto& out = *static_cast<const accessor_2d*>(parameters[1]);
	const auto& before = *static_cast<const accessor_2d*>(parameters[2]);
	const auto& sums = *static_cast<const reducer_2d*>(parameters[3]);
	for_each_item(*static_cast<const chunk_2d*>(parameters[0]), [&](const auto row, const auto column) {
		out(row, column) = out(row, column) * 3 + before(0, row % num_sums);
		sums.partial[column % num_sums] += out(row, column);
	});
}

const emulated_cuda::function count_function{{sizeof(chunk_2d), sizeof(accessor_2d), sizeof(reducer_2d)}, count};
const emulated_cuda::function add_function{{sizeof(chunk_2d), sizeof(accessor_2d), sizeof(accessor_2d), sizeof(reducer_2d)}, add};

std::shared_ptr<const native_kernel> make_reducing(const emulated_cuda::function& function, const setup& how) {
	using parameter = cuda_function::parameter;
	std::vector<parameter> parameters{{parameter::kind_type::chunk, 2, 0, {}}};
	for(std::size_t i = 2; i < function.parameter_bytes.size(); ++i) parameters.push_back({parameter::kind_type::accessor, 2, sizeof(value), {}});
	parameters.push_back({parameter::kind_type::reducer, 2, 0, std::vector<std::byte>(sizeof(value))});
	return std::make_shared<cuda_function>(std::vector(how.num_devices, handle_of(function)), std::vector<std::uint32_t>{8, 32}, std::vector<std::uint32_t>{},
	    0, parameters, false);
}

class adding_rank final : public rank {
  public:
	adding_rank(const setup& how, const std::size_t number) : rank(how, number), m_count(make_reducing(count_function, how)) {
		m_advance = make_reducing(add_function, how);
	}

	static void expect(const setup& how) {
		std::vector<value> data;
		for(coordinate row = 0; row < extent; ++row) {
			for(coordinate column = 0; column < extent; ++column) data.push_back(at_first(row, column));
		}
		std::array<std::vector<value>, 2> sums{std::vector<value>(num_sums), std::vector<value>(num_sums)};
		const auto count_into = [&](std::vector<value>& counted) {
			for(std::size_t i = 0; i < data.size(); ++i) counted[i % extent % num_sums] += data[i];
		};
		for(auto& each : sums) count_into(each);
		for(int step = 0; step < how.steps; ++step) {
			for(std::size_t i = 0; i < data.size(); ++i) data[i] = data[i] * 3 + sums[0][i / extent % num_sums];
			if(step % 2 != 0) sums[1].assign(num_sums, 0);
			count_into(sums[1]);
			std::swap(sums[0], sums[1]);
		}
		expected = data;
	}

  private:
	std::shared_ptr<const native_kernel> m_count;

	void apply() override {
		buffer_info info;
		info.dims = 2;
		info.extents = point{{extent, extent, 1}};
		info.element_size_bytes = info.element_alignment_bytes = sizeof(value);
		const auto data = m_scheduler.create_buffer(info);
		info.extents = point{{1, num_sums, 1}};
		std::array<buffer_id, 2> sums{m_scheduler.create_buffer(info), m_scheduler.create_buffer(info)};
		const auto reduction_into = [](const buffer_id id, const bool includes_current) {
			task_reduction reduction;
			reduction.buffer = id;
			reduction.type = scalar_type::uint32;
			reduction.include_current = includes_current;
			return reduction;
		};
		task first;
		first.accesses = {{data, access_mode::write, range_mapper::one_to_one()}};
		submit(std::move(first), m_initialize);
		for(const auto id : sums) {
			task counting;
			counting.accesses = {{data, access_mode::read, range_mapper::one_to_one()}};
			counting.reductions = {reduction_into(id, false)};
			submit(std::move(counting), m_count);
		}
		bool includes_current = false;
		const auto make_step = [&] {
			task next;
			next.accesses = {{data, access_mode::read_write, range_mapper::one_to_one()}, {sums[0], access_mode::read, range_mapper::all()}};
			next.reductions = {reduction_into(sums[1], includes_current = !includes_current)};
			std::swap(sums[0], sums[1]);
			return next;
		};
		if(m_how.replays) {
			replay_all(record({make_step(), make_step()}), static_cast<std::uint32_t>(m_how.steps / 2));
		} else {
			for(int step = 0; step < m_how.steps; ++step) submit(make_step(), m_advance);
		}
		task last;
		last.accesses = {{data, access_mode::read, range_mapper::one_to_one()}};
		submit(std::move(last), m_compare);
		wait(epoch_action::none);
		wait(epoch_action::shutdown);
	}
};

} // namespace

int main() {
	emulated_cuda::settings emulated;
	emulated.instantiation_waits = true;
	emulated_cuda::configure(emulated);
	for(std::size_t num_devices = 1; num_devices <= 4; ++num_devices) {
		for(const bool replays : {false, true}) {
			setup how;
			how.num_devices = num_devices;
			how.replays = replays;
			how.steps = 100;
			const auto graph_runs = run<adding_rank>(how);
			std::printf("%zu devices, replays %d: %lu graph runs\n", num_devices, int{replays}, static_cast<unsigned long>(graph_runs));
			if((graph_runs > 0) != replays) die("periods with reductions should run as graphs");
			if(emulated_cuda::num_host_copies() != 0) die("data has touched the host");
		}
	}
	std::puts("all values are right");
	return 0;
}
