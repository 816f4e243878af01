// SPDX-License-Identifier: MIT
// Fused kernels on CPU devices: compiled functions that run over a box of items, which the threads of a device share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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
class kernel_workshop {
  public:
	using memory = std::vector<std::max_align_t>;

	explicit kernel_workshop(const std::size_t num_threads) : m_team(num_threads) {}

	/// Scratch memory for a launch, which launches in flight share. On the executor thread. Throws std::bad_alloc.
	std::shared_ptr<memory> scratch_for(const launch_operation& launch);
	/// Returns when all passes are complete.
	void carry_out(const launch_operation& launch, memory& scratch);

  private:
	worker_team m_team;
	fused_block m_block;
	std::shared_ptr<memory> m_scratch = std::make_shared<memory>();
};

} // namespace celerity
