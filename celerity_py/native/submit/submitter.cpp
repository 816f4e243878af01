// SPDX-License-Identifier: MIT
#include "submit/submitter.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "executor/core/backends/cuda/cuda_function.hpp"
#include "executor/core/threads/busy_clock.hpp"
#include "named_tuple.hpp"
#include "submit/local_accesses.hpp"
#include "submit/records.hpp"
#include "scheduler/core/graphs/access_checks.hpp"
#include "submit/task_building.hpp"
#include "submit/user_geometry.hpp"
#include "submit/waiting.hpp"

namespace nb = nanobind;

namespace celerity::native {

namespace {

using access_type = record_type<access_record>;
using kernel_type = record_type<kernel_record>;
using port_type = record_type<port_record>;
using submission_type = record_type<submission_record>;

/// The class `Access` of Python; set once, by make_access_maker().
PyTypeObject* access_class = nullptr;

bool is_port(const submit_memo::argument_kind kind) { return (kind & 1) != 0; }

/// `kept`: an argument of a submission.
submit_memo::argument_kind kind_of(PyObject* const kept) {
	if(!port_type::is_instance(kept)) return reinterpret_cast<submit_memo::argument_kind>(Py_TYPE(kept));
	return static_cast<submit_memo::argument_kind>(PyLong_AsLong(port_type::of(kept).kind)) * 2 + 1;
}

bool has_class(PyObject* const object, const void* const cls) { return Py_TYPE(object) == cls; }

/// Null if it is none of native code. Each access of each submit passes here twice, and nanobind's look at the type costs more.
const range_mapper* native_mapper(const nb::handle mapper) {
	static const PyTypeObject* const final_class = reinterpret_cast<PyTypeObject*>(nb::type<range_mapper>().ptr());
	return Py_TYPE(mapper.ptr()) == final_class && nb::inst_ready(mapper) ? nb::inst_ptr<range_mapper>(mapper) : nullptr;
}

bool wraps(const nb::handle mapper) {
	const range_mapper* const known = native_mapper(mapper);
	return known != nullptr && known->wraps();
}

PyObject* make_access(PyObject* const cls, PyObject* const* const args, const Py_ssize_t count) {
	if(count != 3) {
		PyErr_SetString(PyExc_TypeError, "an access is made of a buffer, a mapper and a port");
		return nullptr;
	}
	access_record* const result = access_type::make(reinterpret_cast<PyTypeObject*>(cls));
	if(result == nullptr) return nullptr;
	result->buffer = Py_NewRef(args[0]);
	result->mapper = Py_NewRef(args[1]);
	result->port = Py_NewRef(wraps(args[1]) ? port_type::of(args[2]).periodic : args[2]);
	return reinterpret_cast<PyObject*>(result);
}

/// `accesses`: a sequence of `Access` with a RangeMapper.
void read_accesses(const nb::handle accesses, task& node) {
	node.accesses.reserve(static_cast<std::size_t>(PySequence_Fast_GET_SIZE(accesses.ptr())));
	for(Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(accesses.ptr()); ++i) {
		PyObject* const item = PySequence_Fast_GET_ITEM(accesses.ptr(), i);
		if(!has_class(item, access_class)) continue;
		const access_record& access = access_type::of(item);
		const port_record& port = port_type::of(access.port);
		const range_mapper* const mapper = native_mapper(access.mapper);
		if(mapper == nullptr) throw nb::cast_error();
		node.accesses.push_back({buffer_id(PyLong_AsUnsignedLongLong(port.buffer_id)), static_cast<access_mode>(PyLong_AsLong(port.mode)), *mapper});
	}
	if(PyErr_Occurred() != nullptr) throw nb::python_error();
}

std::string text_of(PyObject* const text) {
	Py_ssize_t size = 0;
	const char* const begin = PyUnicode_AsUTF8AndSize(text, &size);
	if(begin == nullptr) {
		PyErr_Clear();
		raise_usage_error(std::string("The name of a task has half of a surrogate pair, which is no character: ") + nb::repr(text).c_str() + ".");
	}
	return {begin, static_cast<std::size_t>(size)};
}

/// Whether messages can show a name as it is: it has no control characters. If unsure, this says no.
bool is_plain_ascii(const std::string& name) {
	return std::all_of(name.begin(), name.end(), [](const char c) { return c >= ' ' && c <= '~'; });
}

/// Reads an answer of the delegate: (submission, task, accesses).
void take_over(const nb::object& answer, nb::object& submission, task& node) {
	const auto plan = nb::cast<nb::tuple>(answer);
	submission = plan[0];
	node = std::move(nb::cast<task&>(plan[1]));
	node.name = text_of(submission_type::of(submission.ptr()).name);
	read_accesses(plan[2], node);
}

std::vector<std::byte> bytes_of(PyObject* const bytes) {
	const auto* const begin = reinterpret_cast<const std::byte*>(PyBytes_AS_STRING(bytes));
	return {begin, begin + PyBytes_GET_SIZE(bytes)};
}

} // namespace

/// A call that is blocked. Its time counts also while it lasts. Begins and ends with the GIL.
class submitter::blocked_call {
  public:
	explicit blocked_call(submitter& owner) : m_owner(owner), m_started_ns(now_ns()) {
		++m_owner.m_num_blocked;
		m_owner.m_blocked_ns -= m_started_ns;
	}
	~blocked_call() {
		--m_owner.m_num_blocked;
		m_owner.m_blocked_ns += now_ns();
	}
	blocked_call(const blocked_call&) = delete;
	blocked_call& operator=(const blocked_call&) = delete;

