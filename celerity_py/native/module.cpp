// SPDX-License-Identifier: MIT
// The one extension module: everything the two cores show to Python.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

// Weak until the last of them has landed: one that is not linked is null and skipped.
[[gnu::weak]] void bind_benchmarks(nb::module_& m);
[[gnu::weak]] void bind_grid(nb::module_& m);
[[gnu::weak]] void bind_graphs(nb::module_& m);
[[gnu::weak]] void bind_executor(nb::module_& m);
[[gnu::weak]] void bind_scheduler(nb::module_& m);

NB_MODULE(_native, m) {
	m.doc() = "Native core of celerity_py: regions, graph generation, scheduler thread, out-of-order engine.";
	// An order that lets later bindings name the types of earlier ones in their signatures.
	for(const auto bind : {bind_grid, bind_benchmarks, bind_graphs, bind_executor, bind_scheduler}) {
		if(bind != nullptr) bind(m);
	}
}
