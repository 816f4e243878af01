// SPDX-License-Identifier: MIT
// Submits that are recorded, and submitted again.
#include <algorithm>
#include <utility>
#include <vector>

#include "executor/core/threads/busy_clock.hpp"
#include "submit/submitter.hpp"

namespace nb = nanobind;

namespace celerity::native {

namespace {

/// A replay lets other threads and signal handlers run after about so many tasks, which is sooner than the interpreter asks a thread to.
constexpr std::uint64_t tasks_between_pauses = 64;
/// But after no fewer repetitions: a period of the planner is rarely longer.
constexpr std::uint64_t min_repetitions_between_pauses = 4;

void pause() {
	{ const nb::gil_scoped_release release; }
	if(PyErr_CheckSignals() != 0) throw nb::python_error();
}

} // namespace

/// Its end closes the recording, also if the recorded function has raised an exception.
class submitter::recording_scope {
  public:
	recording_scope(submitter& owner, std::shared_ptr<recorded_tasks>&& tasks, nb::list&& submissions, nb::object&& opened) : m_owner(owner) {
		m_owner.m_recording_thread = PyThread_get_thread_ident();
		m_owner.m_recorded_submissions = std::move(submissions);
		m_owner.m_open_recording = std::move(opened);
		m_owner.m_recorded = std::move(tasks);
	}
	recording_scope(const recording_scope&) = delete;
	recording_scope& operator=(const recording_scope&) = delete;
	~recording_scope() {
		m_owner.m_recorded = nullptr;
		const nb::object submissions = std::move(m_owner.m_recorded_submissions); // destructors may do anything, so they come last
		const nb::object opened = std::move(m_owner.m_open_recording);
	}

  private:
	submitter& m_owner;
};

nb::object submitter::record(const nb::object& function, std::shared_ptr<recorded_tasks> tasks, nb::list submissions, nb::object opened) {
	if(m_recorded != nullptr) m_open_recording.attr("refuse_another")(opened);
	const recording_scope scope(*this, std::move(tasks), std::move(submissions), std::move(opened));
	return function();
}

void submitter::enter_and_record(work& made, const std::int64_t started_ns) {
	// First, as the observer of submits runs Python code, which may submit something or end the recording.
	const std::shared_ptr<recorded_tasks> recorded = m_recorded;
	const nb::object submissions = m_recorded_submissions;
	m_scheduler.choose_cuts(made.node);
	recorded->entries.push_back({made.node, made.launch});
	if(PyList_Append(submissions.ptr(), made.submission.ptr()) != 0) {
		recorded->entries.pop_back();
		throw nb::python_error();
	}
	const std::uint64_t num_before = m_table.num_submitted();
	try {
		m_table.enter(made.submission, std::move(made), started_ns);
	} catch(...) {
		if(m_table.num_submitted() == num_before) { // refused
			recorded->entries.pop_back();
			if(PySequence_DelItem(submissions.ptr(), PyList_GET_SIZE(submissions.ptr()) - 1) != 0) PyErr_Clear();
		}
		throw;
	}
}

const std::shared_ptr<const recorded_program>& recorded_tasks::program() {
	if(m_program == nullptr) {
		std::vector<task> tasks;
		tasks.reserve(entries.size());
		for(const auto& known : entries) tasks.push_back(known.node);
		m_program = std::make_shared<const recorded_program>(std::move(tasks), num_phases);
	}
	return m_program;
}

std::shared_ptr<recorded_tasks> recorded_tasks::with(const std::vector<change>& changes) const {
	auto result = std::make_shared<recorded_tasks>();
	result->entries = entries;
	for(const auto& changed : changes) {
		entry& known = result->entries.at(changed.entry);
		known.node.values_digest = changed.values_digest;
		if(changed.launch.has_value()) known.launch = *changed.launch;
		if(changed.scalars.has_value()) known.launch.value().scalars = *changed.scalars;
	}
	return result;
}

std::shared_ptr<recorded_tasks> recorded_tasks::joined(const recorded_tasks& other, const std::vector<std::size_t>& behind) const {
	auto result = std::make_shared<recorded_tasks>();
	for(std::size_t i = 0; i < entries.size(); ++i) {
		result->entries.push_back(entries[i]);
		for(std::size_t k = 0; k < other.entries.size(); ++k) {
			if(behind.at(k) != i) continue;
			result->entries.push_back(other.entries[k]);
			result->entries.back().node.geometry = entries[i].node.geometry;
		}
	}
	return result;
}

std::uint32_t recorded_tasks::steps_of_halos() const {
	const auto found = std::find_if(entries.begin(), entries.end(), [](const entry& each) { return each.node.geometry.recompute > 0; });
	return found == entries.end() ? 0 : found->node.geometry.recompute;
}

std::shared_ptr<recorded_tasks> recorded_tasks::with(const std::vector<point>& reaches) const {
	auto result = std::make_shared<recorded_tasks>();
	for(const point& reach : reaches) {
		result->entries.push_back(entries[result->entries.size() % entries.size()]);
		result->entries.back().node.geometry.reach = reach;
	}
	result->num_phases = reaches.size() / entries.size();
	return result;
}

deep_halos submitter::find_halos(const recorded_tasks& tasks) const {
	std::vector<task> nodes;
	for(const auto& known : tasks.entries) nodes.push_back(known.node);
	return m_scheduler.find_halos(nodes);
}

std::shared_ptr<recorded_tasks> submitter::deepen(const recorded_tasks& tasks, const std::vector<point>& reaches, const nb::list& submissions) {
	auto result = tasks.with(reaches);
	for(std::size_t i = 0; i < result->entries.size(); ++i) {
		auto& [node, launch] = result->entries[i];
		const nb::object submission = submissions[i];
		if(!submission.attr("fused").is_none()) launch = prepare_fused(submission, node);
	}
	return result;
}

void submitter::note_writes(const task& node) {
	if(m_deep == nullptr) return;
	const auto is_shared = [this](const buffer_id id) { return std::binary_search(m_deep->buffers.begin(), m_deep->buffers.end(), id); };
	const bool writes = std::any_of(node.accesses.begin(), node.accesses.end(), [&](const buffer_access& access) {
		return is_producer(access.mode) && is_shared(access.buffer);
	}) || std::any_of(node.reductions.begin(), node.reductions.end(), [&](const auto& each) { return is_shared(each.buffer); });
	if(writes) m_deep.reset();
}

void submitter::replay(recorded_tasks& tasks, const nb::list& submissions, const std::uint64_t times, const nb::handle frame) {
	call now(*this, "replay()");
	now.times = times;
	const nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(reinterpret_cast<PyFrameObject*>(frame.ptr()))));
	const std::uint64_t site = m_table.number_line(code.ptr(), PyFrame_GetLasti(reinterpret_cast<PyFrameObject*>(frame.ptr())), times);
	if(tasks.entries.empty()) return;
	const auto program = tasks.program();
	if(m_deep != program) {
		for(const auto& known : tasks.entries) note_writes(known.node);
	}
	const std::uint64_t at_once = std::max(tasks_between_pauses / tasks.tasks_per_repetition(), min_repetitions_between_pauses);
	for(std::uint64_t done = 0; done < times; done += at_once) {
		if(done > 0) pause();
		now.repetition = done + 1;
		submit_again(tasks, submissions, static_cast<std::uint32_t>(std::min(at_once, times - done)), site, now);
	}
	m_busy_ns += now_ns() - now.started_ns - now.blocked_ns;
}

