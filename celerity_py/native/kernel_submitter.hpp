// SPDX-License-Identifier: MIT
// The second submit of a kernel with arguments of the same kinds, without a line of Python.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "executor/core/backends/native_launch.hpp"
#include "scheduler/core/vocabulary/task.hpp"
#include "submission_table.hpp"

namespace celerity::native {

/// A function (buffer, mapper, port) that makes an access, an instance of this class, as its `__init__` does.
nanobind::object make_access_maker(nanobind::handle access_class);

/// What submits of one kernel have found out, by the kinds of its arguments. Belongs to the kernel.
class submit_memo {
  public:
	/// An odd number for each `Port.kind`, or the address of the type of a plain value, which is even.
	using argument_kind = std::uintptr_t;

	struct entry {
		std::vector<argument_kind> kinds;
		std::vector<nanobind::object> hints;
		task_geometry geometry;                      ///< but for the index space
		std::shared_ptr<const native_kernel> native; ///< null if Python runs it
		nanobind::object pack;                       ///< makes bytes of the scalars
		std::vector<std::size_t> scalars;            ///< their positions among the arguments
		std::uint64_t code_digest = 0;               ///< as `task::code_digest`
	};

	std::uint64_t owner = 0; ///< the submitter that keeps entries here
	std::vector<std::shared_ptr<const entry>> entries;
};

/// What `Queue.parallel_for` does, for kernels whose arguments it has checked before. Whatever is new, or wrong, is left to it, and nothing has happened
/// then. With the GIL.
class kernel_submitter {
  public:
	/// `runtime` is only compared. `classes`: those of which `__slots__` are read, by name.
	kernel_submitter(
	    submission_table& table, nanobind::handle runtime, nanobind::object inside, nanobind::dict boxes, const nanobind::dict& classes, bool is_cuda);

	/// The id of the submission; 0 if it is left to Python.
	std::uint64_t repeat(PyObject* kernel, PyObject* shape, PyObject* args, PyObject* name, PyObject* hints, PyObject* frame);
	/// `found` but for kinds and hints, which are those of the call. A kernel that is called with ever new ones keeps the latest.
	void remember(PyObject* kernel, PyObject* args, PyObject* hints, submit_memo::entry&& found);

	/// From now on all is left to Python, which says why it refuses it.
	void refuse() { m_refuses = true; }
	std::uint64_t num_submitted() const { return m_num_submitted; }
	std::uint64_t busy_ns() const { return m_busy_ns; }

  private:
	using kinds = std::vector<submit_memo::argument_kind>;
	static constexpr std::size_t max_entries = 8; ///< they are compared one by one
	static constexpr std::size_t max_scalars = 32;

	submission_table& m_table;
	scheduler& m_scheduler;
	const PyObject* m_runtime;
	nanobind::object m_inside; ///< threads that must not submit
	nanobind::dict m_boxes;   ///< index spaces by shape
	nanobind::object m_kernel_class, m_cuda_kernel_class, m_access_class, m_submission_class;
	PyObject *m_hint_class, *m_box_class, *m_mapper_class; ///< of modules that stay
	slot m_kernel_memo, m_kernel_name, m_kernel_function, m_cuda_kernel_memo, m_cuda_kernel_name;
	slot m_access_mapper, m_access_port, m_port_buffer, m_port_kind, m_port_mode, m_port_runtime;
	slot m_kind, m_name, m_function, m_args, m_natives, m_box, m_code, m_lasti, m_future;
	nanobind::object m_kernel_kind;   ///< "kernel"
	nanobind::object m_thread; ///< the id of the thread that called last
	unsigned long m_thread_id = 0;
	std::uint64_t m_id;
	bool m_refuses = false;
	std::uint64_t m_num_submitted = 0;
	std::uint64_t m_busy_ns = 0;
	kinds m_kinds; ///< of this call; here for its memory

	/// What a kernel is made of; all borrowed.
	struct kernel_parts {
		submit_memo* memo = nullptr;
		PyObject* function = nullptr;
		PyObject* name = nullptr;
	};

	bool may_call();
	kernel_parts parts_of(PyObject* kernel) const;
	/// Null for what runs code of others to be compared, too.
	nanobind::object find_space(PyObject* shape) const;
	/// False if an access is none of this runtime, or has a mapper that Python has to ask.
	bool find_kinds(PyObject* args, kinds& out) const;
	bool has_hints(const submit_memo::entry& known, PyObject* hints) const;
	std::shared_ptr<const submit_memo::entry> find(const submit_memo& memo, int dims, const kinds& wanted, PyObject* hints) const;
	buffer_access to_access(PyObject* access) const;
	nanobind::object make_submission(PyObject* function, PyObject* label, PyObject* args, PyObject* box, PyObject* frame) const;
	/// False if a value does not fit as it is.
	bool make_launch(const submit_memo::entry& known, PyObject* args, const box& space, native_launch& out) const;
};

} // namespace celerity::native
