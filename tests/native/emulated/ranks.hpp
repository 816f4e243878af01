// SPDX-License-Identifier: MIT
// Several ranks, each with its scheduler, its executor and the CUDA backend, on the emulated driver: halos of a grid that is divided in one or two dimensions,
// from all sides or from above only, or all of it, go from rank to rank, many steps ahead of the devices. All values are compared.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cuda.hpp"
#include "executor/core/backends/cuda/cuda_backend.hpp"
#include "executor/core/loop/executor_loop.hpp"
#include "scheduler/core/pipeline/scheduler.hpp"

namespace emulated_ranks {

using namespace celerity;
using namespace std::chrono_literals;

inline constexpr coordinate extent = 48;
using value = std::uint32_t;

[[noreturn]] inline void die(const std::string& what) {
	std::fprintf(stderr, "FAILED: %s\n", what.c_str());
	emulated_cuda::describe();
	std::abort();
}

/// The inputs of an item: itself and its neighbours; itself and the items above, so that whoever has the upper rows need not wait for the others; or
/// something of everything; or something of every other element, each of which is a message of its own.
enum class pattern { halos, from_above, all, every_other };

struct setup {
	std::size_t num_ranks = 1;
	std::size_t num_devices = 1; ///< of each rank
	pattern reads = pattern::halos;
	bool split_2d = false;
	std::uint32_t border = 0;
	std::uint32_t compute_lanes = 12;
	std::uint32_t oversubscription = 1;
	bool overwrites_wait = true;
	int steps = 100;
	std::uint64_t most_on_a_lane = 120;
	bool kernels_wait = true;
	bool kernels_raise = true;
	bool replays = false; ///< the steps are repetitions of two recorded ones, which a device may carry out as graphs
	bool odd_ranks_have_graphs = true; ///< otherwise they issue each instruction of a replay
	bool peeks = false; ///< rank 0 reads all data amid the replay, so that it needs other memory
	bool holds_devices = false; ///< from the first task on, until somebody lets them go
	std::uint32_t horizon_step = 4;
	std::size_t joined_bytes = 0; ///< 0: receives that share messages are many
};

inline value at_first(const coordinate row, const coordinate column) { return static_cast<value>(row * 1000 + column); }

inline value updated(const value old, const value centre, const value above, const value below, const value left, const value right) {
	return old * 3 + centre + above * 5 + below * 7 + left * 11 + right * 13;
}

// ---- what runs on devices ------------------------------------------------------------------------------------------------------------

struct chunk_2d {
	std::int64_t min[2], max[2], global_min[2], global_max[2];
};
struct accessor_2d {
	value* data;
	std::int64_t stride;
	value& operator()(const std::int64_t row, const std::int64_t column) const { return data[row * stride + column]; }
};

template <typename F>
void for_each_item(const chunk_2d& chunk, F&& f) {
	for(std::int64_t row = chunk.min[0]; row < chunk.max[0]; ++row) {
		for(std::int64_t column = chunk.min[1]; column < chunk.max[1]; ++column) f(row, column);
	}
}

inline void initialize(void* const* const parameters) {
	const auto& out = *static_cast<const accessor_2d*>(parameters[1]);
	for_each_item(*static_cast<const chunk_2d*>(parameters[0]), [&](const auto row, const auto column) { out(row, column) = at_first(row, column); });
}

inline void advance(void* const* const parameters) {
	const auto& out = *static_cast<const accessor_2d*>(parameters[1]);
	const auto& in = *static_cast<const accessor_2d*>(parameters[2]);
	for_each_item(*static_cast<const chunk_2d*>(parameters[0]), [&](const auto row, const auto column) {
		const auto read = [&](const std::int64_t r, const std::int64_t c) { return r < 0 || c < 0 || r >= extent || c >= extent ? 0 : in(r, c); };
		out(row, column) =
		    updated(out(row, column), in(row, column), read(row - 1, column), read(row + 1, column), read(row, column - 1), read(row, column + 1));
	});
}

inline void advance_from_above(void* const* const parameters) {
	const auto& out = *static_cast<const accessor_2d*>(parameters[1]);
	const auto& in = *static_cast<const accessor_2d*>(parameters[2]);
	for_each_item(*static_cast<const chunk_2d*>(parameters[0]),
	    [&](const auto row, const auto column) { out(row, column) = updated(out(row, column), in(row, column), row > 0 ? in(row - 1, column) : 0, 0, 0, 0); });
}

/// Of every row; of any column, or of every other one, as on the black squares of a chessboard.
inline value sum_of_some(const std::int64_t row, const std::int64_t stride, const auto& read) {
	value sum = 0;
	for(std::int64_t i = 0; i < extent; ++i) sum += read(i, (7 * i + row) % (extent / stride) * stride + i % stride);
	return sum;
}

template <std::int64_t Stride>
void advance_by_some(void* const* const parameters) {
	const auto& out = *static_cast<const accessor_2d*>(parameters[1]);
	const auto& in = *static_cast<const accessor_2d*>(parameters[2]);
	for_each_item(*static_cast<const chunk_2d*>(parameters[0]),
	    [&](const auto row, const auto column) { out(row, column) = out(row, column) * 3 + in(row, column) + sum_of_some(row, Stride, in); });
}

inline std::vector<value> expected;
inline std::atomic<std::uint64_t> num_wrong{0};
inline std::atomic<std::uint64_t> num_checked{0};

inline void compare(void* const* const parameters) {
	const auto& in = *static_cast<const accessor_2d*>(parameters[1]);
	for_each_item(*static_cast<const chunk_2d*>(parameters[0]), [&](const auto row, const auto column) {
		num_wrong += in(row, column) != expected[static_cast<std::size_t>(row * extent + column)];
		++num_checked;
	});
}

inline std::atomic<value> sum_of_peeks{0};
inline void peek(void* const* const parameters) {
	for(const int buffer : {1, 2}) {
		const auto& in = *static_cast<const accessor_2d*>(parameters[buffer]);
		for(coordinate row = 0; row < extent; ++row) sum_of_peeks += in(row, row);
	}
}

struct flag_to_see {
	std::uint32_t* address;
	std::uint64_t value;
};
struct small_copy {
	std::uint64_t source, destination;
	std::uint32_t count[3], word_bytes;
	std::int64_t source_stride[2], destination_stride[2];
	flag_to_see ready;
};
struct small_copy_slot {
	small_copy part;
	flag_to_see raised, answer;
};
template <std::size_t NumSlots>
struct small_copies {
	static constexpr std::size_t num_slots = NumSlots;
	std::uint32_t num_parts, waits, num_raised, num_answers;
	std::uint32_t* arrived;
	std::uint32_t* stop;
	small_copy_slot slots[NumSlots];
};

inline void raise(const shared_flag& flag) {
	std::atomic_ref(*flag.address).store(flag.value, std::memory_order_release);
	emulated_cuda::count_flag_write();
}

inline bool is_stopped(const auto& arguments) { return arguments.stop != nullptr && std::atomic_ref(*arguments.stop).load() != 0; }

template <typename Arguments>
bool may_copy_small(void* const* const parameters) {
	const auto& arguments = *static_cast<const Arguments*>(parameters[0]);
	for(std::uint64_t i = 0; i < arguments.num_raised; ++i) {
		const auto& raised = arguments.slots[i].raised;
		const shared_flag flag{raised.address, static_cast<std::uint32_t>(raised.value)};
		if(!is_reached(flag)) raise(flag); // this is asked again and again, and the flag may have gone to another message
	}
	const auto is_ready = [](const small_copy_slot& slot) {
		const auto& ready = slot.part.ready;
		return ready.address == nullptr || is_reached({ready.address, static_cast<std::uint32_t>(ready.value)});
	};
	return arguments.waits == 0 || is_stopped(arguments) || std::all_of(arguments.slots, arguments.slots + arguments.num_parts, is_ready);
}

template <typename Arguments>
void copy_parts(const Arguments& arguments) {
	for(std::uint64_t i = 0; i < arguments.num_parts; ++i) {
		const auto& part = arguments.slots[i].part;
		for(std::uint64_t plane = 0; plane < part.count[2]; ++plane) {
			for(std::uint64_t row = 0; row < part.count[1]; ++row) {
				const auto offset = [&](const std::int64_t* const stride) {
					return static_cast<std::int64_t>(row) * stride[0] + static_cast<std::int64_t>(plane) * stride[1];
				};
				std::memcpy(reinterpret_cast<std::byte*>(part.destination) + offset(part.destination_stride),
				    reinterpret_cast<const std::byte*>(part.source) + offset(part.source_stride), part.count[0] * part.word_bytes);
			}
		}
	}
}

template <typename Arguments>
void copy_small(void* const* const parameters) {
	const auto& arguments = *static_cast<const Arguments*>(parameters[0]);
	if(std::max({arguments.num_parts, arguments.num_raised, arguments.num_answers}) > Arguments::num_slots) die("the kernel has too few slots");
	if(arguments.waits != 0 && is_stopped(arguments)) return emulated_cuda::trap();
	copy_parts(arguments);
	if(arguments.num_answers > 0 && *arguments.arrived != 0) die("blocks are counted that were never launched");
	for(std::uint64_t i = 0; i < arguments.num_answers; ++i) {
		const auto& answer = arguments.slots[i].answer;
		raise({answer.address, static_cast<std::uint32_t>(answer.value)});
	}
}

template <typename Arguments>
inline const emulated_cuda::function small_copies_function{{sizeof(Arguments)}, copy_small<Arguments>, may_copy_small<Arguments>};

inline std::uint32_t& count_of(const flag_to_see& flag) { return *reinterpret_cast<std::uint32_t*>(flag.value); }

/// This is asked again and again: the word for blocks that have arrived says that the flags are raised.
inline bool may_exchange(void* const* const parameters) {
	const auto& arguments = *static_cast<const small_copies<8>*>(parameters[0]);
	if(std::exchange(*arguments.arrived, 1) == 0) {
		for(std::uint64_t i = 0; i < arguments.num_raised; ++i) raise({arguments.slots[i].raised.address, ++count_of(arguments.slots[i].raised)});
	}
	const auto is_ready = [](const small_copy_slot& slot) { return is_reached({slot.part.ready.address, count_of(slot.part.ready) + 1}); };
	return is_stopped(arguments) || std::all_of(arguments.slots, arguments.slots + arguments.waits, is_ready);
}

inline void exchange(void* const* const parameters) {
	const auto& arguments = *static_cast<const small_copies<8>*>(parameters[0]);
	if(is_stopped(arguments)) return emulated_cuda::trap();
	*arguments.arrived = 0;
	copy_parts(arguments);
	for(std::uint64_t i = 0; i < arguments.waits; ++i) ++count_of(arguments.slots[i].part.ready);
}

struct rank_exchange {
	static const rank_flag& flag_at(const flag_to_see& flag) { return *reinterpret_cast<const rank_flag*>(flag.address); }
	static bool is_up(const rank_flag& flag) {
		return (flag.word != 0 && std::atomic_ref(*reinterpret_cast<std::uint64_t*>(flag.word)).load(std::memory_order_acquire) >= flag.value)
		       || is_reached(flag.host);
	}
	/// This is asked again and again, and the flags may have gone to other messages.
	static bool may_go(void* const* const parameters) {
		const auto& arguments = *static_cast<const small_copies<8>*>(parameters[0]);
		for(std::uint64_t i = 0; i < arguments.num_raised; ++i) {
			const auto& flag = flag_at(arguments.slots[i].raised);
			if(flag.word != 0) {
				const std::atomic_ref word(*reinterpret_cast<std::uint64_t*>(flag.word));
				if(word.load() < flag.value) word.store(flag.value, std::memory_order_release);
			}
			if(!is_reached(flag.host)) raise(flag.host);
		}
		const auto is_slot_up = [](const small_copy_slot& slot) { return is_up(flag_at(slot.part.ready)); };
		return is_stopped(arguments) || std::all_of(arguments.slots, arguments.slots + arguments.waits, is_slot_up);
	}
	static void run(void* const* const parameters) {
		const auto& arguments = *static_cast<const small_copies<8>*>(parameters[0]);
		if(is_stopped(arguments)) return emulated_cuda::trap();
		copy_parts(arguments);
	}
};

struct flags_to_set {
	rank_flag* destination;
	std::uint64_t count;
	rank_flag flags[120];
};
inline void set_flags(void* const* const parameters) {
	const auto& given = *static_cast<const flags_to_set*>(parameters[0]);
	std::copy_n(given.flags, given.count, given.destination);
}

inline const emulated_cuda::function rank_exchange_function{{sizeof(small_copies<8>)}, rank_exchange::run, rank_exchange::may_go};
inline const emulated_cuda::function set_flags_function{{sizeof(flags_to_set)}, set_flags};
inline const emulated_cuda::function initialize_function{{sizeof(chunk_2d), sizeof(accessor_2d)}, initialize};
inline const emulated_cuda::function advance_function{{sizeof(chunk_2d), sizeof(accessor_2d), sizeof(accessor_2d)}, advance};
inline const emulated_cuda::function advance_by_all_function{advance_function.parameter_bytes, advance_by_some<1>};
inline const emulated_cuda::function advance_by_every_other_function{advance_function.parameter_bytes, advance_by_some<2>};
inline const emulated_cuda::function advance_from_above_function{advance_function.parameter_bytes, advance_from_above};
inline const emulated_cuda::function compare_function{{sizeof(chunk_2d), sizeof(accessor_2d)}, compare};
inline const emulated_cuda::function peek_function{{sizeof(chunk_2d), sizeof(accessor_2d), sizeof(accessor_2d)}, peek};
inline const emulated_cuda::function exchange_function{{sizeof(small_copies<8>)}, exchange, may_exchange};

inline cuda::function handle_of(const emulated_cuda::function& function) {
	return reinterpret_cast<cuda::function>(const_cast<emulated_cuda::function*>(&function));
}

inline std::shared_ptr<const native_kernel> make_kernel(const emulated_cuda::function& function, const setup& how) {
	using parameter = cuda_function::parameter;
	std::vector<parameter> parameters{{parameter::kind_type::chunk, 2, 0, {}}};
	for(std::size_t i = 1; i < function.parameter_bytes.size(); ++i) parameters.push_back({parameter::kind_type::accessor, 2, sizeof(value), {}});
	return std::make_shared<cuda_function>(std::vector(how.num_devices, handle_of(function)), std::vector<std::uint32_t>{8, 32}, std::vector<std::uint32_t>{},
	    0, parameters, false);
}

inline const emulated_cuda::function& advancing(const pattern reads) {
	switch(reads) {
	case pattern::halos: return advance_function;
	case pattern::from_above: return advance_from_above_function;
	case pattern::every_other: return advance_by_every_other_function;
	default: return advance_by_all_function;
	}
}

inline range_mapper read_by(const pattern reads) {
	switch(reads) {
	case pattern::halos: return range_mapper::built_in(range_mapper::kind::neighborhood, 2, point{{1, 1, 0}}, range_mapper::along_axes);
	case pattern::from_above:
		return range_mapper::from_function([](const box& chunk, const box&) {
			const point above{{std::max<coordinate>(chunk.min(0) - 1, 0), chunk.min(1), 0}};
			return region(box(above, point{{chunk.max(0), chunk.max(1), 1}}));
		});
	case pattern::every_other:
		return range_mapper::from_function([](const box& chunk, const box&) {
			box_vector boxes;
			boxes.push_back(chunk);
			for(coordinate row = 0; row < extent; ++row) {
				for(coordinate column = row % 2; column < extent; column += 2) boxes.push_back(box(point{{row, column, 0}}, point{{row + 1, column + 1, 1}}));
			}
			return region(std::move(boxes));
		});
	default: return range_mapper::all();
	}
}

// ---- a rank --------------------------------------------------------------------------------------------------------------------------

class rank {
  public:
	rank(const setup& how, const std::size_t number)
	    : m_how(how), m_number(number), m_executor(options(), [&](event_count& completions) { return make_backend(completions); }),
	      m_scheduler(planning(), &m_executor), m_initialize(make_kernel(initialize_function, how)), m_advance(make_kernel(advancing(how.reads), how)),
	      m_compare(make_kernel(compare_function, how)), m_peek(make_kernel(peek_function, how)) {}

