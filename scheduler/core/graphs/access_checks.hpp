// SPDX-License-Identifier: MIT
// What can be found wrong with a task's declared accesses before it is submitted.
#pragma once

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "geometry/grid.hpp"
#include "vocabulary/task.hpp"

namespace celerity {

/// A task whose declared accesses contradict each other. The text is a complete explanation but for the task's name.
class access_pattern_error : public std::runtime_error {
  public:
	enum class kind { dimensions, overlap, incomplete_union, unknown_buffer, granularity, bounds, alias };

	access_pattern_error(const kind k, const std::size_t argument, const std::size_t other_argument, std::string text, std::vector<box> boxes, const int dims)
	    : std::runtime_error(std::move(text)), what_kind(k), argument_index(argument), other_argument_index(other_argument), involved(std::move(boxes)),
	      involved_dims(dims) {}

	static constexpr std::size_t no_argument = ~std::size_t{0};

	kind what_kind;
	std::size_t argument_index;       ///< position in the task's accesses
	std::size_t other_argument_index; ///< of the access it conflicts with, or no_argument
	std::vector<box> involved;        ///< the offending part of the buffer
	int involved_dims;
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
