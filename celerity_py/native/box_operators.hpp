// SPDX-License-Identifier: MIT
// The elements of a box one by one, and the operators that a box lacks, whose errors name the remedy.
#pragma once

#include <nanobind/nanobind.h>

#include "scheduler/core/geometry/user_boxes.hpp"

namespace celerity::native {

void bind_box_operators(nanobind::module_& m, nanobind::class_<user_box>& cls);

} // namespace celerity::native
