// SPDX-License-Identifier: MIT
// Copies on streams: by copy engines, or, of several small boxes, by one kernel.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cuda_devices.hpp"
#include "cuda_driver.hpp"
#include "cuda_lane.hpp"
#include "cuda_small_copies.hpp"
#include "devices/graph_devices.hpp"

namespace celerity {

/// For each device, one thread.
class cuda_copies {
  public:
	/// `kernels`: by device; or none, and copy engines move all.
	cuda_copies(const cuda_devices& devices, const std::vector<cuda_small_copies::functions>& kernels);

	cuda_small_copies& small(const std::uint32_t device) { return m_small_copies[device]; }
	void copy(cuda::stream stream, const copy_operation& operation);
	void gather(const cuda_lane& lane, const std::vector<copy_operation>& gathered);
	/// Copies of any size, without copy engines.
	void copy_by_kernels(const cuda_lane& lane, std::span<const copy_operation> copies);

	static bool add(cuda_small_copies& small, const copy_operation& copy);
	/// False if not all of it can be added.
	static bool add_all(cuda_small_copies& small, const decltype(graph_operation::what)& what);

  private:
	const cuda::driver& m_driver;
	std::size_t m_max_pitch_bytes = 0;
	std::vector<cuda_small_copies> m_small_copies; // by device

	void copy_runs(cuda::stream stream, const std::byte* source, std::byte* destination, const strided_copy& runs);
};

} // namespace celerity
