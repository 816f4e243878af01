// SPDX-License-Identifier: MIT
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>

namespace celerity::native {

/// A blocking wait comes back this often, for signals that another thread of the process got.
inline constexpr std::chrono::milliseconds signal_interval{100};

/// Calls `is_over` without the GIL until it is true. Between the calls, signal handlers run.
template <typename F>
void wait_until(F&& is_over) {
	for(bool may_go_on = false; !may_go_on;) {
		{
			const nanobind::gil_scoped_release released;
			may_go_on = is_over();
		}
		if(PyErr_CheckSignals() != 0) throw nanobind::python_error();
	}
}

} // namespace celerity::native