	std::int64_t duration_ns() const { return now_ns() - m_started_ns; }

  private:
	submitter& m_owner;
	const std::int64_t m_started_ns;
};

std::int64_t submitter::blocked_ns() const { return m_blocked_ns + m_num_blocked * now_ns(); }

nb::object make_access_maker(const nb::handle cls) {
	access_class = reinterpret_cast<PyTypeObject*>(cls.ptr());
	static PyMethodDef definition{
	    "new_access", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&make_access)), METH_FASTCALL, "new_access(buffer, mapper, port)"};
	return nb::steal(PyCFunction_New(&definition, cls.ptr()));
}

submitter::submitter(scheduler& target, executor_loop* const executor, nb::dict entries, const bool is_shared)
    : m_scheduler(target), m_table(target, executor, std::move(entries), is_shared), m_box_class(nb::type<user_box>().ptr()),
      m_mapper_class(nb::type<range_mapper>().ptr()), m_kernel_kind(nb::str("kernel")) {
	static std::atomic<std::uint64_t> last_id{0};
	m_id = ++last_id;
}

void submitter::set_delegate(nb::object delegate) {
	m_may_repeat = nb::cast<bool>(delegate.attr("may_repeat"));
	m_compares_values = nb::cast<bool>(delegate.attr("compares_values"));
	m_is_cuda = nb::cast<bool>(delegate.attr("is_cuda"));
	m_runtime = nb::object(delegate.attr("runtime")).ptr();
	m_inside = delegate.attr("inside");
	m_boxes = delegate.attr("boxes");
	m_number_paths = delegate.attr("number_paths");
	m_submission_class = nb::object(delegate.attr("submission_class")).ptr();
	m_hint_class = nb::object(delegate.attr("hint_class")).ptr();
	m_plain_types = plain_types(delegate.attr("plain_types"));
	m_delegate = std::move(delegate);
}

int submitter::traverse(const visitproc visit, void* const arg) const {
	for(const nb::object* const each : {&m_delegate, &m_inside, &m_boxes, &m_number_paths, &m_recorded_submissions, &m_open_recording}) Py_VISIT(each->ptr());
	for(const nb::handle each : m_table.references()) Py_VISIT(each.ptr());
	return 0;
}

// ---- one way for kernels and host tasks

void submitter::submit_kernel(const parallel_for_call& given) {
	call now(*this, "parallel_for()");
	work made;
	made.args = given.args;
	made.node.priority = given.priority;
	const nb::object space = find_space(given.shape.ptr()); // first: comparing keys may run code of others
	if(space && given.constrain.is_none() && repeat(given, space, made)) {
		finish(now, std::move(made));
		++m_num_repeated;
		return;
	}
	submit_memo::entry found;
	ask_delegate(given, space, made, found);
	made.node.priority = given.priority;
	finish(now, std::move(made));
	remember(given.kernel, std::move(found));
}