	std::optional<flag_segment::offer> offer() { return m_executor.offer_direct(all_ranks()); }
	void connect(const std::vector<flag_segment::offer>& offers) {
		std::vector<rank_id> peers;
		for(std::size_t other = 0; other < offers.size(); ++other) {
			if(other == m_number) continue;
			peers.emplace_back(static_cast<std::uint32_t>(other));
			m_executor.open_direct(peers.back(), offers[other]);
		}
		m_executor.agree_direct(peers);
	}

	void start() {
		m_executor.set_progress_callback([this](const task_id reached, const bool is_epoch) { m_scheduler.notify_reached(reached, is_epoch); });
		m_scheduler.set_failure_callback([](const std::string& text) { die(text); });
		m_scheduler.start();
		m_executor_thread = std::thread([this] { drive(); });
		m_application_thread = std::thread([this] { apply(); });
	}

	/// Whatever its devices wait for.
	void stop_executor() { m_executor.stop(); }
	/// Before release(): the program goes on, and nobody carries its tasks out.
	void leave() {
		m_executor.stop();
		m_executor_thread.join();
	}
	/// Whether the devices were idle.
	bool release() { return m_executor.release_devices(); }

	executor_statistics statistics() { return m_executor.statistics(); }
	void join() {
		m_application_thread.join();
		m_executor_thread.join();
		m_scheduler.stop();
		m_executor.stop();
	}

