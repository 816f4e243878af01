// SPDX-License-Identifier: MIT
// Divides the multiprocessors of a GPU into two parts, by green contexts of the driver.
#pragma once

#include <cstdint>

#include "cuda_driver.hpp"
#include "events/executor_statistics.hpp"

namespace celerity {

/// How the driver divides the multiprocessors of a GPU: into a part of `least`, `least + granule`, `least + 2 * granule` … of them, and the remainder.
struct cuda_division {
	std::uint32_t total = 0;
	std::uint32_t least = 0;
	std::uint32_t granule = 0;
};

/// Throws std::runtime_error, with the reason, if the driver cannot divide this GPU.
cuda_division find_division(const cuda::driver& driver, cuda::device device);

/// Two parts of a GPU. Kernels on streams of a part run on its multiprocessors, and on no others. Kernels on streams of the primary context run on all, so both
/// parts are green contexts.
struct cuda_split {
	cuda::green_context share = nullptr; ///< for the queues that ask for a share
	cuda::green_context rest = nullptr;  ///< for the kernels of all other queues
	multiprocessor_parts parts;
};

/// The first part gets the number of multiprocessors that is nearest to `share`, which is above 0 and below 1. `ordinal` names the GPU in messages. Throws
/// std::invalid_argument if a part would have none, and std::runtime_error if the driver cannot divide so.
cuda_split split_multiprocessors(const cuda::driver& driver, cuda::device device, int ordinal, double share);

/// All streams of the parts have been destroyed.
void destroy_parts(const cuda::driver& driver, const cuda_split& split);

} // namespace celerity
