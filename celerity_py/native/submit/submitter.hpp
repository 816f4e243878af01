// SPDX-License-Identifier: MIT
// Submits tasks. Python answers questions about new calls, and words errors; the rest is done here.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "executor/core/devices/native_launch.hpp"
#include "scheduler/core/vocabulary/task.hpp"
#include "submit/functions_without_numbers.hpp"
#include "submit/fused_launches.hpp"
#include "submit/plain_types.hpp"
#include "submit/submission_table.hpp"

namespace celerity::native {

/// A function (buffer, mapper, port) that makes an access, an instance of this class, as its `__init__` does.
nanobind::object make_access_maker(nanobind::handle access_class);

/// The numbers from outside that a kernel uses, at places that Python has found; see `calls/outer_variables.py`.
nanobind::object numbers_at(nanobind::handle places);

/// `numpy.number` and `numpy.bool_`. The first call imports NumPy.
const std::pair<PyTypeObject*, PyTypeObject*>& number_types_of_numpy();

/// A new reference: the context variables of the thread, such as NumPy's error state; None if none is set.
PyObject* current_context();

/// Checked submits of one kernel, by the kinds of its arguments. Belongs to the kernel.
class submit_memo {
  public:
	/// An odd number for each `Port.kind`, or the address of the type of a value, which is even. Entries name plain
	/// types only. These live as long as the interpreter, so no other type gets their address.
	using argument_kind = std::uintptr_t;

	struct entry {
		std::vector<argument_kind> kinds;
		bool repeats = false; ///< native code submits such a call by itself
		std::vector<nanobind::object> hints;
		task_geometry geometry;                      ///< but for the index space
		nanobind::object plan;                       ///< the LaunchPlan; null if Python runs the kernel
		std::shared_ptr<const native_kernel> native; ///< of the plan
		std::shared_ptr<fused_launches> fused;       ///< of a fused kernel; null if it is none
		nanobind::object pack;                       ///< makes bytes of the scalars
		std::vector<std::size_t> scalars;            ///< their positions among the arguments
		std::uint64_t code_digest = 0;               ///< as `task::code_digest`
		nanobind::object places;                     ///< of the numbers from outside that it uses; null if there are none
	};

	std::uint64_t owner = 0; ///< the submitter that keeps entries here
	std::vector<std::shared_ptr<const entry>> entries;

	/// For the garbage collector: the namespaces of numbers from outside hold the kernel.
	int traverse(visitproc visit, void* arg) const;
	void clear();
};

/// The kernels and host tasks that a function has submitted, in order. Python's records of them lie in a list beside.
struct recorded_tasks {
	struct entry {
		task node; ///< before the scheduler numbers it
		std::optional<native_launch> launch;
	};
	std::vector<entry> entries;
	/// Repetitions until the same tasks come again; `entries` has those of all of them.
	std::size_t num_phases = 1;
	std::size_t tasks_per_repetition() const { return entries.size() / num_phases; }
	std::uint32_t steps_of_halos() const;

	/// The tasks as the scheduler repeats them; made by the first replay.
	const std::shared_ptr<const recorded_program>& program();

	/// A task whose plain arguments have other values.
	struct change {
		std::size_t entry = 0;
		std::optional<std::vector<std::byte>> scalars; ///< of the launch, if there is one
		std::uint64_t values_digest = 0;
		std::optional<std::optional<native_launch>> launch; ///< another one, or none any more
	};
	/// The same tasks with other values: a program of its own, with templates and graphs of its own.
	std::shared_ptr<recorded_tasks> with(const std::vector<change>& changes) const;
	/// Of two recordings of one phase: the tasks of `other` behind tasks of this one, divided like them. `behind`: for each of `other` its place among these.
	std::shared_ptr<recorded_tasks> joined(const recorded_tasks& other, const std::vector<std::size_t>& behind) const;
	/// Of a recording of one phase: one with a phase per step. `reaches`: of each task in each step.
	std::shared_ptr<recorded_tasks> with(const std::vector<point>& reaches) const;

  private:
	std::shared_ptr<const recorded_program> m_program;
};

/// Of `Queue.parallel_for`.
struct parallel_for_call {
	nanobind::handle kernel, shape;
	nanobind::tuple args;
	nanobind::handle name, hints, constrain, frame;
	queue_priority priority = 0; ///< of the queue
};

/// Carries out the calls of queues that submit. All members with the GIL.
class submitter {
  public:
	/// `executor`, `entries` and `is_shared` are those of the submission table.
	submitter(scheduler& target, executor_loop* executor, nanobind::dict entries, bool is_shared);