  private:
	setup m_how;
	std::size_t m_number;
	executor_loop m_executor;
	scheduler m_scheduler;
	std::shared_ptr<const native_kernel> m_initialize, m_advance, m_compare, m_peek;
	std::thread m_executor_thread, m_application_thread;
	std::atomic<std::uint64_t> m_completed{0};

	std::vector<rank_id> all_ranks() const {
		std::vector<rank_id> all;
		for(std::uint32_t r = 0; r < m_how.num_ranks; ++r) all.emplace_back(r);
		return all;
	}

	executor_options options() const {
		executor_options result;
		result.num_ranks = m_how.num_ranks;
		result.rank = rank_id(static_cast<std::uint32_t>(m_number));
		result.num_devices = m_how.num_devices;
		result.oversubscribed = true;
		result.direct = m_how.num_ranks > 1;
		result.overwrites_wait = m_how.overwrites_wait;
		result.most_on_a_lane = m_how.most_on_a_lane;
		return result;
	}

	scheduler_settings planning() const {
		scheduler_settings result;
		result.pipeline.capabilities.num_ranks = m_how.num_ranks;
		result.pipeline.capabilities.local_rank = rank_id(static_cast<std::uint32_t>(m_number));
		result.pipeline.capabilities.num_devices = m_how.num_devices;
		result.pipeline.capabilities.direct_ranks.assign(m_how.num_ranks, true);
		result.pipeline.capabilities.joined_bytes = m_how.joined_bytes;
		result.pipeline.capabilities.gathered_bytes = 1 << 20;
		result.pipeline.lookahead = lookahead_mode::automatic;
		result.pipeline.horizons.step = m_how.horizon_step;
		return result;
	}