void submitter::submit_again(recorded_tasks& tasks, const nb::list& submissions, const std::uint32_t repetitions, const std::uint64_t site, call& now) {
	std::vector<submission_table::repeated_task> repeated; // first, as renewing runs Python code
	const auto program = tasks.program();
	const std::size_t phase = m_deep == program ? m_phase : 0;
	const std::size_t size = tasks.tasks_per_repetition();
	repeated.reserve(repetitions * size);
	for(std::uint32_t repetition = 0; repetition < repetitions; ++repetition) {
		const std::size_t first = program->phase_after(phase, repetition) * size;
		for(std::size_t i = first; i < first + size; ++i) {
			const auto& known = tasks.entries[i];
			nb::object submission = nb::borrow(PyList_GET_ITEM(submissions.ptr(), static_cast<Py_ssize_t>(i)));
			if(!known.node.reductions.empty()) submission = m_delegate.attr("renew")(submission);
			repeated.push_back({std::move(submission), &known.launch, known.node.reductions.size()});
		}
	}
	await_turn(now, repeated.front().submission, program->lowest_queue, true);
	std::uint64_t num_reductions = m_table.num_reductions();
	std::uint64_t number = m_table.enter_again(repeated, program, repetitions, phase, site);
	if(program->num_phases > 1) {
		m_deep = program;
		m_phase = program->phase_after(phase, repetitions);
	}
	for(std::size_t i = 0; i < repeated.size(); ++i) {
		const auto& each = repeated[i];
		num_reductions += each.num_reductions;
		const task& node = tasks.entries[i % size].node;
		if(each.num_reductions > 0) m_delegate.attr("note_reductions")(each.submission, num_reductions, node.priority);
		if(node.kind == task_kind::device_kernel) ++m_num_repeated;
	}
	for(const auto& each : repeated) m_table.observe(number++, each.submission, now.started_ns);
	now.begun = m_scheduler.next_submission().value; // a submit of another thread overtakes the next task from here on
}

} // namespace celerity::native
