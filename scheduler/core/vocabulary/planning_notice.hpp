// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/ids.hpp"
#include "geometry/grid.hpp"

namespace celerity {

/// A notice of planning to the program. Python words it. Fields are 0 or empty where they do not apply.
struct planning_notice {
	enum class kind_type : std::uint8_t {
		fault,            ///< planning itself has failed; `text` tells how
		unwritten_read,   ///< a task or fence reads `where` of a buffer, which nothing has written
		many_allocations, ///< a buffer has been allocated `count` times in `memory`
		full_lookahead,   ///< lookahead has held back `count` commands, and lets go of them
	};
	kind_type kind = kind_type::fault;
	submission_id submission{}; ///< the submission that the notice is about
	task_id task{};             ///< null: `submission` is a fence
	std::string task_name{};
	buffer_id buffer{};
	std::string buffer_name{};
	region where{};
	int dims = 0; ///< of the buffer
	memory_id memory{};
	std::size_t count = 0;
	std::string text{};
};

using notice_callback = std::function<void(planning_notice&&)>;

} // namespace celerity
