// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/fields.hpp"
#include "base/ids.hpp"
#include "base/names.hpp"
#include "geometry/user_boxes.hpp"

namespace celerity {

/// A notice of planning to the program. Python words it. Fields are 0 or empty where they do not apply.
struct planning_notice {
	enum class kind_type : std::uint8_t {
		fault,            ///< planning itself has failed; `text` tells how
		unwritten_read,   ///< a task or fence reads `where` of a buffer, which nothing has written
		many_allocations, ///< a buffer has been allocated `number` times in one memory
		full_lookahead,   ///< lookahead has held back `number` commands, and lets go of them
	};
	kind_type kind = kind_type::fault;
	submission_id submission{}; ///< the submission that the notice is about
	task_id task{};             ///< null: `submission` is a fence
	std::string task_name{};
	buffer_id buffer{};
	std::string buffer_name{};
	user_region where{};
	std::optional<device_id> device{}; ///< the owner of the memory; none: it is the memory of the host
	std::size_t number = 0;
	std::string text{};
	CELERITY_FIELDS(kind, submission, task, task_name, buffer, buffer_name, where, device, number, text)
};
template <>
inline constexpr std::array<const char*, 4> names_of<planning_notice::kind_type>{"fault", "unwritten_read", "many_allocations", "full_lookahead"};

using notice_callback = std::function<void(planning_notice&&)>;

} // namespace celerity
