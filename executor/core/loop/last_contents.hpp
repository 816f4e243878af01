// SPDX-License-Identifier: MIT
// Where the contents of a buffer are, as far as a failed run has come. The planner is ahead of the execution, so that
// its places count only for elements that no instruction has touched since the horizon before the last one.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "memory/allocation_table.hpp"
#include "scheduler/core/base/fields.hpp"
#include "scheduler/core/base/ids.hpp"
#include "scheduler/core/geometry/grid.hpp"
#include "scheduler/core/geometry/region_map.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"
#include "scheduler/core/vocabulary/planned_places.hpp"

namespace celerity {

/// A part of a buffer. The boxes are in buffer coordinates.
struct contents_part {
	box where;
	std::uint64_t address = 0; ///< of `allocated`; 0: the function for the initial contents has not been called
	box allocated;
	std::uint32_t memory = 0; ///< 2 + d is that of device d
	CELERITY_FIELDS(where, address, allocated, memory)
};
struct last_contents {
	std::vector<contents_part> parts;
	submission_id writer; ///< the newest complete one that is known; 0: none since the horizon before the last one
	bool is_spoiled = false; ///< by `culprit`, which has begun and is not complete
	bool is_hidden = false; ///< by `culprit`, which has not been issued: it is not known where the contents are
	submission_id culprit; ///< 0: it is not known
	CELERITY_FIELDS(parts, writer, is_spoiled, is_hidden, culprit)
};

/// Follows the instructions that access one buffer, in their order.
class contents_search {
  public:
	enum class progress : std::uint8_t { complete, begun, unissued };

	contents_search(buffer_id buffer, const planned_places& planned, const allocation_table& allocations, const std::unordered_set<submission_id>& failed)
	    : m_buffer(buffer), m_planned(planned), m_allocations(allocations), m_failed(failed), m_places(planned.domain, place{}) {}

	void pass(const instruction& item, progress how);
	last_contents take() const;

  private:
	enum class knowledge : std::uint8_t { none, lies_in, spoiled, covered };
	struct place {
		knowledge known = knowledge::none;
		allocation_id allocation;
		task_id task; ///< the writer
		friend bool operator==(const place&, const place&) = default;
	};

	const buffer_id m_buffer;
	const planned_places& m_planned;
	const allocation_table& m_allocations;
	const std::unordered_set<submission_id>& m_failed;
	region_map<place> m_places;
	std::unordered_set<std::uint64_t> m_writers; ///< tasks of which a part is complete
	std::unordered_map<std::uint64_t, submission_id> m_submissions; ///< by task

	void pass_accesses(task_id task, submission_id submission, std::span<const access_binding> accesses, progress how);
	void pass_copy(task_id task, const copy_instruction& copy, progress how);
	void read(std::span<const box> boxes, allocation_id allocation);
	void write(task_id task, std::span<const box> boxes, allocation_id allocation, progress how);
	bool is_packed(allocation_id allocation) const;
	submission_id submission_of(task_id task) const;
	bool exists(allocation_id allocation) const;
	void add_part(last_contents& found, const box& where, allocation_id allocation) const;
};

} // namespace celerity