void submitter::submit_host_task(const queue_priority priority, const nb::args& given) {
	call now(*this, "host_task()");
	work made;
	made.args = given[1];
	take_over(m_delegate.attr("plan_host_task")(*given), made.submission, made.node);
	note_outside(made.submission);
	made.node.priority = priority;
	finish(now, std::move(made));
}

submitter::call::call(submitter& owner, const char* const name)
    : name(name), started_ns(now_ns()), begun(owner.m_scheduler.next_submission().value), m_owner(owner), m_thread(PyThread_get_thread_ident()) {
	if(owner.m_refuses || owner.is_inside()) owner.check_usable(*this);
	owner.m_callers.push_back(m_thread);
}

submitter::call::~call() { m_owner.m_callers.erase(std::find(m_owner.m_callers.begin(), m_owner.m_callers.end(), m_thread)); }

std::size_t submitter::num_calls_of_others() const {
	const unsigned long own = PyThread_get_thread_ident();
	return static_cast<std::size_t>(std::count_if(m_callers.begin(), m_callers.end(), [=](const unsigned long thread) { return thread != own; }));
}

void submitter::check_usable(const call& now) {
	std::string what = now.name;
	if(now.times > 0) what += " (repetition " + std::to_string(now.repetition) + " of " + std::to_string(now.times) + ")";
	m_delegate.attr("check_usable")(what);
}

bool submitter::is_inside() {
	const unsigned long id = PyThread_get_thread_ident();
	if(!m_thread || id != m_thread_id) {
		m_thread = nb::steal(PyLong_FromUnsignedLong(id));
		m_thread_id = id;
	}
	return PySet_Contains(m_inside.ptr(), m_thread.ptr()) != 0;
}

void submitter::await_turn(call& now, const nb::handle submission, const queue_priority priority, const bool is_replay) {
	if(!m_scheduler.pace().may_submit(priority, is_replay)) { // the application is too far ahead of the execution
		const blocked_call blocked(*this);
		wait_until([&] { return m_refuses || m_scheduler.pace().throttle(signal_interval, priority, is_replay); });
		const std::int64_t blocked_ns = blocked.duration_ns();
		now.blocked_ns += blocked_ns;
		m_delegate.attr("note_blocked")(static_cast<double>(blocked_ns) * 1e-9);
	}
	if(m_refuses) check_usable(now); // the run has failed meanwhile, or another thread or a destructor ends it
	if(m_table.is_overtaken(now.begun)) m_delegate.attr("refuse_overtaken")(submission);
}

void submitter::finish(call& now, work&& made) {
	const queue_priority priority = made.node.priority;
	await_turn(now, made.submission, priority, false);
	const bool has_reductions = !made.node.reductions.empty();
	auto& record = submission_type::of(made.submission.ptr());
	Py_XSETREF(record.context, current_context());
	if(made.node.kind == task_kind::device_kernel && m_compares_values) made.node.values_digest = digest_values(record.args);
	note_writes(made.node);
	try {
		if(is_recording()) {
			enter_and_record(made, now.started_ns);
		} else {
			m_table.enter(made.submission, std::move(made), now.started_ns);
		}
	} catch(const access_pattern_error& error) {
		const nb::object exception = m_delegate.attr("explain")(to_named(error.violation), made.submission, made.args);
		PyErr_SetObject(exception.type().ptr(), exception.ptr());
		throw nb::python_error();
	}
	if(has_reductions) m_delegate.attr("note_reductions")(made.submission, m_table.num_reductions(), priority);
	m_busy_ns += now_ns() - now.started_ns - now.blocked_ns;
}

// ---- new calls, with answers of Python

