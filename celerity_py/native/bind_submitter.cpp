// SPDX-License-Identifier: MIT
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "executor/core/threads/busy_clock.hpp"
#include "submit/records.hpp"
#include "submit/submitter.hpp"
#include "submit/task_building.hpp"
#include "submit/value_watch.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {
namespace {

void submit_fence(submitter& self, const nb::handle submission, const std::uint64_t buffer, const user_box& where, const std::uintptr_t address,
    const bool on_all, const bool to_device, const queue_priority priority) {
	task node = make_fence(buffer, where, 0, on_all, to_device);
	node.priority = priority;
	self.table().enter(submission, {std::move(node), {}, reinterpret_cast<void*>(address)}, now_ns());
}

nb::object call_inside(const nb::handle threads, const nb::handle function, const nb::args& args) {
	const nb::int_ thread(PyThread_get_thread_ident());
	const bool was_there = PySet_Contains(threads.ptr(), thread.ptr()) == 1;
	if(!was_there && PySet_Add(threads.ptr(), thread.ptr()) != 0) throw nb::python_error();
	const nb::object result = nb::steal(PyObject_CallObject(function.ptr(), args.ptr()));
	PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
	PyErr_Fetch(&type, &value, &trace); // of the call
	if(!was_there && PySet_Discard(threads.ptr(), thread.ptr()) < 0) PyErr_Clear();
	PyErr_Restore(type, value, trace);
	if(!result) throw nb::python_error();
	return result;
}

int traverse(PyObject* const self, const visitproc visit, void* const arg) {
	Py_VISIT(Py_TYPE(self));
	return nb::inst_ready(self) ? nb::inst_ptr<submitter>(self)->traverse(visit, arg) : 0;
}

PyType_Slot submitter_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&traverse)}, {0, nullptr}};

int traverse_memo(PyObject* const self, const visitproc visit, void* const arg) {
	Py_VISIT(Py_TYPE(self));
	return nb::inst_ready(self) ? nb::inst_ptr<submit_memo>(self)->traverse(visit, arg) : 0;
}

int clear_memo(PyObject* const self) {
	if(nb::inst_ready(self)) nb::inst_ptr<submit_memo>(self)->clear();
	return 0;
}

int traverse_watch(PyObject* const self, const visitproc visit, void* const arg) {
	Py_VISIT(Py_TYPE(self));
	return nb::inst_ready(self) ? nb::inst_ptr<value_watch>(self)->traverse(visit, arg) : 0;
}

int clear_watch(PyObject* const self) {
	if(nb::inst_ready(self)) nb::inst_ptr<value_watch>(self)->clear();
	return 0;
}

PyType_Slot watch_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&traverse_watch)}, {Py_tp_clear, reinterpret_cast<void*>(&clear_watch)}, {0, nullptr}};

PyType_Slot memo_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&traverse_memo)}, {Py_tp_clear, reinterpret_cast<void*>(&clear_memo)}, {0, nullptr}};

} // namespace

