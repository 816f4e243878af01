// SPDX-License-Identifier: MIT
#include "kernel_submitter.hpp"

#include <structmember.h> // PyMemberDef, before Python 3.12

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <utility>

#include "scheduler/core/graphs/access_checks.hpp"
#include "user_geometry.hpp"

namespace nb = nanobind;

namespace celerity::native {

namespace {

	std::uint64_t now_ns() {
		return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
	}

	/// Types whose values a kernel gets as they are, and which live as long as the interpreter.
	bool is_plain(PyTypeObject* const type) { return type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || type == &PyUnicode_Type; }

	bool has_class(PyObject* const object, PyObject* const cls) { return reinterpret_cast<PyObject*>(Py_TYPE(object)) == cls; }

	struct {
		slot buffer, mapper, port;
	} access_slots; // there is one such class

	PyObject* make_access(PyObject* const access_class, PyObject* const* const args, const Py_ssize_t count) {
		if(count != 3) {
			PyErr_SetString(PyExc_TypeError, "an access is made of a buffer, a mapper and a port");
			return nullptr;
		}
		auto* const type = reinterpret_cast<PyTypeObject*>(access_class);
		PyObject* const result = type->tp_alloc(type, 0);
		if(result == nullptr) return nullptr;
		access_slots.buffer.init(result, Py_NewRef(args[0]));
		access_slots.mapper.init(result, Py_NewRef(args[1]));
		access_slots.port.init(result, Py_NewRef(args[2]));
		return result;
	}

} // namespace

slot::slot(const nb::handle type, const char* const name) {
	const nb::object descriptor = nb::getattr(type, name);
	if(Py_TYPE(descriptor.ptr()) != &PyMemberDescr_Type) throw nb::type_error((std::string(name) + " is not among __slots__").c_str());
	m_offset = reinterpret_cast<PyMemberDescrObject*>(descriptor.ptr())->d_member->offset;
}

kernel_submitter::kernel_submitter(submission_table& table, const nb::handle runtime, nb::object inside, nb::dict boxes, const nb::dict& classes,
    const bool is_cuda)
    : m_table(table), m_scheduler(table.target()), m_runtime(runtime.ptr()), m_inside(std::move(inside)), m_boxes(std::move(boxes)),
      m_kernel_class(classes["Kernel"]), m_cuda_kernel_class(classes["CudaKernel"]), m_access_class(classes["Access"]),
      m_submission_class(classes["Submission"]), m_hint_class(nb::handle(classes["Hint"]).ptr()), m_box_class(nb::type<user_box>().ptr()),
      m_mapper_class(nb::type<range_mapper>().ptr()), m_kernel_memo(m_kernel_class, "memo"), m_kernel_name(m_kernel_class, "name"),
      m_kernel_function(m_kernel_class, is_cuda ? "_cuda" : "_cpu"), m_cuda_kernel_memo(m_cuda_kernel_class, "memo"),
      m_cuda_kernel_name(m_cuda_kernel_class, "name"), m_access_mapper(m_access_class, "mapper"), m_access_port(m_access_class, "port"),
      m_port_buffer(classes["Port"], "buffer_id"), m_port_kind(classes["Port"], "kind"), m_port_mode(classes["Port"], "mode"),
      m_port_runtime(classes["Port"], "runtime"), m_kind(m_submission_class, "kind"), m_name(m_submission_class, "name"),
      m_function(m_submission_class, "function"), m_args(m_submission_class, "args"), m_natives(m_submission_class, "natives"),
      m_box(m_submission_class, "box"), m_code(m_submission_class, "code"), m_lasti(m_submission_class, "lasti"), m_future(m_submission_class, "future"),
      m_kernel_kind(nb::str("kernel")) {
	static std::atomic<std::uint64_t> last_id{0};
	m_id = ++last_id;
}

nb::object make_access_maker(const nb::handle access_class) {
	access_slots = {slot(access_class, "buffer"), slot(access_class, "mapper"), slot(access_class, "port")};
	static PyMethodDef definition{
	    "new_access", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&make_access)), METH_FASTCALL, "new_access(buffer, mapper, port)"};
	return nb::steal(PyCFunction_New(&definition, access_class.ptr()));
}

bool kernel_submitter::may_call() {
	if(m_refuses || !m_scheduler.may_submit()) return false;
	const unsigned long id = PyThread_get_thread_ident();
	if(!m_thread || id != m_thread_id) {
		m_thread = nb::steal(PyLong_FromUnsignedLong(id));
		m_thread_id = id;
	}
	return PySet_Contains(m_inside.ptr(), m_thread.ptr()) == 0;
}

