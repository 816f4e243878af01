// SPDX-License-Identifier: MIT
// Fused kernels on CPU devices: compiled functions that run over a box of items, which the threads of a device share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "devices/fused_kernel.hpp"
#include "threads/worker_team.hpp"

namespace celerity {

/// A pass: addresses of memories, strides, numbers, scalars; and the items, low and high per dimension. Any thread.
using cpu_pass_function = void (*)(char* const* memories, const std::int64_t* strides, const std::int64_t* numbers, const char* scalars,
    const std::int64_t* bounds);

/// Items of all passes together; an empty dimension counts as none.
std::int64_t count_items(const launch_operation& launch);

/// What launches on a device use, one after the other.
struct kernel_workshop {
	explicit kernel_workshop(const std::size_t num_threads) : team(num_threads) {}

	worker_team team;
	fused_block block;
	std::vector<std::max_align_t> scratch;
};

/// Returns when all passes are complete. Throws std::bad_alloc.
void carry_out(const launch_operation& launch, kernel_workshop& own);

} // namespace celerity