void submitter::ask_delegate(const parallel_for_call& given, const nb::object& known_space, work& out, submit_memo::entry& found) {
	take_over(m_delegate.attr("plan_kernel")(given.kernel, given.shape, given.args, given.name, given.hints, given.constrain, given.frame,
	              known_space ? known_space : nb::none()),
	    out.submission, out.node);
	note_outside(out.submission);
	found.geometry = out.node.geometry;
	found.code_digest = out.node.code_digest;
	found.repeats = m_may_repeat && given.constrain.is_none() && find_hints(given.hints.ptr()) && find_kinds(given.args.ptr())
	                && std::all_of(m_kinds.begin(), m_kinds.end(), [this](const auto kind) { return is_plain(kind); });
	if(found.repeats) {
		for(const nb::handle hint : m_hints) found.hints.push_back(nb::borrow(hint));
	} else {
		find_kinds(submission_type::of(out.submission.ptr()).args);
	}
	for(const auto kind : m_kinds) found.kinds.push_back(plain_base(kind));
	const nb::object outside = nb::borrow(submission_type::of(out.submission.ptr()).outside);
	if(outside && PyTuple_CheckExact(outside.ptr())) found.places = outside[0];
	if(submission_type::of(out.submission.ptr()).fused != Py_None) {
		out.launch = prepare_fused(out.submission, out.node, &found.fused);
		// Callables have no digest. Python asks them anew.
		const auto is_callable = [](const buffer_access& access) { return access.mapper.get_kind() == range_mapper::kind::callable; };
		found.repeats &= found.fused != nullptr && std::none_of(out.node.accesses.begin(), out.node.accesses.end(), is_callable);
		found.places.reset(); // the values lie in the kernel
	} else if(m_is_cuda) {
		prepare_launch(given.kernel, out, found);
	}
}

std::optional<native_launch> submitter::prepare_fused(const nb::handle submission, const task& node, std::shared_ptr<fused_launches>* const kept) {
	std::vector<accessed_chunk> local;
	try {
		local = m_scheduler.local_accesses(node);
	} catch(const access_pattern_error&) {
		return std::nullopt; // the submit finds the same, and says so
	}
	const nb::object prepared = m_delegate.attr("prepare_fused")(submission, local_accesses(std::move(local), node.geometry.dims));
	if(prepared.is_none()) return std::nullopt;
	if(kept != nullptr) *kept = std::make_shared<fused_launches>(m_scheduler, node, submission_type::of(submission.ptr()).args, prepared);
	auto kernel = nb::cast<std::shared_ptr<native_kernel>>(prepared[0].attr("native"));
	return native_launch{std::move(kernel), bytes_of(nb::object(prepared[1]).ptr()), node.geometry.global};
}

void submitter::prepare_launch(const nb::handle kernel, work& out, submit_memo::entry& found) {
	const submit_memo* const memo = memo_of(kernel);
	const bool is_kept = std::find(found.kinds.begin(), found.kinds.end(), 0U) == found.kinds.end();
	const auto known = memo != nullptr && is_kept ? find<nb::object>(*memo, found.geometry.dims, found.kinds, nullptr) : nullptr;
	const nb::object known_plan = known != nullptr && known->plan ? known->plan : nb::none(); // Python may have run the kernel before
	const nb::object prepared = m_delegate.attr("prepare_launch")(out.submission, known_plan);
	if(prepared.is_none()) return;
	const nb::object plan = prepared[0];
	found.native = nb::cast<std::shared_ptr<cuda_function>>(plan.attr("function"));
	out.launch = native_launch{found.native, bytes_of(nb::object(prepared[1]).ptr()), found.geometry.global};
	const nb::object packing = plan.attr("packing");
	if(packing.is_none()) {
		found.repeats = false;
	} else {
		found.pack = packing[0];
		found.scalars = nb::cast<std::vector<std::size_t>>(packing[1]);
		found.repeats &= found.scalars.size() <= max_scalars;
	}
	if(is_kept) found.plan = plan;
}

void submitter::remember(const nb::handle kernel, submit_memo::entry&& found) const {
	submit_memo* const memo = memo_of(kernel);
	if(memo == nullptr || (!found.repeats && !found.plan)) return;
	// A value may not have fitted, and some shapes are looked at each time.
	if(const auto known = find(*memo, found.geometry.dims, found.kinds, found.repeats ? &found.hints : nullptr)) {
		if(known->fused != nullptr && found.fused != nullptr) known->fused->add(std::move(*found.fused));
		return;
	}
	if(memo->entries.size() >= max_entries) memo->entries.erase(memo->entries.begin());
	memo->entries.push_back(std::make_shared<const submit_memo::entry>(std::move(found)));
}

bool submitter::is_plain(const submit_memo::argument_kind kind) const {
	return is_port(kind) || m_plain_types.find(reinterpret_cast<const PyTypeObject*>(kind)) != nullptr;
}