kernel_submitter::kernel_parts kernel_submitter::parts_of(PyObject* const kernel) const {
	PyObject* memo = nullptr;
	kernel_parts result;
	if(has_class(kernel, m_cuda_kernel_class.ptr())) {
		memo = m_cuda_kernel_memo.get(kernel);
		result.function = kernel;
		result.name = m_cuda_kernel_name.get(kernel);
	} else if(has_class(kernel, m_kernel_class.ptr())) {
		memo = m_kernel_memo.get(kernel);
		result.function = m_kernel_function.get(kernel);
		result.name = m_kernel_name.get(kernel);
	}
	if(memo != nullptr && result.function != nullptr && result.name != nullptr) nb::try_cast<submit_memo*>(nb::handle(memo), result.memo);
	return result;
}

nb::object kernel_submitter::find_space(PyObject* const shape) const {
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

bool kernel_submitter::find_kinds(PyObject* const args, kinds& out) const {
	out.clear();
	const Py_ssize_t count = PyTuple_GET_SIZE(args);
	for(Py_ssize_t i = 0; i < count; ++i) {
		PyObject* const arg = PyTuple_GET_ITEM(args, i);
		if(has_class(arg, m_access_class.ptr())) {
			PyObject* const port = m_access_port.get(arg);
			PyObject* const mapper = m_access_mapper.get(arg);
			if(port == nullptr || mapper == nullptr || m_port_runtime.get(port) != m_runtime || !has_class(mapper, m_mapper_class)) return false;
			out.push_back(static_cast<submit_memo::argument_kind>(PyLong_AsLong(m_port_kind.get(port))) * 2 + 1);
		} else {
			out.push_back(reinterpret_cast<submit_memo::argument_kind>(Py_TYPE(arg)));
		}
	}
	return true;
}

bool kernel_submitter::has_hints(const submit_memo::entry& known, PyObject* const hints) const {
	if(has_class(hints, m_hint_class)) return known.hints.size() == 1 && known.hints.front().ptr() == hints;
	if(!PyTuple_CheckExact(hints) && !PyList_CheckExact(hints)) return false;
	if(PySequence_Fast_GET_SIZE(hints) != static_cast<Py_ssize_t>(known.hints.size())) return false;
	PyObject** const given = PySequence_Fast_ITEMS(hints);
	return std::equal(known.hints.begin(), known.hints.end(), given, [](const nb::object& a, PyObject* const b) { return a.ptr() == b; });
}

std::shared_ptr<const submit_memo::entry> kernel_submitter::find(
    const submit_memo& memo, const int dims, const kinds& wanted, PyObject* const hints) const {
	for(const auto& known : memo.entries) {
		if(known->geometry.dims == dims && known->kinds == wanted && has_hints(*known, hints)) return known;
	}
	return nullptr;
}

buffer_access kernel_submitter::to_access(PyObject* const access) const {
	PyObject* const port = m_access_port.get(access);
	return {buffer_id(PyLong_AsUnsignedLongLong(m_port_buffer.get(port))), static_cast<access_mode>(PyLong_AsLong(m_port_mode.get(port))),
	    nb::cast<const range_mapper&>(nb::handle(m_access_mapper.get(access)))};
}

nb::object kernel_submitter::make_submission(
    PyObject* const function, PyObject* const label, PyObject* const args, PyObject* const box, PyObject* const frame) const {
	const Py_ssize_t count = PyTuple_GET_SIZE(args);
	nb::object kept = nb::steal(PyList_New(count));
	auto* const type = reinterpret_cast<PyTypeObject*>(m_submission_class.ptr());
	nb::object result = nb::steal(type->tp_alloc(type, 0));
	nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(reinterpret_cast<PyFrameObject*>(frame))));
	nb::object position = nb::steal(PyLong_FromLong(PyFrame_GetLasti(reinterpret_cast<PyFrameObject*>(frame))));
	if(!kept || !result || !position) throw nb::python_error();
	for(Py_ssize_t i = 0; i < count; ++i) {
		PyObject* const arg = PyTuple_GET_ITEM(args, i);
		const bool is_access = has_class(arg, m_access_class.ptr());
		PyList_SET_ITEM(kept.ptr(), i, Py_NewRef(is_access ? m_access_port.get(arg) : arg));
	}
	PyObject* const submission = result.ptr();
	m_kind.init(submission, Py_NewRef(m_kernel_kind.ptr()));
	m_name.init(submission, Py_NewRef(label));
	m_function.init(submission, Py_NewRef(function));
	m_args.init(submission, kept.release().ptr());
	m_natives.init(submission, PyTuple_New(0));
	m_box.init(submission, Py_NewRef(box));
	m_code.init(submission, code.release().ptr());
	m_lasti.init(submission, position.release().ptr());
	m_future.init(submission, Py_NewRef(Py_None));
	return result;
}

