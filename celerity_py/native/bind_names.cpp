// SPDX-License-Identifier: MIT
// The names in Python of enumerators that both languages know.
#include "look_up.hpp"
#include "scheduler/core/vocabulary/task.hpp"

using namespace celerity;
using celerity::native::all_names;

void bind_names(nanobind::module_& m);

void bind_names(nanobind::module_& m) {
	m.attr("ACCESS_MODES") = all_names<access_mode>();
	m.attr("REDUCTION_OPERATIONS") = all_names<reduction_op>();
	m.attr("SCALAR_TYPES") = all_names<scalar_type>();
}
