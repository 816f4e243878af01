// SPDX-License-Identifier: MIT
// The one step in which a submission becomes part of the program.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "executor/core/devices/native_launch.hpp"
#include "executor/core/loop/executor_loop.hpp"
#include "scheduler/core/pipeline/scheduler.hpp"
#include "scheduler/core/vocabulary/task.hpp"
#include "submit/site_table.hpp"
#include "submit/submitting_threads.hpp"

namespace celerity::native {

/// Python's records of submissions, by number. A submission is recorded and handed to the scheduler in one call that neither a signal handler nor another
/// thread can split: an exception leaves either both or nothing. All members with the GIL.
class submission_table {
  public:
	/// `executor` may be null. `entries`: number -> Submission. `is_shared`: several ranks have to submit in the same order.
	submission_table(scheduler& target, executor_loop* executor, nanobind::dict entries, const bool is_shared)
	    : m_scheduler(target), m_executor(executor), m_entries(std::move(entries)), m_is_shared(is_shared), m_oldest(target.next_submission().value) {}

	struct submitted_task {
		task node;
		std::optional<native_launch> launch{};
		void* fence_destination = nullptr; ///< memory of the application; null: none
	};
	/// The future of the submission, if it has one, knows its number before the scheduler hears of the task. The observer runs Python code, which may raise:
	/// the task is submitted all the same.
	void enter(nanobind::handle submission, submitted_task&& submitted, std::int64_t started_ns);
	struct repeated_task {
		nanobind::object submission;
		const std::optional<native_launch>* launch;
		std::size_t num_reductions;
	};
	/// Repetitions of tasks that were entered before, from line `site`, beginning with `phase`. Their buffers must live. Returns the number of the first task.
	/// Runs no Python code but that of the refuser.
	std::uint64_t enter_again(std::span<const repeated_task> tasks, std::shared_ptr<const recorded_program> program, std::uint32_t repetitions,
	    std::size_t phase, std::uint64_t site);
	/// Tells the observer of submits, if there is one, that the task with this number was entered.
	void observe(std::uint64_t number, nanobind::handle submission, std::int64_t started_ns) const;
	/// Several ranks would have to submit in the same order, but another thread has submitted since `next_submission` was `begun`.
	bool is_overtaken(std::uint64_t begun) const;
	/// Called as refuse(what, name of the thread that has submitted last) if chance decides whether this thread submits before or after that one; it raises.
	/// `what`: a submission, or a text.
	void set_refuser(nanobind::object refuse) { m_refuse_turn = std::move(refuse); }
	/// This thread makes a call whose order counts. Raises what the refuser raises.
	void take_turn(nanobind::handle what);

	/// Futures of the submissions up to `last` that have not been forgotten.
	nanobind::list futures_until(std::uint64_t last) const;
	/// Drops the records up to `last`.
	void forget_until(std::uint64_t last);

	/// Called as observer(number, submission, perf_counter_ns() at the beginning) behind each submit.
	void set_observer(nanobind::object observer) { m_observer = std::move(observer); }
	/// Of this line of the program and the thread that has its turn, if several ranks compare what they submit; 0 otherwise.
	std::uint64_t number_line(PyObject* const code, const int lasti, const std::uint64_t times = 0) {
		return m_is_shared ? m_sites.number(code, lasti, m_threads.last_number(), times) : 0;
	}
	std::uint64_t num_submitted() const { return m_num_submitted; }
	/// The task graph numbers them in the same way.
	std::uint64_t num_reductions() const { return m_num_reductions; }
	/// For the garbage collector.
	std::array<nanobind::handle, 3> references() const { return {m_entries, m_observer, m_refuse_turn}; }
	/// The lines that have submitted something, if several ranks compare what they submit.
	const site_table& sites() const { return m_sites; }
	const submitting_threads& threads() const { return m_threads; }

  private:
	scheduler& m_scheduler;
	executor_loop* m_executor;
	nanobind::dict m_entries;
	bool m_is_shared;
	site_table m_sites;
	nanobind::object m_observer;
	nanobind::object m_refuse_turn;
	submitting_threads m_threads; ///< if several ranks have to submit in the same order
	std::uint64_t m_oldest; ///< that has not been forgotten
	std::deque<std::uint64_t> m_with_future;
	std::uint64_t m_num_submitted = 0;
	std::uint64_t m_num_reductions = 0;

	void set_site(nanobind::handle submission, task& node);
	/// Gives the number to the future of the submission, if it has one, and keeps the submission by it.
	nanobind::object add_record(std::uint64_t id, nanobind::handle submission);
	void take_back(std::uint64_t id, bool has_launch);
	void count(std::size_t num_tasks, std::size_t num_reductions);
};

} // namespace celerity::native
