// SPDX-License-Identifier: MIT
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace celerity::native {

/// The threads that submit to one program whose order has to be the same on several ranks. With the GIL.
///
/// The order of two calls of different threads is forced if the later thread was started after the earlier one has ended, or, if the earlier one is the first
/// thread of the program, after its call. The first thread and the main thread go on after a thread that has ended: a program joins it. Chance decides any other
/// order. The interpreter numbers its threads in the order of their starts, and lists the newest one first, so that this costs a few loads per submit.
class submitting_threads {
  public:
	submitting_threads();

	/// Whether chance decides between the last call and one of this thread, which has not made the last one.
	bool is_out_of_turn() const;
	/// This thread makes the next call, and has not made the last one.
	void enter();
	/// This thread makes a call. It has made the last one, or has entered.
	void note_call() { m_newest = PyThreadState_GetID(PyInterpreterState_ThreadHead(PyInterpreterState_Get())); }
	/// Whether the last call came from this thread.
	bool is_last() const { return m_last != nullptr && m_last->state == PyThreadState_GetID(PyThreadState_Get()); }
	/// The number of the thread that has made the last call, among all of them, from 0.
	std::uint32_t last_number() const { return m_last == nullptr ? 0 : m_last->number; }
	/// By number, as they were called at their first call.
	nanobind::list names() const { return m_names; }

  private:
	struct thread {
		std::uint64_t state = 0; ///< the interpreter's number of it
		std::uint32_t number = 0;
		std::uint64_t newest_at_end = 0; ///< number of the newest thread when this one ended; 0: it runs
	};

	unsigned long m_main_thread = 0;
	std::vector<std::shared_ptr<thread>> m_threads; ///< by number
	std::shared_ptr<thread> m_last;
	std::uint64_t m_newest = 0; ///< number of the newest thread at the last call
	nanobind::list m_names;

	std::shared_ptr<thread> find(std::uint64_t state) const;
};

} // namespace celerity::native
