// SPDX-License-Identifier: MIT
// Several ranks, each with its scheduler, its executor and the CUDA backend, on the emulated driver: halos of a grid that is divided in one or two dimensions,
// from all sides or from above only, or all of it, go from rank to rank, many steps ahead of the devices. All values are compared.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda.hpp"
#include "executor/core/backends/cuda/cuda_backend.hpp"
#include "executor/core/loop/executor_loop.hpp"
#include "kernels.hpp"
#include "scheduler/core/pipeline/scheduler.hpp"

namespace emulated_ranks {

using namespace celerity;
using namespace std::chrono_literals;

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
	bool replays = false; ///< the steps are repetitions of recorded ones, which a device may carry out as graphs
	int recorded_steps = 2; ///< an even number
	std::size_t phases = 1; ///< repetitions from one exchange of halos to the next
	bool odd_ranks_have_graphs = true; ///< otherwise they issue each instruction of a replay
	bool peeks = false; ///< rank 0 reads all data amid the replay, so that it needs other memory
	bool holds_devices = false; ///< from the first task on, until somebody lets them go
	std::uint32_t horizon_step = 4;
	queue_priority num_priorities = 1; ///< the tasks are those of so many queues, in turns
	double share = 0;                  ///< of the multiprocessors, for the queue of the highest of several priorities
	std::size_t joined_bytes = 0; ///< 0: receives that share messages are many
};

