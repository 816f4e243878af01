// SPDX-License-Identifier: MIT
// Partial results of a rank that one of its GPUs reduces; see reduce_partials() for the host's counterpart.
#pragma once

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "devices/backend.hpp"
#include "cuda_driver.hpp"

namespace celerity {

/// Kernels that are compiled elsewhere, when a program first needs them; see celerity_py/reductions/cuda_reductions.cuh.
class cuda_reductions {
  public:
	/// By local device. Before the first task with such a reduction is submitted; any thread. Kernels live as long as the process.
	void add(reduction_op op, scalar_type type, std::vector<cuda::function> functions);
	/// Throws std::logic_error if the kernel has not been added. Any thread, with the context of the device.
	void launch(const cuda::driver& driver, std::uint32_t device, cuda::stream stream, const reduce_operation& reduce) const;

  private:
	mutable std::mutex m_mutex;
	std::map<std::pair<reduction_op, scalar_type>, std::vector<cuda::function>> m_functions;

	cuda::function find(reduction_op op, scalar_type type, std::uint32_t device) const;
};

} // namespace celerity