void bind_submitter(nb::module_& m) {
	record_type<submission_record>::bind(m, "SubmissionRecord", "The attributes of a submission.");
	record_type<access_record>::bind(m, "AccessRecord", "The attributes of an access.");
	record_type<port_record>::bind(m, "PortRecord", "The attributes that all ports have.");
	record_type<kernel_record>::bind(m, "KernelRecord", "The attributes that all kernels have.");
	m.def("access_maker", &make_access_maker, "access_class"_a, nb::sig("def access_maker(access_class: type[typing.Any]) -> typing.Any"),
	    "A function new_access(buffer, mapper, port) that makes an access, an instance of this class.");
	m.def("call_inside", &call_inside, "threads"_a, "function"_a, "args"_a,
	    nb::sig("def call_inside(threads: set[int], function: typing.Any, *args: typing.Any) -> typing.Any"),
	    "function(*args), while the id of this thread is in the set `threads`; no exception leaves it there.");
	number_types_of_numpy(); // a thread that waited for the first call of another one would hold the interpreter lock
	m.def("numbers_at", &numbers_at, "places"_a, nb::sig("def numbers_at(places: tuple[tuple[typing.Any, str, str | None], ...]) -> tuple[typing.Any, ...]"),
	    "The numbers at these places: in a dictionary or cell, by name, or in an attribute of the object there. None for anything else.");
	nb::class_<value_watch>(m, "ValueWatch", nb::type_slots(watch_slots), "A quick look at values from outside. Immutable.")
	    .def(nb::init<nb::handle>(), "places"_a,
	        nb::sig("def __init__(self, places: collections.abc.Iterable[tuple[typing.Any, str, tuple[str, ...], int]]) -> None"),
	        "places: (root, name, attributes, id). A root is a dictionary or a cell with the first object, or a callable that gives it. The id is that of the "
	        "object there, or of the code of the function there, and somebody keeps it alive.")
	    .def("has_moved", &value_watch::has_moved, "Whether a name stands for another object, which may be an equal one.");
	nb::class_<submit_memo>(m, "SubmitMemo", nb::type_slots(memo_slots), "The memo of a kernel: the checked kinds of its calls; see Submitter.")
	    .def(nb::init<>())
	    .def(
	        "__reduce__", [](const nb::handle self) { return nb::make_tuple(self.type(), nb::tuple()); },
	        nb::sig("def __reduce__(self) -> tuple[type, tuple[()]]"), "A copy of a kernel begins anew.");
	nb::class_<recorded_tasks>(m, "RecordedTasks", "The kernels and host tasks that a function has submitted; see Submitter.record.")
	    .def(nb::init<>())
	    .def("__len__", [](const recorded_tasks& self) { return self.tasks_per_repetition(); })
	    .def_prop_ro("steps_of_halos", &recorded_tasks::steps_of_halos, "From one exchange of halos to the next, as the first kernel asks that does; else 0.")
	    .def(
	        "find_halos",
	        [](const recorded_tasks& self, const submitter& owner) {
		        const deep_halos found = owner.find_halos(self);
		        std::vector<std::array<coordinate, 3>> reaches;
		        for(const point& each : found.reaches) reaches.push_back(each.v);
		        return std::tuple(name_of(found.kind), found.task, found.kind >= deep_halos::kind_type::read_elsewhere ? found.access : found.other,
		            found.reach.v, found.share.extents().v, found.growth, found.work, found.num_exchanges, reaches);
	        },
	        "submitter"_a,
	        nb::sig("def find_halos(self, submitter: Submitter) -> tuple[str, int, int, tuple[int, int, int], tuple[int, int, int], float, float, int, "
	                "list[tuple[int, int, int]]]"),
	        "How far tasks that ask for it reach beyond their shares: (kind of answer, number of a task, another one or an access of the task, the farthest "
	        "reach, extents of the share whose work grows most, growth, work of all, exchanges per step without, reach by step and task).")
	    .def("joined", &recorded_tasks::joined, "other"_a, "behind"_a,
	        "These tasks with those of another recording among them. behind: for each of the others, the number of the task behind which it runs. It is divided "
	        "like that one.")
	    .def(
	        "with_reaches",
	        [](const recorded_tasks& self, submitter& owner, const std::vector<std::array<coordinate, 3>>& reaches, const nb::list& submissions) {
		        std::vector<point> taken;
		        for(const auto& each : reaches) taken.push_back(point{each});
		        return owner.deepen(self, taken, submissions);
	        },
	        "submitter"_a, "reaches"_a, "submissions"_a, "The same tasks with the reach of each in each step. submissions: of the tasks of all steps.")
	    .def(
	        "with_values",
	        [](const recorded_tasks& self, submitter& owner, const std::vector<std::tuple<std::size_t, std::optional<nb::bytes>, std::uint64_t>>& changes,
	            const nb::list& submissions) {
		        std::vector<recorded_tasks::change> taken;
		        for(const auto& [entry, scalars, digest] : changes) {
			        auto& change = taken.emplace_back(recorded_tasks::change{entry, {}, digest, {}});
			        const nb::object submission = submissions[entry];
			        if(!submission.attr("fused").is_none()) {
				        change.launch = owner.prepare_fused(submission, self.entries.at(entry).node);
			        } else if(scalars.has_value()) {
				        const auto* const begin = static_cast<const std::byte*>(scalars->data());
				        change.scalars.emplace(begin, begin + scalars->size());
			        }
		        }
		        return self.with(taken);
	        },
	        "submitter"_a, "changes"_a, "submissions"_a,
	        "The same tasks with other plain arguments, as a program of its own. changes: number of the task, bytes of the scalars of a CudaKernel, and digest of "
	        "its values. submissions: of all tasks, with the new arguments.");
	nb::class_<submitter>(m, "Submitter", nb::type_slots(submitter_slots),
	    R"(Records submissions and hands them to the scheduler, in one step that no interrupt can split. With the GIL, on any thread.

Asks the delegate about the new parts of a call, and for the words of errors. An exception of the delegate leaves everything as it was.)")
	    .def(nb::init<scheduler&, executor_loop*, nb::dict, bool>(), "scheduler"_a, "executor"_a.none(), "entries"_a, "is_shared"_a, nb::keep_alive<1, 2>(),
	        nb::keep_alive<1, 3>(), "entries: number -> Submission, which is added to. is_shared: several ranks have to submit in the same order.")
	    .def("set_delegate", &submitter::set_delegate, "delegate"_a, "A SubmitDelegate, before the first kernel or host task. Its attributes are read now.")
	    .def(
	        "submit_kernel",
	        [](submitter& self, const nb::handle kernel, const nb::handle shape, nb::tuple args, const nb::handle name, const nb::handle hints,
	            const nb::handle constrain, const nb::handle frame,
	            const queue_priority priority) { self.submit_kernel({kernel, shape, std::move(args), name, hints, constrain, frame, priority}); },
	        "kernel"_a.none(), "shape"_a.none(), "args"_a, "name"_a.none(), "hints"_a.none(), "constrain"_a.none(), "frame"_a, "priority"_a,
	        "Queue.parallel_for, called from this frame, of a queue with this priority.")
	    .def("submit_host_task", &submitter::submit_host_task, "priority"_a, "given"_a,
	        nb::sig("def submit_host_task(self, priority: int, *given: typing.Any) -> None"),
	        "Queue.host_task, of a queue with this priority, with the arguments of SubmitDelegate.plan_host_task.")
	    .def("record", &submitter::record, "function"_a, "tasks"_a, "submissions"_a, "opened"_a,
	        nb::sig("def record(self, function: typing.Any, tasks: RecordedTasks, submissions: list[typing.Any], opened: typing.Any) -> typing.Any"),
	        "function(), keeping the kernels and host tasks that this thread submits meanwhile. submissions: gets Python's record of each. opened: the "
	        "Recording.")
	    .def("digest_values", &submitter::digest_values, "kept_args"_a, nb::sig("def digest_values(self, kept_args: list[typing.Any]) -> int"),
	        "Of the plain arguments among those that a submission keeps, as the ranks compare them.")
	    .def_prop_ro("num_calls_of_others", &submitter::num_calls_of_others, "Submits and replays of other threads that have not returned yet.")
	    .def_prop_ro("open_recording", &submitter::open_recording, nb::sig("def open_recording(self, /) -> typing.Any"), "The Recording under way, or None.")
	    .def("replay", &submitter::replay, "tasks"_a, "submissions"_a, "times"_a, "frame"_a,
	        nb::sig("def replay(self, tasks: RecordedTasks, submissions: list[typing.Any], times: int, frame: typing.Any) -> None"),
	        "Submit recorded tasks again, `times` times, for a call from this frame. Their buffers must live until this returns.")
	    .def("submit_fence", &submit_fence, "submission"_a, "buffer"_a, "box"_a, "address"_a, "on_all"_a, "to_device"_a, "priority"_a,
	        "The copy goes to `address`, which becomes an array of the user with the number that the future gets as `raw`; nowhere if it is 0. to_device: the "
	        "array lies in the memory of the first device.")
	    .def(
	        "submit_object_fence",
	        [](submitter& self, const nb::handle submission, const std::uint64_t object, const bool on_all, const queue_priority priority) {
		        task node = make_object_fence(object, on_all);
		        node.priority = priority;
		        self.table().enter(submission, {std::move(node)}, now_ns());
	        },
	        "submission"_a, "object"_a, "on_all"_a, "priority"_a, "Completes when all earlier tasks with this host object are complete on this rank.")
	    .def(
	        "submit_own_task",
	        [](submitter& self, const nb::handle submission, const task& planned, const std::string& name) {
		        task node = planned;
		        node.name = name;
		        self.table().enter(submission, {std::move(node)}, now_ns());
	        },
	        "submission"_a, "task"_a, "name"_a, "A host task of the runtime, without accesses. Blocks as little as a fence.")
	    .def(
	        "submit_epoch",
	        [](submitter& self, const nb::handle submission, const std::string& action) { self.table().enter(submission, {make_epoch(action)}, now_ns()); },
	        "submission"_a, "action"_a, "action: 'none', 'barrier' or 'shutdown'.")
	    .def("refuse", &submitter::refuse, "From now on ask the delegate at each call whether it may go on.")
	    .def(
	        "futures_until", [](submitter& self, const std::uint64_t last) { return self.table().futures_until(last); }, "last"_a,
	        "Futures of the submissions up to `last` that have not been forgotten.")
	    .def(
	        "forget_until", [](submitter& self, const std::uint64_t last) { self.table().forget_until(last); }, "last"_a,
	        "Drop the records of all submissions up to `last`.")
	    .def(
	        "set_observer", [](submitter& self, nb::object observer) { self.table().set_observer(std::move(observer)); }, "observer"_a,
	        "Call observer(number, submission, perf_counter_ns() at the beginning) behind each submit.")
	    .def(
	        "number_site", [](submitter& self, const nb::handle code, const int lasti) { return self.table().number_line(code.ptr(), lasti); }, "code"_a,
	        "lasti"_a, "The number of a line of the program and of the thread that has its turn; 0 if there are too many, and with a single rank.")
	    .def(
	        "find_site", [](submitter& self, const std::uint64_t number) { return self.table().sites().find(number); }, "number"_a,
	        nb::sig("def find_site(self, number: int) -> tuple[typing.Any, int, int, int] | None"),
	        "(code, byte offset of the instruction, number of the thread, repetitions of a replay or 0) of such a line.")
	    .def(
	        "set_refuser", [](submitter& self, nb::object refuse) { self.table().set_refuser(std::move(refuse)); }, "refuse"_a,
	        "Call refuse(what, name of another thread) if chance decides whether this thread submits before or after that one. It raises.")
	    .def(
	        "take_turn", [](submitter& self, const nb::handle what) { self.table().take_turn(what); }, "what"_a,
	        "This thread makes a call whose order counts. `what`: a submission, or the call in words.")
	    .def_prop_ro(
	        "threads", [](submitter& self) { return self.table().threads().names(); }, nb::sig("def threads(self, /) -> list[str]"),
	        "The names of the threads that have submitted, by number, if there are several ranks.")
	    .def_prop_ro("num_submitted", [](submitter& self) { return self.table().num_submitted(); })
	    .def_prop_ro("num_repeated", &submitter::num_repeated, "Kernels about which the delegate was not asked.")
	    .def_prop_ro("busy_ns", &submitter::busy_ns, "Time in submits of kernels and host tasks, without the time blocked.")
	    .def_prop_ro("blocked_ns", &submitter::blocked_ns, "Time blocked because the application was too far ahead of the execution.");
}

} // namespace celerity::native
