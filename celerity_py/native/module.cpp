// SPDX-License-Identifier: MIT
// The extension module of the product: the two cores, for Python. `testing/` makes another one.
#include <nanobind/nanobind.h>

#include "bindings.hpp"

namespace nb = nanobind;

NB_MODULE(_native, m) {
	using namespace celerity::native;
	m.doc() = "Native core of celerity_py: regions, graph generation, scheduler thread, out-of-order engine.";
	m.def("version", [] { return CELERITY_VERSION; }, "The version of celerity_py that this extension was built for.");
	// Users keep boxes and mappers in module globals, which outlive the interpreter's own clean-up: nothing to warn them of.
	nb::set_leak_warnings(false);
	// An order that lets later bindings name the types of earlier ones in their signatures.
	bind_grid(m);
	bind_trace(m);
	bind_network(m);
	bind_executor(m);
	bind_program_log(m);
	bind_tasks(m);
	bind_graph_log(m);
	bind_scheduler(m);
	bind_last_words(m);
	bind_start_watch(m);
	bind_submitter(m);
	bind_temporary_memory(m);
	bind_view_releaser(m);
}
