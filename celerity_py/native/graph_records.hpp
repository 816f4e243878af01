// SPDX-License-Identifier: MIT
// Graph nodes as dictionaries: fields as in scheduler/core, boxes as (min0, min1, min2, max0, max1, max2), ids as integers.
#pragma once

#include <nanobind/nanobind.h>

#include "scheduler/core/graphs/command_graph.hpp"
#include "scheduler/core/graphs/task_graph.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"

namespace celerity::native {

nanobind::dict to_dict(const task_record& record);
nanobind::dict to_dict(const command_record& record);
nanobind::dict to_dict(const instruction* node);

} // namespace celerity::native