	std::unique_ptr<backend> make_backend(event_count& completions) const {
		cuda_options options;
		for(std::size_t d = 0; d < m_how.num_devices; ++d) options.ordinals.push_back(static_cast<int>(m_number * m_how.num_devices + d));
		options.compute_lanes = m_how.compute_lanes;
		options.may_spin = false;
		options.graphs = m_how.replays && (m_number % 2 == 0 || m_how.odd_ranks_have_graphs);
		options.kernels_wait = m_how.kernels_wait;
		options.kernels_raise = m_how.kernels_raise;
		options.graphs_exchange = true;
		options.small_copies.assign(m_how.num_devices, {handle_of(small_copies_function<small_copies<2>>), handle_of(small_copies_function<small_copies<8>>),
		                                                   handle_of(exchange_function), handle_of(rank_exchange_function), handle_of(set_flags_function)});
		return std::make_unique<cuda_backend>(options, completions);
	}

	void drive() {
		while(true) {
			for(const auto& event : m_executor.run(100ms)) {
				if(const auto* const failed = std::get_if<failed_event>(&event)) die(failed->failure.text);
				if(const auto* const completed = std::get_if<completed_event>(&event)) m_completed = completed->submission.value;
				if(std::holds_alternative<shutdown_event>(event) || std::holds_alternative<stopped_event>(event)) return;
			}
		}
	}

