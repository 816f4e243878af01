// SPDX-License-Identifier: MIT
#include "scheduler.hpp"

#include <algorithm>
#include <cassert>
#include <exception>
#include <utility>

namespace celerity {

namespace {

using clock = std::chrono::steady_clock;

/// How often a thread that has run dry looks again before it sleeps; waking it costs the application thread a system call.
constexpr int polls_before_sleep = 64;

/// A replay brings its next tasks sooner than that, unless it waits for the executor.
constexpr std::chrono::microseconds longest_hold{100};
constexpr std::chrono::microseconds longest_hold_behind_work{2000};

/// A program that submits nothing for so long may wait for an effect of work that is held back.
constexpr std::chrono::milliseconds longest_pause{20};
/// For the rest of the input to be planned.
constexpr std::chrono::seconds longest_answer{10};

double seconds(const clock::duration d) { return std::chrono::duration<double>(d).count(); }

} // namespace

scheduler::scheduler(const scheduler_settings& settings, instruction_sink* const sink)
    : m_settings(settings),
      m_partition{settings.pipeline.capabilities.num_ranks, settings.pipeline.capabilities.local_rank, settings.pipeline.capabilities.num_devices},
      m_dry_sink(*this), m_sink(sink != nullptr ? *sink : m_dry_sink),
      m_pace({settings.run_ahead, settings.pipeline.horizons.step, settings.pipeline.capabilities.num_devices, settings.idle_spin, settings.most_kept_bytes},
          m_sink) {}

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

void scheduler::destroy_buffer(const buffer_id id, const std::uint64_t num_bytes) {
	{
		const std::lock_guard lock(m_dead_buffers_mutex);
		m_dead_buffers.push_back(id);
	}
	m_pace.contents().add(static_cast<std::int64_t>(num_bytes));
	push(destroy_event{id, num_bytes});
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
	const queue_priority queue = submitted.priority;
	m_pace.note_newest(queue, push(std::make_shared<task>(std::move(submitted))));
	return result;
}

submission_id scheduler::replay(std::shared_ptr<const recorded_program> program, const std::uint32_t repetitions, const std::size_t phase,
    const std::uint64_t site) {
	const submission_id first = next_submission();
	const std::uint64_t num_tasks = program->tasks_per_repetition() * repetitions;
	const queue_priority queue = program->lowest_queue;
	m_pace.note_newest(queue, push(replay_event{std::move(program), first, repetitions, phase, site}, num_tasks));
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
		num_pushed = m_pace.note_pushed(num_events);
		m_has_input.store(true, std::memory_order_release);
		must_wake = m_is_sleeping && !m_is_paused;
		if(must_wake) m_is_sleeping = false;
	}
	if(!must_wake) return num_pushed;
	m_wake.notify_one();
	if(m_on_wake) m_on_wake();
	return num_pushed;
}

planned_places scheduler::newest_places(const buffer_id id) {
	auto answer = std::make_shared<std::promise<planned_places>>();
	auto found = answer->get_future();
	push(flush_event{id, std::move(answer)});
	if(found.wait_for(longest_answer) != std::future_status::ready) throw std::runtime_error("the scheduler's thread has ended, or is busy");
	return found.get();
}

void scheduler::flush() { push(flush_event{}); }

void scheduler::announce(const queue_priority queue) {
	m_pace.announce(queue);
	push(queue_event{queue});
}

void scheduler::notify_reached(const task_id reached, const bool is_epoch) {
	if(!is_epoch) m_pace.note_executed_horizon();
	push(reached_event{reached});
}

void scheduler::set_paused(const bool paused) {
	{
		const std::lock_guard lock(m_mutex);
		m_is_paused = paused;
	}
	m_wake.notify_one();
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
	result.released_horizons = m_pace.released_horizons();
	result.executed_horizons = m_pace.executed_horizons();
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
		batch_hold hold;
		auto idle_since = clock::now();
		while(take_input(events, pipeline, hold)) {
			const auto busy_since = clock::now();
			for(auto& e : events) {
				if(m_settings.trace == nullptr) {
					handle(pipeline, std::move(e));
				} else {
					handle_traced(pipeline, std::move(e));
				}
			}
			hold.look(pipeline.batches(), m_pace);
			m_pace.set_collecting(pipeline.batches().is_collecting());
			flush_if_no_room(pipeline);
			finish_replay_without_input(pipeline);
			const auto busy_until = clock::now();
			{
				const std::lock_guard lock(m_statistics_mutex);
				m_statistics.counts = pipeline.counts();
				m_statistics.idle_s += seconds(busy_since - idle_since);
				m_statistics.busy_s += seconds(busy_until - busy_since);
				m_statistics.held_s = seconds(hold.held());
			}
			m_pace.note_accounted();
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
		m_pace.give_up();
	}
}

void scheduler::flush_if_no_room(scheduling_pipeline& pipeline) {
	if(!pipeline.is_holding_back() || m_pace.contents().has_room()) return; // a submit waits until there is room
	m_pace.note_pushed(1);
	handle(pipeline, flush_event{});
}

