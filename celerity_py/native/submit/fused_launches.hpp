// SPDX-License-Identifier: MIT
// The launches of fused kernels that earlier submits have prepared.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "executor/core/devices/native_launch.hpp"
#include "scheduler/core/pipeline/scheduler.hpp"
#include "scheduler/core/vocabulary/task.hpp"
#include "submit/value_watch.hpp"

namespace celerity::native {

/// Of one kernel, with arguments of the same kinds and with the same hints. A submit finds its launch here if it accesses the same elements of buffers of the
/// same extents, with the same values of the arguments and of the variables on which the trace depends. All members with the GIL.
class fused_launches {
  public:
	/// Keeps what the delegate has prepared for a task: `(plan, bytes)`. `args`: of the submission.
	fused_launches(const scheduler& owner, const task& node, nanobind::handle args, const nanobind::object& prepared);

	/// Forgets the oldest ones if they are too many.
	void add(fused_launches&& newer);
	/// Nothing if none fits. Raises if a Python integer does not fit into the type of the arrays that it meets. `args`: a tuple or list.
	std::optional<native_launch> find(const scheduler& owner, const task& node, nanobind::handle args) const;

  private:
	static constexpr std::size_t max_known = 256; ///< their boxes are compared one by one
	static constexpr std::size_t max_moved = 8; ///< with other values from outside; behind them, Python looks

	/// What an access is to a fused kernel, beside its kind.
	struct accessed_buffer {
		buffer_id buffer;
		point extents;
		std::uint64_t mapper = 0; ///< its digest
	};

	struct known {
		std::vector<accessed_buffer> accesses;
		std::vector<nanobind::object> values; ///< of the arguments; null for accesses
		std::vector<std::byte> scalars;       ///< of these values
		nanobind::object pack;                ///< a function of some of the arguments that gives other scalars; null if only Python can
		std::vector<std::size_t> packed;      ///< their positions
		std::vector<bool> is_fixed;           ///< by argument: other values are other launches
		nanobind::object plan;                ///< a weak reference: the plan, with the code, goes when `FusedPlans` forgets it
		const value_watch* watch = nullptr;   ///< of the plan: over values from outside; null if there are none
		bool is_watched_natively = true;
	};
	std::vector<std::pair<box, std::shared_ptr<const known>>> m_known; // by index space; oldest first

	static std::vector<accessed_buffer> accesses_of(const scheduler& owner, const task& node);
	static bool are_same(const std::vector<accessed_buffer>& a, const std::vector<accessed_buffer>& b);
	static std::vector<std::byte> scalars_of(const known& one, const nanobind::object& plan, nanobind::handle args);
	static bool has_same_outside(const known& one, const nanobind::object& plan);
};

} // namespace celerity::native