	static box space() { return box::full(point{{extent, extent, 1}}); }

	void set_geometry(task& node) const {
		node.geometry = {2, space(), point{{1, 1, 1}}, m_how.split_2d ? split_kind::split_2d : split_kind::split_1d, m_how.oversubscription, m_how.border, true,
		    cut_rows, 0, {}};
	}

	void register_launch(const submission_id submission, const std::shared_ptr<const native_kernel>& kernel) {
		m_executor.register_launch(submission, {kernel, {}, space()});
	}

	void submit(task&& submitted, const std::shared_ptr<const native_kernel>& kernel) {
		while(!m_scheduler.throttle(100ms)) {}
		set_geometry(submitted);
		register_launch(m_scheduler.next_submission(), kernel);
		m_scheduler.submit(std::move(submitted));
	}

	void wait(const epoch_action action) {
		task epoch;
		epoch.kind = task_kind::epoch;
		epoch.action = action;
		const auto submission = m_scheduler.submit(std::move(epoch));
		if(action == epoch_action::shutdown) return;
		while(m_completed < submission.value) std::this_thread::sleep_for(1ms);
	}

	/// One item, which belongs to rank 0, reads both buffers.
	void peek(const std::vector<task>& steps) {
		task reading;
		for(const auto& each : steps) reading.accesses.push_back({each.accesses[1].buffer, access_mode::read, range_mapper::all()});
		while(!m_scheduler.throttle(100ms)) {}
		const auto one = box(point{{0, 0, 0}}, point{{1, 1, 1}});
		set_geometry(reading);
		reading.geometry.global = one;
		m_executor.register_launch(m_scheduler.next_submission(), {m_peek, {}, one});
		m_scheduler.submit(std::move(reading));
	}