void scheduler::sleep(std::unique_lock<std::mutex>& lock, const scheduling_pipeline& pipeline, const batch_hold& hold) {
	m_is_sleeping = true;
	const auto is_awake = [this] { return !m_is_sleeping || !m_input.empty() || m_is_stopping; };
	if(hold.is_holding()) {
		m_wake.wait_until(lock, hold.until());
		return;
	}
	if(!pipeline.is_holding_back() || m_settings.pipeline.lookahead != lookahead_mode::automatic) return m_wake.wait(lock);
	if(m_wake.wait_for(lock, longest_pause) == std::cv_status::no_timeout || is_awake()) return;
	lock.unlock(); // the sink has a lock of its own
	const bool is_idle = m_sink.is_idle(pipeline.counts().instructions);
	lock.lock();
	if(!is_idle || is_awake()) return;
	m_input.emplace_back(flush_event{});
	m_pace.note_pushed(1);
}

bool scheduler::take_input(std::vector<event>& out, const scheduling_pipeline& pipeline, const batch_hold& hold) {
	for(int i = 0; i < polls_before_sleep && !m_has_input.load(std::memory_order_acquire); ++i) std::this_thread::yield();
	std::unique_lock lock(m_mutex);
	const auto must_look = [&] { return hold.is_holding() && clock::now() >= hold.until(); };
	const auto is_ready = [&] { return (!m_input.empty() && !m_is_paused) || m_is_stopping || must_look(); };
	if(!is_ready()) {
		if(m_on_busy && !pipeline.is_holding_back() && !hold.is_holding()) m_on_busy(false); // an executor that runs dry behind lookahead is starving
		if(m_settings.idle_spin.count() > 0) {
			lock.unlock();
			const auto spin_until = clock::now() + m_settings.idle_spin;
			while(!m_has_input.load(std::memory_order_acquire) && clock::now() < spin_until && !must_look()) std::this_thread::yield();
			lock.lock();
		}
		while(!is_ready()) sleep(lock, pipeline, hold);
		m_is_sleeping = false;
		if(m_on_busy) m_on_busy(true);
	}
	if(m_input.empty()) return !m_is_stopping; // then everything is done
	if(m_is_paused && !m_is_stopping) return true; // woken for what is held
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
		m_pace.note_handed_over(queue, pipeline.counts().instructions);
	} else if(const auto* const created = std::get_if<buffer_event>(&e)) {
		if(m_settings.graphs != nullptr) m_settings.graphs->create_buffer(created->info);
		pipeline.create_buffer(created->info);
	} else if(const auto* const destroyed = std::get_if<destroy_event>(&e)) {
		if(m_settings.graphs != nullptr) m_settings.graphs->destroy_buffer(destroyed->id);
		pipeline.destroy_buffer(destroyed->id);
		m_pace.contents().add(-static_cast<std::int64_t>(destroyed->num_bytes));
	} else if(const auto* const announced = std::get_if<queue_event>(&e)) {
		pipeline.announce(announced->queue);
	} else if(const auto& flush = std::get<flush_event>(e); flush.answer != nullptr) {
		flush.answer->set_value(pipeline.newest_places(flush.asked));
	} else {
		pipeline.flush();
	}
	note_planned(pipeline, 1);
}

void scheduler::note_planned(const scheduling_pipeline& pipeline, const std::uint64_t num_events) {
	const std::uint64_t before = std::exchange(m_num_condemned_bytes, pipeline.num_condemned_bytes());
	if(m_num_condemned_bytes != before) m_pace.contents().add(static_cast<std::int64_t>(m_num_condemned_bytes - before));
	m_pace.note_planned(pipeline.num_released_horizons(), num_events);
}

void scheduler::replay(scheduling_pipeline& pipeline, replay_event&& event) {
	const bool goes_on = m_rest.program == event.program && event.program->phase_after(m_rest.phase, m_rest.repetitions) == event.phase;
	if(m_rest.repetitions > 0 && goes_on && m_rest.site == event.site) {
		event.first = m_rest.first;
		event.phase = m_rest.phase;
		event.repetitions += m_rest.repetitions;
	} else {
		finish_replay(pipeline);
	}
	const auto planned = pipeline.replay(event.program, event.first, event.repetitions, event.phase, event.site, true);
	const std::uint64_t num_tasks = event.program->tasks_per_repetition() * planned;
	m_rest = std::move(event);
	m_rest.first.value += num_tasks;
	m_rest.phase = m_rest.program->phase_after(m_rest.phase, planned);
	m_rest.repetitions -= planned;
	m_pace.note_handed_over(m_rest.program->lowest_queue, pipeline.counts().instructions);
	note_planned(pipeline, num_tasks);
}

void scheduler::finish_replay(scheduling_pipeline& pipeline) {
	if(m_rest.repetitions == 0) return;
	const auto rest = std::exchange(m_rest, {});
	pipeline.replay(rest.program, rest.first, rest.repetitions, rest.phase, rest.site, false);
	m_pace.note_handed_over(rest.program->lowest_queue, pipeline.counts().instructions);
	note_planned(pipeline, rest.program->tasks_per_repetition() * rest.repetitions);
}

void scheduler::finish_replay_without_input(scheduling_pipeline& pipeline) {
	if(m_rest.repetitions == 0) return;
	const auto since = clock::now();
	const auto may_hold = [&] {
		const auto passed = clock::now() - since;
		return passed < longest_hold || (passed < longest_hold_behind_work && m_pace.is_execution_behind(1));
	};
	while(may_hold()) {
		if(m_has_input.load(std::memory_order_acquire)) return;
		std::this_thread::yield();
	}
	finish_replay(pipeline);
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
		} else if(const auto* const free = std::get_if<free_instruction>(&node->operation)) {
			m_owner.m_pace.note_freed(free->size_bytes);
		}
	}
}

} // namespace celerity
