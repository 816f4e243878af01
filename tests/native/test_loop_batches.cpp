// SPDX-License-Identifier: MIT
// Plain loops on the emulated driver: devices carry out their periods as graphs, and kernels get the scalars of their own submits. All values are compared.
#include <cstdio>
#include <functional>
#include <random>
#include <string>

#include "emulated/ranks.hpp"

namespace {

using namespace emulated_ranks;

void advance_by(void* const* const parameters, const value factor) {
	const auto& out = *static_cast<const accessor_2d*>(parameters[1]);
	const auto& in = *static_cast<const accessor_2d*>(parameters[2]);
	const value added = *static_cast<const value*>(parameters[3]);
	for_each_item(*static_cast<const chunk_2d*>(parameters[0]), [&](const auto row, const auto column) {
		const value above = row > 0 ? in(row - 1, column) : 0;
		const value below = row + 1 < in.extent[0] ? in(row + 1, column) : 0;
		out(row, column) = out(row, column) * factor + in(row, column) + above * 5 + below * 7 + added * static_cast<value>(column + 1);
	});
}
void advance_by_three(void* const* const parameters) { advance_by(parameters, 3); }
void advance_by_nine(void* const* const parameters) { advance_by(parameters, 9); }

const std::vector<std::size_t> parameter_bytes{sizeof(chunk_2d), sizeof(accessor_2d), sizeof(accessor_2d), sizeof(value)};
const std::array functions{emulated_cuda::function{parameter_bytes, advance_by_three}, emulated_cuda::function{parameter_bytes, advance_by_nine}};
constexpr std::array<value, 2> factors{3, 9};

std::shared_ptr<const native_kernel> make_advance(const emulated_cuda::function& function, const setup& how) {
	using parameter = cuda_function::parameter;
	const parameter accessor{parameter::kind_type::accessor, 2, sizeof(value), {}};
	return std::make_shared<cuda_function>(std::vector(how.num_devices, handle_of(function)), std::vector<std::uint32_t>{8, 32}, std::vector<std::uint32_t>{},
	    0, std::vector<parameter>{{parameter::kind_type::chunk, 2, 0, {}}, accessor, accessor, {parameter::kind_type::scalar, 0, sizeof(value), {}}}, false);
}

/// What a program does, one after the other.
struct action {
	enum class kind_type { step, wait, fence, pause, pause_odd_ranks, rest } kind = kind_type::step;
	value added = 0;
	std::size_t kernel = 0;
	bool is_narrow = false; ///< a step of other accesses
};
std::vector<action> program;

class looping_rank final : public rank {
  public:
	looping_rank(const setup& how, const std::size_t number) : rank(how, number) {
		for(const auto& function : functions) m_kernels.push_back(make_advance(function, how));
	}

	static void expect(const setup&) {
		std::array<std::vector<value>, 2> data;
		for(coordinate row = 0; row < extent; ++row) {
			for(coordinate column = 0; column < extent; ++column) data[0].push_back(at_first(row, column));
		}
		data[1] = data[0];
		for(const auto& each : program) {
			if(each.kind != action::kind_type::step) continue;
			const auto& in = data[0];
			auto& out = data[1];
			for(std::size_t i = 0; i < out.size(); ++i) {
				const value above = i >= extent ? in[i - extent] : 0;
				const value below = i + extent < in.size() ? in[i + extent] : 0;
				out[i] = out[i] * factors[each.kernel] + in[i] + above * 5 + below * 7 + each.added * static_cast<value>(i % extent + 1);
			}
			std::swap(data[0], data[1]);
		}
		expected = data[0];
	}

	scheduler_statistics planned() const { return m_scheduler.statistics(); }

  private:
	std::vector<std::shared_ptr<const native_kernel>> m_kernels;
	std::size_t m_num_steps = 0;

	void apply() override {
		initialize();
		for(const auto& each : program) {
			switch(each.kind) {
			case action::kind_type::step: step(each); break;
			case action::kind_type::wait: wait(epoch_action::none); break;
			case action::kind_type::fence: fence(); break;
			case action::kind_type::pause: std::this_thread::sleep_for(4ms); break;
			case action::kind_type::pause_odd_ranks:
				if(m_number % 2 != 0) std::this_thread::sleep_for(1ms);
				break;
			case action::kind_type::rest: rest(); break;
			}
		}
		finish();
	}

	void step(const action& what) {
		task made;
		made.name = what.is_narrow ? "narrow" : "step";
		const auto rows = range_mapper::built_in(range_mapper::kind::neighborhood, 2, point{{1, what.is_narrow ? 0 : 1, 0}}, range_mapper::along_axes);
		made.accesses = {{m_buffers[1], access_mode::read_write, range_mapper::one_to_one()}, {m_buffers[0], access_mode::read, rows}};
		std::swap(m_buffers[0], m_buffers[1]);
		while(!m_scheduler.pace().throttle(100ms)) {}
		set_geometry(made);
		const auto* const bytes = reinterpret_cast<const std::byte*>(&what.added);
		m_executor.launches().add(m_scheduler.next_submission(), {m_kernels[what.kernel], {bytes, bytes + sizeof what.added}, space()});
		m_scheduler.submit(std::move(made));
		++m_num_steps;
	}