	/// Two steps, `turns` times.
	void replay(const std::array<task, 2>& two_steps, const std::uint32_t turns) {
		auto recorded = std::make_shared<recorded_program>();
		recorded->tasks.assign(two_steps.begin(), two_steps.end());
		for(auto& each : recorded->tasks) set_geometry(each);
		recorded->buffers = buffers_of(recorded->tasks);
		bool has_peeked = !m_how.peeks;
		for(std::uint32_t done = 0; done < turns;) {
			if(!has_peeked && done >= turns / 2) {
				has_peeked = true;
				peek(recorded->tasks);
			}
			while(!m_scheduler.throttle(100ms)) {}
			const std::uint32_t now = std::min<std::uint32_t>(turns - done, 1 + done % 23); // pieces of all sizes
			auto submission = m_scheduler.next_submission();
			for(std::uint32_t i = 0; i < 2 * now; ++i, ++submission.value) register_launch(submission, m_advance);
			m_scheduler.replay(recorded, now, 0);
			done += now;
		}
	}

	void apply() {
		buffer_info info;
		info.dims = 2;
		info.extents = point{{extent, extent, 1}};
		info.element_size_bytes = info.element_alignment_bytes = sizeof(value);
		std::array<buffer_id, 2> buffers{m_scheduler.create_buffer(info), m_scheduler.create_buffer(info)};
		const auto read = read_by(m_how.reads);
		for(const auto id : buffers) {
			task first;
			first.accesses = {{id, access_mode::write, range_mapper::one_to_one()}};
			submit(std::move(first), m_initialize);
		}
		const auto make_step = [&] {
			task next;
			next.accesses = {{buffers[1], access_mode::read_write, range_mapper::one_to_one()}, {buffers[0], access_mode::read, read}};
			std::swap(buffers[0], buffers[1]);
			return next;
		};
		if(m_how.replays) replay({make_step(), make_step()}, static_cast<std::uint32_t>(m_how.steps / 2));
		for(int step = m_how.replays ? m_how.steps / 2 * 2 : 0; step < m_how.steps; ++step) submit(make_step(), m_advance);
		task last;
		last.accesses = {{buffers[0], access_mode::read, range_mapper::one_to_one()}};
		submit(std::move(last), m_compare);
		wait(epoch_action::none);
		wait(epoch_action::shutdown);
	}
};

// ---- all ranks -----------------------------------------------------------------------------------------------------------------------

inline void expect_after(const int steps, const pattern reads) {
	std::vector<value> u, next;
	for(coordinate row = 0; row < extent; ++row) {
		for(coordinate column = 0; column < extent; ++column) u.push_back(at_first(row, column));
	}
	next = u;
	for(int step = 0; step < steps; ++step) {
		const auto read = [&](const coordinate r, const coordinate c) {
			return r < 0 || c < 0 || r >= extent || c >= extent ? 0 : u[static_cast<std::size_t>(r * extent + c)];
		};
		for(coordinate row = 0; row < extent; ++row) {
			for(coordinate column = 0; column < extent; ++column) {
				auto& item = next[static_cast<std::size_t>(row * extent + column)];
				const value above = read(row - 1, column);
				item = reads == pattern::all           ? item * 3 + read(row, column) + sum_of_some(row, 1, read)
				       : reads == pattern::every_other ? item * 3 + read(row, column) + sum_of_some(row, 2, read)
				       : reads == pattern::from_above
				           ? updated(item, read(row, column), above, 0, 0, 0)
				           : updated(item, read(row, column), above, read(row + 1, column), read(row, column - 1), read(row, column + 1));
			}
		}
		std::swap(u, next);
	}
	expected = u;
}

inline std::vector<std::unique_ptr<rank>> connect(const setup& how) {
	std::vector<std::unique_ptr<rank>> ranks;
	for(std::size_t r = 0; r < how.num_ranks; ++r) ranks.push_back(std::make_unique<rank>(how, r));
	if(how.num_ranks > 1) {
		std::vector<flag_segment::offer> offers;
		for(const auto& r : ranks) offers.push_back(r->offer().value());
		for(const auto& r : ranks) r->connect(offers);
	}
	return ranks;
}

inline void expect_nothing_held() {
	const auto held = emulated_cuda::held();
	if(held == emulated_cuda::holdings{}) return;
	die("the end has left " + std::to_string(held.device_bytes) + " bytes on devices, " + std::to_string(held.host_bytes) + " bytes on the host, "
	    + std::to_string(held.streams) + " streams, " + std::to_string(held.events) + " events, " + std::to_string(held.graphs) + " graphs, "
	    + std::to_string(held.opened) + " opened slabs and " + std::to_string(held.registered) + " registered segments");
}

/// Returns the number of graphs that have run on the first rank. At its end nothing of the driver is left.
inline std::uint64_t run(const setup& how) {
	expect_after(how.steps, how.reads);
	num_checked = num_wrong = 0;
	const auto ranks = connect(how);
	std::atomic<bool> is_over{false};
	std::thread watchdog([&] {
		for(int looks = 0; !is_over; ++looks) {
			if(looks == 2400) die("nothing moves any more");
			std::this_thread::sleep_for(50ms);
		}
	});
	if(how.holds_devices) emulated_cuda::hold(true);
	for(const auto& r : ranks) r->start();
	for(const auto& r : ranks) r->join();
	is_over = true;
	watchdog.join();
	if(num_checked != static_cast<std::uint64_t>(extent * extent)) die("not everything was compared");
	if(num_wrong > 0) die(std::to_string(num_wrong) + " values are wrong");
	const auto graph_runs = ranks.front()->statistics().graph_runs;
	for(const auto& r : ranks) {
		if(!r->release()) die("a device is busy after the end");
	}
	expect_nothing_held();
	return graph_runs;
}

} // namespace emulated_ranks