bool kernel_submitter::make_launch(const submit_memo::entry& known, PyObject* const args, const box& space, native_launch& out) const {
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
	const auto* const bytes = reinterpret_cast<const std::byte*>(PyBytes_AS_STRING(packed.ptr()));
	out.scalars.assign(bytes, bytes + PyBytes_GET_SIZE(packed.ptr()));
	return true;
}

std::uint64_t kernel_submitter::repeat(
    PyObject* const kernel, PyObject* const shape, PyObject* const args, PyObject* const name, PyObject* const hints, PyObject* const frame) {
	const std::uint64_t started = now_ns();
	const nb::object box_object = find_space(shape); // first: among the keys may be some that run code of others to be compared
	if(!box_object) return 0;
	const kernel_parts parts = parts_of(kernel);
	if(parts.memo == nullptr || parts.memo->owner != m_id || !may_call() || !find_kinds(args, m_kinds)) return 0;
	const user_box space = nb::cast<const user_box&>(box_object);
	// Owned, as all below: what is allocated may call the garbage collector, which may call destructors, which may do anything.
	const auto known = find(*parts.memo, space.dims, m_kinds, hints);
	const nb::object function = nb::borrow(parts.function);
	const nb::object label = nb::borrow(name == Py_None ? parts.name : name);
	if(known == nullptr || !PyUnicode_CheckExact(label.ptr())) return 0;
	Py_ssize_t label_size = 0;
	const char* const label_text = PyUnicode_AsUTF8AndSize(label.ptr(), &label_size);
	if(label_text == nullptr) PyErr_Clear(); // half a surrogate
	if(label_text == nullptr || label_size == 0) return 0;

	task node;
	node.kind = task_kind::device_kernel;
	node.geometry = known->geometry;
	node.geometry.global = space.b;
	node.name.assign(label_text, static_cast<std::size_t>(label_size));
	node.code_digest = known->code_digest;
	node.accesses.reserve(m_kinds.size());
	for(Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
		if((m_kinds[static_cast<std::size_t>(i)] & 1) != 0) node.accesses.push_back(to_access(PyTuple_GET_ITEM(args, i)));
	}
	if(PyErr_Occurred() != nullptr) throw nb::python_error();
	native_launch launch;
	const bool is_native = known->native != nullptr;
	if(is_native && !make_launch(*known, args, space.b, launch)) return 0;
	const nb::object submission = make_submission(function.ptr(), label.ptr(), args, box_object.ptr(), frame);
	if(m_refuses) return 0; // a destructor has ended the runtime
	std::optional<native_launch> to_launch;
	if(is_native) to_launch = std::move(launch);
	std::uint64_t id = 0;
	try {
		id = m_table.enter(submission, std::move(node), std::move(to_launch), static_cast<std::int64_t>(started));
	} catch(const access_pattern_error&) { return 0; } // Python says it with the names of what is involved
	++m_num_submitted;
	m_busy_ns += now_ns() - started;
	return id;
}

void kernel_submitter::remember(PyObject* const kernel, PyObject* const args, PyObject* const hints, submit_memo::entry&& found) {
	submit_memo* const memo = parts_of(kernel).memo;
	if(memo == nullptr || found.scalars.size() > max_scalars || !find_kinds(args, found.kinds)) return;
	for(Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
		if((found.kinds[static_cast<std::size_t>(i)] & 1) == 0 && !is_plain(Py_TYPE(PyTuple_GET_ITEM(args, i)))) return;
	}
	if(has_class(hints, m_hint_class)) {
		found.hints.push_back(nb::borrow(hints));
	} else if(PyTuple_CheckExact(hints) || PyList_CheckExact(hints)) {
		for(Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(hints); ++i) found.hints.push_back(nb::borrow(PySequence_Fast_GET_ITEM(hints, i)));
	} else {
		return;
	}
	if(memo->owner != m_id) {
		memo->owner = m_id;
		memo->entries.clear();
	}
	if(find(*memo, found.geometry.dims, found.kinds, hints) != nullptr) return; // it had to wait, or a value did not fit
	if(memo->entries.size() >= max_entries) memo->entries.erase(memo->entries.begin());
	memo->entries.push_back(std::make_shared<const submit_memo::entry>(std::move(found)));
}

} // namespace celerity::native