submit_memo::argument_kind submitter::plain_base(const submit_memo::argument_kind kind) const {
	if(is_port(kind)) return kind;
	const plain_types::entry* const base = m_plain_types.find_base(reinterpret_cast<const PyTypeObject*>(kind));
	return base == nullptr ? 0 : reinterpret_cast<submit_memo::argument_kind>(base->type);
}

submit_memo* submitter::memo_of(const nb::handle kernel) const {
	if(!kernel_type::has_own_class(kernel.ptr())) return nullptr;
	submit_memo* result = nullptr;
	PyObject* const memo = kernel_type::of(kernel.ptr()).memo;
	if(memo == nullptr || !nb::try_cast<submit_memo*>(nb::handle(memo), result)) return nullptr;
	if(std::exchange(result->owner, m_id) != m_id) result->entries.clear();
	return result;
}

// ---- calls that repeat earlier ones

bool submitter::repeat(const parallel_for_call& given, const nb::object& box_object, work& out) {
	const submit_memo* const memo = memo_of(given.kernel);
	if(memo == nullptr || !find_kinds(given.args.ptr()) || !find_hints(given.hints.ptr())) return false;
	const user_box space = nb::cast<const user_box&>(box_object);
	// Owned, as all below: an allocation may call the garbage collector, which may call destructors, which may do anything.
	const auto known = find(*memo, space.dims, m_kinds, &m_hints);
	if(known == nullptr) return false;
	const kernel_record& kernel = kernel_type::of(given.kernel.ptr());
	PyObject* const implementation = m_is_cuda ? kernel.cuda : kernel.cpu;
	nb::object function = nb::borrow(implementation != nullptr ? implementation : given.kernel.ptr());
	nb::object fused = nb::none();
	if(known->fused != nullptr) { // or it is the implementation for this backend
		fused = kernel_type::has_own_class(function.ptr()) ? function : nb::borrow(given.kernel);
		function = nb::borrow(kernel_type::of(fused.ptr()).cpu);
	}
	const nb::object label = nb::borrow(given.name.is_none() ? kernel.name : given.name.ptr());
	if(!PyUnicode_CheckExact(label.ptr()) || PyUnicode_GET_LENGTH(label.ptr()) == 0) return false;

	out.node.kind = task_kind::device_kernel;
	out.node.geometry = known->geometry;
	out.node.geometry.global = space.b;
	out.node.name = text_of(label.ptr());
	if(!is_plain_ascii(out.node.name) && !nb::cast<bool>(label.attr("isprintable")())) {
		out = work{{}, {}, out.args};
		return false;
	}
	out.node.code_digest = known->code_digest;
	read_accesses(given.args, out.node);
	if(known->fused != nullptr) out.launch = known->fused->find(m_scheduler, out.node, given.args);
	const bool has_launch =
	    known->fused != nullptr ? out.launch.has_value() : known->native == nullptr || make_launch(*known, given.args.ptr(), space.b, out.launch.emplace());
	if(!has_launch) {
		out = work{{}, {}, out.args};
		return false;
	}
	out.submission = make_submission(function.ptr(), label.ptr(), given.args.ptr(), box_object.ptr(), given.frame.ptr());
	Py_SETREF(submission_type::of(out.submission.ptr()).fused, fused.release().ptr());
	if(known->places) {
		auto& record = submission_type::of(out.submission.ptr());
		Py_SETREF(record.outside, nb::make_tuple(known->places, numbers_at(known->places)).release().ptr());
	}
	return true;
}

nb::object submitter::find_space(PyObject* const shape) const {
	bool is_plain_shape = PyLong_CheckExact(shape) || has_class(shape, m_box_class);
	if(PyTuple_CheckExact(shape)) {
		is_plain_shape = true;
		for(Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); ++i) is_plain_shape &= PyLong_CheckExact(PyTuple_GET_ITEM(shape, i)) != 0;
	}
	if(!is_plain_shape) return {};
	nb::object result = nb::borrow(PyDict_GetItemWithError(m_boxes.ptr(), shape));
	if(!result && PyErr_Occurred() != nullptr) throw nb::python_error();
	return result;
}

