// SPDX-License-Identifier: MIT
// Halos that last for several steps of a recording: shares compute the borders of others again instead of waiting for them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "access_checks.hpp"
#include "base/names.hpp"
#include "local_chunks.hpp"
#include "vocabulary/task.hpp"

namespace celerity {

/// How far the tasks of a recording reach beyond their shares, in each of the steps from one exchange of halos to the next.
struct deep_halos {
	enum class kind_type : std::uint8_t {
		none,             ///< no task asks for it, or no share has a side to another one
		deep,             ///< as `reaches` says
		other_steps,      ///< `task` and `other` ask for different numbers of steps
		other_shares,     ///< the index spaces of `task` and `other` are divided in different ways
		read_elsewhere,   ///< `access` of `task` reads what a step writes, and not near its own share
		wraps,            ///< likewise, around a periodic dimension that is cut
		writes_elsewhere, ///< `access` of `task` writes other elements than those of its items
		too_much,         ///< the work of a share would grow too much
	};
	kind_type kind = kind_type::none;
	std::uint32_t steps = 1;
	std::vector<point> reaches; ///< of task t in step s: reaches[s * tasks + t]
	std::size_t task = 0;       ///< or the one that reaches farthest
	std::size_t other = 0;
	std::size_t access = 0;
	point reach{};       ///< the farthest
	box share;           ///< whose work grows most
	double growth = 1;   ///< of that share by that reach: items computed, relative to its own
	double work = 1;     ///< items computed in all steps by all devices, relative to those of the index spaces
	std::size_t num_exchanges = 0; ///< that a step has without: reads of a halo that the step writes
};
template <>
inline constexpr std::array<const char*, 8> names_of<deep_halos::kind_type>{
    "none", "deep", "other_steps", "other_shares", "read_elsewhere", "wraps", "writes_elsewhere", "too_much"};

/// The work of a share may grow by so much.
inline constexpr double most_growth = 1.5;

/// Of the tasks of one step, whose cuts are chosen. The reaches are the same on every rank.
deep_halos plan_deep_halos(std::span<const task> tasks, const partition& parts, const buffer_lookup& find_buffer);

} // namespace celerity