	/// A `SubmitDelegate`, before the first kernel or host task. Its attributes are read now.
	void set_delegate(nanobind::object delegate);
	void submit_kernel(const parallel_for_call& given);
	/// `given`: the arguments of the delegate's `plan_host_task`; the second one is the tuple of arguments of the task.
	void submit_host_task(queue_priority priority, const nanobind::args& given);

	/// Calls the function, and keeps the kernels and host tasks that this thread submits meanwhile. No signal handler can leave the recording open.
	/// `submissions`: gets Python's record of each. `opened`: the Recording, which refuses other calls.
	nanobind::object record(const nanobind::object& function, std::shared_ptr<recorded_tasks> tasks, nanobind::list submissions, nanobind::object opened);
	/// The Recording under way; None if there is none.
	nanobind::object open_recording() const { return m_recorded != nullptr ? m_open_recording : nanobind::none(); }
	/// Submits recorded tasks again, `times` times, for a call from this frame. The buffers live until it returns. Now and then it lets signal
	/// handlers and other threads run.
	void replay(recorded_tasks& tasks, const nanobind::list& submissions, std::uint64_t times, nanobind::handle frame);

	/// From now on the delegate is asked at each call whether it may go on, and again when the call has been blocked.
	void refuse() { m_refuses = true; }
	/// The launch of a kernel whose submission has a fused function; nothing if Python runs it. `kept`: gets it for submits that repeat this one.
	std::optional<native_launch> prepare_fused(nanobind::handle submission, const task& node, std::shared_ptr<fused_launches>* kept = nullptr);
	/// Submits and replays of other threads that have not returned yet.
	std::size_t num_calls_of_others() const;
	submission_table& table() { return m_table; }
	/// Kernels about which Python was not asked.
	std::uint64_t num_repeated() const { return m_num_repeated; }
	/// Time in submits of kernels and host tasks, without the time blocked.
	std::int64_t busy_ns() const { return m_busy_ns; }
	/// Time blocked, also that of calls that still are. With the GIL.
	std::int64_t blocked_ns() const;

	int traverse(visitproc visit, void* arg) const;
	/// Of the plain arguments among the arguments that a submission keeps; 0 if they are not compared.
	std::uint64_t digest_values(nanobind::handle kept_args) const;
	/// Of a recording of one phase, whose buffers live.
	deep_halos find_halos(const recorded_tasks& tasks) const;
	/// See `recorded_tasks`. `submissions`: of each task in each step.
	std::shared_ptr<recorded_tasks> deepen(const recorded_tasks& tasks, const std::vector<point>& reaches, const nanobind::list& submissions);

  private:
	static constexpr std::size_t max_entries = 16; ///< they are compared one by one
	static constexpr std::size_t max_scalars = 32;

	class recording_scope;
	class blocked_call;

	/// A call under way.
	class call {
	  public:
		call(submitter& owner, const char* name);
		~call();
		call(const call&) = delete;
		call& operator=(const call&) = delete;

		const char* const name;
		const std::int64_t started_ns;
		std::uint64_t begun; ///< the next submission then
		std::int64_t blocked_ns = 0;
		std::uint64_t repetition = 0; ///< of a replay: which one is submitted, from 1 on
		std::uint64_t times = 0;

	  private:
		submitter& m_owner;
		const unsigned long m_thread;
	};

	/// The result of the checks of a call.
	struct work : submission_table::submitted_task {
		nanobind::object submission;
		nanobind::handle args; ///< as the program gave them, to whom they belong
	};

