// SPDX-License-Identifier: MIT
// Checks of the declared accesses of a task before it is submitted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/ids.hpp"
#include "geometry/grid.hpp"
#include "vocabulary/task.hpp"

namespace celerity {

/// A contradiction among the declared accesses of a task. Python words it. Fields are 0 or empty where they do not apply.
struct access_violation {
	static constexpr std::size_t no_access = ~std::size_t{0};

	enum class kind_type : std::uint8_t {
		unknown_buffer, ///< there is no `buffer` (any more)
		misfit,         ///< the mapper of `access` does not fit index space and buffer
		beyond_whole,   ///< mapped parts of `chunk` contain `where`, which the mapped `chunk` does not contain
		unwritten,      ///< none of the mapped parts of `chunk` contains `where`, which is to be written
		overlap,        ///< `access` writes `where` for `chunk`, and `other_access` accesses it for `other_chunk`, which runs at the same time
		reduced,        ///< `buffer` is the target of a reduction, and used by `access` or by another reduction
	};
	kind_type kind = kind_type::unknown_buffer;
	buffer_id buffer;
	int kernel_dims = 0;
	int buffer_dims = 0;
	std::size_t access = no_access; ///< position among the accesses of the task
	std::size_t other_access = no_access;
	mapper_misfit misfit;
	box chunk, other_chunk;
	region where;
	region of_chunk, of_parts; ///< mapped `chunk`, and all that its `num_parts` parts are mapped to
	std::size_t num_parts = 0;
};

/// A task whose declared accesses contradict each other.
class access_pattern_error : public std::runtime_error {
  public:
	explicit access_pattern_error(access_violation&& what_is_wrong)
	    : std::runtime_error("the declared accesses of a task contradict each other"), violation(std::move(what_is_wrong)) {}

	access_violation violation;
};

struct partition {
	std::size_t num_ranks = 1;
	rank_id local_rank;
	std::size_t num_devices = 1;
};

/// Everything the graphs will ask a mapper for: the whole range, each rank's chunk, and this rank's chunks per device and oversubscribed part.
/// Without duplicates, the whole range first.
std::vector<box> all_chunks(const task& node, const partition& parts);

/// Throws access_pattern_error. Costs next to nothing for accesses that cannot go wrong (one_to_one and other injective built-ins).
void check_accesses(const task& node, const partition& parts, const std::function<const buffer_info&(buffer_id)>& find_buffer);

} // namespace celerity
