// SPDX-License-Identifier: MIT
// The choice of the dimensions across which a task is cut.
#pragma once

#include "access_checks.hpp"
#include "local_chunks.hpp"
#include "vocabulary/task.hpp"

namespace celerity {

/// Sets the costs of cuts where the hints of the task leave them open: for `split_auto`, and for `rows` if dimension 0 is too short for all chunks. A cut
/// after which two chunks would access the same written element costs too much. Tasks with callable mappers are cut across dimension 0 only. Ranks with other
/// numbers of devices choose the same cuts between ranks: for `rows`, the costs matter there only if dimension 0 is too short for the ranks themselves, and
/// then every rank sets them.
void choose_cuts(task& node, const partition& parts, const buffer_lookup& find_buffer);

} // namespace celerity
