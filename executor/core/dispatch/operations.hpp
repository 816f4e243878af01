// SPDX-License-Identifier: MIT
// From instructions to operations of devices, with addresses in place of allocations.
#pragma once

#include <vector>

#include "devices/backend.hpp"
#include "devices/native_launch.hpp"
#include "memory/allocation_table.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"

namespace celerity {

copy_operation operation_of(const allocation_table& allocations, const copy_instruction& copy);
std::vector<copy_operation> operation_of(const allocation_table& allocations, const gather_copy_instruction& gather);
reduce_operation operation_of(const allocation_table& allocations, const reduce_instruction& reduce);
launch_operation operation_of(const allocation_table& allocations, const device_kernel_instruction& kernel, const native_launch& launch);

} // namespace celerity
