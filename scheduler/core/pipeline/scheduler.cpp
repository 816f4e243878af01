// SPDX-License-Identifier: MIT
#include "scheduler.hpp"

#include <algorithm>
#include <cassert>
#include <exception>
#include <limits>
#include <utility>

namespace celerity {

namespace {

using clock = std::chrono::steady_clock;

/// Input that the scheduler has not looked at yet is bounded too: it always gets there by itself, so waiting for it cannot deadlock.
constexpr std::uint64_t max_waiting_events = 8192;
/// With queues of several priorities the planner must not come upon many horizons at once. These are half of those that a queue with little work may be ahead.
constexpr std::uint64_t max_waiting_run_aheads = 8;
/// How often a thread that has run dry looks again before it sleeps; waking it costs the application thread a system call.
constexpr int polls_before_sleep = 64;

/// A replay brings its next tasks sooner than that, unless it waits for the executor.
constexpr std::chrono::microseconds longest_hold{100};
constexpr std::chrono::microseconds longest_hold_behind_work{2000};

/// A program that submits nothing for so long may wait for something, while the executor has nothing to do.
constexpr std::chrono::milliseconds flush_after{20};
/// Contents are given back without a horizon, and a horizon need not be near.
constexpr std::chrono::milliseconds looks_for_room{2};
/// After the last instruction, so many looks later its contents have been given back.
constexpr int idle_looks = 3;

double seconds(const clock::duration d) { return std::chrono::duration<double>(d).count(); }

} // namespace

scheduler::scheduler(const scheduler_settings& settings, instruction_sink* const sink)
    : m_settings(settings),
      m_partition{settings.pipeline.capabilities.num_ranks, settings.pipeline.capabilities.local_rank, settings.pipeline.capabilities.num_devices},
      m_dry_sink(*this), m_sink(sink != nullptr ? *sink : m_dry_sink), m_contents(settings.most_kept_bytes) {}

scheduler::~scheduler() { stop(); }

void scheduler::start() {
	assert(!m_thread.joinable());
	m_thread = std::thread([this] { run(); });
}

void scheduler::stop() {
	if(!m_thread.joinable()) return;
	{
		const std::lock_guard lock(m_mutex);
		m_is_stopping = true;
		m_is_paused = false;
	}
	m_wake.notify_all();
	m_thread.join();
}

buffer_id scheduler::create_buffer(buffer_info info) {
	forget_dead_buffers();
	info.id = buffer_id(++m_last_buffer);
	m_buffers.emplace(info.id, info);
	push(buffer_event{info});
	return info.id;
}

void scheduler::destroy_buffer(const buffer_id id) {
	{
		const std::lock_guard lock(m_dead_buffers_mutex);
		m_dead_buffers.push_back(id);
	}
	push(destroy_event{id});
}

void scheduler::forget_dead_buffers() {
	std::vector<buffer_id> dead;
	{
		const std::lock_guard lock(m_dead_buffers_mutex);
		dead.swap(m_dead_buffers);
	}
	for(const buffer_id id : dead) m_buffers.erase(id);
}

const buffer_info& scheduler::find_buffer(const buffer_id id) const {
	const auto it = m_buffers.find(id);
	if(it == m_buffers.end()) {
		access_violation violation;
		violation.buffer = id;
		throw access_pattern_error(std::move(violation));
	}
	return it->second;
}

void scheduler::choose_cuts(task& node) const { celerity::choose_cuts(node, m_partition, m_find_buffer); }

submission_id scheduler::submit(task&& submitted) {
	if(submitted.kind == task_kind::device_kernel || submitted.kind == task_kind::host_task) {
		choose_cuts(submitted);
		check_accesses(submitted, m_partition, m_find_buffer);
	}
	submitted.submission = submission_id(++m_last_submission);
	const submission_id result = submitted.submission;
	if(submitted.argument_bytes > 0 && &m_sink != &m_dry_sink) m_contents.add_arguments(submitted.submission, submitted.argument_bytes);
	auto& newest = m_newest[submitted.priority];
	newest.num_pushed = push(std::make_shared<task>(std::move(submitted)));
	return result;
}

submission_id scheduler::replay(std::shared_ptr<const recorded_program> program, const std::uint32_t repetitions, const std::uint64_t site) {
	const submission_id first = next_submission();
	const std::uint64_t num_tasks = program->tasks.size() * repetitions;
	auto& newest = m_newest[program->lowest_queue];
	newest.num_pushed = push(replay_event{std::move(program), first, repetitions, site}, num_tasks);
	m_last_submission += num_tasks;
	return first;
}

template <typename Event>
std::uint64_t scheduler::push(Event&& e, const std::uint64_t num_events) {
	bool must_wake = false;
	std::uint64_t num_pushed = 0;
	{
		const std::lock_guard lock(m_mutex);
		m_input.emplace_back(std::forward<Event>(e));
		num_pushed = m_num_pushed.fetch_add(num_events, std::memory_order_relaxed) + num_events;
		m_has_input.store(true, std::memory_order_release);
		must_wake = m_is_sleeping && !m_is_paused;
		if(must_wake) m_is_sleeping = false;
	}
	if(!must_wake) return num_pushed;
	m_wake.notify_one();
	if(m_on_wake) m_on_wake();
	return num_pushed;
}

void scheduler::flush() { push(flush_event{}); }

void scheduler::announce(const queue_priority queue) {
	m_queues.fetch_or(queue_set_of(queue), std::memory_order_relaxed);
	push(queue_event{queue});
}

void scheduler::notify_reached(const task_id reached, const bool is_epoch) {
	if(!is_epoch) {
		m_executed_horizons.fetch_add(1, std::memory_order_release);
		notify_progress();
	}
	push(reached_event{reached});
}

void scheduler::set_paused(const bool paused) {
	{
		const std::lock_guard lock(m_mutex);
		m_is_paused = paused;
	}
	m_wake.notify_one();
}

void scheduler::release() {
	m_is_released.store(true);
	notify_progress();
}

bool scheduler::is_behind(const std::uint64_t allowed_horizons, const std::uint64_t allowed_events) const {
	if(m_is_released.load(std::memory_order_relaxed)) return false;
	// `executed` is read first. Both numbers only grow, and the executor may pass a horizon just before it counts as released.
	const std::uint64_t executed = m_executed_horizons.load(std::memory_order_acquire);
	const std::uint64_t released = m_released_horizons.load(std::memory_order_acquire);
	if(released > executed + allowed_horizons) return true;
	const std::uint64_t planned = m_num_planned.load(std::memory_order_acquire);
	return m_num_pushed.load(std::memory_order_relaxed) > planned + allowed_events;
}

std::uint64_t scheduler::most_waiting_events() const {
	if(!are_several(m_queues.load(std::memory_order_relaxed))) return max_waiting_events;
	return std::clamp<std::uint64_t>(max_waiting_run_aheads * m_settings.run_ahead * m_settings.pipeline.horizons.step, 64, max_waiting_events);
}

bool scheduler::is_behind_by(const distance& halves) const {
	return is_behind(halves.horizons * m_settings.run_ahead / 2, halves.events * most_waiting_events() / 2);
}

// A horizon waits for the work of all queues. So a queue whose tasks take long, or many tasks of another one, keep the program as far ahead as it may be. The
// other queues must not wait for that: each is then bounded by its own unfinished instructions. Those of the lowest queue are few, as horizons wait for them.
bool scheduler::is_short_of_work(const queue_priority queue, const std::uint64_t halves) const {
	const std::uint64_t most = (queue == 0 ? 2 : 8) * m_settings.pipeline.capabilities.num_devices * halves;
	const std::uint64_t most_horizons = (queue == 0 ? 1 : 2) * (32 * m_settings.run_ahead + 128);
	if(is_behind(most_horizons, 2 * most_waiting_events())) return false;
	const auto& newest = m_newest[queue];
	if(m_num_planned.load(std::memory_order_acquire) < newest.num_pushed.load(std::memory_order_relaxed)) return false;
	return m_sink.has_at_most(queue, most, newest.num_handed_over.load(std::memory_order_relaxed));
}

// Without a priority, a submit goes on at half: one long sleep instead of many short ones. A replay goes on at once: the horizons of a graph end together, and
// the next batch must come before the devices have run out of work. While a submit waits, replays have its limits. Otherwise they would keep the program so far
// ahead that the submit never goes on.
scheduler::submit_limits scheduler::limits_of(const queue_priority queue, const bool is_replay) const {
	if(queue > 0) return {{4, 4}, {3, 3}};
	const bool is_alone = !are_several(m_queues.load(std::memory_order_relaxed)) && !m_is_throttled.load(std::memory_order_relaxed);
	if(is_replay && is_alone) return {{4, 2}, {4, 2}};
	return {{2, 2}, {1, 1}};
}

bool scheduler::is_far_ahead(const queue_priority queue, const bool is_replay) const {
	const bool is_waiting = queue == 0 && m_is_throttled.load(std::memory_order_relaxed);
	return (is_waiting || is_behind_by(limits_of(queue, is_replay).block)) && !is_short_of_work(queue, 2);
}

bool scheduler::throttle(const std::chrono::milliseconds limit, const queue_priority queue, const bool is_replay) {
	if(m_contents.is_full() && !await_room(limit)) return false;
	if(!is_far_ahead(queue, is_replay)) return true;
	const bool must_fall_to_half = queue == 0 && !is_replay;
	if(must_fall_to_half) m_is_throttled = true;
	const auto may_go_on = [&] { return !is_behind_by(limits_of(queue, is_replay).go_on) || is_short_of_work(queue, 1); };
	std::unique_lock lock(m_progress_mutex);
	m_num_waiters.fetch_add(1);
	const auto seen = m_num_let_go;
	const bool done = m_progress.wait_for(lock, limit, [&] { return m_num_let_go != seen || may_go_on(); });
	m_num_waiters.fetch_sub(1);
	const bool has_fallen = must_fall_to_half || !is_behind_by({1, 1}); // a submit that an exception has ended no longer waits
	if(queue == 0 && done && has_fallen) m_is_throttled = false;
	return done;
}

// A submit must not wait for commands that are held back until a later submit comes. Nor for a horizon that only a later submit brings: it goes on if nothing is
// left to be done.
bool scheduler::await_room(const std::chrono::milliseconds limit) {
	const auto until = clock::now() + limit;
	const auto may_go_on = [&] { return m_contents.has_room() || m_is_released.load(std::memory_order_relaxed); };
	for(int num_idle = 0; num_idle < idle_looks;) {
		if(clock::now() >= until) return false;
		if(is_planned() && m_is_holding_back.load(std::memory_order_relaxed)) flush();
		const bool is_idle = is_planned() && m_sink.current_activity(m_num_handed_over.load(std::memory_order_relaxed)) == instruction_sink::activity::idle;
		num_idle = is_idle ? num_idle + 1 : 0;
		std::unique_lock lock(m_progress_mutex);
		m_num_waiters.fetch_add(1);
		const bool done = m_progress.wait_for(lock, looks_for_room, may_go_on);
		m_num_waiters.fetch_sub(1);
		if(done) return true;
	}
	return true;
}

bool scheduler::wait_until_planned(const std::chrono::milliseconds limit) {
	const std::uint64_t target = m_num_pushed.load();
	const auto is_planned = [&] { return m_num_accounted.load(std::memory_order_acquire) >= target; };
	const auto spin_until = clock::now() + m_settings.idle_spin;
	while(!is_planned() && clock::now() < spin_until) std::this_thread::yield();
	std::unique_lock lock(m_progress_mutex);
	m_num_waiters.fetch_add(1);
	const bool done = m_progress.wait_for(lock, limit, is_planned);
	m_num_waiters.fetch_sub(1);
	return done;
}

void scheduler::notify_progress() {
	if(m_num_waiters.load() == 0) return;
	{
		const std::lock_guard lock(m_progress_mutex); // a waiter is either before its test or asleep
		if(!is_behind_by({1, 1})) ++m_num_let_go;
	}
	m_progress.notify_all();
}

std::vector<planning_notice> scheduler::take_notices() {
	const std::lock_guard lock(m_notices_mutex);
	m_has_notices.store(false, std::memory_order_relaxed);
	return std::exchange(m_notices, {});
}

std::vector<planning_notice> scheduler::notices() const {
	const std::lock_guard lock(m_notices_mutex);
	return m_notices;
}

void scheduler::report(planning_notice&& notice) {
	const std::lock_guard lock(m_notices_mutex);
	m_notices.push_back(std::move(notice));
	m_has_notices.store(true, std::memory_order_relaxed);
}

scheduler_statistics scheduler::statistics() const {
	const std::lock_guard lock(m_statistics_mutex);
	scheduler_statistics result = m_statistics;
	result.released_horizons = m_released_horizons.load();
	result.executed_horizons = m_executed_horizons.load();
	return result;
}

plan_totals scheduler::totals() const {
	const std::lock_guard lock(m_statistics_mutex);
	return m_totals;
}

pipeline_observers scheduler::make_observers() {
	pipeline_observers observers;
	observers.notice = [this](planning_notice&& notice) { report(std::move(notice)); };
	if(auto* const graphs = m_settings.graphs.get()) {
		observers.task = [graphs](task_record&& record) { graphs->add(std::move(record)); };
		observers.command = [graphs](command_record&& record) { graphs->add(std::move(record)); };
		observers.instruction = [graphs](const instruction& made, const std::span<const dependency_kind> kinds) { graphs->add(made, kinds); };
	}
	return observers;
}

void scheduler::run() {
	try {
		scheduling_pipeline pipeline(m_settings.pipeline, m_sink, make_observers());
		std::vector<event> events;
		auto idle_since = clock::now();
		while(take_input(events)) {
			const auto busy_since = clock::now();
			for(auto& e : events) {
				if(m_settings.trace == nullptr) {
					handle(pipeline, std::move(e));
				} else {
					handle_traced(pipeline, std::move(e));
				}
			}
			finish_replay_without_input(pipeline);
			const auto busy_until = clock::now();
			{
				const std::lock_guard lock(m_statistics_mutex);
				m_statistics.counts = pipeline.counts();
				m_statistics.idle_s += seconds(busy_since - idle_since);
				m_statistics.busy_s += seconds(busy_until - busy_since);
			}
			m_num_handed_over.store(pipeline.counts().instructions, std::memory_order_relaxed);
			m_is_holding_back.store(pipeline.is_holding_back(), std::memory_order_relaxed);
			m_num_accounted.store(m_num_planned.load(std::memory_order_relaxed), std::memory_order_release);
			notify_progress();
			idle_since = busy_until;
			events.clear();
		}
	} catch(const std::exception& error) {
		std::string text = std::string("the scheduler failed: ") + error.what();
		if(m_on_failure) {
			m_on_failure(text);
		} else {
			report({.kind = planning_notice::kind_type::fault, .text = std::move(text)});
		}
		if(m_on_busy) m_on_busy(false);
		// A thread that waits for planning must not wait for ever.
		m_num_planned.store(~std::uint64_t{0} >> 1);
		m_num_accounted.store(~std::uint64_t{0} >> 1);
		notify_progress();
	}
}

void scheduler::sleep_until_flush(std::unique_lock<std::mutex>& lock) {
	if(m_wake.wait_for(lock, flush_after) == std::cv_status::no_timeout || !m_input.empty() || m_is_paused || m_is_stopping) return;
	lock.unlock(); // the sink has locks of its own
	const auto now = m_sink.current_activity(m_num_handed_over.load(std::memory_order_relaxed));
	lock.lock();
	if(now == instruction_sink::activity::busy || !m_input.empty() || m_is_paused || m_is_stopping) return;
	m_input.emplace_back(flush_event{});
	m_num_pushed.fetch_add(1, std::memory_order_relaxed);
}

bool scheduler::take_input(std::vector<event>& out) {
	const bool is_holding_back = m_is_holding_back.load(std::memory_order_relaxed);
	const bool flushes = is_holding_back && m_settings.pipeline.lookahead == lookahead_mode::automatic;
	for(int i = 0; i < polls_before_sleep && !m_has_input.load(std::memory_order_acquire); ++i) std::this_thread::yield();
	std::unique_lock lock(m_mutex);
	const auto is_ready = [this] { return (!m_input.empty() && !m_is_paused) || m_is_stopping; };
	if(!is_ready()) {
		if(m_on_busy && !is_holding_back) m_on_busy(false); // an executor that runs dry behind lookahead is starving
		if(m_settings.idle_spin.count() > 0) {
			lock.unlock();
			const auto spin_until = clock::now() + m_settings.idle_spin;
			while(!m_has_input.load(std::memory_order_acquire) && clock::now() < spin_until) std::this_thread::yield();
			lock.lock();
		}
		while(!is_ready()) {
			m_is_sleeping = true;
			if(flushes) {
				sleep_until_flush(lock);
			} else {
				m_wake.wait(lock);
			}
		}
		m_is_sleeping = false;
		if(m_on_busy) m_on_busy(true);
	}
	if(m_input.empty()) return false; // stopping, and everything is done
	out.swap(m_input);
	m_has_input.store(false, std::memory_order_relaxed);
	return true;
}

void scheduler::handle(scheduling_pipeline& pipeline, event&& e) {
	if(auto* const replayed = std::get_if<replay_event>(&e)) return replay(pipeline, std::move(*replayed));
	if(const auto* const reached = std::get_if<reached_event>(&e)) {
		pipeline.notify_epoch_reached(reached->reached);
		return note_planned(pipeline, 1);
	}
	finish_replay(pipeline);
	if(auto* const submitted = std::get_if<std::shared_ptr<task>>(&e)) {
		const queue_priority queue = (*submitted)->priority;
		pipeline.submit(std::move(*submitted));
		note_handed_over(pipeline, queue);
	} else if(const auto* const created = std::get_if<buffer_event>(&e)) {
		if(m_settings.graphs != nullptr) m_settings.graphs->create_buffer(created->info);
		pipeline.create_buffer(created->info);
	} else if(const auto* const destroyed = std::get_if<destroy_event>(&e)) {
		if(m_settings.graphs != nullptr) m_settings.graphs->destroy_buffer(destroyed->id);
		pipeline.destroy_buffer(destroyed->id);
	} else if(const auto* const announced = std::get_if<queue_event>(&e)) {
		pipeline.announce(announced->queue);
	} else {
		pipeline.flush();
	}
	note_planned(pipeline, 1);
}

void scheduler::replay(scheduling_pipeline& pipeline, replay_event&& event) {
	if(m_rest.repetitions > 0 && m_rest.program == event.program && m_rest.site == event.site) {
		event.first = m_rest.first;
		event.repetitions += m_rest.repetitions;
	} else {
		finish_replay(pipeline);
	}
	const auto planned = pipeline.replay(event.program, event.first, event.repetitions, event.site, true);
	const std::uint64_t num_tasks = event.program->tasks.size() * planned;
	m_rest = std::move(event);
	m_rest.first.value += num_tasks;
	m_rest.repetitions -= planned;
	note_handed_over(pipeline, m_rest.program->lowest_queue);
	note_planned(pipeline, num_tasks);
}

void scheduler::finish_replay(scheduling_pipeline& pipeline) {
	if(m_rest.repetitions == 0) return;
	const auto rest = std::exchange(m_rest, {});
	pipeline.replay(rest.program, rest.first, rest.repetitions, rest.site, false);
	note_handed_over(pipeline, rest.program->lowest_queue);
	note_planned(pipeline, rest.program->tasks.size() * rest.repetitions);
}

void scheduler::finish_replay_without_input(scheduling_pipeline& pipeline) {
	if(m_rest.repetitions == 0) return;
	const auto since = clock::now();
	const auto may_hold = [&] {
		const auto passed = clock::now() - since;
		return passed < longest_hold || (passed < longest_hold_behind_work && is_behind(1, std::numeric_limits<std::uint64_t>::max() / 2));
	};
	while(may_hold()) {
		if(m_has_input.load(std::memory_order_acquire)) return;
		std::this_thread::yield();
	}
	finish_replay(pipeline);
}

void scheduler::note_handed_over(const scheduling_pipeline& pipeline, const queue_priority queue) {
	m_newest[queue].num_handed_over.store(pipeline.counts().instructions, std::memory_order_relaxed);
}

void scheduler::note_planned(const scheduling_pipeline& pipeline, const std::uint64_t num_events) {
	m_released_horizons.store(pipeline.num_released_horizons(), std::memory_order_release);
	m_num_planned.fetch_add(num_events, std::memory_order_release);
	notify_progress();
}

void scheduler::handle_traced(scheduling_pipeline& pipeline, event&& e) {
	static_assert(std::variant_size_v<event> == static_cast<std::size_t>(plan_input::queue) + 1);
	traced_plan planned{static_cast<plan_input>(e.index()), {}, 0};
	if(const auto* const submitted = std::get_if<std::shared_ptr<task>>(&e)) planned.submission = (*submitted)->submission;
	if(const auto* const replayed = std::get_if<replay_event>(&e)) planned.submission = replayed->first;
	const auto instructions_before = pipeline.counts().instructions;
	const auto start_ns = now_ns();
	handle(pipeline, std::move(e));
	const auto end_ns = now_ns();
	planned.instructions_generated = pipeline.counts().instructions - instructions_before;
	m_settings.trace->record({start_ns, end_ns, planned});
}

void scheduler::dry_sink::submit(instruction_batch&& batch) {
	{
		const std::lock_guard lock(m_owner.m_statistics_mutex);
		for(const auto* const node : batch.instructions) m_owner.m_totals.count(*node);
	}
	for(const auto* const node : batch.instructions) {
		if(const auto* const horizon = std::get_if<horizon_instruction>(&node->operation)) {
			m_owner.notify_reached(horizon->task, false);
		} else if(const auto* const epoch = std::get_if<epoch_instruction>(&node->operation)) {
			m_owner.notify_reached(epoch->task, true);
		}
	}
}

} // namespace celerity
