// SPDX-License-Identifier: MIT
// Checks of the declared accesses of a task before it is submitted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/fields.hpp"
#include "base/ids.hpp"
#include "base/names.hpp"
#include "geometry/user_boxes.hpp"
#include "local_chunks.hpp"
#include "vocabulary/task.hpp"

namespace celerity {

/// A contradiction among the declared accesses of a task. Python words it. Fields are 0 or empty where they do not apply.
struct access_violation {
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
	std::optional<std::size_t> access; ///< position among the accesses of the task
	std::optional<std::size_t> other_access;
	mapper_misfit misfit;
	user_box chunk, other_chunk;
	user_region where;              ///< of the buffer
	user_region of_chunk, of_parts; ///< mapped `chunk`, and the union of its `num_parts` mapped parts
	std::size_t num_parts = 0;
	CELERITY_FIELDS(kind, buffer, access, other_access, misfit, chunk, other_chunk, where, of_chunk, of_parts, num_parts)
};
template <>
inline constexpr std::array<const char*, 6> names_of<access_violation::kind_type>{
    "unknown_buffer", "misfit", "beyond_whole", "unwritten", "overlap", "reduced"};

/// A task whose declared accesses contradict each other.
class access_pattern_error : public std::runtime_error {
  public:
	explicit access_pattern_error(access_violation&& what_is_wrong)
	    : std::runtime_error("the declared accesses of a task contradict each other"), violation(std::move(what_is_wrong)) {}

	access_violation violation;
};

/// Everything the graphs will ask a mapper for: the whole range, each rank's chunk, and this rank's chunks per device and oversubscribed part.
/// Without duplicates, the whole range first.
std::vector<box> all_chunks(const task& node, const partition& parts);

using buffer_lookup = std::function<const buffer_info&(buffer_id)>;

/// A chunk of a device of this rank, and the regions of the buffers that its task accesses there, in the order of the accesses.
struct accessed_chunk {
	box chunk;
	std::vector<user_region> regions;
};

/// Of a task whose cuts are chosen. Throws access_pattern_error.
std::vector<accessed_chunk> local_accesses(const task& node, const partition& parts, const buffer_lookup& find_buffer);

/// Throws access_pattern_error. Costs next to nothing for accesses that cannot go wrong (one_to_one and other injective built-ins).
void check_accesses(const task& node, const partition& parts, const buffer_lookup& find_buffer);

} // namespace celerity