	scheduler& m_scheduler;
	submission_table m_table;
	nanobind::object m_delegate;
	bool m_may_repeat = false;
	bool m_is_cuda = false;
	bool m_compares_values = false; ///< the plain arguments of kernels, with other ranks; with CHECK, Python has done so
	const PyObject* m_runtime = nullptr;                   ///< of the ports; only compared
	nanobind::object m_inside, m_boxes;                    ///< ids of threads that must not submit; index spaces by shape
	nanobind::object m_number_paths;                       ///< see `outer_variables.py`; by the id of a code object
	plain_types m_plain_types{nanobind::tuple()};          ///< a value of one never changes
	functions_without_numbers m_without_numbers;
	PyObject *m_submission_class = nullptr, *m_hint_class = nullptr, *m_box_class, *m_mapper_class; ///< of modules that stay
	nanobind::object m_kernel_kind;                                                                 ///< "kernel"
	nanobind::object m_thread;                                                                      ///< the id of the thread that called last
	unsigned long m_thread_id = 0;
	std::uint64_t m_id;
	std::atomic<bool> m_refuses{false};
	std::vector<unsigned long> m_callers; ///< the threads of the calls under way
	std::uint64_t m_num_repeated = 0;
	std::int64_t m_busy_ns = 0;
	std::int64_t m_blocked_ns = 0; ///< less the begins of the calls that are blocked
	std::int64_t m_num_blocked = 0; ///< calls, of several threads
	std::shared_ptr<const recorded_program> m_deep; ///< the program of several phases that was replayed last, if nothing has been written to its buffers since
	std::size_t m_phase = 0; ///< of its next repetition
	std::shared_ptr<recorded_tasks> m_recorded; ///< null: nothing is recorded
	nanobind::object m_recorded_submissions, m_open_recording;
	unsigned long m_recording_thread = 0;
	std::vector<submit_memo::argument_kind> m_kinds; ///< of the call that is looked at; here for its memory
	std::vector<nanobind::handle> m_hints; ///< likewise

	/// Raises if the thread may not call.
	void check_usable(const call& now);
	void finish(call& now, work&& made);
	/// Returns when the program may submit. Raises if it may not, or if another thread overtakes.
	void await_turn(call& now, nanobind::handle submission, queue_priority priority, bool is_replay);
	void enter_and_record(work& made, std::int64_t started_ns);
	/// The task begins a new period of halos if it writes a buffer of the present one.
	void note_writes(const task& node);
	void submit_again(recorded_tasks& tasks, const nanobind::list& submissions, std::uint32_t repetitions, std::uint64_t site, call& now);
	bool is_recording() const { return m_recorded != nullptr && PyThread_get_thread_ident() == m_recording_thread; }
	bool is_inside();
	/// The kind of a port, or a plain type.
	bool is_plain(submit_memo::argument_kind kind) const;
	/// The plain type from which the type of a value derives; 0 if there is none.
	submit_memo::argument_kind plain_base(submit_memo::argument_kind kind) const;

	/// False, with nothing done, if something is new or wrong, or if code of others would have to run.
	bool repeat(const parallel_for_call& given, const nanobind::object& box_object, work& out);
	/// By the delegate. `known_space`: null if the shape is new.
	void ask_delegate(const parallel_for_call& given, const nanobind::object& known_space, work& out, submit_memo::entry& found);
	/// Lets the delegate keep the values from outside that the function uses.
	void note_outside(nanobind::handle submission);
	void prepare_launch(nanobind::handle kernel, work& out, submit_memo::entry& found);
	void remember(nanobind::handle kernel, submit_memo::entry&& found) const;

	/// The memo of a kernel, without entries for other submitters. Null for a function.
	submit_memo* memo_of(nanobind::handle kernel) const;
	/// Null if the shape is new, or if comparing it would run code of others.
	nanobind::object find_space(PyObject* shape) const;
	/// Sets m_kinds. `args`: a tuple or list, with accesses or with ports. False if an access is none of this runtime, or has a mapper that Python has to ask.
	bool find_kinds(PyObject* args);
	/// Sets m_hints. False if the hints are neither one hint nor a tuple or list.
	bool find_hints(PyObject* hints);
	/// The entry of earlier calls with these kinds of arguments. With `hints`, one that repeats calls with these hints. Null if there is none.
	template <typename Hint>
	static std::shared_ptr<const submit_memo::entry> find(const submit_memo& memo, int dims, const std::vector<submit_memo::argument_kind>& kinds,
	    const std::vector<Hint>* hints);
	nanobind::object make_submission(PyObject* function, PyObject* label, PyObject* args, PyObject* box, PyObject* frame) const;
	/// False if a value does not fit as it is.
	bool make_launch(const submit_memo::entry& known, PyObject* args, const box& space, native_launch& out) const;
};

} // namespace celerity::native
