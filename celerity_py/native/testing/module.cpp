// SPDX-License-Identifier: MIT
// The extension module of tests and benchmarks: parts of the two cores that the product does not show to Python. No wheel contains it.
#include <nanobind/nanobind.h>

#include "testing_bindings.hpp"

namespace nb = nanobind;

NB_MODULE(_native_testing, m) {
	m.doc() = "Parts of the native core of celerity_py that only its tests and benchmarks call.";
	nb::module_::import_("celerity_py._native"); // which registers the types that both modules share
	nb::set_leak_warnings(false);
	celerity::native::bind_geometry(m);
	celerity::native::bind_generation_benchmark(m);
	celerity::native::bind_graphs(m);
	celerity::native::bind_executor_machines(m);
	celerity::native::bind_network_parts(m);
	celerity::native::bind_memory_kernels(m);
	celerity::native::bind_inner_calls(m);
	celerity::native::bind_scripted_executor(m);
}