bool submitter::find_kinds(PyObject* const args) {
	m_kinds.clear();
	const Py_ssize_t count = PySequence_Fast_GET_SIZE(args);
	for(Py_ssize_t i = 0; i < count; ++i) {
		PyObject* kept = PySequence_Fast_GET_ITEM(args, i);
		if(has_class(kept, access_class)) {
			const access_record& access = access_type::of(kept);
			if(access.port == nullptr || access.mapper == nullptr || !has_class(access.mapper, m_mapper_class)) return false;
			if(port_type::of(access.port).runtime != m_runtime) return false;
			kept = access.port;
		}
		m_kinds.push_back(kind_of(kept));
	}
	return true;
}

bool submitter::find_hints(PyObject* const hints) {
	m_hints.clear();
	if(has_class(hints, m_hint_class)) {
		m_hints.emplace_back(hints);
		return true;
	}
	if(!PyTuple_CheckExact(hints) && !PyList_CheckExact(hints)) return false;
	for(Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(hints); ++i) m_hints.emplace_back(PySequence_Fast_GET_ITEM(hints, i));
	return true;
}

template <typename Hint>
std::shared_ptr<const submit_memo::entry> submitter::find(const submit_memo& memo, const int dims, const std::vector<submit_memo::argument_kind>& kinds,
    const std::vector<Hint>* const hints) {
	const auto is_same = [](const nb::handle a, const nb::handle b) { return a.is(b); };
	const auto found = std::find_if(memo.entries.begin(), memo.entries.end(), [&](const auto& known) {
		return known->geometry.dims == dims && known->kinds == kinds
		       && (hints == nullptr || (known->repeats && std::equal(known->hints.begin(), known->hints.end(), hints->begin(), hints->end(), is_same)));
	});
	return found == memo.entries.end() ? nullptr : *found;
}

nb::object submitter::make_submission(PyObject* const function, PyObject* const label, PyObject* const args, PyObject* const box, PyObject* const frame) const {
	const Py_ssize_t count = PyTuple_GET_SIZE(args);
	nb::object kept = nb::steal(PyList_New(count));
	submission_record* const record = submission_type::make(reinterpret_cast<PyTypeObject*>(m_submission_class));
	nb::object result = nb::steal(reinterpret_cast<PyObject*>(record));
	nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(reinterpret_cast<PyFrameObject*>(frame))));
	nb::object position = nb::steal(PyLong_FromLong(PyFrame_GetLasti(reinterpret_cast<PyFrameObject*>(frame))));
	if(!kept || !result || !position) throw nb::python_error();
	for(Py_ssize_t i = 0; i < count; ++i) {
		PyObject* const arg = PyTuple_GET_ITEM(args, i);
		PyList_SET_ITEM(kept.ptr(), i, Py_NewRef(has_class(arg, access_class) ? access_type::of(arg).port : arg));
	}
	record->kind = Py_NewRef(m_kernel_kind.ptr());
	record->name = Py_NewRef(label);
	record->function = Py_NewRef(function);
	record->args = kept.release().ptr();
	record->box = Py_NewRef(box);
	record->code = code.release().ptr();
	record->lasti = position.release().ptr();
	record->future = Py_NewRef(Py_None);
	record->outside = Py_NewRef(Py_None);
	record->fused = Py_NewRef(Py_None);
	return result;
}

bool submitter::make_launch(const submit_memo::entry& known, PyObject* const args, const box& space, native_launch& out) const {
	out.kernel = known.native;
	out.space = space;
	if(known.scalars.empty()) return true;
	std::array<PyObject*, max_scalars> values;
	for(std::size_t i = 0; i < known.scalars.size(); ++i) values[i] = PyTuple_GET_ITEM(args, static_cast<Py_ssize_t>(known.scalars[i]));
	const nb::object packed = nb::steal(PyObject_Vectorcall(known.pack.ptr(), values.data(), known.scalars.size(), nullptr));
	if(!packed) {
		if(PyErr_ExceptionMatches(PyExc_MemoryError) != 0) throw nb::python_error();
		PyErr_Clear(); // a value that does not fit: Python converts it, or says so
		return false;
	}
	out.scalars = bytes_of(packed.ptr());
	return true;
}

} // namespace celerity::native