inline std::shared_ptr<const native_kernel> make_kernel(const emulated_cuda::function& function, const setup& how) {
	using parameter = cuda_function::parameter;
	std::vector<parameter> parameters{{parameter::kind_type::chunk, 2, 0, {}}};
	for(std::size_t i = 1; i < function.parameter_bytes.size(); ++i) parameters.push_back({parameter::kind_type::accessor, 2, sizeof(value), {}});
	return std::make_shared<cuda_function>(std::vector(how.num_devices, handle_of(function)), std::vector<std::uint32_t>{8, 32}, std::vector<std::uint32_t>{},
	    0, parameters, false);
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
	virtual ~rank() = default;

	flag_memory::offer offer() { return m_executor.direct()->make_offer(all_ranks()); }
	void connect(const std::vector<flag_memory::offer>& offers) {
		std::vector<rank_id> peers;
		for(std::size_t other = 0; other < offers.size(); ++other) {
			if(other == m_number) continue;
			peers.emplace_back(static_cast<std::uint32_t>(other));
			m_executor.direct()->open(peers.back(), offers[other]);
		}
		m_executor.direct()->agree(peers);
	}

	void start() {
		m_executor.set_callbacks({
		    .progress = [this](const task_id reached, const bool is_epoch) { m_scheduler.notify_reached(reached, is_epoch); },
		    .load = {},
		    .freed = [this](const std::uint64_t bytes) { m_scheduler.pace().note_freed(bytes); },
		});
		m_scheduler.set_failure_callback([](const std::string& text) { die(text); });
		for(queue_priority queue = 1; queue < m_how.num_priorities; ++queue) {
			m_executor.prepare_queue(queue, queue + 1 == m_how.num_priorities ? m_how.share : 0.0);
		}
		m_scheduler.start();
		m_executor_thread = std::thread([this] { drive(); });
		m_application_thread = std::thread([this] { apply(); });
	}

	/// Whether the executor thread does nothing; it may come from a call of run() first.
	void stand(const bool stands) {
		m_must_stand = stands;
		while(m_is_standing != stands) std::this_thread::sleep_for(1ms);
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
	static void expect(const setup& how);
	void join() {
		m_application_thread.join();
		m_executor_thread.join();
		m_scheduler.stop();
		m_executor.stop();
	}

  protected:
	setup m_how;
	std::size_t m_number;
	executor_loop m_executor;
	scheduler m_scheduler;
	std::shared_ptr<const native_kernel> m_initialize, m_advance, m_compare, m_peek;
	std::thread m_executor_thread, m_application_thread;
	std::atomic<bool> m_must_stand{false}, m_is_standing{false};
	std::atomic<std::uint64_t> m_completed{0};
	queue_priority m_num_submits = 0;
	std::size_t m_phase = 0; ///< of the next repetition
	std::array<buffer_id, 2> m_buffers{}; ///< the latest values are in the first one

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
		result.pipeline.capabilities.user_device_peers = false; // as in runs on GPUs
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
		options.graphs_exchange = true;
		options.small_copies.assign(m_how.num_devices, {handle_of(small_copies_function<few_small_copies>), handle_of(small_copies_function<max_small_copies>),
		                                                   handle_of(exchange_function), handle_of(set_flags_function), handle_of(advance_flags_function)});
		const auto reductions = std::make_shared<cuda_reductions>();
		reductions->add(reduction_op::sum, scalar_type::uint32, std::vector(m_how.num_devices, handle_of(reduce_function)));
		options.reductions = reductions;
		return std::make_unique<cuda_backend>(options, completions);
	}

	void drive() {
		while(true) {
			while((m_is_standing = m_must_stand.load())) std::this_thread::sleep_for(1ms);
			const auto events = m_executor.run(100ms);
			m_executor.validate();
			for(const auto& event : events) {
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
		m_executor.launches().add(submission, {kernel, {}, space()});
	}

	void submit(task&& submitted, const std::shared_ptr<const native_kernel>& kernel) {
		submitted.priority = m_num_submits++ % m_how.num_priorities;
		while(!m_scheduler.pace().throttle(100ms, submitted.priority)) {}
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
	void peek() {
		task reading;
		for(const auto buffer : m_buffers) reading.accesses.push_back({buffer, access_mode::read, range_mapper::all()});
		while(!m_scheduler.pace().throttle(100ms)) {}
		const auto one = box(point{{0, 0, 0}}, point{{1, 1, 1}});
		set_geometry(reading);
		reading.geometry.global = one;
		m_executor.launches().add(m_scheduler.next_submission(), {m_peek, {}, one});
		m_scheduler.submit(std::move(reading));
	}

	std::shared_ptr<const recorded_program> record(std::vector<task> steps) {
		for(auto& each : steps) {
			set_geometry(each);
			each.priority = ++m_num_submits % m_how.num_priorities;
		}
		std::vector<task> of_all_phases;
		for(std::size_t left = m_how.phases * steps.size(); left-- > 0;) {
			of_all_phases.push_back(steps[of_all_phases.size() % steps.size()]);
			const auto reach = m_how.phases > 1 ? static_cast<coordinate>(left) : coordinate{0};
			of_all_phases.back().geometry.reach = point{{reach, reach, 0}};
		}
		return std::make_shared<recorded_program>(std::move(of_all_phases), m_how.phases);
	}

	void replay(const std::shared_ptr<const recorded_program>& recorded, const std::uint32_t turns) {
		while(!m_scheduler.pace().throttle(100ms, 0, true)) {}
		auto submission = m_scheduler.next_submission();
		for(std::size_t i = 0; i < turns * recorded->tasks_per_repetition(); ++i, ++submission.value) register_launch(submission, m_advance);
		m_scheduler.replay(recorded, turns, std::exchange(m_phase, recorded->phase_after(m_phase, turns)), 0);
	}

	/// In pieces of all sizes.
	void replay_all(const std::shared_ptr<const recorded_program>& recorded, const std::uint32_t turns) {
		bool has_peeked = !m_how.peeks;
		for(std::uint32_t done = 0; done < turns;) {
			if(!has_peeked && done >= turns / 2) {
				has_peeked = true;
				peek();
			}
			const std::uint32_t now = std::min<std::uint32_t>(turns - done, 1 + done % 23);
			replay(recorded, now);
			done += now;
		}
	}

	virtual void apply() {
		initialize();
		if(m_how.replays) replay_all(record(make_steps(m_how.recorded_steps)), static_cast<std::uint32_t>(m_how.steps / m_how.recorded_steps));
		for(auto& step : make_steps(m_how.replays ? m_how.steps % m_how.recorded_steps : m_how.steps)) submit(std::move(step), m_advance);
		finish();
	}

	void initialize() {
		buffer_info info;
		info.dims = 2;
		info.extents = point{{extent, extent, 1}};
		info.element_size_bytes = info.element_alignment_bytes = sizeof(value);
		m_buffers = {m_scheduler.create_buffer(info), m_scheduler.create_buffer(info)};
		for(const auto id : m_buffers) {
			task first;
			first.accesses = {{id, access_mode::write, range_mapper::one_to_one()}};
			submit(std::move(first), m_initialize);
		}
	}
	std::vector<task> make_steps(const int number) {
		const auto read = read_by(m_how.reads);
		std::vector<task> steps;
		for(int i = 0; i < number; ++i) {
			steps.emplace_back().accesses = {{m_buffers[1], access_mode::read_write, range_mapper::one_to_one()}, {m_buffers[0], access_mode::read, read}};
			std::swap(m_buffers[0], m_buffers[1]);
		}
		return steps;
	}
	void finish() {
		task last;
		last.accesses = {{m_buffers[0], access_mode::read, range_mapper::one_to_one()}};
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

inline void rank::expect(const setup& how) { expect_after(how.steps, how.reads); }

template <typename Rank = rank>
std::vector<std::unique_ptr<rank>> connect(const setup& how) {
	std::vector<std::unique_ptr<rank>> ranks;
	for(std::size_t r = 0; r < how.num_ranks; ++r) ranks.push_back(std::make_unique<Rank>(how, r));
	if(how.num_ranks > 1) {
		std::vector<flag_memory::offer> offers;
		for(const auto& r : ranks) offers.push_back(r->offer());
		for(const auto& r : ranks) r->connect(offers);
	}
	return ranks;
}

inline void expect_nothing_held() {
	const auto held = emulated_cuda::held();
	if(held == emulated_cuda::holdings{}) return;
	die("the end has left " + std::to_string(held.device_bytes) + " bytes on devices, " + std::to_string(held.host_bytes) + " bytes on the host, "
	    + std::to_string(held.streams) + " streams, " + std::to_string(held.events) + " events, " + std::to_string(held.graphs) + " graphs, "
	    + std::to_string(held.opened) + " opened slabs, " + std::to_string(held.registered) + " registered segments and " + std::to_string(held.parts)
	    + " parts of devices");
}

/// Returns the number of graphs that have run on the first rank. At its end nothing of the driver is left.
template <typename Rank = rank>
std::uint64_t run(const setup& how) {
	Rank::expect(how);
	num_checked = num_wrong = 0;
	const auto ranks = connect<Rank>(how);
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