	/// Until all steps are carried out. Nothing tells the scheduler that the program waits.
	void rest() {
		const auto is_done = [this] {
			auto counts = m_executor.statistics().instructions;
			return counts[kind_of(device_kernel_instruction{})] >= m_how.num_devices * (m_num_steps + m_buffers.size());
		};
		for(int looks = 0; !is_done(); ++looks) {
			if(looks == 10'000) die("a task waits for the next submit");
			std::this_thread::sleep_for(1ms);
		}
	}

	/// Of all data. The values are compared at the end of the program.
	void fence() {
		std::vector<value> result(static_cast<std::size_t>(extent * extent));
		task made;
		made.kind = task_kind::fence;
		made.accesses = {{m_buffers[0], access_mode::read, range_mapper::all()}};
		made.fence_box = space();
		made.fence_destination = allocation_id::of_user(user_memory, m_executor.allocations().register_user_memory(result.data(), made.fence_box));
		const auto submission = m_scheduler.submit(std::move(made));
		while(m_completed < submission.value) std::this_thread::sleep_for(100us);
	}
};

std::vector<action> steps(const int number, const std::function<value(int)>& added, const std::size_t kernel = 0, const bool is_narrow = false) {
	std::vector<action> made;
	for(int i = 0; i < number; ++i) made.push_back({action::kind_type::step, added(i), kernel, is_narrow});
	return made;
}
value growing(const int i) { return static_cast<value>(i) * 1001; }
value constant(int) { return 17; }
void append(std::vector<action>& to, const std::vector<action>& more) { to.insert(to.end(), more.begin(), more.end()); }

std::uint64_t run_program(const setup& how, const std::string& name, std::vector<action> actions) {
	program = std::move(actions);
	const int changed_before = emulated_cuda::num_changed_nodes();
	const auto graph_runs = run<looping_rank>(how);
	std::printf("%s, %zu ranks, %zu devices: %lu graph runs, %d changed kernels\n", name.c_str(), how.num_ranks, how.num_devices,
	    static_cast<unsigned long>(graph_runs), emulated_cuda::num_changed_nodes() - changed_before);
	return graph_runs;
}

void run_all(const setup& how) {
	const int changed_before = emulated_cuda::num_changed_nodes();
	if(run_program(how, "constant scalars", steps(200, constant)) < 5) die("a plain loop has hardly used graphs");
	if(emulated_cuda::num_changed_nodes() != changed_before) die("equal scalars need no change");
	if(run_program(how, "growing scalars", steps(200, growing)) < 5) die("a loop with growing scalars has hardly used graphs");
	if(emulated_cuda::num_changed_nodes() == changed_before) die("graphs have to be told of scalars");

	run_program(how, "two scalars in turns", steps(300, [](const int i) { return static_cast<value>(i / 50 % 2 + 1); }));

	for(const auto stop : {action::kind_type::wait, action::kind_type::fence}) {
		std::vector<action> stopping;
		for(int frame = 0; frame < 25; ++frame) {
			append(stopping, steps(10, [=](const int i) { return growing(i + frame); }));
			stopping.push_back({stop});
		}
		run_program(how, stop == action::kind_type::wait ? "a wait every ten steps" : "a fence every ten steps", stopping);
	}

	std::vector<action> turns;
	for(int turn = 0; turn < 6; ++turn) append(turns, steps(turn % 2 == 0 ? 41 : 30, growing, 0, turn % 2 != 0));
	run_program(how, "two loops in turns", turns);

	auto replaced = steps(150, constant);
	append(replaced, steps(60, constant, 1)); // the same task, as far as planning knows
	append(replaced, steps(20, constant, 0));
	run_program(how, "another kernel amid the loop", replaced);

	std::vector<action> pausing;
	std::mt19937 random(7);
	for(int i = 0; i < 40; ++i) {
		append(pausing, steps(static_cast<int>(random() % 9) + 1, growing));
		pausing.push_back({action::kind_type::pause});
	}
	run_program(how, "a program that pauses", pausing);

	std::vector<action> resting;
	for(int i = 0; i < 40; ++i) {
		append(resting, steps(i < 20 ? 4 : i % 3 + 1, growing));
		resting.push_back({action::kind_type::rest});
	}
	run_program(how, "a program that does something else", resting);

	if(how.num_ranks == 1) return;
	std::vector<action> uneven;
	for(int i = 0; i < 100; ++i) {
		append(uneven, steps(3, growing));
		uneven.push_back({action::kind_type::pause_odd_ranks});
	}
	if(run_program(how, "a slow rank beside a fast one", uneven) == 0) die("ranks of different speed have to use graphs");
}

} // namespace

int main() {
	emulated_cuda::configure({});
	setup how;
	how.replays = true; // devices have graphs
	how.border = 0;
	run_all(how);
	how.num_devices = 2;
	run_all(how);
	how.num_ranks = 2;
	how.num_devices = 1;
	run_all(how);
}
