// SPDX-License-Identifier: MIT
// Classes of Python whose attributes native code reads and writes, too.
#pragma once

#include <nanobind/nanobind.h>

#include <structmember.h> // PyMemberDef, before Python 3.12

#include <array>
#include <cstddef>
#include <string>

namespace celerity::native {

/// A Python type whose objects have the layout of `T`: PyObject_HEAD, and then one `PyObject*` for each name in `T::names`, owned, null while the attribute
/// is not set. A class of Python derives from it instead of naming these attributes in its `__slots__`; they cost the same there.
template <typename T>
class record_type {
  public:
	static void bind(nanobind::module_& m, const char* const name, const char* const doc) {
		static const std::string full_name = std::string("celerity_py._native.") + name;
		static std::array<PyMemberDef, num_fields + 1> members{};
		nanobind::list names;
		for(std::size_t i = 0; i < num_fields; ++i) {
			members[i] = {T::names[i], T_OBJECT_EX, static_cast<Py_ssize_t>(sizeof(PyObject) + i * sizeof(PyObject*)), 0, nullptr};
			names.append(T::names[i]);
		}
		std::array<PyType_Slot, 6> slots{
		    {{Py_tp_members, members.data()}, {Py_tp_doc, const_cast<char*>(doc)}, {Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
		        {Py_tp_clear, reinterpret_cast<void*>(&clear)}, {Py_tp_dealloc, reinterpret_cast<void*>(&destroy)}, {0, nullptr}}};
		PyType_Spec spec{full_name.c_str(), static_cast<int>(sizeof(T)), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots.data()};
		const nanobind::object type = nanobind::steal(PyType_FromSpec(&spec));
		if(!type) throw nanobind::python_error();
		nanobind::setattr(type, "__slots__", nanobind::tuple(names)); // for copies
		m.attr(name) = type;
		s_type = reinterpret_cast<PyTypeObject*>(type.ptr());
	}

	/// Numbers pass here at each submit: a class that derives from `object` alone is not looked through.
	static bool is_instance(PyObject* const object) {
		const PyTypeObject* const type = Py_TYPE(object);
		return type == s_type || (type->tp_base != &PyBaseObject_Type && PyObject_TypeCheck(object, s_type) != 0);
	}
	/// Whether its class derives from the type itself, as our classes do, and not from one of ours.
	static bool has_own_class(PyObject* const object) { return Py_TYPE(object)->tp_base == s_type; }
	/// Of an instance.
	static T& of(PyObject* const object) { return *reinterpret_cast<T*>(object); }
	/// A new object, whose attributes are not set. Null with a MemoryError.
	static T* make(PyTypeObject* const cls) { return reinterpret_cast<T*>(cls->tp_alloc(cls, 0)); }

  private:
	static constexpr std::size_t num_fields = T::names.size();
	static_assert(sizeof(T) == sizeof(PyObject) + num_fields * sizeof(PyObject*));
	static inline PyTypeObject* s_type = nullptr;

	static PyObject*& field(PyObject* const object, const std::size_t i) { return reinterpret_cast<PyObject**>(object + 1)[i]; }

	static int traverse(PyObject* const self, const visitproc visit, void* const arg) {
		Py_VISIT(Py_TYPE(self));
		for(std::size_t i = 0; i < num_fields; ++i) Py_VISIT(field(self, i));
		return 0;
	}

	static int clear(PyObject* const self) {
		for(std::size_t i = 0; i < num_fields; ++i) Py_CLEAR(field(self, i));
		return 0;
	}

	static void destroy(PyObject* const self) {
		PyTypeObject* const type = Py_TYPE(self);
		PyObject_GC_UnTrack(self);
		clear(self);
		type->tp_free(self);
		Py_DECREF(type);
	}
};

/// `celerity_py.vocabulary.submissions.Submission`
struct submission_record {
	PyObject_HEAD PyObject *kind, *name, *function, *args, *box, *code, *lasti, *future, *outside, *context, *fused;
	static constexpr std::array names{"kind", "name", "function", "args", "box", "code", "lasti", "future", "outside", "context", "fused"};
};

/// `celerity_py.vocabulary.accesses.Access`
struct access_record {
	PyObject_HEAD PyObject *buffer, *mapper, *port;
	static constexpr std::array names{"buffer", "mapper", "port"};
};

/// The rest of an access or reduction after the submit; only accesses have a mode. `periodic`: the port in its place if the mapper wraps.
struct port_record {
	PyObject_HEAD PyObject *record, *buffer_id, *mode, *runtime, *kind, *periodic;
	static constexpr std::array names{"record", "buffer_id", "mode", "runtime", "kind", "periodic"};
};

/// `celerity_py.kernels.CudaKernel` and `Kernel`; only the latter has functions per backend.
struct kernel_record {
	PyObject_HEAD PyObject *name, *memo, *cpu, *cuda;
	static constexpr std::array names{"name", "memo", "_cpu", "_cuda"};
};

/// Views and reducers, the arguments of kernels over an allocation.
struct holder_record {
	PyObject_HEAD PyObject *array, *base;
	static constexpr std::array names{"_array", "_base"};
};

} // namespace celerity::native
